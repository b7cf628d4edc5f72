"""PositiveUnlabeled: its four strategies, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.scoring.positive_unlabeled import PositiveUnlabeled
from fedflow.sdk import Outputs, Table
from tests.unit.components.boosting_parties import HOST as TREE_HOST
from tests.unit.components.boosting_parties import data_of, models_of, of_features, run, trees_of
from tests.unit.components.boosting_parties import predictions as predictions_of
from tests.unit.components.hetero_lr_parties import GUEST, Data
from tests.unit.components.one_party import HOST, Party, rows_of, schema_of

IDS = list("abcdefgh")
LABELS = [1, 0, 0, 1, 0, 0, 0, 2]
SCORES = [0.95, 0.9, 0.2, 0.1, 0.96, 0.5, 0.9, 0.97]  # by descending score: h e a b g f c d


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def instances(party: Party, labels: Any = LABELS) -> Table:
    return party.table({"id": IDS, "y": labels, "x": [1.0] * 8}, anonymous=("g0",))


def predictions(party: Party, ids: list[str] | None = None) -> Table:
    by_id = dict(zip(IDS, SCORES, strict=True))
    ids = ids or list(reversed(IDS))
    return party.predictions(
        {
            "id": ids,
            "label": [0] * len(ids),
            "predict_result": [0] * len(ids),
            "predict_score": [by_id.get(i, 0.0) for i in ids],
            "predict_detail": [""] * len(ids),
            "type": ["train"] * len(ids),
        }
    )


@pytest.mark.parametrize(
    ("params", "converted"),
    [
        ({}, "beg"),
        ({"strategy": "probability", "threshold": 0.95}, "e"),
        ({"strategy": "quantity", "threshold": 2}, "be"),
        ({"strategy": "Quantity", "threshold": 100}, "bcefg"),
        ({"strategy": "proportion", "threshold": 0.5}, "be"),
        ({"strategy": "proportion", "threshold": 0.65}, "beg"),
        ({"strategy": "distribution", "threshold": 9.6}, "befg"),
        ({"strategy": "distribution", "threshold": 1.6}, ""),
    ],
)
def test_strategies_choose_rows(party: Party, params: dict[str, Any], converted: str) -> None:
    table = instances(party)
    result = party.result(PositiveUnlabeled, table, predictions(party), **params)
    outputs = result.outputs
    assert outputs is not None
    rows = rows_of(outputs)
    changed = [i for i, old, new in zip(IDS, LABELS, rows["y"], strict=True) if old != new]
    assert "".join(changed) == converted
    assert all(rows["y"][IDS.index(i)] == 1 for i in converted)
    assert schema_of(outputs) == table.schema
    assert outputs.summary == {"count of converted unlabeled": len(converted)}
    metric = result.metrics["train", "positive_unlabeled"]
    assert metric.metric_type == "PU_MODEL"
    assert metric.points == [("count of converted unlabeled", len(converted))]


def test_the_tables_may_come_in_any_order(party: Party) -> None:
    outputs = party.run(PositiveUnlabeled, predictions(party), instances(party, [0.0] * 8))
    assert rows_of(outputs)["y"] == [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0]


def test_hosts_pass_their_rows_on(tmp_path: Path) -> None:
    host = Party(tmp_path, site=HOST)
    table = host.table({"id": ["a"], "x": [1.0]})
    assert host.run(PositiveUnlabeled, table, None) == Outputs(data=(table,), passed=True)


def test_need_run_false_passes_the_instances(party: Party) -> None:
    table = instances(party)
    assert party.run(PositiveUnlabeled, predictions(party), table, need_run=False) == Outputs(
        data=(table,), passed=True
    )


def test_rows_without_a_score_are_counted(party: Party) -> None:
    error = party.fails(PositiveUnlabeled, instances(party), predictions(party, ["a", "b", "z"]))
    assert isinstance(error, BadData)
    assert "6 of 8 instances have no score" in error.message


def test_both_tables_are_needed(party: Party) -> None:
    error = party.fails(PositiveUnlabeled, instances(party))
    assert "not 1 and 0" in error.message


@pytest.mark.parametrize(
    ("labels", "what"), [(["1"] * 8, "not numbers"), ([None, *LABELS[1:]], "1 of 8 rows")]
)
def test_unusable_labels_are_refused(party: Party, labels: Any, what: str) -> None:
    error = party.fails(PositiveUnlabeled, instances(party, labels), predictions(party))
    assert what in error.message


@pytest.mark.parametrize("strategy", ["probability", "quantity", "proportion", "distribution"])
def test_a_table_without_rows_is_refused(party: Party, strategy: str) -> None:
    empty = party.table({"id": pa.array([], pa.string()), "y": pa.array([], pa.int64())})
    error = party.fails(PositiveUnlabeled, empty, predictions(party), strategy=strategy)
    assert "has no rows" in error.message


@pytest.mark.parametrize(
    "params",
    [
        {"strategy": "luck"},
        {"threshold": 1.5},
        {"threshold": -0.1},
        {"strategy": "proportion", "threshold": 2},
    ],
)
def test_wrong_parameters_are_refused(party: Party, params: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=r"threshold|strategy"):
        party.run(PositiveUnlabeled, instances(party), predictions(party), **params)


@pytest.mark.timeout(120)
def test_scores_of_trees_relabel_the_rows_that_trained_them(tmp_path: Path) -> None:
    data = data_of()
    results = run(data, tmp_path)
    models_of(results)
    scored = results[GUEST].outputs
    assert scored is not None
    party = Party(tmp_path)
    table = party.table(data.tables[GUEST].to_pydict())
    outputs = party.run(PositiveUnlabeled, table, scored.data[0], threshold=0.45)
    columns = predictions_of(results).to_pydict()
    by_id = dict(zip(columns["id"], columns["predict_score"], strict=True))
    before, after = table.read().to_pydict(), rows_of(outputs)
    expected = [int(y or by_id[i] >= 0.45) for i, y in zip(before["id"], before["y"], strict=True)]
    assert after["y"] == expected
    assert expected != before["y"]
    again = run(_relabelled(data, after["y"]), tmp_path / "again")
    assert trees_of(models_of(again)) != trees_of(models_of(results))


def _relabelled(data: Data, labels: list[int]) -> Data:
    """Return the data with other labels."""
    return of_features(data.features, {GUEST: 2, TREE_HOST: 3}, labels)
