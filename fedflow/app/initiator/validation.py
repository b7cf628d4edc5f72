"""What is wrong with a job, as far as this server can see before anything is stored or sent.

A submit checks its job here and stops at the first step that fails. Somebody who writes a job gets
all that can be known at once: `Validation.validate` goes on as far as each step lets the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fedflow.app.data.table_use import readable
from fedflow.app.inheritance import Inheritance
from fedflow.app.initiator.preflight import Preflight
from fedflow.app.initiator.site_checks import SiteCheck, SiteChecks
from fedflow.app.models.predict import Predictions
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.parameter_checks import CheckedParameters, asked_of, check_parameters
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.parties import NoRoute
from fedflow.base.values import dataclass
from fedflow.domain.job.formats import read_job
from fedflow.domain.job.providers import provider_problems, provider_warnings
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.job.warning import JobWarning, as_problems, merged
from fedflow.domain.site import Site

_GUARDED: Final[Mapping[str, str]] = {
    "Upload": "/v1/data/upload (`fedflow data upload`)",
    "Download": "/v1/data/download",
    "Writer": "/v1/data/writer",
    "ModelStore": "/v1/model/store",
    "ModelRestore": "/v1/model/restore",
}
"""Modules that only this server's own routes may start -> the route."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationReport:
    """What was seen. Without a `spec` the job could not be read at all."""

    spec: JobSpec | None
    problems: tuple[Problem, ...]
    warnings: tuple[JobWarning, ...] = ()
    version: int = 2  #: of the format that the job is written in
    here: frozenset[str] = frozenset()  #: its parties that this server hosts
    model_digest: Any = None  #: of the model that it predicts with


