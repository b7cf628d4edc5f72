"""Jobs side by side, secrets in parameters, and flat values."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.board.presenters.comparing import (
    ABSENT,
    best_places,
    differences,
    duration_chart,
    overlaid,
    score_grid,
    unlike,
)
from fedflow.board.presenters.flattening import flat
from fedflow.board.presenters.masking import is_secret, masked
from fedflow.domain.records import Metric


def plain(text: str, /, **values: Any) -> str:
    return text.format(**values) if values else text


def scores(model: str, **values: Any) -> Metric:
    return Metric(
        namespace="train", name=model, points=tuple(values.items()),
        meta={"metric_type": "EVALUATION_SUMMARY"},
    )  # fmt: skip


def test_a_difference_tells_null_from_what_is_not_there_and_true_from_one() -> None:
    rows = differences([{"a": 1, "b": None, "c": 1, "d": [1]}, {"a": 1.0, "c": True, "d": [1]}])
    assert [(row.path, row.differs) for row in rows] == [
        ("a", False), ("b", True), ("c", True), ("d", False),
    ]  # fmt: skip
    missing = rows[1]
    assert missing.values == (None, ABSENT)
    assert missing.has(0)
    assert not missing.has(1)
    assert missing.is_changed(1)
    assert not missing.is_changed(0)


def test_members_that_are_written_alike_in_all_jobs_need_no_look() -> None:
    jobs = [
        {"same": {"a": 1, "b": [1]}, "kind": True, "only": 1, "deep": [{"x": None}]},
        {"same": {"b": [1], "a": 1}, "kind": 1, "deep": [{"x": 0}]},
    ]
    assert unlike(jobs) == {"kind", "only", "deep"}
    assert unlike([jobs[0], jobs[0], jobs[0]]) == set()


def test_paths_come_in_the_order_in_which_jobs_have_them() -> None:
    rows = differences([{"a": 1}, {"b": 1, "a": 2}, {"c": 1}])
    assert [row.path for row in rows] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("measure", "values", "best"),
    [
        ("auc", [0.7, 0.9, None], [1]),
        ("auc", [0.9, 0.9, 0.1], [0, 1]),
        ("auc", [0.9, 0.9], []),
        ("auc", [0.9, None], []),
        ("root_mean_squared_error", [3, 1, 2], [1]),
        ("loss", [float("nan"), 1, 2], [1]),
        ("auc", ["high", 0.4, 0.5], [2]),
        ("number_of_things", [1, 2], []),
        ("auc", [-9_999_999, 0.1, 0.2], [2]),
    ],
)
def test_the_best_score_is_known_only_with_a_direction_and_a_difference(
    measure: str, values: list[Any], best: list[int]
) -> None:
    assert best_places(measure, values) == best


def test_scores_stand_side_by_side_and_the_best_is_marked() -> None:
    grid = score_grid(
        ("A", "B"),
        [
            {"evaluation_0": [scores("lr_0", auc=0.7, ks=0.5), scores("iteration_3", auc=1)]},
            {"evaluation_0": [scores("lr_0", auc=0.8)], "other_0": [scores("lr_1", auc=0.1)]},
        ],
        plain,
    )
    assert grid.columns == ("Component", "Model", "Part", "Measure", "A", "B")
    assert grid.rows == (
        ("evaluation_0", "lr_0", "train", "auc", 0.7, 0.8),
        ("evaluation_0", "lr_0", "train", "ks", 0.5, None),
        ("other_0", "lr_1", "train", "auc", None, 0.1),
    )
    assert grid.best == {(0, 5)}


def test_curves_of_jobs_share_a_chart_and_the_legend_groups_them_by_job() -> None:
    def curve(*points: tuple[float, float]) -> list[Metric]:
        return [Metric(namespace="train", name="lr_0_roc", points=points,
                       meta={"metric_type": "ROC_EVALUATION"}),
                Metric(namespace="train", name="m", points=(("a", 1),),
                       meta={"metric_type": "UNION"})]  # fmt: skip

    (chart,) = overlaid(("A", "B", "C"), [curve((0, 0), (1, 1)), [], curve((0, 1), (1, 1))], plain)
    assert [(s.model, s.name) for s in chart.series] == [
        ("A", "A · lr_0 · train"), ("C", "C · lr_0 · train"),
    ]  # fmt: skip


def test_durations_are_bars_by_component_in_seconds() -> None:
    chart = duration_chart(("A", "B"), [{"x": 1500, "y": None}, {"y": 3000, "z": 1}], plain)
    assert chart.categories == ("x", "y", "z")
    assert [(s.x, s.y) for s in chart.series] == [((0.0,), (1.5,)), ((1.0, 2.0), (3.0, 0.001))]
    assert not any(s.is_line for s in chart.series)


def test_flat_values_have_paths_and_keep_plain_lists_and_empty_objects() -> None:
    assert flat({"a": {"b": 1, "c": [1, 2]}, "d": [{"e": None}], "f": {}, "g": []}) == {
        "a.b": 1, "a.c": [1, 2], "d[0].e": None, "f": {}, "g": [],
    }  # fmt: skip
    assert flat(7) == {"": 7}


def test_flat_values_of_a_huge_and_deep_object_are_bounded() -> None:
    assert len(flat({str(i): i for i in range(20_000)}, most=100)) == 100
    deep: Any = 1
    for _ in range(5_000):
        deep = {"a": deep}
    assert len(flat(deep)) == 1


@pytest.mark.parametrize(
    "name",
    ["password", "db_password", "dbPassword", "PASSWD", "secret_key", "access_token", "apiKey",
     "private_key", "Authorization", "credentials", "app_key", "keyMaterial"],
)  # fmt: skip
def test_names_of_secrets_are_known_in_any_spelling(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["key", "key_length", "n_key", "author", "keep", "hash_method"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_hidden_at_any_depth_and_nulls_stay() -> None:
    given = {
        "a": [{"token": "t", "x": 1}], "password": None, "secret": {"deep": "s"},
        "api_key": ["k"], "use_token": True, "b": None,
    }  # fmt: skip
    assert masked(given) == {
        "a": [{"token": "******", "x": 1}], "password": None, "secret": "******",
        "api_key": "******", "use_token": True, "b": None,
    }  # fmt: skip
