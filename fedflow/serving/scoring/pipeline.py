"""A deployed model as an object that scores rows: read, local part, partners' parts, merge.

`build` walks through the predict DSL from its one model back to its input, and lets each component
say what it does to rows. What it cannot serve it refuses, so that nothing is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.serving import BadPartial, UnservableModel
from fedflow.base.ids import PartyId
from fedflow.domain.job.document import Report, check_document
from fedflow.domain.job.dsl import Component, parse_dsl
from fedflow.domain.site import Role, Site
from fedflow.sdk.outputs import Model
from fedflow.serving.scoring.batch import Batch, Floats, LocalPart, RowHeader, Score, Work
from fedflow.serving.scoring.host_answer import AnswerShape, HostAnswer, answer_of, read_answer
from fedflow.serving.scoring.predicted import Predicted
from fedflow.serving.scoring.registry import (
    ALONE,
    CONSTANTS,
    INPUTS,
    MEASURING,
    MODELS,
    PASSED,
    SCORES,
    STEPS,
    StepSource,
    known,
    maker,
)
from fedflow.wire.deployed_model import DeployedModel


class LocalScorer(Protocol):
    """A whole model, or the guest's part of one."""

    @property
    def predicted(self) -> Predicted:
        """Return what scores mean."""

    def local(self, batch: Batch) -> NDArray[Any]:
        """Return what this party knows of rows by itself; rows come first."""


class OnlineScorer(LocalScorer, Protocol):
    """One party's part of a model: at a host `partial` is asked, at the guest the others are."""

    @property
    def is_sum(self) -> bool:
        """Tell whether scores are sums of parts, so that a part can be left out."""

    def partial(self, batch: Batch) -> HostAnswer:
        """Return what a host says of rows."""

    def shape(self, host: int) -> AnswerShape:
        """Return how much a host, from 0, says of each row."""

    def check(self, host: int, answer: HostAnswer) -> None:
        """Do nothing if a host can say this. Raises: ValueError: it cannot."""

    def merged(self, values: NDArray[Any], answers: Sequence[HostAnswer]) -> Floats:
        """Return the scores of rows, with what all hosts say in their order: rows x width."""


class RowInput(Protocol):
    """Makes rows of what is given by column."""

    @property
    def header(self) -> RowHeader:
        """Return the columns that it reads."""

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """Return the rows; those that cannot be read have an error."""


class _WithConstants:
    """Reads rows that have some columns of one value, whatever is given for them."""

    def __init__(self, source: RowInput, constants: Mapping[str, str]) -> None:
        self._source = source
        self._constants = constants
        self.header = source.header

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """Return the rows; those that cannot be read have an error."""
        return self._source.read([{**row, **self._constants} for row in rows])


