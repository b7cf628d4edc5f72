"""The component Evaluation: what it records and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.ids import PartyId
from fedflow.components.evaluation.decoding import PREDICTION_COLUMNS
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.evaluation.metrics import choose_metrics, written
from fedflow.components.evaluation.params import EvaluationParams
from fedflow.sdk import (
    BadData,
    BadParameter,
    Inputs,
    Role,
    Site,
    Table,
    TableKind,
    TableSchema,
    check_params,
)
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10000"))


def predictions(
    labels: Sequence[Any],
    scores: Sequence[float],
    *,
    part: str | Sequence[str] = "train",
    results: Sequence[Any] | None = None,
    labelled_by_schema: bool = False,
) -> Table:
    """Return a prediction table as a model's component writes it."""
    rows = len(labels)
    columns = {
        "id": [str(i) for i in range(rows)],
        "label": labels,
        "predict_result": [int(s > 0.5) for s in scores] if results is None else results,
        "predict_score": np.asarray(scores),
        "predict_detail": ["{}"] * rows,
        "type": [part] * rows if isinstance(part, str) else part,
    }
    own = PREDICTION_COLUMNS[1:] if labelled_by_schema else PREDICTION_COLUMNS
    schema = TableSchema(
        kind=TableKind.PREDICTIONS,
        id="id",
        label="label" if labelled_by_schema else None,
        columns=own,
    )
    return MemoryTableStore().add(pa.table(columns), schema=schema)


def evaluate(
    tables: Sequence[tuple[str, Table | None]],
    work_dir: Path,
    *,
    params: Mapping[str, Any] | None = None,
) -> RunResult:
    results = run_component(
        Evaluation,
        sites=(GUEST,),
        params={GUEST: params or {}},
        inputs={GUEST: Inputs(data={"data": tables}, model={})},
        work_dir=work_dir,
    )
    return results[GUEST]


def good(result: RunResult) -> RunResult:
    outputs_of({GUEST: result})
    return result


def drawn(rows: int = 500) -> tuple[list[int], list[float]]:
    rng = np.random.default_rng(3)
    labels = (rng.random(rows) < 0.4).astype(int)
    scores = 1 / (1 + np.exp(-rng.normal(labels * 2.0 - 1.0, 1.0)))
    return labels.tolist(), scores.tolist()


def test_auc_is_the_first_point_of_the_producers_metric(tmp_path: Path) -> None:
    from sklearn.metrics import roc_auc_score

    labels, scores = drawn()
    result = good(evaluate([("hetero_lr_0", predictions(labels, scores))], tmp_path))
    metric = result.metrics["train", "hetero_lr_0"]
    auc = round(float(roc_auc_score(labels, scores)), 6)
    assert metric.metric_type == "EVALUATION_SUMMARY"
    assert [name for name, _ in metric.points] == ["auc", "ks"]
    assert metric.points[0] == ("auc", auc)
    assert result.outputs is not None
    assert result.outputs.summary == {"hetero_lr_0": {"train": dict(metric.points)}}
    assert result.outputs.data == ()


def test_every_curve_has_the_name_and_type_that_the_board_reads(tmp_path: Path) -> None:
    labels, scores = drawn()
    table = predictions(labels * 2, scores * 2, part=["train"] * 500 + ["validate"] * 500)
    result = good(evaluate([("lr", table)], tmp_path))
    types = {key: metric.metric_type for key, metric in result.metrics.items()}
    for part in ("train", "validate"):
        assert {name: kind for (ns, name), kind in types.items() if ns == part} == {
            "lr": "EVALUATION_SUMMARY",
            "lr_ks_fpr": "KS_EVALUATION",
            "lr_ks_tpr": "KS_EVALUATION",
            "lr_roc": "ROC_EVALUATION",
            "lr_lift": "LIFT_EVALUATION",
            "lr_gain": "GAIN_EVALUATION",
            "lr_accuracy": "ACCURACY_EVALUATION",
            "lr_precision": "PRECISION_BINARY_EVALUATION",
            "lr_recall": "RECALL_BINARY_EVALUATION",
            "lr_confusion_mat": "CONFUSION_MAT",
            "lr_f1_score": "F1_SCORE",
            "lr_quantile_pr": "QUANTILE_PR",
            **({"lr_psi": "PSI"} if part == "train" else {}),
        }
    for (_, name), metric in result.metrics.items():
        assert metric.meta["name"] == name
        assert metric.meta["metric_type"] == metric.metric_type
        if metric.metric_type.endswith("_EVALUATION"):
            assert len(metric.points) == len(metric.meta["thresholds"])
            assert all(0 <= x <= 1 for x, _ in metric.points)
    fpr = result.metrics["train", "lr_ks_fpr"].meta
    assert (fpr["pair_type"], fpr["curve_name"]) == ("lr", "lr_fpr")
    roc = result.metrics["train", "lr_roc"]
    assert (roc.points[0], roc.points[-1]) == ((0.0, 0.0), (1.0, 1.0))
    assert (roc.meta["unit_name"], roc.meta["ordinate_name"]) == ("fpr", "tpr")
    psi = result.metrics["train", "lr_psi"].meta
    assert psi["total_psi"] == 0.0
    assert len(psi["intervals"]) == len(psi["psi_scores"]) == len(psi["train_pos_perc"])


