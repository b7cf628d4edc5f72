"""The component Evaluation: measures of every prediction table that reaches it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.components.evaluation.binary import BinaryScores, Curve, Stability, stability
from fedflow.components.evaluation.metrics import written, written_all
from fedflow.components.evaluation.multiclass import class_scores
from fedflow.components.evaluation.params import EvaluationParams
from fedflow.components.evaluation.recorder import Recorder, record_binary
from fedflow.components.evaluation.regression import regression_scores
from fedflow.sdk import BadData, Context, NotSupportedYet, Outputs, Table, component

PREDICTION_COLUMNS = ("label", "predict_result", "predict_score", "predict_detail", "type")
PARTS = ("train", "validate", "predict")  #: values of the `type` column, which name the metrics

Summary = dict[str, dict[str, dict[str, float]]]  # component -> part -> metric -> value


@component(
    "Evaluation",
    roles=("guest", "host", "arbiter"),
    params=EvaluationParams,
    param_name="EvaluateParam",
    outputs=("data",),
)
class Evaluation:
    """Measures how good the predictions of the components before it are.

    Works at a site that has prediction tables (in HeteroLR's case the guest); elsewhere it does
    nothing. Nothing is exchanged. Rows are split by their `type` (`train`, `validate`, `predict`),
    which is the metric's namespace; the metric's name is the producing component. Rows without a
    label are skipped. The summary is `{component: {part: {measure: value}}}`.

    - `binary`: auc, ks, lift, gain, accuracy, precision, recall, roc, confusion_mat, psi (with
      train and validate rows), f1_score, quantile_pr
    - `multi`: accuracy, precision, recall
    - `regression`: explained_variance, mean_absolute_error, mean_squared_error,
      median_absolute_error, r2_score, root_mean_squared_error

    KS and the curves use 100 cut points as FATE's do, so the numbers are equal; the exact KS stands
    in the meta of `ks_tpr`. Declared `data` outputs stay empty.

    Not yet: clustering, one-against-the-rest results of several classes.
    """

    def run(self, ctx: Context) -> Outputs:
        """Record the measures per producing component and part (train, validate, predict).

        A site without prediction tables has nothing to do. The summary is
        {component: {part: {metric: value}}}. Raises: NotSupportedYet; BadData: scores or labels
        that cannot be measured.
        """
        params: EvaluationParams = ctx.params
        if not params.need_run:
            return Outputs(passed=True)
        if params.kind == "clustering":
            raise NotSupportedYet(what="Evaluation with eval_type clustering")
        if params.unfold_multi_result:
            raise NotSupportedYet(what="Evaluation with unfold_multi_result")
        summary: Summary = {}
        for producer, rows in _predictions(ctx).items():
            parts = _split(ctx, rows, producer=producer)
            for part, rows_of_part in parts.items():
                recorder = Recorder(ctx, producer, part)
                scalars = _MEASURES[params.kind](recorder, params, rows_of_part)
                if scalars:
                    recorder.scalars(scalars)
                    summary.setdefault(producer, {})[part] = scalars
            if params.kind == "binary" and "psi" in params.chosen:
                _record_stability(ctx, params, producer=producer, parts=parts)
        return Outputs(summary=summary)


def _predictions(ctx: Context) -> dict[str, pa.Table]:
    """Return the prediction rows of every producing component, in input order."""
    found: dict[str, list[pa.Table]] = {}
    for producer, table in ctx.inputs.data.get("data", ()):
        if table is not None and _is_prediction(table):
            found.setdefault(producer, []).append(table.read(PREDICTION_COLUMNS))
        elif table is not None:
            ctx.log.warning("the table of %s holds no predictions: skipped", producer)
    return {
        name: pa.concat_tables(tables, promote_options="permissive")
        for name, tables in found.items()
    }


def _is_prediction(table: Table) -> bool:
    return set(PREDICTION_COLUMNS) <= set(table.schema.names)


def _split(ctx: Context, rows: pa.Table, *, producer: str) -> dict[str, pa.Table]:
    """Return the labelled rows per part. Raises: BadData: an unknown part."""
    strange = set(pc.unique(rows["type"]).to_pylist()) - set(PARTS)
    if strange:
        reason = f"{len(strange)} values of `type` are none of {', '.join(PARTS)}"
        raise BadData(where=f"predictions of {producer}", reason=reason)
    parts = {}
    for part in PARTS:
        chosen = rows.filter(pc.equal(rows["type"], part))
        labelled = chosen.filter(pc.invert(pc.is_null(chosen["label"], nan_is_null=True)))
        if labelled.num_rows < chosen.num_rows:
            missing = chosen.num_rows - labelled.num_rows
            ctx.log.warning("%s %s rows of %s have no label: skipped", missing, part, producer)
        if labelled.num_rows:
            parts[part] = labelled
    return parts


def _measure_binary(
    recorder: Recorder, params: EvaluationParams, rows: pa.Table
) -> dict[str, float]:
    """Record the curves and return AUC and KS as far as they are asked for and defined."""
    scores = BinaryScores(*_binary_columns(rows, params, where=recorder.producer))
    return record_binary(recorder, set(params.chosen), scores)


def _measure_multi(
    recorder: Recorder, params: EvaluationParams, rows: pa.Table
) -> dict[str, float]:
    """Record precision and recall per class and return the means over the classes."""
    true, predicted = _same_type(rows["label"], rows["predict_result"])
    scores = class_scores(true, predicted)
    scalars: dict[str, float] = {}
    index = np.arange(len(scores.classes), dtype=np.float64)
    for name in params.chosen:
        if name == "accuracy":
            scalars[name] = written(scores.accuracy)
            continue
        values = scores.precision if name == "precision" else scores.recall
        scalars[name] = written(float(values.mean()))
        recorder.curve(
            name,
            f"{name.upper()}_MULTI_EVALUATION",
            Curve(x=index, y=values, thresholds=index),
            axes=("", name),
            paired=True,
            extra={"classes": [str(c) for c in scores.classes]},
        )
    return scalars


def _measure_regression(
    recorder: Recorder, params: EvaluationParams, rows: pa.Table
) -> dict[str, float]:
    """Return the measures asked for."""
    where = recorder.producer
    true = _numbers(rows["label"], where=where, name="label")
    predicted = _numbers(rows["predict_score"], where=where, name="predict_score")
    values = regression_scores(true, predicted)
    return {name: written(values[name]) for name in params.chosen}


_MEASURES = {
    "binary": _measure_binary,
    "multi": _measure_multi,
    "regression": _measure_regression,
}


def _record_stability(
    ctx: Context, params: EvaluationParams, *, producer: str, parts: dict[str, pa.Table]
) -> None:
    """Record the stability index if both train and validate rows are there."""
    if not {"train", "validate"} <= set(parts):
        return
    columns = [_binary_columns(parts[p], params, where=producer) for p in ("train", "validate")]
    Recorder(ctx, producer, "train").table("psi", _stability_meta(stability(*columns)))


def _stability_meta(found: Stability) -> dict[str, Any]:
    bounds = ["-inf", *(str(written(b)) for b in found.bounds), "inf"]
    return {
        "psi_scores": written_all(found.scores),
        "total_psi": written(found.total),
        "expected_interval": found.expected.tolist(),
        "expected_percentage": written_all(found.expected / found.expected.sum()),
        "actual_interval": found.actual.tolist(),
        "actual_percentage": written_all(found.actual / found.actual.sum()),
        "intervals": [f"({low}, {high}]" for low, high in pairwise(bounds)],
        "train_pos_perc": written_all(found.expected_positive),
        "validate_pos_perc": written_all(found.actual_positive),
    }


def _binary_columns(
    rows: pa.Table, params: EvaluationParams, *, where: str
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Return which rows are positive, and their scores."""
    labels, positive = _same_type(rows["label"], pa.chunked_array([[params.pos_label]]))
    scores = _numbers(rows["predict_score"], where=where, name="predict_score")
    return labels == positive[0], scores


def _same_type(
    one: pa.ChunkedArray, other: pa.ChunkedArray
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return both as numbers if all their values are numbers, else both as text."""
    try:
        return _floats(one), _floats(other)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return _texts(one), _texts(other)


def _numbers(column: pa.ChunkedArray, *, where: str, name: str) -> npt.NDArray[np.float64]:
    """Return finite numbers. Raises: BadData: text, a missing value, NaN or an infinity."""
    try:
        values = _floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise BadData(where=f"predictions of {where}", reason=f"{name} is not a number") from exc
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise BadData(where=f"predictions of {where}", reason=f"{bad} rows without a finite {name}")
    return values


def _floats(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    return pc.cast(column, pa.float64()).to_numpy()  # type: ignore[no-any-return]


def _texts(column: pa.ChunkedArray) -> npt.NDArray[np.str_]:
    return pc.cast(column, pa.string()).to_numpy().astype(str)  # type: ignore[no-any-return]
