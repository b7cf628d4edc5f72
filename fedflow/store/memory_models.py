"""Versions of models and their tags, in memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fedflow.domain.model_lists import ModelLine, ModelList, fits_model, line_of
from fedflow.domain.models import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelTag,
    ModelVersion,
)
from fedflow.store.codec import plain
from fedflow.store.journal import Journal


class MemoryModels:
    """See `app.ports.Models`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._versions: dict[ModelKey, ModelVersion] = {}
        self._components: dict[tuple[ModelKey, str], ModelComponent] = {}
        self._checkpoints: dict[tuple[ModelKey, str, int], Checkpoint] = {}

    def put(self, version: ModelVersion) -> None:
        known = self._versions.get(version.key)
        stored = replace(
            version,
            created_ms=version.created_ms if known is None else known.created_ms,
            roles=plain(version.roles),
            train_dsl=plain(version.train_dsl),
            train_conf=plain(version.train_conf),
            conf_on_party=plain(version.conf_on_party),
            inference_dsl=plain(version.inference_dsl),
            parent_info=plain(version.parent_info),
        )
        self._journal.put(self._versions, version.key, stored)

    def get(self, key: ModelKey) -> ModelVersion | None:
        return self._versions.get(key)

    def find(self, which: ModelFilter) -> list[ModelVersion]:
        found = [v for v in self._versions.values() if _matches(v, which)]
        found.sort(key=_order)
        return found[: which.limit]

    def unready(self, older_than_ms: int) -> list[ModelKey]:
        return [
            key
            for key, version in self._versions.items()
            if not version.ready and version.created_ms < older_than_ms
        ]

    def set_ready(self, key: ModelKey, *, now_ms: int) -> bool:
        known = self._versions.get(key)
        if known is None:
            return False
        self._journal.put(self._versions, key, replace(known, ready=True, updated_ms=now_ms))
        return True

    def drop(self, key: ModelKey) -> bool:
        for component in [k for k in self._components if k[0] == key]:
            self._journal.drop(self._components, component)
        for step in [k for k in self._checkpoints if k[0] == key]:
            self._journal.drop(self._checkpoints, step)
        known = key in self._versions
        self._journal.drop(self._versions, key)
        return known

    def put_component(self, component: ModelComponent) -> None:
        stored = replace(component, run_parameters=plain(component.run_parameters))
        self._journal.put(self._components, (component.key, component.component), stored)

    def components(self, key: ModelKey) -> list[ModelComponent]:
        found = [c for (at, _), c in self._components.items() if at == key]
        return sorted(found, key=lambda c: c.component)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        for known in self.checkpoints(checkpoint.key, checkpoint.component):
            if known.attempt < checkpoint.attempt and known.step_index >= checkpoint.step_index:
                self._journal.drop(self._checkpoints, _step(known))
        self._journal.put(self._checkpoints, _step(checkpoint), checkpoint)

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        found = [
            c
            for (at, name, _), c in self._checkpoints.items()
            if at == key and component in (None, name)
        ]
        return sorted(found, key=lambda c: (c.component, c.step_index))

    def referenced(self, digests: Collection[str]) -> set[str]:
        stored: list[ModelComponent | Checkpoint] = [
            *self._components.values(),
            *self._checkpoints.values(),
        ]
        needed = {part.sha256 for c in stored for part in (c.meta, c.param)}
        return needed & set(digests)


