"""What differs between the contents of two versions of a model."""

from __future__ import annotations

from fedflow.board.presenters.model_diff import MOST_WEIGHTS, weights


def test_weights_stand_side_by_side_greatest_change_first() -> None:
    before = {"weight": {"a": 1.0, "b": 2.0, "c": 3.0, "bad": "?"}, "intercept": 0.5}
    after = {"weight": {"a": 1.5, "b": -2.0, "d": 4.0}, "intercept": 0.25}
    rows, more = weights(before, after)
    assert [(row.name, row.before, row.after) for row in rows] == [
        ("intercept", 0.5, 0.25), ("b", 2.0, -2.0), ("a", 1.0, 1.5), ("c", 3.0, None),
        ("d", None, 4.0),
    ]  # fmt: skip
    assert rows[1].delta == -4
    assert more == 0


def test_models_without_weights_have_no_table_of_weights() -> None:
    assert weights({"intercept": 1.0}, {"weight": []}) == ([], 0)


def test_more_weights_than_are_shown_are_counted() -> None:
    many = {f"x{n}": float(n) for n in range(MOST_WEIGHTS + 7)}
    rows, more = weights({"weight": many}, {"weight": many})
    assert (len(rows), more) == (MOST_WEIGHTS, 7)