def test_rows_are_split_by_type_and_keyed_by_producer(tmp_path: Path) -> None:
    labels, scores = drawn(20)
    labels[:2] = labels[10:12] = [0, 1]
    both = predictions(labels, scores, part=["train"] * 10 + ["validate"] * 10)
    more = predictions(labels, scores, part="predict", labelled_by_schema=True)
    result = good(evaluate([("a", both), ("b", more), ("c", None)], tmp_path))
    assert result.outputs is not None
    summary = result.outputs.summary
    assert {name: set(parts) for name, parts in summary.items()} == {
        "a": {"train", "validate"},
        "b": {"predict"},
    }
    assert {ns for ns, _ in result.metrics} == {"train", "validate", "predict"}


def test_two_tables_of_one_component_are_taken_together(tmp_path: Path) -> None:
    train = predictions([0, 1], [0.1, 0.9])
    validate = predictions([0, 1], [0.9, 0.1], part="validate")
    result = good(evaluate([("lr", train), ("lr", validate)], tmp_path))
    assert result.outputs is not None
    assert {p: v["auc"] for p, v in result.outputs.summary["lr"].items()} == {
        "train": 1.0,
        "validate": 0.0,
    }


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        ([0, 1], 1),
        ([0.0, 1.0], 1),
        (["0", "1"], 1),
        (["bad", "good"], "good"),
        ([-1, 1], 1),
        ([5, 3], 3),
        ([False, True], 1),
    ],
)
def test_the_positive_label_may_be_of_any_type(
    labels: list[Any], pos_label: Any, tmp_path: Path
) -> None:
    table = predictions(labels, [0.1, 0.9], results=labels)
    result = good(evaluate([("lr", table)], tmp_path, params={"pos_label": pos_label}))
    assert result.metrics["train", "lr"].points[0] == ("auc", 1.0)


def test_only_the_measures_asked_for_are_written_auc_first(tmp_path: Path) -> None:
    labels, scores = drawn(50)
    params = {"metrics": ["ks", "AUC", "recall"]}
    result = good(evaluate([("lr", predictions(labels, scores))], tmp_path, params=params))
    assert [name for name, _ in result.metrics["train", "lr"].points] == ["auc", "ks"]
    names = {name for _, name in result.metrics}
    assert names == {"lr", "lr_ks_fpr", "lr_ks_tpr", "lr_precision", "lr_recall"}


def test_one_class_gives_what_is_defined_and_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = good(evaluate([("lr", predictions([0, 0], [0.2, 0.3]))], tmp_path))
    assert ("train", "lr") not in result.metrics
    assert ("train", "lr_accuracy") in result.metrics
    assert "one class" in caplog.text
    assert result.outputs is not None
    assert result.outputs.summary == {}


def test_rows_without_label_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = predictions([0, 1, None], [0.1, 0.9, 0.05])
    result = good(evaluate([("lr", table)], tmp_path))
    assert result.metrics["train", "lr"].points[0] == ("auc", 1.0)
    assert "1 train rows of lr have no label" in caplog.text


@pytest.mark.parametrize("score", [float("nan"), float("inf"), None])
def test_a_score_that_is_no_number_is_refused(score: Any, tmp_path: Path) -> None:
    table = predictions([0, 1], [0.1, 0.2])
    rows = table.read().set_column(3, "predict_score", pa.array([0.1, score], pa.float64()))
    broken = MemoryTableStore().add(rows, schema=table.schema)
    assert isinstance(evaluate([("lr", broken)], tmp_path).error, BadData)


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    table = predictions([0, 1], [0.1, 0.2], part="test")
    assert isinstance(evaluate([("lr", table)], tmp_path).error, BadData)


def test_host_and_arbiter_have_nothing_to_do(tmp_path: Path) -> None:
    inputs = Inputs(data={"data": [("lr", None)]}, model={})
    results = run_component(
        Evaluation,
        sites=(HOST, ARBITER),
        inputs=dict.fromkeys((HOST, ARBITER), inputs),
        work_dir=tmp_path,
    )
    assert all(o.data == () and o.summary == {} for o in outputs_of(results).values())
    assert all(r.metrics == {} for r in results.values())