class MemoryModelTags:
    """See `app.ports.ModelTags`. Tags and attachments have numbers, as in a database."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._tags: dict[str, tuple[int, str]] = {}  #: name -> number, description
        self._attached: dict[tuple[str, int], int] = {}  #: version, tag's number -> number
        self._last = 0

    def create(self, name: str, description: str, *, now_ms: int) -> bool:
        if name in self._tags:
            return False
        self._journal.put(self._tags, name, (self._next(), description))
        return True

    def get(self, name: str) -> ModelTag | None:
        return self._tag(name) if name in self._tags else None

    def find(self, part: str = "", *, limit: int = 1000) -> list[ModelTag]:
        names = [name for name in self._tags if part in name]
        names.sort(key=lambda name: -self._tags[name][0])
        return [self._tag(name) for name in names[:limit]]

    def update(self, name: str, *, new_name: str, description: str, now_ms: int) -> bool:
        if name not in self._tags or (new_name != name and new_name in self._tags):
            return False
        number = self._tags[name][0]
        self._journal.drop(self._tags, name)
        self._journal.put(self._tags, new_name, (number, description))
        return True

    def drop(self, name: str) -> bool:
        if name not in self._tags:
            return False
        number = self._tags[name][0]
        for attached in [k for k in self._attached if k[1] == number]:
            self._journal.drop(self._attached, attached)
        self._journal.drop(self._tags, name)
        return True

    def attach(self, name: str, model_version: str, *, now_ms: int) -> bool:
        if name not in self._tags or (model_version, self._tags[name][0]) in self._attached:
            return False
        self._journal.put(self._attached, (model_version, self._tags[name][0]), self._next())
        return True

    def detach(self, name: str, model_version: str) -> bool:
        if name not in self._tags or (model_version, self._tags[name][0]) not in self._attached:
            return False
        self._journal.drop(self._attached, (model_version, self._tags[name][0]))
        return True

    def of_version(self, model_version: str) -> list[ModelTag]:
        names = [
            n for n, (number, _) in self._tags.items() if (model_version, number) in self._attached
        ]
        return [self._tag(name) for name in sorted(names)]

    def versions(self, name: str) -> list[str]:
        if name not in self._tags:
            return []
        number = self._tags[name][0]
        found = [
            (order, version) for (version, tag), order in self._attached.items() if tag == number
        ]
        return [version for _, version in sorted(found)]

    def _tag(self, name: str) -> ModelTag:
        number, description = self._tags[name]
        count = sum(1 for _, tag in self._attached if tag == number)
        return ModelTag(name=name, description=description, model_count=count)

    def _next(self) -> int:
        self._last += 1  # not undone: numbers may have gaps
        return self._last


class MemoryModelLists:
    """See `app.ports.ModelLists`."""

    def __init__(self, models: MemoryModels, tags: MemoryModelTags) -> None:
        self._models = models
        self._tags = tags

    def page(self, which: ModelList) -> list[ModelLine]:
        return [line_of(v) for v in self._fitting(which)][which.offset :][: which.limit]

    def count(self, which: ModelList) -> int:
        return len(self._fitting(which))

    def tags(self, versions: Collection[str]) -> dict[str, tuple[str, ...]]:
        named = {v: tuple(t.name for t in self._tags.of_version(v)) for v in versions}
        return {version: names for version, names in named.items() if names}

    def modules(self) -> list[str]:
        every = self._models.find(ModelFilter(with_unready=True, limit=10**9))
        return sorted({c.module for v in every for c in self._models.components(v.key)})

    def _fitting(self, which: ModelList) -> list[ModelVersion]:
        return [
            version
            for version in self._models.find(ModelFilter(limit=10**9))
            if fits_model(
                which,
                version,
                modules=[c.module for c in self._models.components(version.key)],
                tags=[t.name for t in self._tags.of_version(version.key.model_version)],
            )
        ]


def _step(checkpoint: Checkpoint) -> tuple[ModelKey, str, int]:
    return checkpoint.key, checkpoint.component, checkpoint.step_index


def _order(version: ModelVersion) -> tuple[int, str, str, str, str]:
    key = version.key
    return (
        -version.created_ms,
        key.model_version,
        key.site.role.value,
        key.site.party_id,
        key.model_id,
    )


def _matches(version: ModelVersion, which: ModelFilter) -> bool:
    key = version.key
    return (
        (which.model_id is None or key.model_id == which.model_id)
        and (which.model_version is None or key.model_version == which.model_version)
        and (which.role is None or key.site.role is which.role)
        and (which.party_id is None or key.site.party_id == which.party_id)
        and (which.job_id is None or version.job_id == which.job_id)
        and (which.with_unready or version.ready)
    )
