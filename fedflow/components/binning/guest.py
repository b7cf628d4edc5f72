"""The guest's part: it has the labels and makes all statistics."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.components.binning.columns import (
    BinnedColumn,
    Choice,
    counts_of,
    cut,
    merge_counts,
    per_column,
    statistics_per_class,
)
from fedflow.components.binning.labels import Labels
from fedflow.components.binning.model import ColumnResult, PartyResult
from fedflow.components.binning.optimal import Aim
from fedflow.components.binning.params import HeteroFeatureBinningParams
from fedflow.components.binning.session import HostColumns, check_rows, receive_columns
from fedflow.components.binning.sums import SumLayout, encrypt_labels, open_sums
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.samples.decoding import counted_in_all
from fedflow.components.training.keys import warn_of_short_key
from fedflow.sdk import BadData, Context, Site, Table
from fedflow.sdk.crypto.paillier import PrivateKey

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OWN_SHARE = 0.3  #: of the progress: the own columns


def fit_own(
    ctx: Context, table: Table, choice: Choice, *, labels: Labels | None
) -> tuple[dict[str, BinnedColumn], PartyResult]:
    """Return how the guest's columns are cut and, if there are labels, their statistics.

    Raises: BadData: a column with values that cannot be binned.
    """
    params: HeteroFeatureBinningParams = ctx.params
    where = f"table {table.namespace}.{table.name}"

    def fitted(name: str, values: Floats) -> BinnedColumn:
        return cut(name, values, params=params, choice=choice, where=where)

    columns = list(per_column(ctx, table, fitted, choice.columns, share=OWN_SHARE))
    if labels is None:
        found = {c.name: (c, ColumnResult(bins=c.bins, points=c.points)) for c in columns}
    else:
        counts = counts_of(table, {c.name: c.points for c in columns}, classes=labels.names)
        found = {c.name: _with_statistics(ctx, c, counts[c.name][: c.bins]) for c in columns}
    return (
        {name: column for name, (column, _) in found.items()},
        PartyResult(site=ctx.site, columns={name: result for name, (_, result) in found.items()}),
    )


def measure_own(
    ctx: Context,
    table: Table,
    points: Mapping[str, Floats],
    *,
    labels: Labels,
    adjustment: float,
) -> PartyResult:
    """Return the statistics of columns that are cut already. Raises: BadData."""

    with counted_in_all(table, tuple(points)):
        counts = counts_of(table, points, classes=labels.names)
    results = {}
    for name, cuts in points.items():
        has_missing = len(cuts) == 0 or bool(counts[name][-1].any())
        kept = counts[name][: len(cuts) + has_missing]
        statistics = statistics_per_class(kept, adjustment=adjustment)
        results[name] = ColumnResult(bins=len(kept), points=cuts, statistics=statistics)
    ctx.tracker.progress(OWN_SHARE)
    return PartyResult(site=ctx.site, columns=results)


def _with_statistics(
    ctx: Context, column: BinnedColumn, counts: Ints
) -> tuple[BinnedColumn, ColumnResult]:
    """Return a column, its bins merged if need be, and its statistics from its bins' counts."""
    params: HeteroFeatureBinningParams = ctx.params
    metric = np.empty(0)
    if column.merges:
        aim = _aim(ctx, params.bin_num, counts, has_missing=column.has_missing)
        ends, counts, metric = merge_counts(counts, has_missing=column.has_missing, aim=aim)
        column = column.merged(ends)
    statistics = statistics_per_class(counts, adjustment=params.adjustment_factor)
    return column, ColumnResult(
        bins=column.bins, points=column.points, statistics=statistics, metric=metric
    )


def measure_hosts(
    ctx: Context, table: Table, hosts: Sequence[Site], *, labels: Labels, adjustment: float
) -> list[PartyResult]:
    """Return the statistics of the columns of all `hosts`.

    Raises: BadData: the rows differ, two columns have one anonymous name. CodecError, PeerFailed.
    """
    if not hosts:
        return []
    told = receive_columns(ctx, hosts)
    own = {*table.schema.columns, *anonymous_of(table.schema, ctx.site)}
    _check_hosts(told, labels, own=own)
    rows = check_rows(ctx, table, partners=hosts)
    params: HeteroFeatureBinningParams = ctx.params
    encrypt = params.encrypt_param
    warn_of_short_key(ctx, encrypt)
    key = PrivateKey.generate(encrypt.key_length, blinding=encrypt.blinding)
    ctx.federation.send("paillier_pubkey", {"n": hex(key.public.n)}, to=hosts)
    layout = SumLayout(rows=rows, classes=len(labels.names))
    for tag, part in layout.blocks():
        payload = encrypt_labels(key.public, labels.numbers[part], layout, ctx.workers)
        ctx.federation.send("encrypted_label", payload, to=hosts, tag=tag)
        ctx.tracker.progress(OWN_SHARE + (0.8 - OWN_SHARE) * part.stop / rows)
    return [
        _measure(ctx, key, host, columns, labels=labels, adjustment=adjustment)
        for host, columns in told.items()
    ]


def _measure(
    ctx: Context,
    key: PrivateKey,
    host: Site,
    columns: HostColumns,
    *,
    labels: Labels,
    adjustment: float,
) -> PartyResult:
    payload = ctx.federation.recv("encrypted_bin_sum", from_=host)
    tables = open_sums(key, payload, sizes=columns.bins, totals=labels.totals, sender=str(host))
    results: dict[str, ColumnResult] = {}
    answer: list[list[int]] = []
    for name, counts, has_missing, merges in zip(
        columns.names, tables, columns.missing, columns.merges, strict=True
    ):
        metric = np.empty(0)
        if merges:
            aim = Aim.of(
                columns.optimal,
                bins=columns.bin_num,
                rows=int(counts[: len(counts) - has_missing].sum()),
                adjustment=adjustment,
            )
            ends, counts, metric = merge_counts(counts, has_missing=has_missing, aim=aim)
            answer.append(ends.tolist())
        statistics = statistics_per_class(counts, adjustment=adjustment)
        results[name] = ColumnResult(bins=len(counts), statistics=statistics, metric=metric)
    if any(columns.merges):
        ctx.federation.send("bucket_idx", answer, to=host)
    return PartyResult(site=host, columns=results)


def _check_hosts(told: Mapping[Site, HostColumns], labels: Labels, *, own: Collection[str]) -> None:
    """Check what hosts tell together; `own` are the guest's names, by which results go too."""
    names = [*own, *(name for columns in told.values() for name in columns.names)]
    if len(set(names)) != len(names):
        raise BadData(
            where="the hosts' columns",
            reason=f"{len(names) - len(set(names))} anonymous names are those of another column",
        )
    merging = [host for host, columns in told.items() if any(columns.merges)]
    if merging and len(labels.names) > 2:
        raise BadData(
            where="the label",
            reason=f"it has {len(labels.names)} classes; optimal binning, which {merging[0]} asks "
            "for, needs two",
        )


def _aim(ctx: Context, bins: int, counts: Ints, *, has_missing: bool) -> Aim:
    params: HeteroFeatureBinningParams = ctx.params
    return Aim.of(
        params.optimal_binning_param,
        bins=bins,
        rows=int(counts[: len(counts) - has_missing].sum()),
        adjustment=params.adjustment_factor,
    )
