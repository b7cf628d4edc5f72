"""Metrics of every type as views; odd values, long series, unknown types."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from typing import Any

import pytest

from fedflow.board.presenters.charts import (
    INFINITE,
    Chart,
    Grid,
    MetricTree,
    NamedValues,
    Series,
    Steps,
    finite,
    shown,
    thinned_places,
)
from fedflow.board.presenters.metric_files import report, view_csv
from fedflow.board.presenters.metric_groups import KNOWN, find_view, metric_groups
from fedflow.board.presenters.slugs import slug
from fedflow.domain.records import Metric
from fedflow.wire import envelope
from tests.board.seeds import HOSTILE


def plain(text: str, /, **values: Any) -> str:
    return text.format(**values) if values else text


def metric(kind: str, name: str, *points: Any, part: str = "train", **meta: Any) -> Metric:
    return Metric(
        namespace=part, name=name, points=tuple(points), meta={"metric_type": kind, **meta}
    )


def views(*metrics: Metric) -> list[Any]:
    return [view for group in metric_groups(metrics, plain) for view in group.views]


# --- types ----------------------------------------------------------------------------------------


def test_losses_of_folds_are_curves_of_one_chart_under_their_curve_names() -> None:
    (chart,) = views(
        metric("LOSS", "loss.0", (1, 0.4), (0, 0.7), curve_name="fold_0"),
        metric("LOSS", "loss.1", (0, 0.6), (1, 0.5), curve_name="fold_1"),
    )
    assert isinstance(chart, Chart)
    assert [(s.name, s.x, s.y) for s in chart.series] == [
        ("fold_0", (0.0, 1.0), (0.7, 0.4)),
        ("fold_1", (0.0, 1.0), (0.6, 0.5)),
    ]


def test_thresholds_stay_with_their_points_when_points_are_ordered() -> None:
    (chart,) = views(metric("ROC_EVALUATION", "a_roc", (1, 1), (0, 0), (0, 0.5),
                            thresholds=[0.1, 0.9, 0.8]))  # fmt: skip
    (curve,) = chart.series
    assert curve.x == (0, 0, 1)
    assert curve.y == (0, 0.5, 1)
    assert curve.notes == ("0.9", "0.8", "0.1")


def test_precision_and_recall_are_joined_on_the_cut_with_the_best_precision() -> None:
    (chart,) = views(
        metric("PRECISION_BINARY_EVALUATION", "a_precision", (0, 1.0), (0.5, 0.8), (1, 0.4),
               thresholds=[0.9, 0.5, 0.1]),
        metric("RECALL_BINARY_EVALUATION", "a_recall", (0, 0.2), (0.5, 0.2), (1, 1.0)),
    )  # fmt: skip
    (curve,) = chart.series
    assert (curve.x, curve.y, curve.notes) == ((0.2, 1.0), (1.0, 0.4), ("0.9", "0.1"))


def test_a_precision_without_recall_is_drawn_over_the_cut() -> None:
    (chart,) = views(metric("PRECISION_BINARY_EVALUATION", "a_precision", (0, 1.0), (1, 0.4)))
    assert [s.name for s in chart.series] == ["a · train precision"]


def test_one_rate_alone_is_a_ks_curve_without_a_mark() -> None:
    (chart,) = views(metric("KS_EVALUATION", "a_ks_tpr", (0, 0), (1, 1)))
    assert len(chart.series) == 1
    assert chart.marks == ()


def test_namespaces_are_shown_as_train_validate_predict() -> None:
    (grid,) = views(
        metric("EVALUATION_SUMMARY", "m", ("auc", 0.3), part="predict"),
        metric("EVALUATION_SUMMARY", "m", ("auc", 0.1)),
        metric("EVALUATION_SUMMARY", "m", ("auc", 0.2), ("ks", 0.5), part="validate"),
    )
    assert grid.columns == ("Model", "Part", "auc", "ks")
    assert grid.rows == (
        ("m", "train", 0.1, ""), ("m", "validate", 0.2, 0.5), ("m", "predict", 0.3, ""),
    )  # fmt: skip


def test_measures_of_iterations_are_drawn_over_them_and_not_listed_beside_the_model() -> None:
    found = views(
        metric("EVALUATION_SUMMARY", "lr_0", ("auc", 0.9)),
        *(
            metric("EVALUATION_SUMMARY", f"iteration_{i}", ("auc", i / 20), part="validate")
            for i in (10, 2, 0)
        ),
        metric("EVALUATION_SUMMARY", "fold_0.iteration_0", ("auc", 0.5), part="validate"),
    )
    grid, chart = found
    assert [row[0] for row in grid.rows] == ["lr_0"]
    assert [(s.name, s.x, s.y) for s in chart.series] == [
        ("validate", (0, 2, 10), (0, 0.1, 0.5)),
        ("fold_0 · validate", (0,), (0.5,)),
    ]


def test_f1_scores_without_a_confusion_matrix_are_a_curve() -> None:
    (chart,) = views(metric("F1_SCORE", "a_f1_score", f1_scores=[0.5, 0.7], thresholds=[0, 0.5]))
    assert isinstance(chart, Chart)
    assert chart.series[0].y == (0.5, 0.7)


def test_one_against_the_rest_is_a_table_and_bars_by_class() -> None:
    grid, chart = views(
        metric("ovr", "lr_0_class_a_ovr", ("auc", 0.9), ("ks", 0.8)),
        metric("ovr", "lr_0_class_b_ovr", ("auc", 0.7)),
    )
    assert grid.rows == (("lr_0_class_a", "train", 0.9, 0.8), ("lr_0_class_b", "train", 0.7, ""))
    assert chart.categories == ("lr_0_class_a", "lr_0_class_b")
    assert [(s.name, s.y) for s in chart.series] == [
        ("auc · train", (0.9, 0.7)), ("ks · train", (0.8, None)),
    ]  # fmt: skip


def test_one_against_the_rest_as_fate_writes_it_is_the_same_table() -> None:
    grid, chart = views(metric("ovr", "d_ovr", a={"auc": 0.9, "ks": 0.8}, b={"auc": 0.7}))
    assert grid.rows == (("d a", "train", 0.9, 0.8), ("d b", "train", 0.7, ""))
    assert chart.categories == ("d a", "d b")


def test_intersection_rates_are_percent_and_counts_are_numbers() -> None:
    (facts,) = views(
        metric("INTERSECTION", "intersection", ("intersect_count", 1234), ("intersect_rate", 0.5),
               intersect_method="rsa")
    )  # fmt: skip
    assert facts.rows == (
        ("intersect_count", 1234), ("intersect_rate", "50.00 %"), ("intersect_method", "rsa"),
    )  # fmt: skip


def test_a_reader_shows_its_table_and_columns_with_names_for_others() -> None:
    facts, grid = views(
        metric("data_info", "reader_name", table_name="breast", namespace="e", count=569,
               table_info={"id": "1, 2", "x0": "0.5, 0.7"}, anonymous_info={"x0": "guest_9999_0"},
               attribute_info={}, part="reader_namespace")
    )  # fmt: skip
    assert facts.rows == (("table_name", "breast"), ("namespace", "e"), ("count", 569))
    assert grid.rows == (("id", "", "1, 2", ""), ("x0", "guest_9999_0", "0.5, 0.7", ""))


def test_steps_of_a_stepwise_training_are_ordered_by_number_with_their_tables() -> None:
    def step(number: int, **meta: Any) -> Metric:
        name = f"stepwise_{number}"
        return metric("STEPWISE", name, (name, number), score_name="AIC", loss=1 / (number + 1),
                      current_ic_val=10 - number, number_in=2, n_count=50, direction="both",
                      host_mask=[True, False], guest_mask=[True],
                      host_features_anonym=["host_10000_0", "host_10000_1"],
                      guest_features_anonym=["x0"], **meta)  # fmt: skip

    steps, way = views(step(10), step(9, weight={"x0": 0.5}, intercept=0.1, to_enter=["x1"]))
    assert steps.labels == ("9", "10")
    assert steps.first == 1
    assert [grid.title for grid in steps.frames[0]] == [
        "Fit statistics", "Coefficients", "Features that may enter", "Features",
    ]  # fmt: skip
    assert steps.frames[0][3].rows == (
        ("guest", "x0", True), ("host", "host_10000_0", True), ("host", "host_10000_1", False),
    )  # fmt: skip
    assert [row[0] for row in way.rows] == [9, 10]
    assert way.columns[2] == "AIC"


def test_a_marker_of_what_the_model_holds_shows_nothing() -> None:
    assert views(metric("CORRELATION_GRAPH", "correlation", part="statistic")) == []


def test_distances_of_clusters_are_a_table() -> None:
    (grid,) = views(
        metric(
            "DISTANCE_MEASURE",
            "kmeans_0_distance_measure",
            cluster_index=["0", "1"],
            radius=[1.5, 2.5],
            nearest_idx=["1", "0"],
        )
    )
    assert grid.rows == (("0", 1.5, "1"), ("1", 2.5, "0"))


@pytest.mark.parametrize("kind", sorted(KNOWN))
@pytest.mark.parametrize("meta", [{}, {"thresholds": "no list", "tp": 7, "p_scores": [[1]],
                                       "table_info": [], "result_table": [1, [2]]}])  # fmt: skip
def test_a_known_type_without_what_it_should_have_is_no_error(
    kind: str, meta: dict[str, Any]
) -> None:
    for points in ((), ((None, None), ("x", {}))):
        for view in views(metric(kind, "odd", *points, **meta)):
            view_csv(view)
            if isinstance(view, Chart | Steps):
                envelope.encode(view.to_json())
            if isinstance(view, Chart):
                view.drawn().grid(3)


# --- unknown types --------------------------------------------------------------------------------


def test_pairs_of_numbers_of_an_unknown_type_are_a_line() -> None:
    (chart,) = views(metric("SPEED", "rows", (2, 5.0), (1, 3), unit_name="minute"))
    assert isinstance(chart, Chart)
    assert (chart.x_label, chart.series[0].x, chart.series[0].y) == ("minute", (1, 2), (3, 5))


def test_names_with_values_of_an_unknown_type_are_a_table() -> None:
    (grid,) = views(metric("", "m", ("a", 1), ("b", "text")))
    assert isinstance(grid, Grid)
    assert grid.rows == (("a", 1), ("b", "text"))


def test_objects_as_values_of_an_unknown_type_are_a_table_by_their_members() -> None:
    (grid,) = views(metric("SPARK_STAGES", "stages", (0, {"jobs": 1, "done": 2}), (1, {"jobs": 3})))
    assert isinstance(grid, Grid)
    assert grid.columns == ("Point", "jobs", "done")
    assert grid.rows == ((0, 1, 2), (1, 3, None))


def test_anything_else_of_an_unknown_type_is_a_tree() -> None:
    (tree,) = views(metric("DEEP", "m", (0, [1, {"a": [2]}]), (1, 2)))
    assert isinstance(tree, MetricTree)
    (facts,) = views(metric("FLAT", "m", a=1, b=None))
    assert isinstance(facts, NamedValues)
    assert facts.rows == (("a", 1), ("b", None))
    (meta,) = views(metric("DEEP", "m", a={"b": {"c": 1}}))
    assert isinstance(meta, MetricTree)


def test_a_metric_with_nothing_at_all_is_still_named() -> None:
    (facts,) = views(Metric(namespace="", name=""))
    assert isinstance(facts, NamedValues)


def test_a_hundred_views_of_a_group_are_shown_and_the_rest_is_counted() -> None:
    (group,) = metric_groups([metric("X", f"m{i}", (0, 1)) for i in range(130)], plain)
    assert (len(group.views), group.left_out) == (100, 30)


def test_every_view_has_a_key_of_its_own() -> None:
    names = [*HOSTILE, "A b", "a B", "a-b", ""]
    found = views(*(metric("X", name, (0, 1), (1, 2)) for name in names))
    assert len({view.key for view in found}) == len(names)
    assert all(view.key.isascii() and len(view.key) <= 60 for view in found)


# --- odd and many values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "number", "text"),
    [
        (1, 1.0, "1"), (1234567, 1234567.0, "1,234,567"), (0.1234567, 0.1234567, "0.123457"),
        (math.nan, None, "NaN"), (math.inf, None, "∞"), (-math.inf, None, "-∞"),
        (INFINITE, None, "∞"), (float(INFINITE), None, "∞"), (None, None, "-"),
        (True, None, "true"), ("7", None, "7"), (10**400, None, "> 1e30"),
        (10**20, 1e20, str(10**20)),
        ([1, "a"], None, "1, a"), ({"a": 1}, None, "{'a': 1}"),
    ],
)  # fmt: skip
def test_odd_values_are_drawn_as_gaps_and_shown_as_text(
    value: Any, number: float | None, text: str
) -> None:
    assert finite(value) == number
    assert shown(value) == text


def test_what_cannot_be_drawn_is_a_gap_and_the_answer_is_json() -> None:
    points = ((0, 1.0), (1, math.nan), (2, INFINITE), (3, None), (4, "x"), ("odd", 1), (5, 2.0))
    (chart,) = views(metric("LOSS", "loss", *points))
    assert chart.series[0].x == (0, 1, 2, 3, 4, 5)
    assert chart.series[0].y == (1, None, None, None, None, 2)
    assert b"NaN" not in envelope.encode(chart.to_json())


def test_fifty_thousand_points_are_drawn_with_their_peaks_and_downloaded_in_full() -> None:
    values = [(i, math.sin(i / 500)) for i in range(50_000)]
    values[31_337] = (31_337, 99.0)
    values[40_000] = (40_000, -99.0)
    (chart,) = views(metric("LOSS", "loss", *values))
    drawn = chart.drawn().series[0]
    assert len(drawn.x) <= 2_000
    assert {99.0, -99.0} <= set(drawn.y)
    assert (drawn.x[0], drawn.x[-1]) == (0, 49_999)
    told = chart.to_json()
    assert (told["count"], told["drawn"]) == (50_000, len(drawn.x))
    assert view_csv(chart).count("\r\n") == 50_001


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9, 10, 11, 57])
def test_thinning_keeps_both_ends_and_the_order(count: int) -> None:
    values = [float(i * 7 % 13) for i in range(count)]
    kept = thinned_places(values, 10)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(10, 0)
    if count:
        assert (kept[0], kept[-1]) == (0, count - 1)
        assert max(values) in [values[i] for i in kept]


def test_thinning_keeps_a_gap() -> None:
    values: list[float | None] = [None if 400 <= i < 500 else 1.0 for i in range(1000)]
    kept = thinned_places(values, 100)
    assert any(values[i] is None for i in kept)


def test_more_than_forty_curves_are_counted() -> None:
    metrics = [metric("ROC_EVALUATION", f"m{i}_roc", (0, 0), (1, 1)) for i in range(50)]
    (chart,) = views(*metrics)
    assert (len(chart.drawn().series), chart.drawn().left_out) == (40, 10)
    assert len(chart.to_json()["series"]) == 40


def test_long_texts_are_cut_in_what_a_drawing_reads() -> None:
    name = "x" * 1_000_000
    (chart,) = views(metric("LOSS", "loss", (0, 1), (1, 1), curve_name=name))
    assert len(envelope.encode(chart.to_json())) < 3_000


# --- files ----------------------------------------------------------------------------------------


def test_a_spreadsheet_runs_nothing_of_a_csv() -> None:
    (grid,) = views(metric("", "m", ("=cmd|' /C calc'!A0", 1), ("@x", "-2"), ("-3", "+a")))
    rows = list(csv.reader(io.StringIO(view_csv(grid))))
    assert rows[1:] == [["'=cmd|' /C calc'!A0", "1"], ["'@x", "-2"], ["-3", "'+a"]]


def test_a_report_has_a_csv_of_every_view_and_equal_metrics_give_equal_files() -> None:
    groups = metric_groups(
        [metric("LOSS", "loss", (0, 1.0)), metric("X", "../../etc/passwd", ("a", 1)),
         metric("CONFUSION_MAT", "a_confusion_mat", tp=[1], tn=[2], fp=[3], fn=[4],
                thresholds=[0.5])],
        plain,
    )  # fmt: skip
    content = report(groups, [("summary.json", "{}")])
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        names = found.namelist()
        assert {"loss.csv", "confusion.csv", "summary.json"} <= set(names)
        assert not any("/" in name or ".." in name for name in names)
        text = found.read("confusion.csv").decode()
    assert text.splitlines()[0].startswith("Threshold,Model,Part,Actual")
    assert len(text.splitlines()) == 3
    assert report(groups, [("summary.json", "{}")]) == content


def test_a_view_is_found_by_its_key() -> None:
    groups = metric_groups([metric("LOSS", "loss", (0, 1.0))], plain)
    assert isinstance(find_view(groups, "loss"), Chart)
    assert find_view(groups, "none") is None


def test_slugs_of_different_texts_differ() -> None:
    assert slug("loss") == "loss"
    assert slug("Loss") != slug("loss")
    assert slug("日本") != slug("中国")


def test_the_table_of_a_chart_names_categories() -> None:
    chart = Chart(
        key="k", title="T", x_label="Class", y_label="Value", categories=("a", "b"),
        series=(Series(name="s", model="m", part="", x=(0.0, 1.0, 5.0), y=(1.0, None, 2.0)),),
    )  # fmt: skip
    assert chart.grid().rows == (("s", "a", 1.0), ("s", "b", None), ("s", 5.0, 2.0))
