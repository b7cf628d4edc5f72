"""Model versions as people look at them: lists, the story of one version, its contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from fedflow.app.models.models import ModelRepository
from fedflow.app.ports.models import ModelBlobs
from fedflow.app.ports.store import Store, Tx
from fedflow.base.errors.models import ModelDamaged, ModelNotFound
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import mode_of
from fedflow.domain.job.spec import model_id_of
from fedflow.domain.job_lines import JobLine
from fedflow.domain.models.lists import ModelLine, ModelList, parent_version
from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelContent,
    ModelFilter,
    ModelKey,
    ModelVersion,
)
from fedflow.domain.records import Between, JobFilter, JobKey, JobRecord, Sort
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL

MAX_JOBS: Final = 300  #: newest jobs that are looked at for those that used a version
MAX_CHILDREN: Final = 100
MAX_TAGS: Final = 1000
MAX_CONTENT: Final = 4 * 1024 * 1024  #: bytes of one component's model that are read for a view

_FOREVER: Final = 2.0**62


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelPage:
    """One page of versions, how many fit, and the tags of each version."""

    lines: Sequence[ModelLine]
    count: int
    tags: Mapping[str, Sequence[str]]
    jobs: Mapping[ModelKey, JobLine]  #: that trained them or their parents, as far as they are here


@dataclass(frozen=True, kw_only=True, slots=True)
class Choices:
    """What the filters of the list offer."""

    modules: Sequence[str]
    tags: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelStory:
    """What is known here of one site's share of a version, and of what came of it."""

    key: ModelKey
    version: ModelVersion | None  #: None: its job goes on
    job: JobRecord | None  #: that trains or trained it or its parent, if it is here
    own_sites: Sequence[Site]  #: that have a share of the version here
    components: Sequence[ModelComponent]
    checkpoints: Sequence[Checkpoint]
    tags: Sequence[str]
    parent: ModelLine | None  #: what it was deployed from, if that is here
    children: Sequence[ModelLine]  #: deployed from it, newest first
    users: Sequence[JobRecord]  #: predict jobs of it and its children, newest first
    jobs_seen: int  #: how many jobs were looked at for `users`
    gone: frozenset[str]  #: components whose contents are not in the store of contents


class ModelViews:
    """The use cases of the board's pages of models."""

    def __init__(self, *, store: Store, repository: ModelRepository, blobs: ModelBlobs) -> None:
        self._store = store
        self._repository = repository
        self._blobs = blobs

    def page(self, which: ModelList) -> ModelPage:
        """Return a page of the versions that fit."""
        with self._store.read() as tx:
            lines = tx.model_lists.page(which)
            full = len(lines) == which.limit or (not lines and which.offset > 0)
            count = tx.model_lists.count(which) if full else which.offset + len(lines)
            tags = tx.model_lists.tags({line.key.model_version for line in lines})
            jobs = {job.key: job for job in tx.job_lists.of({line.trained_by for line in lines})}
        trained = {line.key: JobKey(job_id=line.trained_by, site=line.key.site) for line in lines}
        known = {key: jobs[job] for key, job in trained.items() if job in jobs}
        return ModelPage(lines=lines, count=count, tags=tags, jobs=known)

    def choices(self) -> Choices:
        """Return what the list can be filtered by."""
        with self._store.read() as tx:
            tags = sorted(tag.name for tag in tx.model_tags.find(limit=MAX_TAGS))
            return Choices(modules=tx.model_lists.modules(), tags=tags)

    def story(self, model_id: str, model_version: str, site: Site | None = None) -> ModelStory:
        """Return what is known of a version at a site; without one, at the initiator's or any here.

        Raises: ModelNotFound: this server has no share of it, nor of a job that trains it.
        """
        with self._store.read() as tx:
            versions = tx.models.find(ModelFilter(model_id=model_id, model_version=model_version))
            jobs = tx.jobs.find(JobFilter(job_id=model_version))
            training = [j for j in jobs if _trains(j, model_id)]
            own = _sites(versions) or _sites_of_jobs(training)
            chosen = _chosen(own, versions, training, site)
            if chosen is None:
                named = f"model {model_id} version {model_version}"
                raise ModelNotFound(model=named[:300])
            key = ModelKey(site=chosen, model_id=model_id, model_version=model_version)
            version = next((v for v in versions if v.key == key), None)
            components = tx.models.components(key)
            children = tx.model_lists.page(
                ModelList(
                    model_id=model_id, role=chosen.role, party_id=chosen.party_id,
                    child_of=model_version, limit=MAX_CHILDREN,
                )
            )  # fmt: skip
            seen, users = _users(tx, version, children)
            story = ModelStory(
                key=key,
                version=version,
                job=_training_job(tx, version, jobs, chosen),
                own_sites=own,
                components=components,
                checkpoints=tx.models.checkpoints(key),
                tags=[tag.name for tag in tx.model_tags.of_version(model_version)],
                parent=_parent(tx, version),
                children=children,
                users=users,
                jobs_seen=seen,
                gone=frozenset(),
            )
        gone = frozenset(c.component for c in components if not self._is_there(c))
        return replace(story, gone=gone)

    def damages(self, key: ModelKey) -> dict[str, str]:
        """Return component -> what is wrong with its contents, having read and compared all."""
        with self._store.read() as tx:
            components = tx.models.components(key)
        found: dict[str, str] = {}
        for component in components:
            for part in (component.meta, component.param):
                try:
                    self._repository.raw(component, part)
                except ModelDamaged as exc:
                    found.setdefault(component.component, exc.message)
        return found

    def content(self, component: ModelComponent) -> ModelContent | None:
        """Return a component's model, None if it is too large to be shown. Raises: ModelDamaged."""
        if component.size_bytes > MAX_CONTENT:
            return None
        return self._repository.content(component, module=component.module)

    def versions_of(self, key: ModelKey, *, limit: int = 50) -> list[ModelLine]:
        """Return the newest versions of the same model at the same site."""
        which = ModelList(
            model_id=key.model_id, role=key.site.role, party_id=key.site.party_id, limit=limit
        )
        with self._store.read() as tx:
            return tx.model_lists.page(which)

    def _is_there(self, component: ModelComponent) -> bool:
        return all(self._blobs.has(p.sha256) for p in (component.meta, component.param))


