"""Metrics that our components really write, as groups of views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.board.presenters.charts import Chart, Grid, Group, NamedValues, Steps
from fedflow.board.presenters.metric_groups import metric_groups
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.features.label_transform import LabelTransform
from fedflow.components.features.scale import FeatureScale
from fedflow.components.features.union import Union
from fedflow.components.sampling.data_split import HomoDataSplit
from fedflow.components.sampling.federated_sample import FederatedSample
from fedflow.domain.records import Metric
from fedflow.testing.run import RunResult
from tests.unit.components.one_party import Party


def plain(text: str, /, **values: Any) -> str:
    return text.format(**values) if values else text


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def groups_of(result: RunResult) -> dict[str, Group]:
    assert result.error is None, result.error
    metrics = [
        Metric(
            namespace=part, name=name, points=tuple(one.points),
            meta={"name": name, "metric_type": one.metric_type, **one.meta},
        )
        for (part, name), one in result.metrics.items()
    ]  # fmt: skip
    return {group.key: group for group in metric_groups(metrics, plain)}


def predictions(party: Party, *, kind: str = "binary") -> Any:
    rng = np.random.default_rng(5)
    rows = 400
    label = rng.integers(0, 2 if kind == "binary" else 3, rows)
    score = np.clip(label / 2 + rng.normal(0, 0.3, rows), 0.001, 0.999)
    part = np.where(np.arange(rows) % 4 == 0, "validate", "train")
    detail = ['{"0": 0.2, "1": 0.5, "2": 0.3}'] * rows
    return party.predictions(
        {
            "id": [str(i) for i in range(rows)], "label": label.tolist(),
            "predict_result": (label if kind == "multi" else (score > 0.5).astype(int)).tolist(),
            "predict_score": score, "predict_detail": detail, "type": part.tolist(),
        }
    )  # fmt: skip


def test_a_binary_evaluation_has_every_chart_with_train_and_validate_in_each(
    party: Party,
) -> None:
    table = predictions(party)
    found = groups_of(party.result(Evaluation, ports={"data": [("lr_0", table)]}))
    assert list(found) == [
        "scores", "roc", "ks", "lift", "gain", "accuracy", "precision-recall", "confusion",
        "quantiles", "psi",
    ]  # fmt: skip
    for key in ("roc", "lift", "gain", "accuracy", "precision-recall"):
        (chart,) = found[key].views
        assert isinstance(chart, Chart)
        assert [s.name for s in chart.series] == ["lr_0 · train", "lr_0 · validate"]
        assert all(list(s.x) == sorted(s.x) for s in chart.series)
        assert all(len(s.notes) == len(s.x) for s in chart.series)
    (scores,) = found["scores"].views
    assert isinstance(scores, Grid)
    assert scores.columns == ("Model", "Part", "auc", "ks")
    assert [row[:2] for row in scores.rows] == [("lr_0", "train"), ("lr_0", "validate")]


def test_ks_marks_the_largest_gap_and_it_is_the_ks(party: Party) -> None:
    found = groups_of(party.result(Evaluation, ports={"data": [("lr_0", predictions(party))]}))
    (chart,) = found["ks"].views
    (scores,) = found["scores"].views
    assert isinstance(chart, Chart)
    assert isinstance(scores, Grid)
    assert [s.name for s in chart.series] == [
        "lr_0 · train tpr", "lr_0 · train fpr", "lr_0 · validate tpr", "lr_0 · validate fpr",
    ]  # fmt: skip
    for mark, row in zip(chart.marks, scores.rows, strict=True):
        assert mark.high - mark.low == pytest.approx(row[3], abs=2e-6)
        assert f"KS {row[3]:.6g}" in mark.text


def test_a_confusion_matrix_has_counts_of_all_rows_at_each_threshold(party: Party) -> None:
    found = groups_of(party.result(Evaluation, ports={"data": [("lr_0", predictions(party))]}))
    (steps,) = found["confusion"].views
    assert isinstance(steps, Steps)
    assert len(steps.labels) == len(steps.frames) == 100
    assert steps.labels[steps.first] == "0.5"
    rows = steps.frames[50][0].rows
    assert [row[:3] for row in rows] == [
        ("lr_0", "train", "positive"), ("lr_0", "train", "negative"),
        ("lr_0", "validate", "positive"), ("lr_0", "validate", "negative"),
    ]  # fmt: skip
    counts = [int(cell.split(" ")[0]) for row in rows[:2] for cell in row[3:5]]
    assert sum(counts) == 300
    assert 0 < rows[0][5] <= 1
    first = steps.frames[0][0].rows
    assert first[0][4] == "0 (0.0 %)"  # nothing is predicted negative at the threshold 0


def test_stability_is_bars_with_a_line_on_an_axis_of_its_own_and_a_table(party: Party) -> None:
    found = groups_of(party.result(Evaluation, ports={"data": [("lr_0", predictions(party))]}))
    total, chart, intervals = found["psi"].views
    assert isinstance(total, Grid)
    assert isinstance(chart, Chart)
    assert isinstance(intervals, Grid)
    assert total.rows[0][0] == "lr_0"
    assert [(s.is_line, s.axis) for s in chart.series] == [(False, 0), (False, 0), (True, 1)]
    assert len(chart.categories) == len(intervals.rows) > 10
    assert sum(row[7] for row in intervals.rows) == pytest.approx(total.rows[0][1], abs=1e-4)
    assert sum(row[1] for row in intervals.rows) == 300


def test_quantiles_have_precision_and_recall_of_both_classes(party: Party) -> None:
    found = groups_of(party.result(Evaluation, ports={"data": [("lr_0", predictions(party))]}))
    (steps,) = found["quantiles"].views
    assert isinstance(steps, Steps)
    assert len(steps.frames) == 21
    assert steps.labels[:2] == ("0", "0.05")
    model, part, _, precision, recall, _, _ = steps.frames[-1][0].rows[0]
    assert (model, part, recall) == ("lr_0", "train", 1)
    assert 0 < precision < 1


def test_several_classes_are_bars_by_class_and_one_against_the_rest(party: Party) -> None:
    table = predictions(party, kind="multi")
    found = groups_of(
        party.result(
            Evaluation, ports={"data": [("lr_0", table)]}, eval_type="multi",
            unfold_multi_result=True,
        )
    )  # fmt: skip
    assert {"scores", "classes"} <= set(found)
    (chart,) = found["classes"].views
    assert isinstance(chart, Chart)
    assert [float(name) for name in chart.categories] == [0, 1, 2]
    assert not any(s.is_line for s in chart.series)
    assert len(chart.series) == 4


def test_regression_is_a_table_of_scores(party: Party) -> None:
    table = predictions(party)
    found = groups_of(
        party.result(Evaluation, ports={"data": [("linr_0", table)]}, eval_type="regression")
    )
    (grid,) = found["scores"].views
    assert isinstance(grid, Grid)
    assert "root_mean_squared_error" in grid.columns
    assert list(found) == ["scores"]


def test_clusters_have_scores_a_contingency_matrix_and_distances(party: Party) -> None:
    rows = [str(i) for i in range(6)]
    columns = {
        "id": rows, "label": [0, 0, 1, 1, 2, 2], "predicted_cluster_index": [0, 0, 1, 1, 1, 0],
        "type": ["train"] * 6,
    }  # fmt: skip
    table = party.table(
        columns, kind="predictions", label="label",
        columns=("predicted_cluster_index", "type"),
    )  # fmt: skip
    found = groups_of(
        party.result(Evaluation, ports={"data": [("kmeans_0", table)]}, eval_type="clustering")
    )
    assert set(found) == {"clustering", "contingency"}
    (matrix,) = found["contingency"].views
    assert isinstance(matrix, Grid)
    assert matrix.columns == ("Class", "0", "1")
    assert matrix.rows == ((0, 2, 0), (1, 0, 2), (2, 1, 1))


def rows_of_ten(party: Party, **more: Any) -> Any:
    return party.table(
        {"id": [f"u{i}" for i in range(10)], "y": [i % 2 for i in range(10)],
         "x": [float(i) for i in range(10)], **more}
    )  # fmt: skip


def test_a_split_has_rows_and_shares_of_each_part_and_of_each_label(party: Party) -> None:
    table = rows_of_ten(party)
    found = groups_of(
        party.result(
            HomoDataSplit, table, train_size=0.6, validate_size=0.2, test_size=0.2,
            stratified=True, shuffle=True,
            output_names=("train_data", "validate_data", "test_data"),
        )
    )  # fmt: skip
    parts, *rest = found["split"].views
    assert isinstance(parts, Grid)
    counts = {row[0]: row[1] for row in parts.rows}
    assert counts["train"] + counts["validate"] + counts["test"] == 10
    assert any(isinstance(view, Grid) and view.title == "Rows by label" for view in rest)


def test_a_stratified_sample_is_a_table_of_chosen_and_original_rows(party: Party) -> None:
    table = rows_of_ten(party)
    found = groups_of(
        party.result(
            FederatedSample, table, mode="stratified", method="downsample",
            fractions=[[0, 0.4], [1, 0.8]], task_type="homo",
        )
    )  # fmt: skip
    (grid,) = found["sample"].views
    assert isinstance(grid, Grid)
    assert grid.columns == ("Label", "sample count", "original count")
    assert {row[0]: row[2] for row in grid.rows} == {"0": 5, "1": 5}


def test_a_union_counts_the_rows_of_its_tables(party: Party) -> None:
    first = rows_of_ten(party)
    found = groups_of(party.result(Union, first, rows_of_ten(party), keep_duplicate=False))
    (grid,) = found["union"].views
    assert isinstance(grid, Grid)
    assert dict(grid.rows)["reader_0"] == 10
    assert grid.rows[-1][0] == "Total"


def test_scaling_and_labels_are_facts_and_a_table(party: Party) -> None:
    table = rows_of_ten(party)
    (facts,) = groups_of(party.result(FeatureScale, table, method="min_max_scale"))["facts"].views
    assert isinstance(facts, NamedValues)
    assert ("method", "min_max_scale") in facts.rows
    found = groups_of(party.result(LabelTransform, table, label_encoder={"0": 1, "1": 0}))
    (labels,) = found["labels"].views
    assert isinstance(labels, Grid)
    assert [[str(cell) for cell in row] for row in labels.rows] == [["0", "1"], ["1", "0"]]
