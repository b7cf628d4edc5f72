"""The history of a model as people look at it: log, one commit, differences, branches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.app.models.history_rows import made_with
from fedflow.app.models.model_names import named_version, site_here
from fedflow.app.models.models import ModelRepository, version_in
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.models import BranchNotFound
from fedflow.base.values import dataclass
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.models.difference import (
    Changes,
    DslDifference,
    ModelWeights,
    WeightDifference,
    dsl_difference,
    linear_weights,
    value_difference,
    weight_difference,
)
from fedflow.domain.models.history import (
    Branch,
    BranchKey,
    Commit,
    Move,
    VersionId,
    VersionLine,
    commit_of,
    share_digest,
    walk,
)
from fedflow.domain.models.model import (
    ModelComponent,
    ModelKey,
    ModelVersion,
    canonical_json,
    part_of,
)
from fedflow.domain.site import Site

MAX_PAGE: Final = 1000  #: commits of one page
_EVALUATION: Final = "evaluation"
_MEASURES: Final = ("validation_metrics", "loss_history", "best_iteration", "is_converged")
MAX_WEIGHED: Final = 16 * 1024 * 1024  #: bytes of a component's model that are read for its weights


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryRequest:
    """Which commits: of the whole model, or with `start` those that lead to a version by parents.

    `before` and `rest` are what the page before gave, the one without and the other with `start`.
    """

    model_id: str
    start: str = ""
    site: Site | None = None
    before: tuple[int, str] | None = None
    rest: Sequence[VersionId] = ()
    limit: int = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitPage:
    """A page of a log, and what the next one needs; neither: it was the last one."""

    site: Site
    commits: Sequence[Commit]
    before: tuple[int, str] | None = None
    rest: Sequence[VersionId] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitDetail:
    """A commit, and what is derived from the site's rows or was noted when it was committed."""

    commit: Commit
    shares: dict[str, str]  #: key of a site -> digest of its share
    parameters_sha256: str  #: of what this site knows of the training's component parameters
    metrics: dict[str, Any]  #: component -> its summary at this site
    made_with: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelDifference:
    """What differs between two versions at one site."""

    old: ModelKey
    new: ModelKey
    dsl: DslDifference
    parameters: Changes
    metrics: Changes
    models: dict[str, WeightDifference]


class ModelHistory:
    """The use cases that look at histories."""

    def __init__(self, *, store: Store, repository: ModelRepository) -> None:
        self._store = store
        self._repository = repository

    def key(self, model_id: str, name: str, site: Site | None = None) -> ModelKey:
        """Return the share that a version's id, branch or tag names here.

        Raises: ModelNotFound, BranchNotFound, TagNotFound, TagNotUnique.
        """
        with self._store.read() as tx:
            return _key(tx, model_id, name, site)

    def log(self, asked: HistoryRequest) -> CommitPage:
        """Return a page of a log, newest first. Raises: as `key`."""
        limit = max(1, min(asked.limit, MAX_PAGE))
        with self._store.read() as tx:
            site = site_here(tx, asked.model_id, asked.site)
            if asked.start or asked.rest:
                return self._walk(tx, asked, site, limit)
            lines = tx.model_history.page(
                site, asked.model_id, before=asked.before, limit=limit + 1
            )
            page, more = lines[:limit], len(lines) > limit
            last = page[-1] if more else None
            return CommitPage(
                site=site,
                commits=_dressed(tx, site, [commit_of(line) for line in page]),
                before=(last.created_ms, last.key.model_version) if last else None,
            )

    def _walk(self, tx: Tx, asked: HistoryRequest, site: Site, limit: int) -> CommitPage:
        start = asked.rest
        if not start:
            key = _key(tx, asked.model_id, asked.start, site)
            version_in(tx, key)
            start = [VersionId(key.model_id, key.model_version)]

        lines = _Lines(tx, site)
        lines.read_ahead(start, limit)
        found = walk(start, lines.commit, limit=limit)
        return CommitPage(site=site, commits=_dressed(tx, site, found.commits), rest=found.rest)

    def show(self, model_id: str, name: str, site: Site | None = None) -> CommitDetail:
        """Return all that is known of one commit. Raises: as `key`."""
        with self._store.read() as tx:
            key = _key(tx, model_id, name, site)
            version = version_in(tx, key)
            line = tx.model_history.line(key)
            (commit,) = _dressed(tx, key.site, [commit_of(_there(line))])
            note = commit.note
            own = {key.site.key: share_digest(tx.models.components(key))}
            return CommitDetail(
                commit=commit,
                shares=dict(note.shares) if note else own,
                parameters_sha256=part_of("", canonical_json(_parameters(version))).sha256,
                metrics=_metrics(tx, version),
                made_with=dict(note.made_with) if note else made_with(tx, key),
            )

    def metrics(self, commits: Sequence[Commit]) -> dict[VersionId, dict[str, Any]]:
        """Return what the trainings of versions measured at their site, by component."""
        with self._store.read() as tx:
            found = [(one.id, tx.models.get(one.key)) for one in commits]
            return {name: _metrics(tx, one) for name, one in found if one is not None}

    def diff(self, model_id: str, old: str, new: str, site: Site | None = None) -> ModelDifference:
        """Return what differs between two versions of a model. Raises: as `key`; ModelDamaged."""
        with self._store.read() as tx:
            keys = [_key(tx, model_id, name, site) for name in (old, new)]
            before, after = (version_in(tx, key) for key in keys)
            metrics = value_difference(_metrics(tx, before), _metrics(tx, after))
            components = [tx.models.components(key) for key in keys]
        models = weight_difference(
            *(self._weights(c, other) for c, other in _each_with_other(components))
        )
        return ModelDifference(
            old=keys[0],
            new=keys[1],
            dsl=dsl_difference(before.train_dsl, after.train_dsl),
            parameters=value_difference(_parameters(before), _parameters(after)),
            metrics=metrics,
            models=models,
        )

    def _weights(
        self, components: Iterable[ModelComponent], other: Iterable[ModelComponent]
    ) -> dict[str, ModelWeights]:
        """Return what is compared of each component; contents are read where digests differ."""
        same = {(c.component, c.alias): share_digest([c]) for c in other}
        found = {}
        for one in components:
            digest = share_digest([one])
            differs = same.get((one.component, one.alias)) != digest
            weights = None
            if differs and one.size_bytes <= MAX_WEIGHED:
                content = self._repository.content(one, module=one.module)
                weights = linear_weights(content.param)
            found[f"{one.component}.{one.alias}"] = ModelWeights(digest=digest, weights=weights)
        return found

    # --- branches -------------------------------------------------------------------------------

    def branches(self, model_id: str, site: Site | None = None) -> list[Move]:
        """Return the last move of each branch of a model. Raises: ModelNotFound."""
        with self._store.read() as tx:
            return tx.model_history.heads(site_here(tx, model_id, site), model_id)

    def moves(self, model_id: str, name: str, site: Site | None = None) -> Branch:
        """Return a branch with its moves, also a deleted one. Raises: ModelNotFound,
        BranchNotFound.
        """
        with self._store.read() as tx:
            where = BranchKey(site=site_here(tx, model_id, site), model_id=model_id, name=name)
            branch = tx.model_history.branch(where)
        if not branch.moves:
            raise BranchNotFound(branch=name[:100], model=f"model {model_id}"[:300])
        return branch


