"""HeteroFeatureBinning: features are cut into bins, and the guest learns what they tell."""

from __future__ import annotations

from dataclasses import replace

from fedflow.components.binning import guest, host
from fedflow.components.binning.columns import choose, transform
from fedflow.components.binning.labels import Labels, read_classes
from fedflow.components.binning.model import (
    META,
    PARAM,
    PartyResult,
    StoredBins,
    meta_of,
    param_of,
    read_model,
    results_of,
    summary_of,
)
from fedflow.components.binning.params import HeteroFeatureBinningParams
from fedflow.components.binning.session import MESSAGES, agree_as_guest, agree_as_host
from fedflow.components.samples.columns import anonymous_of
from fedflow.components.samples.decoding import need_rows
from fedflow.components.samples.stored import need_columns, own_model
from fedflow.sdk import (
    BadData,
    BadParameter,
    Context,
    Model,
    Outputs,
    Role,
    Table,
    component,
)


@component(
    "HeteroFeatureBinning",
    roles=("guest", "host"),
    params=HeteroFeatureBinningParams,
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroFeatureBinning:
    """Cuts features into bins; weights of evidence (woe) and information values (iv) per bin.

    Each party cuts its own columns, by its own parameters. Bins come from quantiles, equal widths,
    given split points, or an optimum: fine buckets that are merged so that a measure stays high.
    Columns of categories have a bin for every value. Missing values are a last bin of their own.
    The guest has the labels and learns the statistics of the hosts' bins under anonymous names:
    hosts sum its encrypted labels per bin. The largest label is the event; with more than two
    classes there are statistics of each class against the rest, in descending order. Put
    Intersection before it.

    Output: the table, in the chosen columns with the bins' numbers (integers from 0) or with WOE. A
    value in a bin without WOE in the model gets 0, such as a missing value where there was none
    before. With a model input the table is cut at the model's split points. Columns and kind of
    output are the model's, or WOE if `transform_type` says so. The statistics of its rows are added
    to the model if all rows of the guest's table have labels that the model knows. A host's model
    has no woe until the guest extracts it and the host merges it into its model
    (`component/woe_array`).

    Model: `FeatureBinningMeta`, `FeatureBinningParam`. `binning_result` has the own columns,
    `host_results` at the guest those of the hosts. With more than two classes these are the first
    class', and `multi_class_result.results` has all (`host_results` there: per host, then class).
    `optimal_metric_array`: per bin the iv, the impurity (`gini`), the distance of the cumulated
    classes (`ks`), or chi-square with the next bin. Summary of the guest: {class: {iv, woe,
    monotonic, split_points}}, of two classes under `0`; of a host: {column: split points}.

    Unlike FATE: quantiles are exact whatever `error` says, so `compress_thres` and `head_size` have
    no effect. A host or guest with `local_only`, `skip_static` or without `need_run` notifies the
    others, which go on without it. One class only is an error when bins are computed. Columns
    without split points of their own are cut by `method`. What optimal binning merges first is
    documented in `binning/optimal.py`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit and transform, or with a model input transform as it was fitted.

        Raises: BadData, BadParameter, CodecError, PeerFailed.
        """
        table = ctx.inputs.first("data")
        if table is None:
            raise BadData(where="the data input", reason=f"there is no table at {ctx.site}")
        is_guest = ctx.site.role is Role.GUEST
        if not ctx.params.need_run:
            if is_guest:
                agree_as_guest(ctx, classes=0)
            else:
                agree_as_host(ctx, takes_part=False)
            return Outputs(data=(table,), passed=True)
        need_rows(table)
        model = own_model(ctx, PARAM)
        if model is not None:
            return (_transform_guest if is_guest else _transform_host)(ctx, table, model)
        return (_fit_guest if is_guest else _fit_host)(ctx, table)


def _fit_guest(ctx: Context, table: Table) -> Outputs:
    params: HeteroFeatureBinningParams = ctx.params
    choice = choose(ctx, table.schema)
    labels = None if params.skip_static else read_classes(table)
    if labels is not None and params.kind == "optimal" and len(labels.names) > 2:
        raise BadParameter(
            path=f"{ctx.component}.method",
            reason=f"optimal binning needs two classes, the label has {len(labels.names)}",
        )
    partners = agree_as_guest(ctx, classes=_shared_classes(labels, params.local_only))
    columns, own = guest.fit_own(ctx, table, choice, labels=labels)
    names: tuple[str, ...] = ()
    hosts: list[PartyResult] = []
    if labels is not None:
        names = labels.names
        hosts = guest.measure_hosts(
            ctx, table, partners, labels=labels, adjustment=params.adjustment_factor
        )
    woe = {n: c.statistics[0].woe for n, c in own.columns.items() if c.statistics}
    output = transform(
        table,
        kind=params.transform_param.kind,
        names=choice.transformed,
        points={name: column.points for name, column in columns.items()},
        woe=woe,
    )
    header = table.schema.columns
    model = Model(
        meta_name=META,
        param_name=PARAM,
        meta=meta_of(params, header=header, columns=choice.columns, transformed=choice.transformed),
        param=param_of(
            own,
            header=header,
            anonymous=anonymous_of(table.schema, ctx.site),
            labels=names,
            hosts=hosts,
        ),
    )
    return Outputs(data=(output,), model=model, summary=summary_of(own, labels=names, hosts=hosts))


def _fit_host(ctx: Context, table: Table) -> Outputs:
    params: HeteroFeatureBinningParams = ctx.params
    choice = choose(ctx, table.schema)
    takes_part = not params.local_only and not params.skip_static
    classes = agree_as_host(ctx, takes_part=takes_part)
    if not classes and params.kind == "optimal":
        raise BadParameter(
            path=f"{ctx.component}.method",
            reason="optimal binning of a host needs the guest's statistics",
        )
    columns, bins = host.fit_own(ctx, table, choice)
    if classes:
        columns = host.serve_sums(ctx, table, columns, bins, classes=classes)
    own = host.results_of(ctx, columns)
    output = transform(
        table,
        kind=params.transform_param.kind,
        names=choice.transformed,
        points={column.name: column.points for column in columns},
        woe={},
    )
    header = table.schema.columns
    model = Model(
        meta_name=META,
        param_name=PARAM,
        meta=meta_of(params, header=header, columns=choice.columns, transformed=choice.transformed),
        param=param_of(own, header=header, anonymous=anonymous_of(table.schema, ctx.site)),
    )
    return Outputs(data=(output,), model=model, summary=summary_of(own))


def _transform_guest(ctx: Context, table: Table, model: Model) -> Outputs:
    stored = _stored(ctx, table, model)
    labels = _known_labels(ctx, table, stored)
    partners = agree_as_guest(ctx, classes=_shared_classes(labels, stored.local_only))
    output = _written_as_stored(ctx, table, stored)
    if labels is None:
        return Outputs(data=(output,), model=model)
    if missing := int((labels.totals == 0).sum()):
        ctx.log.warning("%s classes of the model have no row: their rates count as of one", missing)
    adjustment = stored.adjustment_factor
    own = guest.measure_own(ctx, table, stored.points, labels=labels, adjustment=adjustment)
    hosts = guest.measure_hosts(ctx, table, partners, labels=labels, adjustment=adjustment)
    found = results_of(own, labels=labels.names, hosts=hosts, prefix="transform_")
    return Outputs(
        data=(output,),
        model=replace(model, param={**model.param, **found}),
        summary=summary_of(own, labels=labels.names, hosts=hosts),
    )


def _transform_host(ctx: Context, table: Table, model: Model) -> Outputs:
    stored = _stored(ctx, table, model)
    takes_part = not stored.local_only and not stored.skip_static
    classes = agree_as_host(ctx, takes_part=takes_part)
    output = _written_as_stored(ctx, table, stored)
    columns, bins = host.cut_own(ctx, table, stored.points)
    if classes:
        columns = host.serve_sums(ctx, table, columns, bins, classes=classes)
    own = host.results_of(ctx, columns)
    found = results_of(own, prefix="transform_")
    return Outputs(
        data=(output,),
        model=replace(model, param={**model.param, **found}),
        summary=summary_of(own),
    )


def _stored(ctx: Context, table: Table, model: Model) -> StoredBins:
    """Return the model, which fits the table. Raises: BadData: it does not."""
    stored = read_model(model)
    need_columns(ctx, table, stored.points)
    return stored


def _known_labels(ctx: Context, table: Table, stored: StoredBins) -> Labels | None:
    """Return the labels if the rows can be measured: to transform them, labels are not needed."""
    if table.schema.label is None or not stored.labels or stored.skip_static:
        return None
    try:
        return read_classes(table, known=stored.labels)
    except BadData as exc:
        ctx.log.warning("no statistics of these rows: %s", exc.message)
        return None


def _shared_classes(labels: Labels | None, local_only: bool) -> int:
    """Return of how many classes there will be statistics of hosts, 0 = none."""
    return 0 if labels is None or local_only else len(labels.names)


def _written_as_stored(ctx: Context, table: Table, stored: StoredBins) -> Table:
    return transform(
        table,
        kind=stored.output_kind(ctx.params),
        names=stored.transformed,
        points=stored.points,
        woe=stored.woe,
    )
