"""The own columns of a party: which are binned and how, their bins, their output."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedflow.components.binning.labels import class_numbers
from fedflow.components.binning.optimal import Aim, merge_buckets
from fedflow.components.binning.params import (
    BIN_NUM,
    NOTHING,
    WOE,
    HeteroFeatureBinningParams,
)
from fedflow.components.binning.splitting import (
    bin_numbers,
    bucket_points,
    category_points,
    quantile_points,
)
from fedflow.components.binning.statistics import (
    BinStatistics,
    against_rest,
    counts_per_bin,
    statistics_of,
)
from fedflow.components.samples.columns import chosen_columns, columns_here
from fedflow.components.samples.decoding import (
    block_numbers,
    counted_in_all,
    numbers,
    where_of,
)
from fedflow.sdk import BadData, BadParameter, Context, Table, TableSchema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class BinnedColumn:
    """One column and how it is cut."""

    name: str
    points: Floats
    has_missing: bool  #: there is a last bin for missing values
    merges: bool = False  #: its bins are buckets that optimal binning merges

    @property
    def bins(self) -> int:
        """Return the number of bins."""
        return len(self.points) + self.has_missing

    def merged(self, last: Ints) -> BinnedColumn:
        """Return the column with only the split points at `last`."""
        return BinnedColumn(name=self.name, points=self.points[last], has_missing=self.has_missing)


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What the parameters say about the columns of a table."""

    columns: tuple[str, ...]  #: all that are binned, in table order
    categories: frozenset[str]
    given: Mapping[str, Sequence[float]]  #: split points by hand
    transformed: tuple[str, ...]


def choose(ctx: Context, schema: TableSchema) -> Choice:
    """Return the columns to work on. Raises: BadParameter: there is no such column."""
    params: HeteroFeatureBinningParams = ctx.params
    path = ctx.component
    binned = columns_here(
        ctx,
        schema,
        params.bin_indexes,
        params.bin_names,
        field="bin_indexes",
        names_field="bin_names",
        only_names=True,
    )
    categories = columns_here(
        ctx,
        schema,
        params.category_indexes,
        params.category_names,
        field="category_indexes",
        names_field="category_names",
    )
    given = dict(params.split_points_by_col_name or {})
    for index, points in (params.split_points_by_index or {}).items():
        by_index = f"{path}.split_points_by_index"
        (name,) = chosen_columns(schema, [int(index)], None, path=by_index)
        given[name] = points
    chosen = {*binned, *categories}
    columns = tuple(name for name in schema.columns if name in chosen)
    if not columns and schema.columns:
        raise BadParameter(path=f"{path}.bin_indexes", reason="no column is chosen")
    if unknown := [name for name in given if name not in chosen]:
        raise BadParameter(
            path=f"{path}.split_points_by_col_name",
            reason=f"not among the binned columns: {', '.join(unknown[:20])}",
        )
    transform = params.transform_param
    if transform.transform_cols == -1:
        transformed = columns
    else:
        transformed = chosen_columns(
            schema,
            transform.transform_cols,
            transform.transform_names,
            path=f"{path}.transform_param.transform_cols",
            names_path=f"{path}.transform_param.transform_names",
        )
    if unknown := [name for name in transformed if name not in chosen]:
        raise BadParameter(
            path=f"{path}.transform_param.transform_cols",
            reason=f"not among the binned columns: {', '.join(unknown[:20])}",
        )
    return Choice(
        columns=columns,
        categories=frozenset(categories),
        given=given,
        transformed=transformed,
    )


def cut(
    name: str, values: Floats, *, params: HeteroFeatureBinningParams, choice: Choice, where: str
) -> BinnedColumn:
    """Return how a column is cut: by hand, into its categories, or by the method.

    Raises: BadData: too many categories.
    """
    optimal = params.optimal_binning_param
    method, bins, merges = params.kind, params.bin_num, False
    if method == "optimal":
        method, bins, merges = optimal.init_bucket_method.lower(), optimal.init_bin_nums, True
    if name in choice.given:
        points, merges = np.asarray(choice.given[name], dtype=np.float64), False
    elif name in choice.categories:
        points, merges = category_points(values, name=name, where=where), False
    else:
        points = (quantile_points if method == "quantile" else bucket_points)(values, bins)
    return BinnedColumn(
        name=name, points=points, has_missing=has_missing_bin(values, points), merges=merges
    )


def has_missing_bin(values: Floats, points: Floats) -> bool:
    """Tell whether there is a last bin for missing values.

    Without split points it is the only bin, and holds any values too.
    """
    return len(points) == 0 or bool(np.isnan(values).any())