class _Lines:
    """What a site's rows say of versions; neighbours in time are read at once, as they are likely
    to be asked for next.
    """

    def __init__(self, tx: Tx, site: Site) -> None:
        self._history = tx.model_history
        self._site = site
        self._known: dict[VersionId, VersionLine | None] = {}

    def read_ahead(self, start: Sequence[VersionId], limit: int) -> None:
        """Read the versions of `start`, and those before the newest of them."""
        found = [line for line in map(self._line, start) if line is not None]
        if found:
            newest = max(found, key=lambda line: line.created_ms)
            before = (newest.created_ms, newest.key.model_version)
            for line in self._history.page(
                self._site, newest.key.model_id, before=before, limit=limit
            ):
                self._known[VersionId(line.key.model_id, line.key.model_version)] = line

    def commit(self, one: VersionId) -> Commit | None:
        """Return a version as a commit, None if it is not here."""
        line = self._line(one)
        return None if line is None else commit_of(line)

    def _line(self, one: VersionId) -> VersionLine | None:
        if one not in self._known:
            key = ModelKey(site=self._site, model_id=one.model_id, model_version=one.model_version)
            self._known[one] = self._history.line(key)
        return self._known[one]


def _key(tx: Tx, model_id: str, name: str, site: Site | None) -> ModelKey:
    where = site_here(tx, model_id, site)
    return named_version(tx, ModelKey(site=where, model_id=model_id, model_version=name))


def _there(line: VersionLine | None) -> VersionLine:
    assert line is not None  # noqa: S101  # the same transaction found the version
    return line


def _dressed(tx: Tx, site: Site, commits: Sequence[Commit]) -> list[Commit]:
    """Return commits with their notes, branches and tags."""
    tags = tx.model_lists.tags({c.key.model_version for c in commits})
    notes: dict[VersionId, Any] = {}
    branches: dict[VersionId, list[str]] = {}
    for model_id in {c.key.model_id for c in commits}:
        of_model = [c.key.model_version for c in commits if c.key.model_id == model_id]
        for version, note in tx.model_history.notes(site, model_id, of_model).items():
            notes[VersionId(model_id, version)] = note
        for head in tx.model_history.heads(site, model_id):
            one = VersionId(model_id, head.model_version)
            branches.setdefault(one, []).append(head.key.name)
    return [
        replace(
            commit,
            note=notes.get(commit.id),
            branches=tuple(branches.get(commit.id, ())),
            tags=tags.get(commit.key.model_version, ()),
        )
        for commit in commits
    ]


def _parameters(version: ModelVersion) -> Any:
    """Return the component parameters of a training that its site may see."""
    site = version.key.site
    seen = own_conf(version.train_conf, site, version.roles, is_initiator=version.initiator == site)
    return seen.get("component_parameters") or {} if isinstance(seen, dict) else {}


def _metrics(tx: Tx, version: ModelVersion) -> dict[str, Any]:
    """Return what the training's components measured at the version's site, by component.

    Of an evaluation that is its summary, of others only how their training went.
    """
    info = version.parent_info if isinstance(version.parent_info, dict) else {}
    job_id = str(info.get("parent_model_version") or version.job_id)
    given = version.train_dsl.get("components") if isinstance(version.train_dsl, dict) else None
    found = {}
    for name, one in (given if isinstance(given, dict) else {}).items():
        summary = tx.tracking.summary(job_id, name, version.key.site)
        if isinstance(summary, dict) and str(one.get("module", "")).lower() != _EVALUATION:
            summary = {member: summary[member] for member in _MEASURES if member in summary}
        if summary:
            found[name] = summary
    return found


def _each_with_other(
    pair: Sequence[Sequence[ModelComponent]],
) -> list[tuple[Sequence[ModelComponent], Sequence[ModelComponent]]]:
    old, new = pair
    return [(old, new), (new, old)]