class Validation(UseCase):
    """Checks jobs and stores nothing."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        preflight: Preflight,
        predictions: Predictions,
        inheritance: Inheritance,
    ) -> None:
        super().__init__(kernel)
        self._preflight = preflight
        self._predictions = predictions
        self._inheritance = inheritance
        self._site_checks = SiteChecks(kernel)

    def validate(self, dsl: Any, conf: Any) -> ValidationReport:
        """Return a job as submitted with everything that is wrong with it."""
        try:
            prediction = self._predictions.begin(conf)
            if prediction is not None:
                dsl, conf = prediction.dsl, prediction.conf
            form = read_job(dsl, conf)
            spec = self._specs.parse(form.dsl, form.conf, warnings=form.warnings)
        except InvalidJobSpec as exc:
            return ValidationReport(spec=None, problems=exc.problems)
        except FedflowError as exc:  # the model of a predict job
            return ValidationReport(spec=None, problems=(_problem("$.conf.job_parameters", exc),))
        of_prediction = prediction.warnings if prediction is not None else ()
        checked = CheckedParameters(problems=self._before_parameters(spec), warnings=[])
        if not checked.problems:
            checked = self._parameters(spec)
        warnings = merged(
            (*of_prediction, *spec.warnings), (*provider_warnings(spec), *checked.warnings)
        )
        problems = [*checked.problems, *self._problems(spec)]
        if spec.job_parameters_at(spec.initiator).strict:
            problems += as_problems(warnings)
            warnings = ()
        return ValidationReport(
            spec=spec,
            problems=tuple(problems),
            warnings=warnings,
            version=form.version,
            here=frozenset(s.party_id for s in spec.sites if self._is_here(s)),
            model_digest=prediction.digest if prediction is not None else None,
        )

    def ask(self, spec: JobSpec, *, model_digest: Any = None) -> list[SiteCheck]:
        """Ask the sites of a job now whether they would accept it; return what each says.

        Raises: PartiesNotReady: with every broken hop. NoRoute.
        """
        away = self._preflight.check(spec, fresh=True)
        return self._site_checks.ask(spec, model_digest=model_digest, without=away)

    def check_routes(self, spec: JobSpec) -> None:
        """Check that every party of a job has a route. Raises: NoRoute."""
        for site in spec.sites:
            if not self._parties.knows(site.party_id):
                raise NoRoute(party_id=site.party_id)

    def check(self, spec: JobSpec, *, internal: bool) -> tuple[JobWarning, ...]:
        """Check that this server can start a job, and return what is doubtful in it.

        `internal` allows the modules of `_GUARDED`.
        Raises: InvalidJobSpec, SubmitRefused, NotEnoughResources.
        """
        if not internal:
            refuse_guarded(spec)
        problems = self._unknown_providers(spec)
        checked = self._parameters(spec) if not problems else None
        if checked is None or checked.problems:
            raise InvalidJobSpec(problems if checked is None else checked.problems)
        self._check_initiator(spec)
        self._check_ceiling(spec)
        return merged(spec.warnings, (*provider_warnings(spec), *checked.warnings))

    def _before_parameters(self, spec: JobSpec) -> list[Problem]:
        """Return the problems with which no component is asked about its parameters."""
        return [*guarded_problems(spec), *self._unknown_providers(spec)]

    def _problems(self, spec: JobSpec) -> list[Problem]:
        problems: list[Problem] = []
        steps: tuple[tuple[str, Callable[[JobSpec], object]], ...] = (
            ("$.conf.initiator.party_id", self._check_initiator),
            ("$.conf.role", self.check_routes),
            ("$.conf.job_parameters", self._check_ceiling),
            ("$.conf.job_parameters.common.inheritance_info", self._inheritance.plan),
        )
        for path, step in steps:
            try:
                step(spec)
            except InvalidJobSpec as exc:
                problems += exc.problems
            except FedflowError as exc:
                problems.append(_problem(path, exc))
        return problems + self._table_problems(spec)

    def _table_problems(self, spec: JobSpec) -> list[Problem]:
        """Return what readers at sites of this server name and cannot read."""
        problems: dict[str, Problem] = {}
        for one in asked_of(spec, (site for site in spec.sites if self._is_here(site))):
            table = one.parameters.get("table")
            if one.module.lower() != "reader" or not isinstance(table, dict):
                continue
            path = spec.settings.path_of(one.component, one.site, ("table",))
            try:
                with self._store.read() as tx:
                    readable(tx, one.site, table, path=path)
            except BadParameter:
                continue  # a mistake of the parameters, which their check tells
            except FedflowError as exc:
                problems.setdefault(path, _problem(path, exc))
        return list(problems.values())

    def _unknown_providers(self, spec: JobSpec) -> list[Problem]:
        here = [site for site in spec.sites if self._is_here(site)]
        return list(provider_problems(spec, here=here))

    def _parameters(self, spec: JobSpec) -> CheckedParameters:
        return check_parameters(self._catalog, spec.settings, asked_of(spec, spec.sites))

    def _check_initiator(self, spec: JobSpec) -> None:
        """Raises: SubmitRefused."""
        if not self._is_here(spec.initiator):
            raise SubmitRefused(
                reason=f"this server does not host the initiator, party {spec.initiator.party_id}"
            )

    def _is_here(self, site: Site) -> bool:
        return self._parties.is_local(site.party_id)

    def _check_ceiling(self, spec: JobSpec) -> None:
        """Raises: NotEnoughResources, EngineMissing."""
        with self._store.read() as tx:
            self._queue.check_ceiling(tx, spec)


def guarded_problems(spec: JobSpec) -> list[Problem]:
    """Return the modules of a job that would read, write or delete any file that the server can."""
    return [
        Problem(
            f"$.dsl.components.{name}.module",
            f"{info.module} runs through {_GUARDED[info.module]}, which checks the file",
            "ModuleNotAllowed",
        )
        for name, info in spec.modules.items()
        if info.module in _GUARDED
    ]


def refuse_guarded(spec: JobSpec) -> None:
    """Raises: InvalidJobSpec: a job has modules that only this server's own routes may start."""
    problems = guarded_problems(spec)
    if problems:
        raise InvalidJobSpec(problems)


def _problem(path: str, exc: FedflowError) -> Problem:
    return Problem(path, exc.advice, exc.name)
