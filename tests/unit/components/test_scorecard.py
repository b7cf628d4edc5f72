"""Scorecard: the formula, its limits, and what it refuses."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.scoring.scorecard import Scorecard
from fedflow.sdk import Outputs, Table, TableKind
from tests.unit.components.one_party import HOST, Party, rows_of, schema_of


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def predictions(party: Party, scores: list[float], detail: str = "{'0': 0.5, '1': 0.5}") -> Table:
    count = len(scores)
    return party.predictions(
        {
            "id": [f"i{i}" for i in range(count)],
            "label": [1] * count,
            "predict_result": [0] * count,
            "predict_score": scores,
            "predict_detail": [detail] * count,
            "type": ["train"] * count,
        }
    )


def test_scores_follow_the_formula(party: Party) -> None:
    table = predictions(party, [0.5, 1 / 3, 0.2, 0.87])
    outputs = party.run(Scorecard, table)
    assert rows_of(outputs) == {
        "id": ["i0", "i1", "i2", "i3"],
        "label": [1] * 4,
        "predict_result": [0] * 4,
        "predict_score": [0.5, 1 / 3, 0.2, 0.87],
        "credit_score": [500.0, 520.0, 540.0, round(500 + 20 * math.log2(0.13 / 0.87), 2)],
    }
    schema = schema_of(outputs)
    assert schema.kind is TableKind.PREDICTIONS
    assert schema.names == ("id", "label", "predict_result", "predict_score", "credit_score")
    assert outputs.summary == {
        "scorecard_compute_formula": "Score = 500 + 20 / ln(2) * ln((1 - p) / p)"
    }
    assert outputs.model is None


def test_scores_stay_within_their_limits(party: Party) -> None:
    table = predictions(party, [0.0, 1.0, 1e-300, 0.5])
    assert rows_of(party.run(Scorecard, table))["credit_score"] == [1500.0, 0.0, 1500.0, 500.0]
    scores = rows_of(party.run(Scorecard, table, upper_limit_ratio=1, lower_limit_value=-7))
    assert scores["credit_score"] == [500.0, -7.0, 500.0, 500.0]


def test_the_scale_can_be_chosen(party: Party) -> None:
    table = predictions(party, [0.1, 0.9, 0.0])
    rows = rows_of(party.run(Scorecard, table, offset=600, factor=50, factor_base=9))
    assert rows["credit_score"] == [650.0, 550.0, 1800.0]


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"method": "debit"}, "method"),
        ({"factor_base": 1}, "factor_base"),
        ({"factor": float("inf")}, "factor"),
        ({"factor_base": 0}, "factor_base"),
        ({"offset": 100, "lower_limit_value": 301}, "lower_limit_value"),
    ],
)
def test_wrong_parameters_are_named(party: Party, params: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        party.run(Scorecard, predictions(party, [0.5]), **params)


def test_other_tables_are_refused(party: Party) -> None:
    table = party.table({"id": ["a"], "y": [1], "x": [1.0]})
    assert "it lacks predict_result, predict_score" in party.fails(Scorecard, table).message
    for detail in ("{'label': 3.0}", "{'a': 0.1, 'b': 0.1, 'c': 0.8}"):
        error = party.fails(Scorecard, predictions(party, [0.5], detail))
        assert "not of two classes" in error.message


def test_scores_that_are_no_probabilities_are_counted(party: Party) -> None:
    error = party.fails(Scorecard, predictions(party, [0.5, 1.5, -0.1]))
    assert isinstance(error, BadData)
    assert "2 of 3 rows" in error.message


def test_nothing_to_do_passes_the_rows_or_nothing(party: Party, tmp_path: Path) -> None:
    table = predictions(party, [0.5])
    assert party.run(Scorecard, table, need_run=False) == Outputs(data=(table,), passed=True)
    assert Party(tmp_path, site=HOST).run(Scorecard, None) == Outputs()