class OnlineModel:
    """A model at one party, ready to score; it can be used by several threads."""

    def __init__(
        self,
        *,
        share: DeployedModel,
        inputs: tuple[str, ...],
        source: RowInput,
        works: Sequence[Work],
        scorer: LocalScorer,
        shared: OnlineScorer | None,
        predicted: Predicted,
    ) -> None:
        """`shared` is the scorer of a vertical model; None: this party has the whole model."""
        self.role = share.role
        self.digest = share.digest
        self.inputs = inputs  #: columns that rows should have
        self.text_inputs = source.header.texts
        self.labels = predicted.labels
        self.scores_alone = shared is None
        hosts = () if shared is None else share.roles.get("host", ())
        self.hosts = tuple(hosts)  #: party ids, in the conf's order
        self._source = source
        self._works = works
        self._scorer = scorer
        self._shared = shared
        self._predicted = predicted

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """Return rows of values by column; what is not given is missing, more is left out.

        Values are numbers, texts as in an uploaded file, or None. A row that cannot be read has a
        sentence in `errors`; the others are scored all the same.
        """
        return self._source.read(rows)

    def partial(self, batch: Batch) -> bytes:
        """Return what this host says of rows. Raises: ValueError: it has nothing to say."""
        if self._shared is None:
            raise ValueError("each party has the whole model, and says nothing to others")
        if self.role != Role.HOST:
            raise ValueError("the guest asks hosts for their part, and has none to give")
        return self._shared.partial(self._worked(batch)).to_bytes()

    def local(self, batch: Batch) -> LocalPart:
        """Return what this party knows of rows. Raises: ValueError: it has no scores."""
        if self.role != Role.GUEST and not self.scores_alone:
            raise ValueError("only the guest has scores")
        values = self._scorer.local(self._worked(batch))
        return LocalPart(values=values, errors=dict(batch.errors))

    def without(self, host: str) -> bytes | None:
        """Return a part of one row that adds nothing; None: the model needs what the host says."""
        if self._shared is None or not self._shared.is_sum:
            return None
        scores = self._shared.shape(self.hosts.index(host)).scores
        return answer_of(np.zeros(1, np.bool_), scores=np.zeros((1, scores))).to_bytes()

    def merge(self, local: LocalPart, partials: Mapping[str, bytes]) -> list[Score]:
        """Return the scores of the rows of `local`; `partials` are what `hosts` said, by party id.

        Raises: BadPartial: a host's part is missing, malformed, of other rows or another model.
        """
        if more := sorted(set(partials) - set(self.hosts)):
            raise BadPartial(party=more[0][:100], reason="it takes no part in the model")
        errors, answers = dict(local.errors), []
        if self._shared is None:
            return self._predicted.scores(local.values, errors)
        for number, party in enumerate(self.hosts):
            answer = self._answer(
                self._shared, number, party, partials.get(party), rows=len(local.values)
            )
            for row in np.flatnonzero(answer.failed).tolist():
                errors.setdefault(row, f"host {party} cannot score this row")
            answers.append(answer)
        with np.errstate(over="ignore", invalid="ignore"):
            merged = self._shared.merged(local.values, answers)
        return self._predicted.scores(merged, errors)

    @staticmethod
    def _answer(
        scorer: OnlineScorer, number: int, party: str, payload: object, *, rows: int
    ) -> HostAnswer:
        """Return what a host says. Raises: BadPartial."""
        try:
            answer = read_answer(payload)
            if len(answer.failed) != rows:
                raise ValueError(f"it is of {len(answer.failed)} rows, not of {rows}")
            if answer.shape != scorer.shape(number):
                raise ValueError("it is of another model")
            scorer.check(number, answer)
        except ValueError as exc:
            reason = "there is none" if payload is None else str(exc)
            raise BadPartial(party=party, reason=reason) from exc
        return answer

    def _worked(self, batch: Batch) -> Batch:
        with np.errstate(over="ignore", invalid="ignore"):
            for work in self._works:
                batch = work(batch)
        return batch


def build(share: DeployedModel, *, nn_folder: Path | None = None) -> OnlineModel:
    """Return the model of a share; `nn_folder` has this party's own classes of HomoNN.

    Raises: UnservableModel: a module cannot be served, a stored model is missing or damaged, or the
        components do not follow each other from one input to one model.
    """
    if share.role not in (Role.GUEST, Role.HOST):
        raise UnservableModel(component="the model", reason=f"{share.role[:20]} has no part of it")
    components = _components(share)
    model = _only_model(components)
    chain = _chain(components, model.name)
    scorecard = _after(components, model.name)
    return _Built(share=share, chain=chain, nn_folder=nn_folder).with_model(model, scorecard)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Built:
    """What is built of the components before the model."""

    share: DeployedModel
    chain: Sequence[Component]  #: from the input on
    nn_folder: Path | None

    def with_model(self, model: Component, after: Component | None) -> OnlineModel:
        """Return the whole. Raises: UnservableModel."""
        source, header, works, constants = self._rows(model)
        with _unservable(model.name):
            place = MODELS.get(_module(model))
            made = maker(place or ALONE[_module(model)])(self._source(model, header))
            scorer: LocalScorer = made
            shared: OnlineScorer | None = made if place else None
        predicted = scorer.predicted
        if after is not None:
            with _unservable(after.name):
                finish = maker(SCORES[_module(after)])
                predicted = finish(self._source(after, RowHeader(columns=())), predicted)
        return OnlineModel(
            share=self.share,
            inputs=tuple(name for name in source.header.columns if name not in constants),
            source=_WithConstants(source, constants) if constants else source,
            works=works,
            scorer=scorer,
            shared=shared,
            predicted=predicted,
        )

    def _rows(self, model: Component) -> tuple[RowInput, RowHeader, list[Work], Mapping[str, str]]:
        """Return what reads rows, their columns before the model, the work on them, and the values
        of columns that have one in every row.
        """
        source: RowInput | None = None
        constants: dict[str, str] = {}
        header, works = RowHeader(columns=()), list[Work]()
        for component in self.chain:
            module = _module(component)
            with _unservable(component.name):
                if module in INPUTS:
                    if source is not None:
                        raise ValueError("its rows were transformed before")
                    source, step = maker(INPUTS[module])(self._source(component, header))
                elif module in CONSTANTS:
                    if source is not None:
                        raise ValueError("its rows were transformed before")
                    constants |= maker(CONSTANTS[module])(self._source(component, header))
                    continue
                elif module in STEPS:
                    if source is None:
                        raise ValueError("no DataTransform comes before it")
                    step = maker(STEPS[module])(self._source(component, header))
                elif module in PASSED | MEASURING:
                    continue
                else:
                    raise ValueError(f"{component.module} does not give rows")
            header = step.header
            if step.work is not None:
                works.append(step.work)
        if source is None:
            reason = "no DataTransform comes before it, so nothing says what its columns are"
            raise UnservableModel(component=model.name, reason=reason)
        return source, header, works, constants

    def _source(self, component: Component, header: RowHeader) -> StepSource:
        share = self.share
        return StepSource(
            component=component.name,
            header=header,
            model=_stored(share, component),
            parameters=share.parameters.get(component.name, {}),
            site=Site(Role(share.role), PartyId(share.party_id)),
            guest=Site(Role.GUEST, PartyId(next(iter(share.roles.get("guest", ())), ""))),
            hosts=tuple(Site(Role.HOST, PartyId(party)) for party in share.roles.get("host", ())),
            nn_folder=self.nn_folder,
        )


