"""How versions of a service compare, and what becomes of shadows that come too fast."""

from __future__ import annotations

import threading

import pytest

from fedflow.serving.codes import ItemAnswer, failed
from fedflow.serving.services.comparison import LEARNED, VersionComparison
from fedflow.serving.services.shadows import MOST, Shadows

V1, V2 = ("m", "v1"), ("m", "v2")
PARTS = {V1: "90%", V2: "10%"}


def scored(score: float, label: int = 0) -> ItemAnswer:
    return ItemAnswer(score=score, label=label)


def test_equal_scores_have_no_distance_and_others_have_one() -> None:
    comparison = VersionComparison()
    for number in range(2 * LEARNED):
        score = number / (2 * LEARNED)
        comparison.count(V1, [scored(score)], 0.004)
        comparison.count(V2, [scored(score / 4)], 0.004)
    first, second = comparison.shown(V1, PARTS)
    assert first["psi"] == pytest.approx(0.0, abs=1e-12)
    assert second["psi"] > 0.25
    assert (first["p50_s"], first["part"], second["part"]) == (0.005, "90%", "10%")


def test_errors_and_answers_without_a_host_are_no_scores() -> None:
    comparison = VersionComparison()
    comparison.count(V1, [scored(0.25), failed(2113, "no features"), scored(0.75)], 0.1)
    (first, _) = comparison.shown(V1, PARTS)
    assert (first["rows"], first["errors"], first["mean_score"]) == (3, 1, 0.5)


def test_a_shadow_is_compared_row_by_row() -> None:
    comparison = VersionComparison()
    own = [scored(0.5, 1), scored(0.25, 0), failed(108, "no score")]
    answered = [scored(0.25, 0), scored(0.25, 0), scored(0.75, 1)]
    comparison.count(V1, answered, 0.01)
    comparison.count(V2, own, 0.01, answered=answered)
    shown = comparison.shown(V1, {V1: "100%", V2: "shadow"})[1]
    assert (shown["compared_rows"], shown["mean_difference"]) == (2, 0.125)
    assert shown["labels_differ"] == 0.5


def test_shadows_that_come_too_fast_are_left_out_and_none_runs_after_the_end() -> None:
    shadows, go, done = Shadows(), threading.Event(), []
    for number in range(MOST + 10):
        shadows.run(lambda number=number: (go.wait(30), done.append(number)))
    assert shadows.left_out == 10
    go.set()
    shadows.close()
    shadows.run(lambda: done.append(-1))
    assert -1 not in done


def test_a_shadow_that_fails_harms_nobody() -> None:
    shadows, done = Shadows(), threading.Event()
    shadows.run(lambda: 1 / 0)
    shadows.run(done.set)
    assert done.wait(30)
    shadows.close()
