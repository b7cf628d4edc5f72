"""Lists of model versions, without their documents."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from fedflow.domain.models.lists import ModelKind, ModelLine, ModelList, parent_version
from fedflow.store.codec import from_json, to_json
from fedflow.store.mapper import FLAG, JSON, MODEL_KEY, SITE, Kind, Mapper
from fedflow.store.session import Session, Value, one_of
from fedflow.store.tables import MODEL_VERSION

_TABLE: Final = "t_machine_learning_model_info AS v"
_PARENT: Final = Kind(lambda info: parent_version(from_json(info)))
_LINES: Final = Mapper(
    MODEL_VERSION,
    ModelLine,
    {
        "key": MODEL_KEY("f_role", "f_party_id", "f_model_id", "f_model_version"),
        "job_id": "f_job_id",
        "roles": JSON("f_roles"),
        "initiator": SITE("f_initiator_role", "f_initiator_party_id"),
        "parent": FLAG("f_parent"),
        "parent_version": _PARENT("f_parent_info"),
        "imported": FLAG("f_imported"),
        "size_bytes": "f_size",
        "created_ms": "f_create_time",
    },
)
_ORDER: Final = "f_create_time DESC, f_model_version, f_role, f_party_id, f_model_id"
_KINDS: Final = {
    ModelKind.TRAINED: "f_parent = 1 AND f_imported = 0",
    ModelKind.DEPLOYED: "f_parent = 0 AND f_imported = 0",
    ModelKind.IMPORTED: "f_imported = 1",
}
_HAS_MODULE: Final = (
    "EXISTS (SELECT 1 FROM t_pipeline_component_meta AS c WHERE c.f_role = v.f_role "
    "AND c.f_party_id = v.f_party_id AND c.f_model_id = v.f_model_id "
    "AND c.f_model_version = v.f_model_version AND c.f_component_module_name = ?)"
)
_HAS_TAG: Final = (
    "f_model_version IN (SELECT m.f_m_id FROM t_model_tag AS m JOIN t_tags AS g "
    "ON g.f_id = m.f_t_id WHERE g.f_name = ?)"
)


class SqlModelLists:
    """See `app.ports.models.ModelListStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def page(self, which: ModelList) -> list[ModelLine]:
        where, values = _conditions(which)
        found = self._session.rows(
            f"SELECT {_LINES.columns} FROM {_TABLE} WHERE {where} "
            f"ORDER BY {_ORDER} LIMIT ? OFFSET ?",
            (*values, which.limit, which.offset),
        )
        return _LINES.all(found)

    def count(self, which: ModelList) -> int:
        where, values = _conditions(which)
        found = self._session.row(f"SELECT COUNT(*) FROM {_TABLE} WHERE {where}", values)
        return int(found[0]) if found else 0

    def tags(self, versions: Collection[str]) -> dict[str, tuple[str, ...]]:
        asked = sorted(set(versions))
        found = self._session.rows(
            "SELECT m.f_m_id, g.f_name FROM t_model_tag AS m JOIN t_tags AS g ON g.f_id = m.f_t_id "
            f"WHERE {one_of('m.f_m_id', len(asked))} ORDER BY g.f_name",
            asked,
        )
        tags: dict[str, tuple[str, ...]] = {}
        for version, name in found:
            tags[version] = (*tags.get(version, ()), name)
        return tags

    def modules(self) -> list[str]:
        found = self._session.rows(
            "SELECT DISTINCT f_component_module_name FROM t_pipeline_component_meta ORDER BY 1"
        )
        return [row[0] for row in found]


def _conditions(which: ModelList) -> tuple[str, list[Value]]:
    """Return the condition of a list, and its values."""
    parts: list[str] = ["f_ready = 1"]
    values: list[Value] = []

    def add(condition: str, *given: Value) -> None:
        parts.append(condition)
        values.extend(given)

    if which.text:
        text = which.text
        add("(INSTR(f_model_id, ?) > 0 OR INSTR(f_model_version, ?) > 0)", text, text)
    if which.role is not None:
        add("f_role = ?", which.role.value)
    if which.party_id is not None:
        add("f_party_id = ?", which.party_id)
    if which.kind is not None:
        add(_KINDS[which.kind])
    if which.module:
        add(_HAS_MODULE, which.module)
    if which.tag:
        add(_HAS_TAG, which.tag)
    if which.model_id:
        add("f_model_id = ?", which.model_id)
    if not which.with_empty:
        add("f_size > 0")
    if which.child_of:
        member = f'"parent_model_version":{to_json(which.child_of)}'
        add("INSTR(f_parent_info, ?) > 0", member)
    return " AND ".join(parts), values