def _training_job(
    tx: Tx, version: ModelVersion | None, jobs: Sequence[JobRecord], site: Site
) -> JobRecord | None:
    """Return a site's share of the job that trains or trained a version, or its parent."""
    named = "" if version is None else parent_version(version.parent_info)
    if named:
        return tx.jobs.get(JobKey(job_id=named, site=site))
    return next((job for job in jobs if job.key.site == site), None)


def _trains(job: JobRecord, model_id: str) -> bool:
    """Tell whether a job goes on that trains a model."""
    if job.status in JOB_FINAL or job.key.site.role is Role.LOCAL:
        return False
    return mode_of(job.conf) != "predict" and model_id_of(job.roles) == model_id


def _sites(versions: Sequence[ModelVersion]) -> list[Site]:
    return sorted({v.key.site for v in versions}, key=lambda site: site.order)


def _sites_of_jobs(jobs: Sequence[JobRecord]) -> list[Site]:
    return sorted({j.key.site for j in jobs}, key=lambda site: site.order)


def _chosen(
    own: Sequence[Site],
    versions: Sequence[ModelVersion],
    jobs: Sequence[JobRecord],
    asked: Site | None,
) -> Site | None:
    """Return the site whose share is meant: the one asked for, else the initiator's, else any."""
    if asked is not None:
        return asked if asked in own else None
    initiators = {v.initiator for v in versions} | {j.initiator for j in jobs}
    return next((site for site in own if site in initiators), own[0] if own else None)


def _parent(tx: Tx, version: ModelVersion | None) -> ModelLine | None:
    """Return the version that one was deployed from, if it is here."""
    named = "" if version is None else parent_version(version.parent_info)
    if version is None or not named:
        return None
    site = version.key.site
    which = ModelList(text=named, role=site.role, party_id=site.party_id, limit=10)
    found = (line for line in tx.model_lists.page(which) if line.key.model_version == named)
    return next(found, None)


def _users(
    tx: Tx, version: ModelVersion | None, children: Sequence[ModelLine]
) -> tuple[int, list[JobRecord]]:
    """Return how many jobs were looked at, and which of them predict with a version or a child."""
    if version is None:
        return 0, []
    site = version.key.site
    since = Between(by=Sort.CREATED, low=float(version.created_ms), high=_FOREVER)
    which = JobFilter(roles=(site.role,), party_id=site.party_id, between=(since,), limit=MAX_JOBS)
    names = {version.key.model_version, *(line.key.model_version for line in children)}
    found = tx.jobs.find(which)
    return len(found), [job for job in found if used_version(job) in names]


def used_version(job: JobRecord) -> str:
    """Return the version that a predict job uses, "" for any other job."""
    if mode_of(job.conf) != "predict":
        return ""
    parameters = job.conf.get("job_parameters") if isinstance(job.conf, dict) else None
    common = parameters.get("common") if isinstance(parameters, dict) else None
    return str(common.get("model_version", "")) if isinstance(common, dict) else ""