def _components(share: DeployedModel) -> tuple[Component, ...]:
    """Return the components of the predict DSL. Raises: UnservableModel: one cannot be served."""
    report = Report()
    try:
        check_document(share.dsl, "$.dsl", report=report)
        report.raise_if_any()
        components = parse_dsl(share.dsl, report, mode="predict")
        report.raise_if_any()
    except InvalidJobSpec as exc:
        raise UnservableModel(component="the predict DSL", reason=exc.message) from exc
    for component in components:
        if not known(_module(component)):
            reason = f"{component.module} has no part that scores online"
            raise UnservableModel(component=component.name, reason=reason)
    return components


def _only_model(components: Sequence[Component]) -> Component:
    models = [component for component in components if _module(component) in {**MODELS, **ALONE}]
    if len(models) != 1:
        names = ", ".join(model.name for model in models) or "none"
        reason = f"it must have one model that predicts; it has {names}"
        raise UnservableModel(component="the predict DSL", reason=reason)
    return models[0]


def _chain(components: Sequence[Component], name: str) -> list[Component]:
    """Return the components whose rows reach one, from the first on. Raises: UnservableModel."""
    by_name = {component.name: component for component in components}
    chain: list[Component] = []
    while upstream := list(dict.fromkeys(_inputs(by_name[name]))):
        if len(upstream) > 1:
            reason = f"its rows come from several components: {', '.join(upstream[:20])}"
            raise UnservableModel(component=name, reason=reason)
        (name,) = upstream
        chain.insert(0, by_name[name])
    return chain


def _after(components: Sequence[Component], name: str) -> Component | None:
    """Return what makes other scores of the model's, None if nothing does.

    Raises: UnservableModel: there are several, or one that does something else with them.
    """
    reached, found = {name}, list[Component]()
    rest = [c for c in components if c.name != name]
    while more := [c for c in rest if reached.intersection(_inputs(c))]:
        for component in more:
            if _module(component) in SCORES:
                found.append(component)
            elif _module(component) not in MEASURING:
                reason = f"{component.module} after the model is not served"
                raise UnservableModel(component=component.name, reason=reason)
        reached.update(component.name for component in more)
        rest = [component for component in rest if component not in more]
    if len(found) > 1:
        reason = f"{found[0].name} makes scores of the model's, too"
        raise UnservableModel(component=found[1].name, reason=reason)
    return found[0] if found else None


def _inputs(component: Component) -> list[str]:
    return [ref.component for refs in component.data.values() for ref in refs]


def _module(component: Component) -> str:
    return component.module.lower()


def _stored(share: DeployedModel, component: Component) -> Model | None:
    """Return the model that a component takes from this share. Raises: ValueError: it is none."""
    names = {ref.component for ref in component.stored_models} & set(share.components)
    if len(names) > 1:
        raise ValueError("it takes several stored models")
    if not names:
        return None
    stored = share.components[names.pop()]
    return Model(
        meta_name=stored.meta_name,
        param_name=stored.param_name,
        meta=stored.meta,
        param=stored.param,
    )


@contextmanager
def _unservable(component: str) -> Iterator[None]:
    """Let what is wrong with one component be said of it. Raises: UnservableModel."""
    try:
        yield
    except (BadData, BadParameter) as exc:
        raise UnservableModel(component=component, reason=exc.message) from exc
    except ValueError as exc:
        raise UnservableModel(component=component, reason=str(exc)) from exc
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as exc:
        reason = f"its stored model is damaged ({type(exc).__name__})"
        raise UnservableModel(component=component, reason=reason) from exc