def per_column(
    ctx: Context,
    table: Table,
    work: Callable[[str, Floats], T],
    names: Sequence[str],
    *,
    share: float,
    start: float = 0.0,
) -> Iterator[T]:
    """Yield `work(name, values)` for every column, in order, wherever the table's engine does it.

    `work` keeps to the rules of `Table.map_columns`; missing values are NaN. Shows `share`
    of the progress, from `start`. Raises: BadData: a column is no number, or has infinite values.
    """
    results = table.map_columns(_of_values(work, where_of(table)), names)
    for done, result in enumerate(results, start=1):
        ctx.tracker.progress(start + share * done / len(names))
        yield result


def _of_values(work: Callable[[str, Floats], T], where: str) -> Callable[[str, pa.ChunkedArray], T]:
    def of_values(name: str, column: pa.ChunkedArray) -> T:
        return work(name, numbers(column, name=name, where=where, keep_missing=True))

    return of_values


def counts_of(
    table: Table, points: Mapping[str, Floats], *, classes: Sequence[str]
) -> dict[str, Ints]:
    """Return how many rows of each class are in each bin of columns that are cut at `points`.

    Per column: (bins, and one of missing values, which may be empty) x classes; without points all
    rows are in one bin. `classes` are those of the table's labels, as `read_classes` names them.

    Raises: BadData: a column is no number, or has infinite values.
    """
    found = {
        name: np.zeros((len(cuts) + 1, len(classes)), dtype=np.int64)
        for name, cuts in points.items()
    }
    for blocks in table.fold_blocks(_counting(table, points, classes)):
        for counts, block in zip(found.values(), blocks, strict=True):
            counts += block
    return found


def _counting(
    table: Table, points: Mapping[str, Floats], classes: Sequence[str]
) -> Callable[[pa.RecordBatch], list[Ints]]:
    where, label = where_of(table), str(table.schema.label)

    def counts(batch: pa.RecordBatch) -> list[Ints]:
        own = class_numbers(batch.column(label), classes)
        return [
            counts_per_bin(
                bin_numbers(block_numbers(batch, name, where=where), cuts),
                own,
                shape=(len(cuts) + 1, len(classes)),
            )
            for name, cuts in points.items()
        ]

    return counts


def merge_counts(counts: Ints, *, has_missing: bool, aim: Aim) -> tuple[Ints, Ints, Floats]:
    """Return which buckets end a bin, the merged counts, and the measure per bin.

    Args:
        counts: (buckets, and one of missing values) x two classes.
    """
    present = counts[:-1] if has_missing else counts
    if len(present) == 0:
        return np.empty(0, dtype=np.int64), counts, np.empty(0)
    found = merge_buckets(present[:, 0], present[:, 1], aim)
    starts = np.concatenate(([0], found.last[:-1] + 1))
    merged = np.add.reduceat(present, starts, axis=0)
    rest = counts[len(present) :]
    return found.last, np.concatenate((merged, rest)), found.metric


def statistics_per_class(counts: Ints, *, adjustment: float) -> tuple[BinStatistics, ...]:
    """Return the statistics of two classes, or of each of more classes against the rest.

    `counts` are bins x classes.
    """
    classes = range(1 if counts.shape[1] == 2 else counts.shape[1])
    return tuple(
        statistics_of(*against_rest(counts, number), adjustment=adjustment) for number in classes
    )


def transform(
    table: Table,
    *,
    kind: str,
    names: Sequence[str],
    points: Mapping[str, Floats],
    woe: Mapping[str, Floats],
) -> Table:
    """Return a new table with some columns replaced by bin numbers (int64) or by woe (float64).

    `kind` is `bin_num`, `woe` or `none`, which gives the table itself.

    A missing value in a column that had none when it was cut gets the number after the last bin's,
    and a woe of 0. Raises: BadData: a column has no woe, or holds no numbers.
    """
    if kind == NOTHING or not names:
        return table
    where = where_of(table)
    weights = bin_weights(names, points=points, woe=woe) if kind == WOE else {}
    cuts = {name: points[name] for name in names}

    def replaced(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays: list[Any] = list(batch.columns)
        for name in names:
            index = batch.schema.get_field_index(name)
            bins = bin_numbers(block_numbers(batch, name, where=where), cuts[name])
            arrays[index] = pa.array(
                bins.astype(np.int64) if kind == BIN_NUM else weights[name][bins]
            )
        return pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)

    with counted_in_all(table, names):
        return table.map_blocks(replaced, schema=table.schema)


def bin_weights(
    names: Sequence[str], *, points: Mapping[str, Floats], woe: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return the woe of every bin number of some columns. Raises: BadData: a column has no woe."""
    if lacking := [name for name in names if name not in woe]:
        raise BadData(
            where="the model", reason=f"there is no woe of columns {', '.join(lacking[:20])}"
        )
    return {
        name: np.append(woe[name], np.zeros(len(points[name]) + 1 - len(woe[name])))
        for name in names
    }
