"""What an upload with `with_meta` says of its rows, so that DataTransform needs no parameters.

Source: docs/reference/data-formats.md#upload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from fedflow.base.errors.data import BadData
from fedflow.domain.data.table_names import names_in_schema

NumberType = Literal["float64", "float", "int", "int64", "long", "str"]


class UploadMeta(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The meaning of a table's columns; the same words as DataTransform's parameters."""

    delimiter: str = ","  #: between the items of `sparse`, `svmlight` and `tag` rows
    #: `sparse` and `svmlight` are the same
    input_format: Literal["dense", "sparse", "svmlight", "tag"] = "dense"
    tag_with_value: bool = False  #: items of `tag` rows are a tag and its value
    tag_value_delimiter: str = ":"  #: between the two
    with_match_id: bool = False  #: rows have match ids; so they do with made ids
    id_list: list[str] | None = None  #: id columns of `dense` rows, the match id is one of them
    id_range: Annotated[int, msgspec.Meta(ge=0)] = 0  #: else: how many id columns follow the key
    exclusive_data_type: dict[str, NumberType] | None = None  #: per column, names in any case
    data_type: NumberType = "float64"  #: of all features
    with_label: bool = False  #: the rows have a label
    label_name: str = "y"  #: its column in `dense` rows; in others it stands before the features
    label_type: NumberType = "int"  #: its type

    def check(self) -> None:
        """Raises: ValueError: a label has no name, or nothing separates items."""
        if self.with_label and not self.label_name:
            raise ValueError("label_name: it is required when with_label is true")
        if not self.delimiter or not self.tag_value_delimiter:
            raise ValueError("delimiter, tag_value_delimiter: they must not be empty")

    @property
    def is_dense(self) -> bool:
        """Tell whether rows have one cell per column."""
        return self.input_format == "dense"


def schema_members(
    meta: UploadMeta, *, key: str, columns: Sequence[str], makes_ids: bool
) -> dict[str, Any]:
    """Return the members of FATE's schema that the meta adds; `columns` stand behind the `key`.

    `label_type`, `label_name` stay away where there is no label, as in FATE. Rows that are not
    dense have no header before DataTransform has read them.
    Raises: BadData: there is no such label or id column.
    """
    plain: dict[str, Any] = msgspec.to_builtins(meta)
    plain["with_match_id"] = meta.with_match_id or makes_ids
    if not meta.with_label:
        plain = {n: v for n, v in plain.items() if n not in ("label_name", "label_type")}
    shown: dict[str, Any] = {"meta": plain, "header": []}
    if meta.is_dense:
        if meta.with_label and meta.label_name not in columns:
            reason = f"with_label is true, but there is no column {meta.label_name!r}"
            raise BadData(where="meta", reason=reason)
        ids = _ids(meta, key, columns) if plain["with_match_id"] else ()
        label = meta.label_name if meta.with_label else None
        shown["header"] = [c for c in columns if c != label and c not in ids]
        if ids:
            shown["match_id_name"] = ids[0]
    if meta.with_label:
        shown["label_name"] = meta.label_name if meta.is_dense else "label"
    return shown


def _ids(meta: UploadMeta, key: str, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the id columns beside the key. Raises: BadData: there is no such column."""
    listed = [name for name in meta.id_list or () if name != key]
    if absent := [name for name in listed if name not in columns]:
        raise BadData(where="meta", reason=f"id_list: there are no columns {absent[:20]}")
    others = [name for name in columns if not (meta.with_label and name == meta.label_name)]
    if not listed and meta.id_range > len(others):
        reason = f"id_range: it is {meta.id_range}, but only {len(others)} columns follow the key"
        raise BadData(where="meta", reason=reason)
    ids = tuple(listed) or tuple(others[: meta.id_range or 1])
    if not ids or not set(ids) <= set(others):
        raise BadData(where="meta", reason="with_match_id: no column is left for the match id")
    return ids


def given_names(schema: Mapping[str, Any] | None, *, delimiter: str) -> tuple[str, ...] | None:
    """Return the column names that a schema gives, if there is one. Raises: BadData."""
    if schema is None:
        return None
    try:
        return names_in_schema(schema, delimiter=delimiter)
    except ValueError as exc:
        raise BadData(where="schema", reason=str(exc)) from exc
