"""HeteroFeatureSelection: keeps the columns that a cascade of filters leaves."""

from __future__ import annotations

from collections.abc import Sequence

from fedflow.components.samples.columns import columns_here
from fedflow.components.samples.stored import need_columns
from fedflow.components.selection.deciding import MESSAGES, Selection, own_names
from fedflow.components.selection.known import IsometricModels
from fedflow.components.selection.params import HeteroFeatureSelectionParams
from fedflow.components.selection.steps import steps_of
from fedflow.components.selection.stored import (
    PARAM_NAME,
    kept_columns,
    store_model,
    summary_of,
)
from fedflow.components.selection.values import check_models
from fedflow.sdk import BadData, Context, Model, Outputs, Table, component


@component(
    "HeteroFeatureSelection",
    roles=("guest", "host"),
    params=HeteroFeatureSelectionParams,
    param_name="FeatureSelectionParam",
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroFeatureSelection:
    """Keeps the columns that a cascade of filters leaves, at guest and hosts.

    `filter_methods` run in order, each on what the one before has left; the columns not chosen by
    `select_col_indexes` and `select_names` always stay. What filters compare comes from the models
    on `isometric_model`, one of a kind:

    - `iv_filter`: HeteroFeatureBinning; `statistic_filter`: DataStatistics; `psi_filter`: PSI;
      `vif_filter`: HeteroPearson; `hetero_sbt_filter`, `hetero_fast_sbt_filter`,
      `homo_sbt_filter`: tree models; `correlation_filter`: HeteroPearson and binning.
    - `manually` takes names, `percentage_value` the data. `unique_value`, `outlier_cols` and
      `coefficient_of_variation_value_thres` take the model of DataStatistics if it has the value,
      else the data. `iv_value_thres`, `iv_percentile`, `iv_top_k` are forms of `iv_filter`.

    `filter_type` is `threshold` (kept where the value is at least that, or at most with `take_high`
    false), `top_k`, or `top_percentile`. The latter is a percentage of the columns, rounded up.
    Lists in a block make its filter run once per entry. IVs, importances in vertical trees and
    correlations across parties are known to the guest alone. With `select_federated` it decides on
    the hosts' columns too, and counts all parties' columns together. Without it the hosts keep
    theirs. All other filters each party runs on its own columns by itself, with `host_thresholds`
    at hosts if given. Of each party at least one column stays after each filter: the best, or the
    first. A column of which the model says nothing stays, an undefined value (of an empty column)
    is worse than all others.

    `correlation_filter` walks through the columns of guest and host by IV, highest first. One of
    the guest's that is still there removes those after it that are like it. One of the host's
    removes those of the guest after it, even if it was removed itself.

    The output has the kept columns in their order. With its own model as an input it keeps what
    that kept. Model: `FeatureSelectionMeta`, `FeatureSelectionParam`; values and names of hosts'
    columns, anonymous ones, at the guest only. Summary: per filter and for `all`: `last_col_nums`,
    `left_col_nums`, `left_col_names`.

    Unlike FATE: guest and hosts must agree on the federated filters, else there is an error.
    """

    def run(self, ctx: Context) -> Outputs:
        """Select, or with a model keep what it kept.

        Raises: BadParameter: a column does not exist, a model is missing or given twice. BadData:
            no table or column; a model that cannot be read. CodecError, PeerFailed.
        """
        params: HeteroFeatureSelectionParams = ctx.params
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        if not params.need_run:
            return Outputs(data=(table,), passed=True)
        for model in ctx.inputs.model.values():
            if model.param_name == PARAM_NAME:
                return _transform(ctx, table, model)
        return _select(ctx, table)


def _select(ctx: Context, table: Table) -> Outputs:
    params: HeteroFeatureSelectionParams = ctx.params
    schema = table.schema
    if not schema.columns:
        raise BadData(where=f"table {table.name}", reason="has no columns to select from")
    if table.count == 0:
        raise BadData(where=f"table {table.name}", reason="has no rows")
    names = own_names(ctx, schema, params.select_names, field="select_names")
    chosen = columns_here(
        ctx,
        schema,
        params.select_col_indexes,
        names,
        field="select_col_indexes",
        names_field="select_names",
    )
    models = IsometricModels(ctx.inputs.model.values(), component=ctx.component)
    steps = steps_of(params)
    check_models(ctx, steps, models)
    selection = Selection(ctx, table=table, columns=chosen, models=models)
    selection.run(steps)
    removed = set(chosen) - set(selection.columns)
    kept = [name for name in schema.columns if name not in removed]
    ctx.log.info("%s of %s columns are kept", len(kept), len(schema.columns))
    results = selection.results
    return Outputs(
        data=(_with_columns(table, kept),),
        model=store_model(ctx, schema, looked_at=chosen, results=results, kept=kept),
        summary=summary_of(schema, results=results, kept=kept),
    )


def _transform(ctx: Context, table: Table, model: Model) -> Outputs:
    """Return what `model` kept. Raises: BadData: the table lacks a column of it."""
    kept = kept_columns(model, where=f"model of {ctx.component}")
    need_columns(ctx, table, kept)
    return Outputs(data=(_with_columns(table, kept),), model=model)


def _with_columns(table: Table, columns: Sequence[str]) -> Table:
    schema = table.schema.select(columns)
    names = list(schema.names)
    return table.map_blocks(lambda batch: batch.select(names), schema=schema)
