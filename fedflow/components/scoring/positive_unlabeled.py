"""PositiveUnlabeled: unlabelled rows with high scores become positive ones."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.samples.decoding import need_rows, numbers
from fedflow.components.samples.labels import read_labels
from fedflow.components.samples.progress import part_of
from fedflow.components.training.params import one_of
from fedflow.sdk import BadData, Context, Outputs, Params, Role, Table, component

Flags = NDArray[np.bool_]

SCORE = "predict_score"
PROBABILITY, QUANTITY, PROPORTION, DISTRIBUTION = (
    "probability",
    "quantity",
    "proportion",
    "distribution",
)
UNLABELLED, POSITIVE = 0, 1
POINT = "count of converted unlabeled"  #: FATE's name of the metric's point


class PositiveUnlabeledParams(Params, frozen=True, kw_only=True):
    """Which unlabelled rows become positive."""

    #: `probability`: rows with a score of at least `threshold`; `quantity`, `proportion` and
    #: `distribution` go by rank, see docs/reference/components.md#positiveunlabeled
    strategy: str = PROBABILITY
    threshold: float = 0.9  #: see `strategy`: a score or share, 0 to 1, or a number of rows
    need_run: bool = True  #: false: the output is the input

    def check(self) -> None:
        """The threshold must fit the strategy."""
        one_of("strategy", self.strategy, (PROBABILITY, QUANTITY, PROPORTION, DISTRIBUTION))
        strategy = self.strategy.lower()
        if not math.isfinite(self.threshold) or self.threshold < 0:
            raise ValueError("threshold: must be a number of 0 or more")
        if strategy in (PROBABILITY, PROPORTION) and self.threshold > 1:
            raise ValueError(f"threshold: must be 0 to 1 with strategy {strategy}")


@component(
    "PositiveUnlabeled", roles=("guest", "host"), params=PositiveUnlabeledParams, absence="apart"
)
class PositiveUnlabeled:
    """Labels unlabelled rows (label 0) with high scores as positive (label 1).

    The guest gets two tables on the port `data`: instances with labels, and the predictions of
    these rows. The output is the instances with their new labels. Labels other than 0 stay. Hosts
    pass their table on. Nothing is sent.

    Metric `train` / `positive_unlabeled`: `count of converted unlabeled`. Summary: the same.
    """

    def run(self, ctx: Context) -> Outputs:
        """Write the rows with their new labels.

        Raises: BadData: not one table of instances and one of predictions, no rows, no labels, or
            rows without a score.
        """
        params: PositiveUnlabeledParams = ctx.params
        tables = [table for _, table in ctx.inputs.data.get("data", ()) if table is not None]
        instances = [table for table in tables if SCORE not in table.schema.columns]
        predictions = [table for table in tables if SCORE in table.schema.columns]
        if ctx.site.role is Role.HOST or not params.need_run:
            return Outputs(data=tuple(instances[:1]), passed=True)
        if len(instances) != 1 or len(predictions) != 1:
            reason = (
                "one table of instances and one of predictions are needed, not "
                f"{len(instances)} and {len(predictions)}"
            )
            raise BadData(where="input.data", reason=reason)
        (rows,) = instances
        need_rows(rows)
        labels = read_labels(rows, needed_by="PositiveUnlabeled")
        kind = labels.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise BadData(where="the labels", reason=f"they are {kind}, not numbers")
        unlabelled: Flags = pc.equal(labels, UNLABELLED).to_numpy().astype(bool)
        converted = _converted(params, unlabelled, _scores(rows, predictions[0]))
        relabelled = _relabelled(ctx, rows, labels, converted)
        count = int(converted.sum())
        ctx.tracker.metric(
            "train", "positive_unlabeled", metric_type="PU_MODEL", points=[(POINT, count)]
        )
        return Outputs(data=(relabelled,), summary={POINT: count})


def _scores(rows: Table, predictions: Table) -> NDArray[np.float64]:
    """Return each row's score. Raises: BadData: rows have none."""
    where = f"table {predictions.namespace}.{predictions.name}"
    ids = rows.read((rows.schema.id,)).column(0)
    scored = predictions.read((predictions.schema.id, SCORE))
    places = pc.index_in(ids, value_set=scored.column(0).combine_chunks())
    if places.null_count:
        reason = f"{places.null_count} of {len(ids)} instances have no score there"
        raise BadData(where=where, reason=reason)
    values = numbers(scored.column(1), name=SCORE, where=where)
    chosen: NDArray[np.float64] = values[places.to_numpy()]
    return chosen


def _converted(
    params: PositiveUnlabeledParams, unlabelled: Flags, scores: NDArray[np.float64]
) -> Flags:
    """Return which rows become positive. Source: docs/reference/components.md#positiveunlabeled."""
    strategy, threshold, rows = params.strategy.lower(), params.threshold, len(scores)
    if strategy == PROBABILITY:
        return unlabelled & (scores >= threshold)
    order = np.argsort(-scores, kind="stable")
    if strategy == QUANTITY:
        chosen = order[unlabelled[order]][: int(threshold)]
    elif strategy == PROPORTION:
        chosen = order[: int(rows * threshold)]
    else:
        chosen = order[: int(threshold * unlabelled.sum() / rows)]
    found = np.zeros(rows, dtype=np.bool_)
    found[chosen] = True
    return found & unlabelled


def _relabelled(ctx: Context, rows: Table, labels: pa.ChunkedArray, converted: Flags) -> Table:
    """Return the rows with their new labels."""
    positive = pa.scalar(POSITIVE, labels.type)
    changed = pc.if_else(pa.array(converted), positive, labels)
    made = pa.table({str(rows.schema.label): changed})
    return rows.take(np.arange(rows.count), made=made, progress=part_of(ctx))
