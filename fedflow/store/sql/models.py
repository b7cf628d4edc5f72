"""Versions of models, their components and checkpoints."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from fedflow.domain.models.model import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelPart,
    ModelVersion,
)
from fedflow.domain.site import Site
from fedflow.store.codec import site_of
from fedflow.store.mapper import FLAG, JSON, MODEL_KEY, SITE, Columns, Mapper, made
from fedflow.store.session import Found, Session, Value, one_of
from fedflow.store.tables import MODEL_CHECKPOINT, MODEL_COMPONENT, MODEL_VERSION

_IS: Final = "f_role = ? AND f_party_id = ? AND f_model_id = ? AND f_model_version = ?"
_KEY: Final = MODEL_KEY("f_role", "f_party_id", "f_model_id", "f_model_version")
_PART: Final = made(ModelPart, name="name", sha256="sha256", sha1="sha1", size_bytes="size_bytes")
_PARTS: Final[Mapping[str, Columns | str]] = {
    "meta": _PART("f_meta_name", "f_meta_sha256", "f_meta_sha1", "f_meta_size"),
    "param": _PART("f_param_name", "f_param_sha256", "f_param_sha1", "f_param_size"),
}
_VERSIONS: Final = Mapper(
    MODEL_VERSION,
    ModelVersion,
    {
        "key": _KEY,
        "job_id": "f_job_id",
        "roles": JSON("f_roles"),
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "train_dsl": JSON("f_train_dsl"),
        "train_conf": JSON("f_train_runtime_conf"),
        "conf_on_party": JSON("f_runtime_conf_on_party"),
        "inference_dsl": JSON("f_inference_dsl"),
        "fate_version": "f_fate_version",
        "parent": FLAG("f_parent"),
        "parent_info": JSON("f_parent_info"),
        "size_bytes": "f_size",
        "loaded_times": "f_loaded_times",
        "imported": FLAG("f_imported"),
        "archive_sha256": "f_archive_sha256",
        "archive_from_ip": "f_archive_from_ip",
        "ready": FLAG("f_ready"),
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
    },
)
_COMPONENTS: Final = Mapper(
    MODEL_COMPONENT,
    ModelComponent,
    {
        "key": _KEY,
        "component": "f_component_name",
        "module": "f_component_module_name",
        "alias": "f_model_alias",
        **_PARTS,
        "run_parameters": JSON("f_run_parameters"),
        "created_ms": "f_create_time",
    },
)
_CHECKPOINTS: Final = Mapper(
    MODEL_CHECKPOINT,
    Checkpoint,
    {
        "key": _KEY,
        "component": "f_component_name",
        "attempt": "f_task_version",
        "alias": "f_model_alias",
        "step_index": "f_step_index",
        "step_name": "f_step_name",
        **_PARTS,
        "created_ms": "f_create_time",
    },
)
_TABLES: Final = (
    "t_model_checkpoint", "t_pipeline_component_meta", "t_machine_learning_model_info",
)  # fmt: skip
_BATCH: Final = 200  #: digests in one statement


class SqlModels:
    """See `app.ports.models.ModelVersionStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, version: ModelVersion) -> None:
        known = self._session.row(
            f"SELECT f_create_time FROM t_machine_learning_model_info WHERE {_IS}",
            _key(version.key),
            lock=True,
        )
        if known is not None:
            version = replace(version, created_ms=known[0])
        self._session.replace(MODEL_VERSION, _VERSIONS.row(version))

    def put_trained(self, version: ModelVersion) -> bool:
        held = self._holder(version.key)
        if held is not None:
            created_ms, loaded_times, *whose = held
            if tuple(whose) != _trained_by(version.job_id, version.initiator):
                return False
            version = replace(version, created_ms=created_ms, loaded_times=loaded_times)
        self._session.replace(MODEL_VERSION, _VERSIONS.row(version))
        return True

    def is_own(self, key: ModelKey, *, job_id: str, initiator: Site) -> bool:
        held = self._holder(key)
        return held is None or tuple(held[2:]) == _trained_by(job_id, initiator)

    def _holder(self, key: ModelKey) -> Found | None:
        """Return when the version of a key was created, its loads, and whose it is; lock it."""
        return self._session.row(
            "SELECT f_create_time, f_loaded_times, f_job_id, f_initiator_role, "
            "f_initiator_party_id, f_parent, f_imported, f_ready "
            f"FROM t_machine_learning_model_info WHERE {_IS}",
            _key(key),
            lock=True,
        )

    def has_version(self, model_version: str) -> bool:
        found = self._session.row(
            "SELECT 1 FROM t_machine_learning_model_info WHERE f_model_version = ? LIMIT 1",
            (model_version,),
        )
        return found is not None

    def lock(self, model_version: str) -> list[ModelKey]:
        found = self._session.rows(
            "SELECT f_role, f_party_id, f_model_id, f_model_version FROM "
            "t_machine_learning_model_info WHERE f_model_version = ? "
            "ORDER BY f_role, f_party_id, f_model_id",
            (model_version,),
            lock=True,
        )
        return list(map(_key_of, found))

    def get(self, key: ModelKey) -> ModelVersion | None:
        return _VERSIONS.one(self._session.row(f"{_VERSIONS.select} WHERE {_IS}", _key(key)))

    def find(self, which: ModelFilter) -> list[ModelVersion]:
        wanted: dict[str, Value] = {
            "f_model_id": which.model_id,
            "f_model_version": which.model_version,
            "f_role": None if which.role is None else which.role.value,
            "f_party_id": which.party_id,
            "f_job_id": which.job_id,
            "f_ready": None if which.with_unready else 1,
        }
        given = {column: value for column, value in wanted.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in given) or "1 = 1"
        found = self._session.rows(
            f"{_VERSIONS.select} WHERE {where} "
            "ORDER BY f_create_time DESC, f_model_version, f_role, f_party_id, f_model_id LIMIT ?",
            (*given.values(), which.limit),
        )
        return _VERSIONS.all(found)

    def unready(self, older_than_ms: int) -> list[ModelKey]:
        found = self._session.rows(
            "SELECT f_role, f_party_id, f_model_id, f_model_version "
            "FROM t_machine_learning_model_info WHERE f_ready = 0 AND f_create_time < ?",
            (older_than_ms,),
        )
        return list(map(_key_of, found))

    def set_ready(self, key: ModelKey, *, now_ms: int) -> bool:
        changed = self._session.write(
            f"UPDATE t_machine_learning_model_info SET f_ready = 1, f_update_time = ? WHERE {_IS}",
            (now_ms, *_key(key)),
        )
        return changed > 0

    def drop(self, key: ModelKey) -> bool:
        counts = [self._session.write(f"DELETE FROM {t} WHERE {_IS}", _key(key)) for t in _TABLES]
        return counts[-1] > 0

    def put_component(self, component: ModelComponent) -> None:
        self._session.replace(MODEL_COMPONENT, _COMPONENTS.row(component))

    def components(self, key: ModelKey) -> list[ModelComponent]:
        found = self._session.rows(
            f"{_COMPONENTS.select} WHERE {_IS} ORDER BY f_component_name", _key(key)
        )
        return _COMPONENTS.all(found)

    def put_checkpoint(self, checkpoint: Checkpoint) -> None:
        self._session.write(
            f"DELETE FROM t_model_checkpoint WHERE {_IS} AND f_component_name = ? "
            "AND f_task_version < ? AND f_step_index >= ?",
            (
                *_key(checkpoint.key),
                checkpoint.component,
                checkpoint.attempt,
                checkpoint.step_index,
            ),
        )
        self._session.replace(MODEL_CHECKPOINT, _CHECKPOINTS.row(checkpoint))

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        one = "" if component is None else "AND f_component_name = ? "
        values = _key(key) if component is None else (*_key(key), component)
        found = self._session.rows(
            f"{_CHECKPOINTS.select} WHERE {_IS} {one}ORDER BY f_component_name, f_step_index",
            values,
        )
        return _CHECKPOINTS.all(found)

    def referenced(self, digests: Collection[str]) -> set[str]:
        asked = list(digests)
        needed: set[str] = set()
        for start in range(0, len(asked), _BATCH):
            batch = asked[start : start + _BATCH]
            for table in ("t_pipeline_component_meta", "t_model_checkpoint"):
                for column in ("f_meta_sha256", "f_param_sha256"):
                    found = self._session.rows(
                        f"SELECT DISTINCT {column} FROM {table} WHERE {one_of(column, len(batch))}",
                        batch,
                    )
                    needed.update(row[0] for row in found)
        return needed


def _trained_by(job_id: str, initiator: Site) -> tuple[str, str, str, int, int, int]:
    """Return whose a version is that a job trained: a parent, not imported, ready."""
    return job_id, initiator.role.value, initiator.party_id, 1, 0, 1


def _key_of(found: Found) -> ModelKey:
    role, party_id, model_id, version = found
    return ModelKey(site=site_of(role, party_id), model_id=model_id, model_version=version)


def _key(key: ModelKey) -> tuple[str, str, str, str]:
    """Return the values of `_IS`."""
    return key.site.role.value, key.site.party_id, key.model_id, key.model_version
