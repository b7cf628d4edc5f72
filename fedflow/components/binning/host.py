"""A host's part: it cuts its columns and sums the guest's encrypted labels per bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.columns import (
    BinnedColumn,
    Choice,
    cut,
    has_missing_bin,
    per_column,
)
from fedflow.components.binning.model import ColumnResult, PartyResult
from fedflow.components.binning.params import HeteroFeatureBinningParams
from fedflow.components.binning.session import HostColumns, check_rows, parse_ends
from fedflow.components.binning.splitting import bin_numbers
from fedflow.components.binning.sums import HostSums, SumLayout
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.training.keys import receive_key
from fedflow.sdk import BadData, Context, Role, Table

Floats = NDArray[np.float64]
Numbers = NDArray[np.integer]

FEW_ROWS = 5  #: bins with fewer are warned about
OWN_SHARE = 0.3  #: of the progress: the own columns


def fit_own(ctx: Context, table: Table, choice: Choice) -> tuple[list[BinnedColumn], Numbers]:
    """Return how the host's columns are cut, and the bins of all rows (rows x columns).

    Raises: BadData: no columns, or one with values that cannot be binned.
    """
    params: HeteroFeatureBinningParams = ctx.params
    where = f"table {table.namespace}.{table.name}"
    if not choice.columns:
        raise BadData(where=where, reason="has no feature columns")

    def fitted(name: str, values: Floats) -> tuple[BinnedColumn, Numbers]:
        column = cut(name, values, params=params, choice=choice, where=where)
        return column, _compact(bin_numbers(values, column.points))

    found = list(per_column(ctx, table, fitted, choice.columns, share=OWN_SHARE))
    return [column for column, _ in found], _matrix([bins for _, bins in found])


def cut_own(
    ctx: Context, table: Table, points: Mapping[str, Floats]
) -> tuple[list[BinnedColumn], Numbers]:
    """Return the same for columns whose split points are known already. Raises: BadData."""

    def binned(name: str, values: Floats) -> tuple[BinnedColumn, Numbers]:
        has_missing = has_missing_bin(values, points[name])
        column = BinnedColumn(name=name, points=points[name], has_missing=has_missing)
        return column, _compact(bin_numbers(values, points[name]))

    found = list(per_column(ctx, table, binned, tuple(points), share=OWN_SHARE))
    return [column for column, _ in found], _matrix([bins for _, bins in found])


def serve_sums(
    ctx: Context, table: Table, columns: Sequence[BinnedColumn], bins: Numbers, *, classes: int
) -> list[BinnedColumn]:
    """Take part in the guest's statistics; return the columns, merged by the guest if need be.

    Raises: BadData: the rows differ. BadParameter, CodecError, PeerFailed.
    """
    params: HeteroFeatureBinningParams = ctx.params
    guest = ctx.only(Role.GUEST)
    names = dict(zip(table.schema.columns, anonymous_of(table.schema, ctx.site), strict=True))
    told = HostColumns(
        names=tuple(names[column.name] for column in columns),
        bins=tuple(column.bins for column in columns),
        missing=tuple(column.has_missing for column in columns),
        merges=tuple(column.merges for column in columns),
        bin_num=params.bin_num,
        optimal=params.optimal_binning_param,
    )
    ctx.federation.send("optimal_info", told.to_json(), to=guest)
    rows = check_rows(ctx, table, partners=(guest,))
    _warn_of_small_bins(ctx, columns, bins)
    key = receive_key(ctx, from_=guest)
    layout = SumLayout(rows=rows, classes=classes)
    sums = HostSums(key, told.bins, layout, ctx.workers)
    for tag, part in layout.blocks():
        payload = ctx.federation.recv("encrypted_label", from_=guest, tag=tag)
        sums.add(payload, bins[part])
        ctx.tracker.progress(OWN_SHARE + (0.9 - OWN_SHARE) * part.stop / rows)
    ctx.federation.send("encrypted_bin_sum", sums.message(), to=guest)
    if not any(told.merges):
        return list(columns)
    buckets = [len(column.points) for column in columns if column.merges]
    answer = ctx.federation.recv("bucket_idx", from_=guest)
    ends = iter(parse_ends(answer, sizes=buckets))
    return [column.merged(next(ends)) if column.merges else column for column in columns]


def results_of(ctx: Context, columns: Sequence[BinnedColumn]) -> PartyResult:
    """Return what a host's model says of its columns."""
    return PartyResult(
        site=ctx.site,
        columns={c.name: ColumnResult(bins=c.bins, points=c.points) for c in columns},
    )


def _warn_of_small_bins(ctx: Context, columns: Sequence[BinnedColumn], bins: Numbers) -> None:
    """Warn of bins whose few rows the guest learns the number and classes of."""
    small = 0
    for index, column in enumerate(columns):
        counts = np.bincount(bins[:, index], minlength=column.bins)
        small += int(np.count_nonzero((counts > 0) & (counts < FEW_ROWS)))
    if small:
        ctx.log.warning(
            "%s bins have fewer than %s rows: the guest learns how many rows of each class they"
            " have; choose a smaller bin_num",
            small,
            FEW_ROWS,
        )


def _compact(bins: NDArray[np.intp]) -> Numbers:
    """Return bin numbers in the smallest type that holds them."""
    highest = int(bins.max(initial=0))
    return bins.astype(np.min_scalar_type(highest))


def _matrix(columns: Sequence[Numbers]) -> Numbers:
    kind = np.result_type(*(bins.dtype for bins in columns))
    matrix = np.empty((len(columns[0]), len(columns)), dtype=kind, order="F")
    for index, bins in enumerate(columns):
        matrix[:, index] = bins
    return matrix
