"""DataTransform and DataIO online: what a caller or a feature source gives becomes rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from operator import itemgetter
from typing import Any, Final

import numpy as np

from fedflow.components.features.cells import CellType, SpecialValues, number_of
from fedflow.components.features.data_transform import (
    TINY,
    column_types,
    missing_rule,
    outlier_rule,
    stored_columns,
)
from fedflow.components.features.data_transform_params import (
    DataIOParams,
    DataTransformParams,
    params_of,
)
from fedflow.components.features.replacing import Value, as_type
from fedflow.serving.scoring.batch import Batch, Flags, Floats, OnlineStep, RowHeader
from fedflow.serving.scoring.registry import StepSource

_PLAIN: Final = frozenset({int, float, type(None)})
_NO_MARKS: Final = SpecialValues.of(())
_EXACT: Final = 2**53  #: whole numbers up to it are float64, too


def data_transform(source: StepSource) -> tuple[RowReader, OnlineStep]:
    """Return what reads rows, and what fills and replaces. Raises: ValueError, BadData."""
    model = source.stored("DataTransformParam", "DataIOParam")
    kind = DataIOParams if model.param_name == "DataIOParam" else DataTransformParams
    given = source.params(kind)
    if not given.need_run:
        raise ValueError("need_run is false, so nothing says what its columns are")
    params = params_of(model, given)
    columns, missing, outliers = stored_columns(model)
    if len(set(columns)) < len(columns):
        raise ValueError("its stored model names a column twice")
    types = column_types(params, columns)
    header = RowHeader(
        columns=columns,
        texts=frozenset(c for c in columns if types[c] is CellType.TEXT),
        whole=frozenset(c for c in columns if types[c] is CellType.INT),
    )
    reader = RowReader(
        header=header,
        marks=missing_rule(params).marks,
        text_marks=missing_rule(params).marks if params.missing_fill else _NO_MARKS,
        absent=None if params.input_format == "dense" else 0,
    )
    fills = _Replacements.of(
        header,
        missing=_typed(missing, types),
        outliers=_typed(outliers, types),
        rule=_outlier_marks(params),
        sparse=params.output_format == "sparse",
    )
    return reader, OnlineStep(header=header, work=fills)


def _typed(values: Mapping[str, Any], types: Mapping[str, CellType]) -> dict[str, Value]:
    """Return stored values in the types of their columns. Raises: BadData."""
    return {
        name: as_type(values[name], types[name], where=f"column {name!r}")
        for name in types
        if name in values
    }


def _outlier_marks(params: DataTransformParams) -> SpecialValues | None:
    rule = outlier_rule(params)
    return None if rule is None else rule.marks


@dataclass(frozen=True, kw_only=True, slots=True)
class RowReader:
    """Reads values by column: numbers, or texts that DataTransform would read as such."""

    header: RowHeader
    marks: SpecialValues  #: values that mean missing
    text_marks: SpecialValues  #: in columns of text
    absent: int | None  #: stands for what a row does not have

    def read(self, rows: Sequence[Mapping[str, Any]]) -> Batch:
        """Return the rows; one that cannot be read has an error, which names columns, no values."""
        errors: dict[int, str] = {}
        columns, numeric = self.header.columns, not self.header.texts
        by_name = self._by_name
        at_once = itemgetter(*columns) if len(columns) > 1 else by_name
        cells: list[Sequence[Any]] = []
        texts: dict[str, list[str | None]] = {name: [] for name in self.header.texts}
        for number, row in enumerate(rows):
            if not isinstance(row, Mapping):
                errors[number] = "it is no object of values by column"
                row = {}
            values: Sequence[Any]
            try:
                values = at_once(row)
            except KeyError:
                values = by_name(row)
            if not (numeric and _PLAIN.issuperset(map(type, values))):
                values = self._read_slowly(values, texts, number, errors)
            cells.append(values)
        features = self._numbers(cells, errors)
        return Batch(features=self._checked(features, errors), texts=texts, errors=errors)

    def _by_name(self, row: Mapping[str, Any]) -> list[Any]:
        return [row.get(name, self.absent) for name in self.header.columns]

    def _read_slowly(
        self,
        values: Sequence[Any],
        texts: Mapping[str, list[str | None]],
        number: int,
        errors: dict[int, str],
    ) -> list[Any]:
        found: list[Any] = []
        for name, value in zip(self.header.columns, values, strict=True):
            try:
                if name in self.header.texts:
                    texts[name].append(_text(value, self.text_marks))
                    value = None
                elif type(value) not in _PLAIN:
                    value = self._number(name, value)
                elif isinstance(value, int):
                    value = float(value)
            except (ValueError, OverflowError):
                what = "text" if name in self.header.texts else "number"
                errors.setdefault(number, f"column {name!r} holds no valid {what}")
                if name in self.header.texts:
                    texts[name].append(None)
                value = None
            found.append(value)
        return found

    def _number(self, name: str, value: object) -> float | int | None:
        """Return the number of a text, or of a number of another library.

        Raises: ValueError, OverflowError: it is none.
        """
        if isinstance(value, Real | Decimal) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, str):
            raise ValueError("not a number")  # noqa: TRY004  as of a text that is none
        kind = CellType.INT if name in self.header.whole else CellType.FLOAT
        return number_of(value, kind, self.marks)

    def _numbers(self, cells: list[Sequence[Any]], errors: dict[int, str]) -> Floats:
        shape = (len(cells), len(self.header.columns))
        try:
            return np.array(cells, dtype=np.float64).reshape(shape)
        except OverflowError:
            pass
        smaller = [self._without_giants(values, n, errors) for n, values in enumerate(cells)]
        return np.array(smaller, dtype=np.float64).reshape(shape)

    def _without_giants(
        self, values: Sequence[Any], number: int, errors: dict[int, str]
    ) -> list[Any]:
        """Return a row without whole numbers that are no float64; it has an error if it had one."""
        found = [None if isinstance(v, int) and abs(v) >= 2**1023 else v for v in values]
        for name, value, kept in zip(self.header.columns, values, found, strict=True):
            if value is not kept:
                errors.setdefault(number, f"column {name!r} holds no valid number")
        return found

    def _checked(self, features: Floats, errors: dict[int, str]) -> Floats:
        """Return the numbers with NaN for marks; rows with impossible ones get an error."""
        self._refuse(np.isinf(features), "a finite number", errors)
        if self.header.whole:
            whole = self.header.numeric([c for c in self.header.columns if c in self.header.whole])
            odd = np.zeros(features.shape, dtype=np.bool_)
            own = features[:, whole]
            odd[:, whole] = (np.floor(own) != own) & ~np.isnan(own) | (np.abs(own) > _EXACT)
            self._refuse(odd, f"a whole number up to {_EXACT}", errors)
        for mark in self.marks.numbers:
            features[features == mark] = np.nan
        return features

    def _refuse(self, bad: Flags, what: str, errors: dict[int, str]) -> None:
        if not bad.any():
            return
        for number in np.flatnonzero(bad.any(axis=1)).tolist():
            name = self.header.columns[int(bad[number].argmax())]
            errors.setdefault(number, f"column {name!r} does not hold {what}")


def _text(value: object, marks: SpecialValues) -> str | None:
    """Return a value as the text of a cell. Raises: ValueError: it is none."""
    if value is None:
        return None if marks.texts else ""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a text")  # noqa: TRY004  as of a text that is none
    text = value if isinstance(value, str) else str(value)
    return None if text in marks.texts else text


@dataclass(frozen=True, kw_only=True, slots=True)
class _Replacements:
    """What stands in for missing cells and outliers, as DataTransform learnt it."""

    fills: Floats | None  #: per column, NaN for none
    outliers: Floats | None  #: per column, NaN for none
    marks: SpecialValues  #: of outliers
    small: Flags | None  #: columns where tiny numbers become 0
    texts: Mapping[str, tuple[str | None, str | None]]  #: per column of text, for both

    @staticmethod
    def of(
        header: RowHeader,
        *,
        missing: Mapping[str, Value],
        outliers: Mapping[str, Value],
        rule: SpecialValues | None,
        sparse: bool,
    ) -> _Replacements:
        """Return what a model says; without a `rule` outliers stay."""
        outliers = {} if rule is None else outliers
        real = [name not in header.whole | header.texts for name in header.columns]
        return _Replacements(
            fills=_per_column(header, missing),
            outliers=_per_column(header, outliers),
            marks=_NO_MARKS if rule is None else rule,
            small=np.array(real, dtype=np.bool_) if sparse else None,
            texts={
                name: (_text_or_none(missing, name), _text_or_none(outliers, name))
                for name in header.texts
            },
        )

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows with values replaced."""
        features = batch.features
        if self.fills is not None:
            features = np.where(np.isnan(features), self.fills, features)
        if self.outliers is not None:
            features = self._without_outliers(features, self.outliers)
        if self.small is not None:
            features = np.where((np.abs(features) < TINY) & self.small, 0.0, features)
        texts = {
            name: [self._text(value, *self.texts[name]) for value in values]
            for name, values in batch.texts.items()
        }
        return replace(batch, features=features, texts=texts)

    def _without_outliers(self, features: Floats, values: Floats) -> Floats:
        found = np.zeros(features.shape, dtype=np.bool_)
        for mark in self.marks.numbers:
            found |= features == mark
        if "" in self.marks.texts:  # missing cells are outliers then
            found |= np.isnan(features)
        return np.where(found & ~np.isnan(values), values, features)

    def _text(self, value: str | None, fill: str | None, outlier: str | None) -> str | None:
        value = fill if value is None else value
        if outlier is None:
            return value
        if value is None:
            return outlier if "" in self.marks.texts else None
        return outlier if value in self.marks.texts else value


def _per_column(header: RowHeader, values: Mapping[str, Value]) -> Floats | None:
    """Return a number per column, NaN where there is none; None if there is none at all."""
    found = [
        float(values[name]) if name in values and name not in header.texts else math.nan
        for name in header.columns
    ]
    return None if np.isnan(found).all() else np.array(found)


def _text_or_none(values: Mapping[str, Value], name: str) -> str | None:
    return str(values[name]) if name in values else None
