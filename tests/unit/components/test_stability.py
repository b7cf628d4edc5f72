"""PSI: shares per quantile bin of the first table against those of the second."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.stability.population import PSI
from fedflow.sdk import Outputs, Table
from fedflow.sdk.component import spec_of
from tests.unit.components.hetero_lr_parties import csv
from tests.unit.components.one_party import Party

NAN = float("nan")


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def compare(party: Party, expected: Table, actual: Table, **params: Any) -> Outputs:
    ports = {"train_data": [("a", expected)], "validate_data": [("b", actual)]}
    return party.run(PSI, ports=ports, **params)


def in_the_clear(expected: Any, actual: Any, bins: int) -> float:
    """Return the index by pandas, for columns without missing values."""
    ranks = [math.ceil(i * len(expected) / bins) - 1 for i in range(1, bins)]
    cuts = [-np.inf, *np.unique(np.sort(expected)[ranks]), np.inf]
    e, a = (
        pd.Series(pd.cut(side, cuts)).value_counts(sort=False).to_numpy() / len(side)
        for side in (expected, actual)
    )
    e, a = np.where(e == 0, 1e-6, e), np.where(a == 0, 1e-6, a)
    return float(((a - e) * np.log(a / e)).sum())


def test_scores_equal_those_in_the_clear(party: Party) -> None:
    rows = csv("breast_hetero_host.csv")
    first, second = rows.slice(0, 200), rows.slice(200)
    tables = (party.table({n: part[n] for n in part.column_names}) for part in (first, second))
    found = compare(party, *tables)
    scores = found.summary["psi_scores"]
    assert list(scores) == rows.column_names[1:]
    for name, score in scores.items():
        reference = in_the_clear(first[name].to_numpy(), second[name].to_numpy(), 20)
        assert score == pytest.approx(reference, rel=1e-9)
    assert found.data == ()
    assert found.model is not None
    assert (found.model.meta_name, found.model.param_name) == ("PSIMeta", "PSIParam")
    assert found.model.meta == {"max_bin_num": 20}
    assert found.model.param["total_score"] == scores
    assert found.model.param["model_name"] == "psi"
    entry = found.model.param["feature_psi"][0]
    assert sum(entry["psi"]) == pytest.approx(scores["x0"])
    assert len(entry["psi"]) == len(entry["interval"]) == len(entry["actual_perc"]) == 21


def test_one_bin_is_always_the_same(party: Party) -> None:
    expected = party.table({"id": list("abc"), "x": [1.0, 2.0, 3.0]})
    actual = party.table({"id": list("abc"), "x": [-7.0, 8.0, 9.0]})
    found = compare(party, expected, actual, max_bin_num=1, dense_missing_val="none")
    assert found.summary["psi_scores"] == {"x": pytest.approx(0)}


def test_missing_values_are_one_more_bin(party: Party) -> None:
    expected = party.table({"id": list("abcd"), "x": [1.0, 2.0, NAN, 3.0]})
    actual = party.table({"id": list("abcd"), "x": [-7.0, NAN, NAN, 9.0]})
    found = compare(party, expected, actual, max_bin_num=3, dense_missing_val=-7)
    assert found.model is not None
    (entry,) = found.model.param["feature_psi"]
    assert entry["interval"] == ["(-inf, 1]", "(1, 2]", "(2, inf]", "missing"]
    assert entry["expect_perc"] == [0.25, 0.25, 0.25, 0.25]
    assert entry["actual_perc"] == [0.0, 0.0, 0.25, 0.75]
    empty = (1e-6 - 0.25) * math.log(1e-6 / 0.25)
    assert entry["psi"] == pytest.approx([empty, empty, 0.0, 0.5 * math.log(3)])


def test_a_column_without_values_is_stable(party: Party) -> None:
    table = party.table({"id": ["a", "b"], "x": [NAN, NAN]})
    found = compare(party, table, party.table({"id": ["c"], "x": [NAN]}))
    assert found.summary == {"psi_scores": {"x": 0.0}}


def test_two_tables_on_one_port_are_compared_in_order(party: Party) -> None:
    expected = party.table({"id": list("abc"), "x": [1, 2, 3]})
    actual = party.table({"id": list("abc"), "x": [3, 3, 3]})
    on_one = party.run(PSI, expected, actual)
    assert on_one.summary == compare(party, expected, actual).summary
    assert on_one.summary != party.run(PSI, actual, expected).summary


def test_need_run_false_makes_nothing(party: Party) -> None:
    found = party.run(PSI, need_run=False)
    assert found.passed
    assert found.model is None


def test_tables_that_do_not_fit_are_refused(party: Party) -> None:
    one = party.table({"id": ["a"], "x": [1], "z": [1]})
    other = party.table({"id": ["a"], "x": [1], "w": [1]})
    error = party.fails(PSI, one, other)
    assert isinstance(error, BadData)
    assert "2 features are in one of the two tables only" in str(error)
    assert "there are 1 tables" in str(party.fails(PSI, one))
    empty = party.table({"id": pa.array([], pa.string()), "x": pa.array([], pa.int64())})
    assert "has no rows" in str(party.fails(PSI, one, empty))


def test_train_data_alone_is_refused(party: Party) -> None:
    table = party.table({"id": ["a"], "x": [1]})
    error = party.fails(PSI, ports={"train_data": [("a", table)]})
    assert isinstance(error, BadParameter)
    assert "validate_data" in str(error)


def test_values_where_there_were_none_are_another_bin(party: Party) -> None:
    expected = party.table({"id": list("abcd"), "x": [NAN] * 4})
    actual = party.table({"id": list("abcd"), "x": [1.0, 2.0, NAN, NAN]})
    found = compare(party, expected, actual)
    assert found.model is not None
    (entry,) = found.model.param["feature_psi"]
    assert entry["interval"] == ["(-inf, inf]", "missing"]
    assert (entry["expect_perc"], entry["actual_perc"]) == ([0.0, 1.0], [0.5, 0.5])
    assert found.summary["psi_scores"]["x"] > 0.25


@pytest.mark.parametrize("port", ["test_data", "data", "eval_data"])
def test_with_its_model_there_is_nothing_to_compare(party: Party, port: str) -> None:
    table = party.table({"id": list("abc"), "x": [1, 2, 3]})
    model = compare(party, table, table).model
    found = party.run(PSI, ports={port: [("a", table)]}, model=model)
    assert found == Outputs(model=model, passed=True)
    assert port in spec_of(PSI).data_ports


def test_eval_data_is_validation_data(party: Party) -> None:
    tables = [party.table({"id": list("abc"), "x": x}) for x in ([1, 2, 3], [3, 3, 3])]
    ports = {port: [("a", t)] for port, t in zip(("train_data", "eval_data"), tables, strict=True)}
    assert party.run(PSI, ports=ports).summary == compare(party, *tables).summary
