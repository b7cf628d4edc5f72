"""Names that people give to versions of models."""
# ruff: noqa: S608  # only constants of this module are put into statements; values are parameters

from __future__ import annotations

from typing import Any, Final

from fedflow.domain.models.model import ModelTag
from fedflow.store.session import Session, Value
from fedflow.store.tables import MODEL_TAG, TAG

_TAG: Final = (
    "SELECT f_name, f_desc, (SELECT COUNT(*) FROM t_model_tag WHERE f_t_id = t_tags.f_id) "
    "FROM t_tags"
)


class SqlModelTags:
    """See `app.ports.models.ModelTagStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def create(self, name: str, description: str, *, now_ms: int) -> bool:
        row: dict[str, Value] = {"f_name": name, "f_desc": description, "f_create_time": now_ms}
        return self._session.insert(TAG, {**row, "f_update_time": now_ms})

    def get(self, name: str) -> ModelTag | None:
        found = self._session.row(f"{_TAG} WHERE f_name = ?", (name,))
        return None if found is None else _tag(found)

    def find(self, part: str = "", *, limit: int = 1000) -> list[ModelTag]:
        found = self._session.rows(
            f"{_TAG} WHERE INSTR(f_name, ?) > 0 ORDER BY f_id DESC LIMIT ?"
            if part
            else f"{_TAG} ORDER BY f_id DESC LIMIT ?",
            (part, limit) if part else (limit,),
        )
        return [_tag(row) for row in found]

    def update(self, name: str, *, new_name: str, description: str, now_ms: int) -> bool:
        if self._id(name) is None or (new_name != name and self._id(new_name) is not None):
            return False
        self._session.write(
            "UPDATE t_tags SET f_name = ?, f_desc = ?, f_update_time = ? WHERE f_name = ?",
            (new_name, description, now_ms, name),
        )
        return True

    def drop(self, name: str) -> bool:
        number = self._id(name)
        if number is None:
            return False
        self._session.write("DELETE FROM t_model_tag WHERE f_t_id = ?", (number,))
        self._session.write("DELETE FROM t_tags WHERE f_id = ?", (number,))
        return True

    def attach(self, name: str, model_version: str, *, now_ms: int) -> bool:
        number = self._id(name)
        if number is None:
            return False
        row: dict[str, Value] = {"f_m_id": model_version, "f_t_id": number, "f_create_time": now_ms}
        return self._session.insert(MODEL_TAG, row)

    def detach(self, name: str, model_version: str) -> bool:
        number = self._id(name)
        if number is None:
            return False
        gone = self._session.write(
            "DELETE FROM t_model_tag WHERE f_m_id = ? AND f_t_id = ?", (model_version, number)
        )
        return gone > 0

    def of_version(self, model_version: str) -> list[ModelTag]:
        found = self._session.rows(
            f"{_TAG} WHERE f_id IN (SELECT f_t_id FROM t_model_tag WHERE f_m_id = ?) "
            "ORDER BY f_name",
            (model_version,),
        )
        return [_tag(row) for row in found]

    def versions(self, name: str) -> list[str]:
        found = self._session.rows(
            "SELECT f_m_id FROM t_model_tag WHERE f_t_id = "
            "(SELECT f_id FROM t_tags WHERE f_name = ?) ORDER BY f_id",
            (name,),
        )
        return [row[0] for row in found]

    def _id(self, name: str) -> int | None:
        """Return a tag's number and keep others from changing it meanwhile."""
        found = self._session.row("SELECT f_id FROM t_tags WHERE f_name = ?", (name,), lock=True)
        return None if found is None else int(found[0])


def _tag(row: tuple[Any, ...]) -> ModelTag:
    name, description, model_count = row
    return ModelTag(name=name, description=description, model_count=model_count)
