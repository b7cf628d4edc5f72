"""Parameters of DataTransform and DataIO, with FATE's names (`delimitor`) and defaults.

Source: reference/components.md section 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from fedflow.sdk import BadData, Model, Params, Table, check_params

Cell = str | int | float
Method = Literal["min", "max", "mean", "designated"]
NumberType = Literal["float64", "float", "int", "int64", "long", "str"]


class DataIOParams(Params, frozen=True, kw_only=True):
    """How raw rows become instances."""

    input_format: Literal["dense", "sparse", "tag"] = "dense"  #: `dense`; others not supported yet
    delimitor: str = ","  #: without effect: the upload has split the rows already
    data_type: NumberType = "float64"  #: of all features
    exclusive_data_type: dict[str, NumberType] | None = None  #: per column, names in any case
    tag_with_value: bool = False  #: without effect with `dense`
    tag_value_delimitor: str = ":"  #: without effect with `dense`
    missing_fill: bool = False  #: fill missing cells
    #: what with, learnt per column; `designated` and null: `default_value`
    missing_fill_method: Method | None = None
    default_value: Cell | list[Cell] | None = 0  #: for all features, or a list with one per feature
    #: values that count as missing beside the empty cell, `NULL`, `null`, `NA`
    missing_impute: list[Cell | None] | None = None
    outlier_replace: bool = False  #: replace the values that `outlier_impute` lists
    #: what with, as `missing_fill_method`; `designated` and null: `outlier_replace_value`
    outlier_replace_method: Method | None = None
    outlier_impute: list[Cell | None] | None = None  #: null: the texts that mean missing
    outlier_replace_value: Cell | list[Cell] | None = 0  #: as `default_value`
    with_label: bool = False  #: the rows have a label
    label_name: str = "y"  #: its column
    label_type: NumberType = "int"  #: its type
    output_format: Literal["dense", "sparse"] = "dense"  #: `sparse`: sizes below 1e-8 become 0
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """A value to fill with is needed where something is filled with it."""
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


_OF_META = (
    "exclusive_data_type",
    "data_type",
    "input_format",
    "with_label",
    "label_name",
    "label_type",
)
"""Parameters that a described table decides."""


def as_described(params: DataIOParams, table: Table) -> DataIOParams:
    """Return the parameters with what the table's upload said in place of theirs.

    Raises: BadParameter: somebody has changed that to what it cannot be.
    """
    meta = table.meta if isinstance(table, Described) else None
    if meta is None:
        return params
    said = {name: meta[name] for name in _OF_META if name in meta}
    whole: dict[str, Any] = msgspec.to_builtins(params)
    return check_params(type(params), {**whole, **said}, path=f"meta of {table.name}")


class DataTransformParams(DataIOParams, frozen=True, kw_only=True):
    """DataIO's and those of match ids."""

    with_match_id: bool = False  #: true is not supported yet
    match_id_name: str = ""  #: without effect
    match_id_index: int = 0  #: without effect


def unsupported(params: DataIOParams) -> str | None:
    """Return what of `params` this version cannot do, or None."""
    if params.input_format != "dense":
        return f"DataTransform's input_format {params.input_format}"
    if isinstance(params, DataTransformParams) and params.with_match_id:
        return "DataTransform's with_match_id"
    return None


def meta_of(params: DataIOParams) -> dict[str, Any]:
    """Return the model's meta object."""
    match_ids = (
        {"with_match_id": params.with_match_id} if isinstance(params, DataTransformParams) else {}
    )
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
        **match_ids,
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


def params_of(model: Model) -> DataIOParams:
    """Return the parameters that a model was fitted with. Raises: BadData: it is no such model."""
    try:
        meta = model.meta
        imputer, outlier = meta["imputer_meta"], meta["outlier_meta"]
        return DataTransformParams(  # match ids are off in models of DataIO
            input_format=meta["input_format"],
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
            with_match_id=meta.get("with_match_id", False),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise BadData(
            where="the model input", reason=f"it is not of this module ({exc!r})"
        ) from exc


def _as_texts(values: list[Cell | None] | None) -> list[str]:
    return [str(v) for v in values or ()]
