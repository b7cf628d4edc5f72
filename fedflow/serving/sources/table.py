"""Features from a CSV or Parquet file that is held in memory.

    features: {source: table, options: {path: /data/features.csv, ids: [device_id]}}

A column is numeric if all its values are finite numbers or missing; else its values are texts. An
empty cell is a missing value. Guests learn a version, a digest of all cells unless it is given, and
`valid_s`: for how many seconds they may use again what was found; 0: never.
"""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.partners.messages import MOST_VERSION
from fedflow.serving.sources.source import (
    FeatureFault,
    FoundFeatures,
    Ids,
    Validity,
    key_of,
    not_found,
    options_as,
)


class TableOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of the source `table`."""

    path: str  #: a file ending with .csv or .parquet
    ids: list[str]  #: the columns that callers' ids are compared with, all of them
    valid_s: Validity = None
    version: Annotated[str, msgspec.Meta(max_length=MOST_VERSION)] | None = (
        None  #: None: a digest of all
    )


class TableFeatures:
    """The features of a file, by id."""

    def __init__(
        self,
        ids: Sequence[str],
        columns: Mapping[str, Sequence[str | None]],
        *,
        version: str | None = None,
        valid_s: float | None = None,
    ) -> None:
        """`columns` have the texts of all cells. Raises: ValueError: an id is there twice."""
        self._version = _digest(columns) if version is None else version
        self._valid_s = valid_s
        self._ids = tuple(ids)
        self.id_names = frozenset(ids)
        keys = list(zip(*(columns[name] for name in ids), strict=True))
        self._rows = {key: number for number, key in enumerate(keys)}
        if len(self._rows) < len(keys):
            raise ValueError("an id is there twice")
        features = {name: values for name, values in columns.items() if name not in self._ids}
        numbers = {name: _numbers(values) for name, values in features.items()}
        self._numeric = tuple(name for name, values in numbers.items() if values is not None)
        self._texts = {name: features[name] for name, values in numbers.items() if values is None}
        matrix = [values for values in numbers.values() if values is not None]
        self._values = np.array(matrix, dtype=np.float64).reshape(len(matrix), len(keys)).T.copy()

    def find(self, ids: Sequence[Ids], *, deadline_s: float) -> FoundFeatures:
        """Return the row of each item."""
        found = (self._find(one) for one in ids)
        return FoundFeatures(found, version=self._version, valid_s=self._valid_s)

    def close(self) -> None:
        """There is nothing to give back."""

    def _find(self, ids: Ids) -> Mapping[str, Any] | FeatureFault:
        key = key_of(ids, self._ids)
        if isinstance(key, FeatureFault):
            return key
        row = self._rows.get(key)
        if row is None:
            return not_found()
        values = zip(self._numeric, self._values[row].tolist(), strict=True)
        found: dict[str, Any] = {name: value for name, value in values if value == value}  # noqa: PLR0124  NaN
        for name, texts in self._texts.items():
            if texts[row]:
                found[name] = texts[row]
        return found


def open_source(options: Mapping[str, Any]) -> TableFeatures:
    """Read the file. Raises: BadServingSetting."""
    given = options_as(options, TableOptions)
    path = Path(given.path)
    try:
        columns = _parquet(path) if path.suffix == ".parquet" else _csv(path)
        if not given.ids or not set(given.ids) <= columns.keys():
            raise BadServingSetting(
                path="features.options.ids", reason=f"columns of {path} are named here"
            )
        return TableFeatures(given.ids, columns, version=given.version, valid_s=given.valid_s)
    except (OSError, ValueError, csv.Error) as exc:
        raise BadServingSetting(path="features.options.path", reason=f"{path}: {exc}") from exc


def _digest(columns: Mapping[str, Sequence[str | None]]) -> str:
    """Return a text that changes with any cell: 16 digits."""
    digest = hashlib.sha256()
    for name in sorted(columns):
        digest.update(msgspec.msgpack.encode([name, columns[name]]))
    return digest.hexdigest()[:16]


def _csv(path: Path) -> dict[str, list[str | None]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        names = next(lines, [])
        if not names or len(set(names)) < len(names):
            raise ValueError("its first line must have the names of the columns, each once")
        columns: list[list[str | None]] = [[] for _ in names]
        for line in lines:
            if len(line) != len(names):
                raise ValueError(f"line {lines.line_num} has {len(line)} cells, not {len(names)}")
            for column, cell in zip(columns, line, strict=True):
                column.append(cell.strip())
    return dict(zip(names, columns, strict=True))


def _parquet(path: Path) -> dict[str, list[str | None]]:
    import pyarrow.parquet  # 60 MiB that a CSV file does without

    table = pyarrow.parquet.read_table(path)
    return {
        name: [_text(value) for value in table.column(name).to_pylist()]
        for name in table.column_names
    }


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    return repr(value) if isinstance(value, float) else str(value)


def _numbers(values: Iterable[str | None]) -> list[float] | None:
    """Return numbers, NaN where one is missing; None: there is something else among them."""
    numbers = []
    for value in values:
        try:
            number = float(value) if value else math.nan
        except ValueError:
            return None
        if value and not math.isfinite(number):
            return None
        numbers.append(number)
    return numbers
