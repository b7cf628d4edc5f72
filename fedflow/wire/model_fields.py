"""Models, their tags and checkpoints in the field names of FATE's clients.

Source: `docs/reference/rest.md#records`, `docs/reference/rest.md#models`,
`docs/reference/rest.md#components-and-checkpoints`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.models import model
from fedflow.domain.models.model import ModelTag
from fedflow.domain.records import Reply
from fedflow.domain.site import Site
from fedflow.wire.api.models import (
    Checkpoint,
    ComponentInfo,
    ModelVersion,
    NewVersion,
    Tag,
    TaggedModel,
)
from fedflow.wire.fields import date_text, roles_as_numbers

Row = dict[str, Any]


def model_row(version: model.ModelVersion) -> ModelVersion:
    """Return a version as FATE's MODEL record."""
    site = version.key.site
    return ModelVersion(
        role=site.role.value,
        party_id=site.party_id,
        roles=roles_as_numbers(version.roles),
        job_id=version.job_id,
        model_id=version.key.model_id,
        model_version=version.key.model_version,
        size=_kib(version.size_bytes),
        initiator_role=version.initiator.role.value,
        initiator_party_id=version.initiator.party_id,
        train_dsl=version.train_dsl,
        train_runtime_conf=seen_conf(version, version.train_conf),
        runtime_conf_on_party=seen_conf(version, version.conf_on_party),
        inference_dsl=version.inference_dsl,
        fate_version=version.fate_version,
        parent=version.parent,
        parent_info=version.parent_info,
        loaded_times=version.loaded_times,
        imported=int(version.imported),
        archive_sha256=version.archive_sha256,
        archive_from_ip=version.archive_from_ip,
        create_time=version.created_ms,
        create_date=date_text(version.created_ms),
        update_time=version.updated_ms,
        update_date=date_text(version.updated_ms),
    )


def seen_conf(version: model.ModelVersion, conf: Any) -> Any:
    """Return what the site of a share may see of a conf of its training."""
    site = version.key.site
    return own_conf(conf, site, version.roles, is_initiator=version.initiator == site)


def tagged_model(version: model.ModelVersion) -> TaggedModel:
    """Return what `tag/retrieve` shows of a model."""
    return TaggedModel(
        model_id=version.key.model_id,
        model_version=version.key.model_version,
        model_size=_kib(version.size_bytes),
        role=version.key.site.role.value,
        party_id=version.key.site.party_id,
    )


def shown_tag(tag: ModelTag) -> Tag:
    """Return a tag without the number of its versions."""
    return Tag(name=tag.name, description=tag.description)


def new_version(replies: Mapping[Site, Reply], model_id: str, model_version: str) -> NewVersion:
    """Return what every site said of a change of a model, and the version that it made."""
    detail: dict[str, dict[str, dict[str, Any]]] = {}
    codes: dict[str, dict[str, int]] = {}
    for site, reply in replies.items():
        role, said = site.role.value, {"retcode": reply.retcode, "retmsg": reply.retmsg}
        detail.setdefault(role, {})[site.party_id] = said
        codes.setdefault(role, {})[site.party_id] = reply.retcode
    return NewVersion(detail=detail, **codes, model_id=model_id, model_version=model_version)


def with_digests(step: model.Checkpoint) -> Checkpoint:
    """Return a checkpoint with the digests of its objects."""
    parts = (step.meta, step.param)
    return _checkpoint(step, {p.name: {"sha1": p.sha1, "buffer_name": p.name} for p in parts})


def with_contents(step: model.Checkpoint, contents: Mapping[str, str]) -> Checkpoint:
    """Return a checkpoint with the base64 of its objects, by name."""
    return _checkpoint(step, dict(contents))


def dag_components(dsl: Any) -> tuple[ComponentInfo, ...]:
    """Return the components of a stored DSL with their depth in the DAG, by depth, then name.

    A component's depth is 0 if it takes nothing of another, else one more than the greatest of
    those that it takes from. References to stored models are not counted.
    """
    given = dsl.get("components") if isinstance(dsl, dict) else None
    components = given if isinstance(given, dict) else {}
    upstream = {
        name: {u for u in _sources(one.get("input")) if u in components and u != name}
        for name, one in components.items()
        if isinstance(one, dict)
    }
    depths: dict[str, int] = {}
    while len(depths) < len(upstream):
        ready = [n for n, up in upstream.items() if n not in depths and up <= depths.keys()]
        if not ready:  # a cycle: no stored DSL has one
            break
        for name in ready:
            depths[name] = max((depths[u] + 1 for u in upstream[name]), default=0)
    return tuple(
        ComponentInfo(component_name=name, module=components[name].get("module"), index=depth)
        for depth, name in sorted((depth, name) for name, depth in depths.items())
    )


def _sources(value: Any) -> list[str]:
    """Return the components that are named in an `input` member."""
    if isinstance(value, str):
        return [value.partition(".")[0]]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [source for one in inner for source in _sources(one)]


def _checkpoint(step: model.Checkpoint, models: Mapping[str, Any]) -> Checkpoint:
    moment = datetime.fromtimestamp(step.created_ms / 1000, tz=UTC)
    return Checkpoint(
        step_index=step.step_index,
        step_name=step.step_name,
        create_time=moment.replace(tzinfo=None).isoformat(timespec="seconds"),
        models=models,
    )


def _kib(size_bytes: int) -> int:
    return -(-size_bytes // 1024)
