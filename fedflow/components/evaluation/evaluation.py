"""The component Evaluation: measures of every prediction table that reaches it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fedflow.components.evaluation.binary import BinaryScores, Stability, stability
from fedflow.components.evaluation.decoding import (
    ASSIGNMENT_COLUMNS,
    CLUSTER_COLUMNS,
    PREDICTION_COLUMNS,
    by_part,
    centroid_distances,
    class_scores_of,
    labelled,
    numbers,
    read_producers,
    same_type,
    warn_of_others,
)
from fedflow.components.evaluation.metrics import LOGARITHMIC, written, written_all
from fedflow.components.evaluation.params import EvaluationParams
from fedflow.components.evaluation.recorder import (
    Recorder,
    record_agreement,
    record_binary,
    record_classes,
    record_shape,
    record_unfolded,
)
from fedflow.components.evaluation.regression import mean_squared_log_error, regression_scores
from fedflow.sdk import BadData, Context, Outputs, Role, component

Summary = dict[str, dict[str, dict[str, float]]]  # component -> part -> metric -> value


@component(
    "Evaluation",
    roles=("guest", "host", "arbiter"),
    params=EvaluationParams,
    param_name="EvaluateParam",
    outputs=("data",),
    absence="apart",
)
class Evaluation:
    """Measures how good the predictions of the components before it are.

    Works at a site that has prediction tables (in HeteroLR's case the guest); elsewhere it does
    nothing. Nothing is exchanged. Rows are split by their `type` (`train`, `validate`, `predict`),
    which is the metric's namespace; the metric's name is the producing component. Rows without a
    label are skipped. The summary is `{component: {part: {measure: value}}}`.

    - `binary`: auc, ks, lift, gain, accuracy, precision, recall, roc, confusion_mat, psi (with
      train and validate rows), f1_score, quantile_pr
    - `multi`: accuracy, precision, recall; with `unfold_multi_result` also auc and ks of each class
      against the rest, as metrics `<component>_class_<class>_ovr` of the type `ovr`
    - `regression`: explained_variance, mean_absolute_error, mean_squared_error,
      median_absolute_error, r2_score, root_mean_squared_error; mean_squared_log_error (msle) when
      asked for
    - `clustering`: of rows with their cluster (columns label, predicted_cluster_index)
      jaccard_similarity_score, fowlkes_mallows_score, adjusted_rand_score (all over pairs of rows)
      and contingency_matrix. Of clusters (columns cluster_sample_count, cluster_inner_dist,
      max_radius, inter_cluster_dist) davies_bouldin_index and distance_measure. The arbiter
      measures with `run_clustering_arbiter_metric` only.

    KS and the curves use 100 cut points as FATE's do, so the numbers are equal; the exact KS stands
    in the meta of `ks_tpr`. Rows of one class give no auc, ks and roc, and a warning. Declared
    `data` outputs stay empty. Unlike FATE, the aliases `DBI`, `FMI` and `RI` are understood.
    """

    def run(self, ctx: Context) -> Outputs:
        """Record the measures per producing component and part (train, validate, predict).

        A site without prediction tables has nothing to do. The summary is
        {component: {part: {metric: value}}}. Raises: BadData: scores or labels that cannot be
        measured.
        """
        params: EvaluationParams = ctx.params
        if not params.need_run:
            return Outputs(passed=True)
        if params.kind == "clustering":
            return Outputs(summary=_measure_clustering(ctx, params))
        summary: Summary = {}
        warn_of_others(ctx, PREDICTION_COLUMNS)
        for producer, rows in read_producers(ctx, PREDICTION_COLUMNS).items():
            parts = labelled(ctx, rows, producer=producer)
            for part, rows_of_part in parts.items():
                recorder = Recorder(ctx, producer, part)
                scalars = _MEASURES[params.kind](recorder, params, rows_of_part)
                _keep(summary, recorder, scalars)
            if params.kind == "binary" and "psi" in params.chosen:
                _record_stability(ctx, params, producer=producer, parts=parts)
        return Outputs(summary=summary)


def _keep(summary: Summary, recorder: Recorder, scalars: dict[str, float]) -> None:
    """Record scalars, if there are any, and put them into the summary."""
    if scalars:
        recorder.scalars(scalars)
        summary.setdefault(recorder.producer, {})[recorder.part] = scalars


def _measure_clustering(ctx: Context, params: EvaluationParams) -> Summary:
    """Record the measures of rows with their cluster, and those of clusters."""
    summary: Summary = {}
    if ctx.site.role is Role.ARBITER and not params.run_clustering_arbiter_metric:
        ctx.log.info("run_clustering_arbiter_metric is false: the arbiter measures nothing")
        return summary
    chosen = params.chosen
    warn_of_others(ctx, ASSIGNMENT_COLUMNS, CLUSTER_COLUMNS)
    for producer, rows in read_producers(ctx, ASSIGNMENT_COLUMNS).items():
        for part, rows_of_part in labelled(ctx, rows, producer=producer).items():
            recorder = Recorder(ctx, producer, part, clustering=True)
            true = rows_of_part["label"].to_numpy()
            clusters = _without_gaps(rows_of_part["predicted_cluster_index"], where=producer)
            _keep(summary, recorder, record_agreement(recorder, chosen, true, clusters))
    for producer, rows in read_producers(ctx, CLUSTER_COLUMNS).items():
        for part, clusters_of_part in by_part(rows, producer=producer).items():
            recorder = Recorder(ctx, producer, part, clustering=True)
            _keep(summary, recorder, _measure_shape(recorder, chosen, clusters_of_part))
    return summary


def _without_gaps(column: pa.ChunkedArray, *, where: str) -> npt.NDArray[Any]:
    """Return the clusters of all rows. Raises: BadData: rows without one."""
    if column.null_count:
        reason = f"{column.null_count} rows without a predicted_cluster_index"
        raise BadData(where=f"clusters of {where}", reason=reason)
    return column.to_numpy()  # type: ignore[no-any-return]


def _measure_shape(
    recorder: Recorder, chosen: tuple[str, ...], clusters: pa.Table
) -> dict[str, float]:
    """Return the Davies-Bouldin index. Raises: BadData: less than two clusters, or no distances."""
    where = recorder.producer
    if clusters.num_rows < 2:
        raise BadData(where=f"clusters of {where}", reason="less than two clusters")
    columns = {
        name: numbers(clusters[name], where=where, name=name)
        for name in ("cluster_inner_dist", "max_radius")
    }
    return record_shape(
        recorder,
        chosen,
        names=[str(key) for key in clusters["key"].to_pylist()],
        inner=columns["cluster_inner_dist"],
        radius=columns["max_radius"],
        squared=centroid_distances(clusters["inter_cluster_dist"], where=where),
    )


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
    if params.unfold_multi_result:
        names, scores = class_scores_of(rows["predict_detail"], where=recorder.producer)
        labels, classes = same_type(rows["label"], pa.chunked_array([names]))
        for column, name in enumerate(names):
            positive = labels == classes[column]
            record_unfolded(recorder, name, BinaryScores(positive, scores[:, column]))
    true, predicted = same_type(rows["label"], rows["predict_result"])
    return record_classes(recorder, params.chosen, true, predicted)


def _measure_regression(
    recorder: Recorder, params: EvaluationParams, rows: pa.Table
) -> dict[str, float]:
    """Return the measures asked for."""
    where = recorder.producer
    true = numbers(rows["label"], where=where, name="label")
    predicted = numbers(rows["predict_score"], where=where, name="predict_score")
    values = regression_scores(true, predicted)
    if LOGARITHMIC in params.chosen:
        below = int(((true < 0) | (predicted < 0)).sum())
        if below:
            reason = f"{LOGARITHMIC} is not defined: {below} rows with a negative value"
            raise BadData(where=f"predictions of {where}", reason=reason)
        values[LOGARITHMIC] = mean_squared_log_error(true, predicted)
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
    labels, positive = same_type(rows["label"], pa.chunked_array([[params.pos_label]]))
    scores = numbers(rows["predict_score"], where=where, name="predict_score")
    return labels == positive[0], scores
