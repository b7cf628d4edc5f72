"""What an upload with `with_meta` says of its rows, so that DataTransform need not be told.

Source: reference/components.md section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from fedflow.domain.table_names import names_in_schema
from fedflow.sdk import BadData, NotSupportedYet, Params

NumberType = Literal["float64", "float", "int", "int64", "long", "str"]


class UploadMeta(Params, frozen=True, kw_only=True):
    """The meaning of a table's columns; the same words as DataTransform's parameters."""

    delimiter: str = ","  #: without effect: `id_delimiter` splits the rows
    input_format: Literal["dense", "sparse", "svmlight", "tag"] = "dense"  #: `dense` only
    tag_with_value: bool = False  #: without effect with `dense`
    tag_value_delimiter: str = ":"  #: without effect with `dense`
    with_match_id: bool = False  #: true is not supported yet
    id_list: list[str] | None = None  #: a value is not supported yet
    id_range: int = 0  #: not 0 is not supported yet
    exclusive_data_type: dict[str, NumberType] | None = None  #: per column, names in any case
    data_type: NumberType = "float64"  #: of all features
    with_label: bool = False  #: the rows have a label
    label_name: str = "y"  #: its column
    label_type: NumberType = "int"  #: its type

    def check(self) -> None:
        """A label needs a name."""
        if self.with_label and not self.label_name:
            raise ValueError("label_name: it is required when with_label is true")


def refuse_unsupported(meta: UploadMeta) -> None:
    """Raises: NotSupportedYet: rows that are not dense, match ids."""
    if meta.input_format != "dense":
        raise NotSupportedYet(what=f"upload with_meta of {meta.input_format} rows")
    if meta.with_match_id or meta.id_list or meta.id_range:
        raise NotSupportedYet(what="upload with_meta of match ids")


def schema_members(meta: UploadMeta, columns: Sequence[str]) -> dict[str, Any]:
    """Return the members of FATE's schema that the meta adds, given the columns after the id.

    `label_type`, `label_name` stay away where there is no label, as in FATE.
    Raises: BadData: there is no such label column.
    """
    plain: dict[str, Any] = msgspec.to_builtins(meta)
    if not meta.with_label:
        plain = {n: v for n, v in plain.items() if n not in ("label_name", "label_type")}
        return {"meta": plain, "header": list(columns)}
    if meta.label_name not in columns:
        reason = f"with_label is true, but there is no column {meta.label_name!r}"
        raise BadData(where="meta", reason=reason)
    features = [c for c in columns if c != meta.label_name]
    return {"meta": plain, "header": features, "label_name": meta.label_name}


def given_names(schema: Mapping[str, Any] | None, *, delimiter: str) -> tuple[str, ...] | None:
    """Return the column names that a schema gives, if there is one. Raises: BadData."""
    if schema is None:
        return None
    try:
        return names_in_schema(schema, delimiter=delimiter)
    except ValueError as exc:
        raise BadData(where="schema", reason=str(exc)) from exc
