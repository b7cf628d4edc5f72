"""Which cells of raw rows hold ids beside the key, and which of these parties match rows by.

Source: docs/reference/data-formats.md#upload (`id_list`, `id_range`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedflow.components.features.data_transform_params import DataTransformParams
from fedflow.sdk import BadData, BadParameter

UNNAMED = "match_id"  #: of match ids in rows without column names


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchIds:
    """The id columns of a table: by name, or how many stand behind the key."""

    listed: tuple[str, ...]  #: names, if the upload gave any
    count: int  #: else so many columns behind the key
    name: str  #: of the chosen one; empty: by `index`
    index: int

    def among(self, columns: Sequence[str], *, key: str) -> tuple[str, tuple[str, ...]]:
        """Return the column of match ids, and all id columns; `key` is the sample id's.

        `columns` are those behind the key, without the label.

        Raises: BadData: there is no such column.
        """
        ids = tuple(name for name in self.listed if name != key)
        absent = [name for name in ids if name not in columns]
        if absent:
            where, reason = "id_list of the upload's meta", f"there are no columns {absent[:20]}"
            raise BadData(where=where, reason=reason)
        if not ids and self.name and self.name not in columns[: self.count]:
            ids = (self.name,)
        ids = ids or tuple(columns[: self.count])
        name = self.name or (ids[self.index] if self.index < len(ids) else "")
        if name not in ids or name not in columns:
            wanted = f"column {self.name!r}" if self.name else f"number {self.index}"
            reason = f"there is no match id {wanted} among {len(ids)} id columns"
            raise BadData(where="with_match_id", reason=reason)
        return name, ids

    @property
    def position(self) -> int:
        """Return which of `count` leading items is the match id.

        Raises: BadParameter: there are not so many.
        """
        if self.index >= self.count:
            reason = f"it is {self.index}, but rows begin with {self.count} ids"
            raise BadParameter(path="match_id_index", reason=reason)
        return self.index


def match_ids_of(params: DataTransformParams, meta: Mapping[str, Any]) -> MatchIds | None:
    """Return where match ids stand, None if rows have none.

    `meta` is what the upload said. Without it the ids are the columns up to the chosen one.

    Raises: BadData: the meta is of another kind.
    """
    if not params.with_match_id:
        return None
    listed, count = meta.get("id_list") or [], meta.get("id_range") or 0
    if not isinstance(listed, list) or not isinstance(count, int) or count < 0:
        raise BadData(where="meta of the table", reason="id_list or id_range is no such thing")
    return MatchIds(
        listed=tuple(str(name) for name in listed),
        count=count or params.match_id_index + 1,
        name=params.match_id_name,
        index=params.match_id_index,
    )
