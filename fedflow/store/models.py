"""Versions of models, their components and checkpoints."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Final

from fedflow.domain.models import (
    Checkpoint,
    ModelComponent,
    ModelFilter,
    ModelKey,
    ModelPart,
    ModelVersion,
)
from fedflow.store.codec import from_json, site_of, to_json
from fedflow.store.session import Session, Value, one_of
from fedflow.store.tables import MODEL_CHECKPOINT, MODEL_COMPONENT, MODEL_VERSION

_IS: Final = "f_role = ? AND f_party_id = ? AND f_model_id = ? AND f_model_version = ?"
_PARTS: Final = (
    "f_meta_name, f_meta_sha256, f_meta_sha1, f_meta_size, "
    "f_param_name, f_param_sha256, f_param_sha1, f_param_size"
)
_VERSION: Final = (
    "f_role, f_party_id, f_model_id, f_model_version, f_job_id, f_roles, f_initiator_role, "
    "f_initiator_party_id, f_train_dsl, f_train_runtime_conf, f_runtime_conf_on_party, "
    "f_inference_dsl, f_fate_version, f_parent, f_parent_info, f_size, f_loaded_times, f_imported, "
    "f_archive_sha256, f_archive_from_ip, f_ready, f_create_time, f_update_time"
)
_TABLES: Final = (
    "t_model_checkpoint", "t_pipeline_component_meta", "t_machine_learning_model_info",
)  # fmt: skip
_BATCH: Final = 200  #: digests in one statement


class SqlModels:
    """See `app.ports.Models`."""

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
        self._session.replace(MODEL_VERSION, _version_row(version))

    def get(self, key: ModelKey) -> ModelVersion | None:
        found = self._session.row(
            f"SELECT {_VERSION} FROM t_machine_learning_model_info WHERE {_IS}", _key(key)
        )
        return None if found is None else _version_of(found)

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
            f"SELECT {_VERSION} FROM t_machine_learning_model_info WHERE {where} "
            "ORDER BY f_create_time DESC, f_model_version, f_role, f_party_id, f_model_id LIMIT ?",
            (*given.values(), which.limit),
        )
        return [_version_of(row) for row in found]

    def unready(self, older_than_ms: int) -> list[ModelKey]:
        found = self._session.rows(
            "SELECT f_role, f_party_id, f_model_id, f_model_version "
            "FROM t_machine_learning_model_info WHERE f_ready = 0 AND f_create_time < ?",
            (older_than_ms,),
        )
        return [
            ModelKey(site=site_of(role, party_id), model_id=model_id, model_version=version)
            for role, party_id, model_id, version in found
        ]

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
        row: dict[str, Value] = {
            **_key_row(component.key),
            "f_component_name": component.component,
            "f_component_module_name": component.module,
            "f_model_alias": component.alias,
            **_parts_row(component.meta, component.param),
            "f_run_parameters": to_json(component.run_parameters),
            "f_create_time": component.created_ms,
        }
        self._session.replace(MODEL_COMPONENT, row)

    def components(self, key: ModelKey) -> list[ModelComponent]:
        found = self._session.rows(
            "SELECT f_component_name, f_component_module_name, f_model_alias, f_run_parameters, "
            f"f_create_time, {_PARTS} FROM t_pipeline_component_meta WHERE {_IS} "
            "ORDER BY f_component_name",
            _key(key),
        )
        return [
            ModelComponent(
                key=key,
                component=name,
                module=module,
                alias=alias,
                meta=_part(parts[:4]),
                param=_part(parts[4:]),
                run_parameters=from_json(parameters),
                created_ms=created_ms,
            )
            for name, module, alias, parameters, created_ms, *parts in found
        ]

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
        row: dict[str, Value] = {
            **_key_row(checkpoint.key),
            "f_component_name": checkpoint.component,
            "f_step_index": checkpoint.step_index,
            "f_step_name": checkpoint.step_name,
            "f_task_version": checkpoint.attempt,
            "f_model_alias": checkpoint.alias,
            **_parts_row(checkpoint.meta, checkpoint.param),
            "f_create_time": checkpoint.created_ms,
        }
        self._session.replace(MODEL_CHECKPOINT, row)

    def checkpoints(self, key: ModelKey, component: str | None = None) -> list[Checkpoint]:
        one = "" if component is None else "AND f_component_name = ? "
        values = _key(key) if component is None else (*_key(key), component)
        found = self._session.rows(
            "SELECT f_component_name, f_step_index, f_step_name, f_task_version, f_model_alias, "
            f"f_create_time, {_PARTS} FROM t_model_checkpoint WHERE {_IS} {one}"
            "ORDER BY f_component_name, f_step_index",
            values,
        )
        return [
            Checkpoint(
                key=key,
                component=name,
                attempt=attempt,
                alias=alias,
                step_index=index,
                step_name=step_name,
                meta=_part(parts[:4]),
                param=_part(parts[4:]),
                created_ms=created_ms,
            )
            for name, index, step_name, attempt, alias, created_ms, *parts in found
        ]

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


def _key(key: ModelKey) -> tuple[str, str, str, str]:
    """Return the values of `_IS`."""
    return key.site.role.value, key.site.party_id, key.model_id, key.model_version


def _key_row(key: ModelKey) -> dict[str, Value]:
    return {
        "f_role": key.site.role.value,
        "f_party_id": key.site.party_id,
        "f_model_id": key.model_id,
        "f_model_version": key.model_version,
    }


def _parts_row(meta: ModelPart, param: ModelPart) -> dict[str, Value]:
    return {
        "f_meta_name": meta.name,
        "f_meta_sha256": meta.sha256,
        "f_meta_sha1": meta.sha1,
        "f_meta_size": meta.size_bytes,
        "f_param_name": param.name,
        "f_param_sha256": param.sha256,
        "f_param_sha1": param.sha1,
        "f_param_size": param.size_bytes,
    }


def _part(columns: list[Any]) -> ModelPart:
    name, sha256, sha1, size_bytes = columns
    return ModelPart(name=name, sha256=sha256, sha1=sha1, size_bytes=size_bytes)


def _version_row(version: ModelVersion) -> dict[str, Value]:
    return {
        **_key_row(version.key),
        "f_job_id": version.job_id,
        "f_roles": to_json(version.roles),
        "f_initiator_role": version.initiator.role.value,
        "f_initiator_party_id": version.initiator.party_id,
        "f_train_dsl": to_json(version.train_dsl),
        "f_train_runtime_conf": to_json(version.train_conf),
        "f_runtime_conf_on_party": to_json(version.conf_on_party),
        "f_inference_dsl": to_json(version.inference_dsl),
        "f_fate_version": version.fate_version,
        "f_parent": int(version.parent),
        "f_parent_info": to_json(version.parent_info),
        "f_size": version.size_bytes,
        "f_loaded_times": version.loaded_times,
        "f_imported": int(version.imported),
        "f_archive_sha256": version.archive_sha256,
        "f_archive_from_ip": version.archive_from_ip,
        "f_ready": int(version.ready),
        "f_create_time": version.created_ms,
        "f_update_time": version.updated_ms,
    }


def _version_of(row: tuple[Any, ...]) -> ModelVersion:
    (
        role, party_id, model_id, model_version, job_id, roles, initiator_role, initiator_party_id,
        train_dsl, train_conf, conf_on_party, inference_dsl, fate_version, parent, parent_info,
        size_bytes, loaded_times, imported, archive_sha256, archive_from_ip, ready, created_ms,
        updated_ms,
    ) = row  # fmt: skip
    return ModelVersion(
        key=ModelKey(site=site_of(role, party_id), model_id=model_id, model_version=model_version),
        job_id=job_id,
        roles=from_json(roles),
        initiator=site_of(initiator_role, initiator_party_id),
        train_dsl=from_json(train_dsl),
        train_conf=from_json(train_conf),
        conf_on_party=from_json(conf_on_party),
        inference_dsl=from_json(inference_dsl),
        fate_version=fate_version,
        parent=bool(parent),
        parent_info=from_json(parent_info),
        size_bytes=size_bytes,
        loaded_times=loaded_times,
        imported=bool(imported),
        archive_sha256=archive_sha256,
        archive_from_ip=archive_from_ip,
        ready=bool(ready),
        created_ms=created_ms,
        updated_ms=updated_ms,
    )
