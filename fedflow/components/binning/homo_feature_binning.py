"""HomoFeatureBinning: common bins of rows that lie at several parties.

Messages are those of rounds, see `horizontal/messages.py`: counts of each party, of which the
arbiter gets the sums alone. `binning/homo_rounds.py` says what is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from fedflow.components.binning.columns import Choice, choose, transform
from fedflow.components.binning.homo_params import HomoFeatureBinningParams
from fedflow.components.binning.homo_rounds import (
    BinningCombiner,
    BinningMember,
    BinningPlan,
    CommonBins,
)
from fedflow.components.binning.model import (
    META,
    PARAM,
    ColumnResult,
    PartyResult,
    StoredBins,
    meta_of,
    param_of,
    read_model,
)
from fedflow.components.binning.ranks import SortedColumn
from fedflow.components.horizontal.driving import rules_of, run_aggregator, run_member
from fedflow.components.horizontal.messages import MESSAGES
from fedflow.components.horizontal.packing import Floats
from fedflow.components.samples.agreement import digest_of
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.samples.decoding import need_rows, numbers, where_of
from fedflow.components.samples.stored import need_columns, own_model
from fedflow.sdk import BadData, Context, Model, Outputs, Role, Table, TableSchema, component
from fedflow.sdk.errors import CodecError


@component(
    "HomoFeatureBinning",
    roles=("guest", "host", "arbiter"),
    params=HomoFeatureBinningParams,
    absence="rounds",
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HomoFeatureBinning:
    """Cuts features into bins that are the same at all parties, by quantiles of all their rows.

    All parties have the same columns. `recursive_query` looks for the values of the quantiles'
    ranks. A split point's rank is at most `error` of the rows above its quantile's.
    `virtual_summary` knows the ranks of `sample_bins` even steps, and interpolates: a split point
    is at most one step from its quantile. The last split point is the largest value. Columns of
    categories have a bin for every value that any party has, at most 1,024.

    The arbiter adds up counts of rows, which are masked: it learns ranks in all rows, and nobody
    learns those of one party. Missing values are a last bin of their own.

    Output: the table, in the chosen columns with the bins' numbers (integers from 0). With a model
    input the table is cut at the model's split points; then nothing is exchanged, and no arbiter is
    needed. Model: `FeatureBinningMeta`, `FeatureBinningParam`, without statistics. Summary:
    {column: split points}. Elastic: a party that is lost is not counted from the next round on.

    Unlike FATE: least and largest values are not sent, but found by ranks; every count is masked.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData, BadParameter, CodecError, PeerFailed, TooFewInRound.
        """
        params: HomoFeatureBinningParams = ctx.params
        if ctx.site.role is Role.ARBITER:
            return self._lead(ctx)
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        model = own_model(ctx, PARAM)
        if model is not None:
            stored = read_model(model)
            need_columns(ctx, table, stored.points)
            return Outputs(data=(_cut(table, stored),), model=model)
        need_rows(table)
        return _fit(ctx, table)

    def _lead(self, ctx: Context) -> Outputs:
        """Lead the rounds; its model says nothing but that there is one, to a run with a model."""
        if not ctx.params.need_run or own_model(ctx, PARAM) is not None:
            return Outputs(passed=not ctx.params.need_run)
        state = run_aggregator(ctx, BinningCombiner(), rules=rules_of(ctx, fraction_bits=0))
        ctx.log.info("the bins were found in %s rounds", state.round)
        return Outputs(model=_model(ctx, NO_COLUMNS, {}))


def _fit(ctx: Context, table: Table) -> Outputs:
    params: HomoFeatureBinningParams = ctx.params
    own = params.as_own
    choice = choose(replace(ctx, params=own), table.schema)
    member = BinningMember(_plan(params, choice), _sorted_columns(table, choice), rows=table.count)
    state = run_member(ctx, member, rules=rules_of(ctx, fraction_bits=0))
    try:
        bins = CommonBins.of(state)
    except (KeyError, ValueError) as exc:
        raise CodecError(reason=f"the arbiter's split points: {exc!r}") from exc
    if len(bins.points) != len(choice.columns):
        raise CodecError(reason="the arbiter's split points are of other columns")
    results = {
        name: ColumnResult(bins=len(points) + missing, points=points)
        for name, points, missing in zip(choice.columns, bins.points, bins.missing, strict=True)
    }
    model = _model(ctx, choice, results, schema=table.schema)
    return Outputs(
        data=(_cut(table, read_model(model)),),
        model=model,
        summary={name: points.tolist() for name, points in zip(results, bins.points, strict=True)},
    )


def _model(
    ctx: Context,
    choice: Choice,
    results: Mapping[str, ColumnResult],
    *,
    schema: TableSchema | None = None,
) -> Model:
    """Return a party's model; that of the arbiter has no columns."""
    header = schema.columns if schema else ()
    anonymous = anonymous_of(schema, ctx.site) if schema else ()
    columns, transformed = choice.columns, choice.transformed
    party = PartyResult(site=ctx.site, columns=results)
    return Model(
        meta_name=META,
        param_name=PARAM,
        meta=meta_of(ctx.params.as_own, header=header, columns=columns, transformed=transformed),
        param=param_of(party, header=header, anonymous=anonymous),
    )


NO_COLUMNS = Choice(columns=(), categories=frozenset(), given={}, transformed=())


def _plan(params: HomoFeatureBinningParams, choice: Choice) -> BinningPlan:
    return BinningPlan(
        columns=len(choice.columns),
        categories=[n for n, name in enumerate(choice.columns) if name in choice.categories],
        names=digest_of(choice.columns),
        method=params.kind,
        bin_num=params.bin_num,
        sample_bins=params.sample_bins,
        error=params.error,
        max_iter=params.max_iter,
    )


def _sorted_columns(table: Table, choice: Choice) -> list[SortedColumn]:
    """Return the columns in memory. Raises: BadData: no numbers, or infinite values."""
    where = where_of(table)

    def ordered(name: str, column: pa.ChunkedArray) -> Floats:
        return SortedColumn.of(numbers(column, name=name, where=where, keep_missing=True)).values

    return [SortedColumn(values) for values in table.map_columns(ordered, choice.columns)]


def _cut(table: Table, stored: StoredBins) -> Table:
    return transform(
        table,
        kind=stored.transform_type,
        names=stored.transformed,
        points=stored.points,
        woe=stored.woe,
    )
