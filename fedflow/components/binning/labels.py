"""The guest's labels as numbers of classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.samples.labels import label_key, read_labels
from fedflow.sdk import BadData, Table

MAX_CLASSES: Final = 30  #: more different labels are taken for measured values

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Labels:
    """The class of every row; class 0 has the largest label, so it holds the events."""

    names: tuple[str, ...]  #: the labels as text, descending
    numbers: NDArray[np.intp]  #: per row

    @property
    def totals(self) -> Ints:
        """Return the rows per class."""
        return np.bincount(self.numbers, minlength=len(self.names)).astype(np.int64, copy=False)


def read_classes(table: Table, *, known: Sequence[str] = ()) -> Labels:
    """Return the labels of a table as classes.

    `known` are the classes of a model, descending; without them they are those of the table.

    Raises: BadData: no label column, a missing label, a class that is not known, only one class,
        or too many.
    """
    where = f"table {table.namespace}.{table.name}"
    column = read_labels(table, needed_by="HeteroFeatureBinning without skip_static")
    names = tuple(known)
    if not known:
        values = sorted(pc.unique(column).to_pylist(), reverse=True)
        names = tuple(dict.fromkeys(map(label_key, values)))
        _check_classes(names, rows=len(column), where=where)
    found = class_numbers(column, names)
    if unknown := int(np.count_nonzero(found < 0)):
        raise BadData(
            where=where,
            reason=f"{unknown} of {len(column)} rows have a label that the model does not know",
        )
    return Labels(names=names, numbers=found)


def class_numbers(labels: pa.Array | pa.ChunkedArray, names: Sequence[str]) -> NDArray[np.intp]:
    """Return the class of each label, -1 where `names` do not have it."""
    values = pc.unique(labels)
    places = {name: number for number, name in enumerate(names)}
    numbers = [places.get(label_key(value), -1) for value in values.to_pylist()]
    at = pc.index_in(labels, value_set=values).to_numpy()
    return np.asarray(np.array(numbers, dtype=np.intp)[at])


def _check_classes(names: Sequence[str], *, rows: int, where: str) -> None:
    if len(names) < 2:
        raise BadData(
            where=where, reason=f"all {rows} rows have the same label; statistics need two classes"
        )
    if len(names) > MAX_CLASSES:
        raise BadData(
            where=where,
            reason=f"{len(names)} different labels in {rows} rows are no classes (at most "
            f"{MAX_CLASSES}); skip_static makes bins without statistics",
        )
