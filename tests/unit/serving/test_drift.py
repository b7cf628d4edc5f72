"""How far a version's scores and features have moved, counted without rows."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.serving.codes import Degraded, ItemAnswer, failed
from fedflow.serving.drift import (
    LEARNED,
    LEAST,
    MOST_COLUMNS,
    SAMPLED,
    WINDOW,
    ColumnDrift,
    VersionDrift,
    stability_index,
)
from fedflow.serving.learned_references import LearnedReferences
from fedflow.wire.deployed_model import ColumnHistogram, ReferenceHistograms

RNG = np.random.default_rng(5)
DECILES = [-1.2816, -0.8416, -0.5244, -0.2533, 0.0, 0.2533, 0.5244, 0.8416, 1.2816]
NORMAL = ColumnHistogram(edges=DECILES, counts=[100] * 10)


def drift(
    *inputs: str, reference: ReferenceHistograms | None = None, **more: object
) -> VersionDrift:
    scores = list(more.get("scores", []))  # type: ignore[call-overload]
    texts = frozenset(more.get("texts", ()))  # type: ignore[call-overload]
    return VersionDrift(inputs, texts, scores=scores, reference=reference)


def normal(*inputs: str) -> VersionDrift:
    known = ReferenceHistograms(source="training", features=dict.fromkeys(inputs, NORMAL))
    return drift(*inputs, reference=known)


def fed(counted: VersionDrift, values: np.ndarray) -> list[ColumnDrift]:  # type: ignore[type-arg]
    for start in range(0, len(values), SAMPLED):
        counted.count(values[start : start + SAMPLED])
    return counted.columns()


def test_the_index_is_the_sum_over_bins() -> None:
    expected, actual = np.array([[50, 30, 20]]), np.array([[20, 30, 50]])
    wanted = (0.2 - 0.5) * math.log(0.2 / 0.5) + (0.5 - 0.2) * math.log(0.5 / 0.2)
    assert stability_index(expected, actual)[0] == pytest.approx(wanted)


def test_an_empty_bin_counts_as_a_small_share() -> None:
    found = stability_index(np.array([[100, 0]]), np.array([[0, 100]]))[0]
    assert found == pytest.approx(2 * (1 - 1e-4) * math.log(1e4))


def test_rows_like_those_of_the_training_are_stable() -> None:
    (one,) = fed(normal("x"), RNG.normal(size=(4000, 1)))
    assert (one.word, one.rows, one.kind) == ("stable", 4000, "feature")
    assert one.edges == DECILES
    assert sum(one.actual) == pytest.approx(1)


@pytest.mark.parametrize(("shift", "word"), [(0.4, "shifting"), (1.0, "shifted")])
def test_moved_rows_are_said_to_have_moved(shift: float, word: str) -> None:
    (one,) = fed(normal("x"), RNG.normal(size=(4000, 1)) + shift)
    assert one.word == word


def test_missing_values_have_a_bin_of_their_own() -> None:
    values = RNG.normal(size=(2000, 1))
    values[::2] = np.nan
    (one,) = fed(normal("x"), values)
    assert one.actual[-1] == 0.5
    assert one.word == "shifted"


def test_few_rows_have_no_index() -> None:
    (one,) = fed(normal("x"), RNG.normal(size=(LEAST - 1, 1)))
    assert (one.psi, one.word) == (None, "unknown")


def test_old_rows_are_forgotten() -> None:
    counted = normal("x")
    fed(counted, RNG.normal(size=(WINDOW, 1)) + 3)
    (one,) = fed(counted, RNG.normal(size=(2 * WINDOW + 2 * SAMPLED, 1)))
    assert one.word == "stable"
    assert one.rows < 2 * WINDOW + 2 * SAMPLED


def test_without_a_reference_the_first_rows_become_it() -> None:
    counted = drift("x", "day")
    first = np.column_stack([RNG.normal(size=LEARNED), RNG.integers(0, 2, LEARNED) + 2020.0])
    assert {one.word for one in fed(counted, first)} == {"unknown"}
    same = np.column_stack([RNG.normal(size=2000), RNG.integers(0, 2, 2000) + 2020.0])
    x, day = fed(counted, same)
    assert (x.word, day.word) == ("stable", "stable")
    assert len(x.edges) == 9
    assert max(x.expected) < 0.12
    assert sorted(one for one in day.expected if one) == pytest.approx([0.5, 0.5], abs=0.06)
    x, day = fed(counted, same + np.array([0.0, 1.0]))
    assert (x.word, day.word) == ("stable", "shifted")
    assert {one["reference"] for one in counted.shown()["columns"]} == {"the first 1000 rows"}


def test_what_was_learned_is_used_again() -> None:
    kept: list[ReferenceHistograms] = []
    counted = VersionDrift(
        ["x", "y"], frozenset(), scores=["score"], keep=kept.append,
        reference=ReferenceHistograms(source="training", features={"y": NORMAL}),
    )  # fmt: skip
    for _ in range(LEARNED):
        counted.count(RNG.normal(size=(1, 2)), [ItemAnswer(score=float(RNG.random()))])
    assert list(kept[-1].features) == ["x"]
    assert list(kept[-1].scores) == ["score"]
    again = VersionDrift(
        ["x", "y"], frozenset(), scores=["score"], learned=kept[-1],
        reference=ReferenceHistograms(source="training", features={"y": NORMAL}),
    )  # fmt: skip
    columns = {
        one.column: one for one in fed(again, RNG.normal(size=(2000, 2)) + np.array([2.0, 0.0]))
    }
    assert (columns["x"].word, columns["x"].is_learned) == ("shifted", True)
    assert (columns["y"].word, columns["y"].is_learned) == ("stable", False)


def test_references_are_kept_by_load(tmp_path: Path) -> None:
    files = LearnedReferences(tmp_path / "references")
    learned = ReferenceHistograms(source="first", features={"x": NORMAL})
    assert files.read("a") is None
    files.keep_only(["a"])
    for load_id in ("a", "..", "b"):
        files.write(load_id, learned)
        assert files.read(load_id) == learned
    files.keep_only(["a", ".."])
    assert (files.read("a"), files.read(".."), files.read("b")) == (learned, learned, None)
    (path,) = (tmp_path / "references").glob("a.json")
    path.write_text('{"source": 5}')
    assert files.read("a") is None
    blocked = LearnedReferences(path)
    blocked.write("a", learned)
    assert blocked.read("a") is None


@given(st.lists(st.floats(allow_nan=True), min_size=1, max_size=60))
def test_any_numbers_can_become_a_reference(numbers: list[float]) -> None:
    counted = drift("x")
    values = np.resize(np.array(numbers), (LEARNED + SAMPLED, 1))
    (one,) = fed(counted, values)
    assert list(one.edges) == sorted(set(one.edges))
    assert sum(one.expected) == pytest.approx(1, abs=1e-4)
    (one,) = fed(counted, np.resize(values, (LEARNED, 1)))
    assert one.psi is not None
    assert math.isfinite(one.psi)


def test_scores_are_counted_where_there_are_some() -> None:
    known = ReferenceHistograms(
        source="training", scores={"score": ColumnHistogram(edges=[0.5], counts=[1, 1])}
    )
    counted = drift("x", scores=["score"], reference=known)
    degraded = ItemAnswer(score=0.99, degraded=Degraded(how="guest_only", why="late"))
    answers = [ItemAnswer(score=0.2), ItemAnswer(score=0.9), failed(105, "late"), degraded]
    for _ in range(LEAST):
        counted.count(np.zeros((3, 1)), answers)
    score, x = counted.columns()
    assert (score.kind, score.column, score.rows, score.word) == ("score", "score", 1000, "stable")
    assert (x.rows, x.psi) == (3 * LEAST - 1002, None)
    told = {one["column"]: one["reference"] for one in counted.shown()["columns"]}
    assert told == {"score": "training", "x": "the first 1000 rows"}


def test_each_class_has_a_score() -> None:
    counted = drift(scores=["score:0", "score:1", "score:2"])
    for _ in range(LEARNED + LEAST):
        counted.count(np.zeros((1, 0)), [ItemAnswer(score=[0.1, 0.2, 0.7])])
    assert [one.column for one in counted.columns()] == ["score:0", "score:1", "score:2"]
    assert {one.psi for one in counted.columns()} == {0.0}


def test_texts_and_too_many_columns_are_left_out() -> None:
    names = [f"x{i}" for i in range(MOST_COLUMNS + 3)]
    counted = drift(*names, texts={"x1"})
    assert counted.left_out == 2
    counted.count(np.zeros((1, len(names))))
    found = [one.column for one in counted.columns()]
    assert len(found) == MOST_COLUMNS
    assert "x1" not in found


def test_nothing_that_is_shown_grows_with_rows() -> None:
    counted = drift("x", scores=["score"])
    fed(counted, RNG.normal(size=(3 * LEARNED, 1)))
    size = len(msgspec.json.encode(counted.shown()))
    fed(counted, RNG.normal(size=(WINDOW, 1)))
    assert len(msgspec.json.encode(counted.shown())) < size + 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"edges": [1.0], "counts": [1]},
        {"edges": [1.0, 1.0], "counts": [1, 1, 1]},
        {"edges": [], "counts": [0]},
        {"edges": [], "counts": [-1], "missing": 5},
    ],
)
def test_a_histogram_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, ColumnHistogram)
