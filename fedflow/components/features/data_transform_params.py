"""Parameters of DataTransform and DataIO, with FATE's names (`delimitor`) and defaults.

Source: docs/reference/data-formats.md#datatransform.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Protocol, runtime_checkable

import msgspec

from fedflow.sdk import BadData, Model, Params, Table, check_params
from fedflow.sdk.spellings import ANY_CASE, NULL_AS_EMPTY, Flag

Cell = str | int | float
Method = Annotated[Literal["min", "max", "mean", "designated"], ANY_CASE]
NumberType = Literal["float64", "float", "int", "int64", "long", "str"]
NumberTypeInAnyCase = Annotated[NumberType, ANY_CASE]


class DataIOParams(Params, frozen=True, kw_only=True):
    """How raw rows become instances."""

    #: a cell per column; `sparse` is svmlight's `index:value`; `tag` names what a row has
    input_format: Annotated[Literal["dense", "sparse", "tag"], ANY_CASE] = "dense"
    #: between the items of `sparse` and `tag` rows, and of dense rows that are one text
    delimitor: str = ","
    data_type: NumberTypeInAnyCase = "float64"  #: of all features
    exclusive_data_type: dict[str, NumberType] | None = None  #: per column, names in any case
    tag_with_value: Flag = False  #: items of `tag` rows are a tag and its value
    tag_value_delimitor: str = ":"  #: between the two
    missing_fill: bool = False  #: fill missing cells
    #: what with, learnt per column; `designated` and null: `default_value`
    missing_fill_method: Method | None = None
    default_value: Cell | list[Cell] | None = 0  #: for all features, or a list with one per feature
    #: values that count as missing beside the empty cell, `NULL`, `null`, `NA`
    missing_impute: list[Cell | None] | None = None
    outlier_replace: Flag = False  #: replace the values that `outlier_impute` lists
    #: what with, as `missing_fill_method`; `designated` and null: `outlier_replace_value`
    outlier_replace_method: Method | None = None
    outlier_impute: list[Cell | None] | None = None  #: null: the texts that mean missing
    outlier_replace_value: Cell | list[Cell] | None = 0  #: as `default_value`
    with_label: bool = False  #: the rows have a label
    #: its column in `dense` rows; in others it stands before the features
    label_name: Annotated[str, NULL_AS_EMPTY] = "y"
    label_type: NumberTypeInAnyCase = "int"  #: its type
    #: `sparse`: sizes below 1e-8 become 0
    output_format: Annotated[Literal["dense", "sparse"], ANY_CASE] = "dense"
    need_run: Flag = True  #: false: the output is the input

    def check(self) -> None:
        """A value to fill with is needed where something is filled with it."""
        if not self.delimitor:
            raise ValueError("delimitor: it must not be empty")
        if self.tag_with_value and not self.tag_value_delimitor:
            raise ValueError("tag_value_delimitor: it must not be empty")
        if self.with_label and not self.label_name:
            raise ValueError("label_name: it is required when with_label is true")
        for on, method, value, name in (
            (self.missing_fill, self.missing_fill_method, self.default_value, "default_value"),
            (
                self.outlier_replace,
                self.outlier_replace_method,
                self.outlier_replace_value,
                "outlier_replace_value",
            ),
        ):
            if on and method in (None, "designated") and value is None:
                raise ValueError(f"{name}: it is required by the method {method or 'designated'}")


@runtime_checkable
class Described(Protocol):
    """A table whose upload said what its columns mean (`with_meta`)."""

    @property
    def meta(self) -> Mapping[str, Any] | None:
        """Return that in the words of `Upload`, None if nothing was said."""


_OF_META: Final = {
    "delimiter": "delimitor",
    "tag_with_value": "tag_with_value",
    "tag_value_delimiter": "tag_value_delimitor",
    "exclusive_data_type": "exclusive_data_type",
    "data_type": "data_type",
    "input_format": "input_format",
    "with_label": "with_label",
    "label_name": "label_name",
    "label_type": "label_type",
    "with_match_id": "with_match_id",
}
"""Words of a table's upload, and the parameters that they decide."""


def described(table: Table) -> Mapping[str, Any]:
    """Return what the upload of a table said of its rows' meaning; empty if nothing."""
    return (table.meta if isinstance(table, Described) else None) or {}