def test_need_run_false_does_nothing(tmp_path: Path) -> None:
    table = predictions([0, 1], [0.1, 0.2])
    result = good(evaluate([("lr", table)], tmp_path, params={"need_run": False}))
    assert result.outputs is not None
    assert result.outputs.passed
    assert result.metrics == {}


def test_a_table_without_predictions_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = MemoryTableStore().add({"id": ["1"], "x0": [1.0]})
    good(evaluate([("reader_0", table)], tmp_path))
    assert "holds no predictions" in caplog.text


@pytest.mark.parametrize("labels", [[0, 1, 2, 2, 1, 0, 2], list("abccbac")])
def test_multi_agrees_with_scikit_learn(labels: list[Any], tmp_path: Path) -> None:
    from sklearn.metrics import accuracy_score, precision_score, recall_score

    named = [labels[i] for i in (0, 1, 1, 3, 4, 2, 6)]
    table = predictions(labels, [0.5] * 7, results=named)
    result = good(evaluate([("m", table)], tmp_path, params={"eval_type": "multi"}))
    assert result.metrics["train", "m"].points == [
        ("accuracy", round(float(accuracy_score(labels, named)), 6)),
        ("precision", round(float(precision_score(labels, named, average="macro")), 6)),
        ("recall", round(float(recall_score(labels, named, average="macro")), 6)),
    ]
    curve = result.metrics["train", "m_precision"]
    assert curve.metric_type == "PRECISION_MULTI_EVALUATION"
    assert [x for x, _ in curve.points] == [0, 1, 2]


def test_regression_agrees_with_scikit_learn(tmp_path: Path) -> None:
    from sklearn import metrics as sk

    rng = np.random.default_rng(5)
    true = rng.normal(size=100)
    guess = true + rng.normal(size=100) * 0.3
    table = predictions(true.tolist(), guess.tolist(), results=guess.tolist())
    result = good(evaluate([("r", table)], tmp_path, params={"eval_type": "regression"}))
    assert dict(result.metrics["train", "r"].points) == pytest.approx(
        {
            "explained_variance": sk.explained_variance_score(true, guess),
            "mean_absolute_error": sk.mean_absolute_error(true, guess),
            "mean_squared_error": sk.mean_squared_error(true, guess),
            "median_absolute_error": sk.median_absolute_error(true, guess),
            "r2_score": sk.r2_score(true, guess),
            "root_mean_squared_error": sk.root_mean_squared_error(true, guess),
        },
        abs=1e-6,
    )


def test_the_logarithmic_error_is_made_when_asked_for(tmp_path: Path) -> None:
    from sklearn.metrics import mean_squared_log_error

    true, guess = [0.0, 2.0, 5.0, 1.0], [0.5, 1.0, 4.0, 3.0]
    asked = {"eval_type": "regression", "metrics": ["msle", "rmse"]}
    table = predictions(true, guess, results=guess)
    points = dict(
        good(evaluate([("r", table)], tmp_path, params=asked)).metrics["train", "r"].points
    )
    assert set(points) == {"root_mean_squared_error", "mean_squared_log_error"}
    expected = mean_squared_log_error(true, guess)
    assert points["mean_squared_log_error"] == pytest.approx(expected, abs=1e-6)
    negative = predictions([-1.0, 2.0], [0.0, 1.0], results=[0.0, 1.0])
    error = evaluate([("r", negative)], tmp_path, params=asked).error
    assert isinstance(error, BadData)
    assert "1 rows with a negative value" in str(error)


@pytest.mark.parametrize(
    "params",
    [
        {"eval_type": "ranking"},
        {"metrics": ["auc", "nonsense"]},
        {"eval_type": "regression", "metrics": ["auc"]},
        {"pos_label": [1]},
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(BadParameter):
        check_params(EvaluationParams, params, path="$")


def test_aliases_mean_the_full_names() -> None:
    assert choose_metrics("regression", ["RMSE", "l1", "r2"]) == (
        "mean_absolute_error",
        "r2_score",
        "root_mean_squared_error",
    )
    assert choose_metrics("clustering", ["DBI", "FMI", "ri", "jaccard"]) == (
        "jaccard_similarity_score",
        "fowlkes_mallows_score",
        "adjusted_rand_score",
        "davies_bouldin_index",
    )


def test_trainings_do_not_know_the_logarithmic_error() -> None:
    with pytest.raises(ValueError, match="unknown mean_squared_log_error"):
        choose_metrics("regression", ["msle"])
    assert choose_metrics("binary", ["auc", "msle"], logarithmic=True) == ("auc",)


def test_numbers_are_written_with_six_decimals_and_finite() -> None:
    assert written(1 / 3) == 0.333333
    assert written(float("inf")) == -9999999
    assert written(float("nan")) == 0.0