def overruled(params: DataIOParams, table: Table) -> list[tuple[str, Any, Any]]:
    """Return the parameters that were given and that the table's upload contradicts: name, given
    value, and the upload's, which is used.
    """
    known, default = type(params).__struct_fields__, type(params)()
    return [
        (name, getattr(params, name), value)
        for name, value in _said(table).items()
        if name in known and getattr(params, name) not in (getattr(default, name), value)
    ]


def _said(table: Table) -> dict[str, Any]:
    """Return what the table's upload said, in the words of parameters."""
    meta = described(table)
    said = {ours: meta[theirs] for theirs, ours in _OF_META.items() if theirs in meta}
    if said.get("input_format") == "svmlight":
        said["input_format"] = "sparse"
    return said


def as_described(params: DataIOParams, table: Table) -> DataTransformParams:
    """Return the parameters with what the table's upload said in place of theirs.

    Raises: BadParameter: somebody has changed that to what it cannot be.
    """
    whole: dict[str, Any] = msgspec.to_builtins(params)
    return check_params(
        DataTransformParams, {**whole, **_said(table)}, path=f"meta of {table.name}"
    )


class DataTransformParams(DataIOParams, frozen=True, kw_only=True):
    """DataIO's and those of match ids."""

    #: rows have a match id, by which parties find common rows; the first column stays the key
    with_match_id: Flag = False
    match_id_name: Annotated[str, NULL_AS_EMPTY] = ""  #: its column; empty: by `match_id_index`
    #: its place among the id columns, from 0: those of the upload's `meta`, else after the key
    match_id_index: Annotated[int, msgspec.Meta(ge=0)] = 0


def meta_of(params: DataTransformParams, *, match_ids: bool) -> dict[str, Any]:
    """Return the model's meta object; DataIO's knows no `match_ids`."""
    return {
        "input_format": params.input_format,
        "delimitor": params.delimitor,
        "data_type": params.data_type,
        "exclusive_data_type": params.exclusive_data_type or {},
        "tag_with_value": params.tag_with_value,
        "tag_value_delimitor": params.tag_value_delimitor,
        "with_label": params.with_label,
        "label_name": params.label_name,
        "label_type": params.label_type,
        "output_format": params.output_format,
        **({"with_match_id": params.with_match_id} if match_ids else {}),
        "need_run": params.need_run,
        "imputer_meta": {
            "is_imputer": params.missing_fill,
            "strategy": params.missing_fill_method or "",
            "missing_value": _as_texts(params.missing_impute),
        },
        "outlier_meta": {
            "is_outlier": params.outlier_replace,
            "strategy": params.outlier_replace_method or "",
            "outlier_value": _as_texts(params.outlier_impute),
        },
    }


def params_of(model: Model, given: DataIOParams) -> DataTransformParams:
    """Return the parameters that a model was fitted with; where match ids stand is `given`.

    Raises: BadData: it is no such model.
    """
    asked = given if isinstance(given, DataTransformParams) else DataTransformParams()
    try:
        meta = model.meta
        imputer, outlier = meta["imputer_meta"], meta["outlier_meta"]
        return DataTransformParams(
            input_format=meta["input_format"],
            delimitor=meta["delimitor"],
            tag_with_value=meta["tag_with_value"],
            tag_value_delimitor=meta["tag_value_delimitor"],
            data_type=meta["data_type"],
            exclusive_data_type=dict(meta["exclusive_data_type"]) or None,
            missing_fill=imputer["is_imputer"],
            missing_fill_method=imputer["strategy"] or None,
            missing_impute=list(imputer["missing_value"]) or None,
            outlier_replace=outlier["is_outlier"],
            outlier_replace_method=outlier["strategy"] or None,
            outlier_impute=list(outlier["outlier_value"]) or None,
            with_label=meta["with_label"],
            label_name=meta["label_name"],
            label_type=meta["label_type"],
            output_format=meta["output_format"],
            with_match_id=asked.with_match_id or meta.get("with_match_id", False),
            match_id_name=asked.match_id_name or model.param.get("match_id_name", ""),
            match_id_index=asked.match_id_index,
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadData(
            where="the model input", reason=f"it is not of this module ({exc!r})"
        ) from exc


def _as_texts(values: list[Cell | None] | None) -> list[str]:
    return [str(v) for v in values or ()]
