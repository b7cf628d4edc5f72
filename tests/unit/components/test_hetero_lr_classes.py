"""HeteroLR with several classes: one training for each against the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.samples.predictions import sigmoid
from fedflow.components.training.one_vs_rest import agree_on_classes
from fedflow.sdk import Model
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleRun, OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    Data,
    first_error,
    run,
    small,
    with_labels,
)

SITES = (GUEST, HOST, ARBITER)
NAMES = ["b", "a", "c"]  # not in sorted order


def three_classes() -> Data:
    data = small(rows=45)
    scores = data.features @ np.random.default_rng(2).normal(size=(7, 3))
    return with_labels(data, [NAMES[i] for i in scores.argmax(axis=1)])


def in_clear(data: Data, name: str, iterations: int = 3) -> OracleRun:
    labels = np.where(data.labels == name, 1.0, -1.0)
    return train_in_clear(data.features, labels, OracleSettings(iterations=iterations))


def models_of(results: Any) -> dict[Any, Model]:
    return {site: out.model for site, out in outputs_of(results).items() if out.model is not None}


def table_of(results: Any) -> pa.Table:
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    return table.read()


def test_every_class_equals_the_oracle_against_the_rest(tmp_path: Path) -> None:
    data = three_classes()
    federation = LocalFederation(SITES)
    results = run(data, tmp_path, federation=federation)
    assert federation.unread() == []
    probabilities = []
    for number, name in enumerate(sorted(NAMES)):
        expected = in_clear(data, name)
        parts = [
            models_of(results)[site].param["one_vs_rest_result"]["completed_models"][number]
            for site in (GUEST, HOST)
        ]
        found = [part["weight"][column] for part in parts for column in part["header"]]
        np.testing.assert_allclose(found, expected.coef, rtol=1e-6, atol=2e-6)
        probabilities.append(sigmoid(expected.scores_per_iteration[-1]))
    rows, scores = table_of(results), np.column_stack(probabilities)
    assert rows["predict_result"].to_pylist() == [sorted(NAMES)[i] for i in scores.argmax(axis=1)]
    np.testing.assert_allclose(rows["predict_score"].to_numpy(), scores.max(axis=1), atol=1e-6)
    assert rows["label"].to_pylist() == data.labels.tolist()
    assert rows["predict_detail"][0].as_py().startswith("{'a': ")
    assert rows["predict_detail"][0].as_py().count(", '") == 2


def test_models_and_summaries_are_by_class_and_hosts_know_no_labels(tmp_path: Path) -> None:
    results = run(three_classes(), tmp_path)
    guest, host, arbiter = (models_of(results)[site] for site in SITES)
    for model in (guest, host, arbiter):
        assert model.meta["need_one_vs_rest"] is True
        assert model.param["need_one_vs_rest"] is True
        assert model.param["weight"] == {}
    assert guest.param["one_vs_rest_result"]["one_vs_rest_classes"] == ["a", "b", "c"]
    assert host.param["one_vs_rest_result"]["one_vs_rest_classes"] == ["0", "1", "2"]
    assert host.param["classes"] == []
    assert set(outputs_of(results)[GUEST].summary) == {"a", "b", "c"}
    assert outputs_of(results)[GUEST].summary["a"]["is_converged"] is False
    assert len(outputs_of(results)[ARBITER].summary["2"]["loss_history"]) == 3
    assert not [name for _, name in results[ARBITER].metrics if "loss" in name]
    shown = results[HOST].progress
    assert list(shown) == sorted(shown)
    assert {1 / 3, 2 / 3, 1.0} < set(shown), "classes count, and iterations of each"


def test_measures_carry_the_number_of_the_class(tmp_path: Path) -> None:
    data = three_classes()
    ports = {"train_data": data, "validate_data": data}
    results = run(data, tmp_path, ports=ports, validation_freqs=3)
    for number in range(3):
        metric = results[GUEST].metrics["validate", f"model_{number}.iteration_2"]
        assert [name for name, _ in metric.points] == ["auc", "ks"]
    assert table_of(results)["type"].to_pylist() == ["train"] * 45 + ["validate"] * 45
    summary = outputs_of(results)[GUEST].summary["b"]["validation_metrics"]
    assert len(summary["validate"]["auc"]) == 1


def test_a_stored_model_predicts_and_is_trained_on(tmp_path: Path) -> None:
    data = three_classes()
    first = run(data, tmp_path / "1", max_iter=1)
    again = run(data, tmp_path / "2", models=models_of(first))
    parts = models_of(again)[GUEST].param["one_vs_rest_result"]["completed_models"]
    found = [part["intercept"] for part in parts]
    expected = [in_clear(data, name).intercept for name in sorted(NAMES)]
    assert found == pytest.approx(expected, abs=2e-6)
    unlabelled = replace(data, tables={**data.tables, GUEST: data.tables[GUEST].drop(["y"])})
    predicted = run(data, tmp_path / "3", ports={"test_data": unlabelled}, models=models_of(again))
    assert table_of(predicted)["predict_score"].equals(table_of(again)["predict_score"])


def test_a_model_of_other_classes_is_not_trained_on(tmp_path: Path) -> None:
    data = three_classes()
    models = models_of(run(data, tmp_path / "1", max_iter=1))
    two = with_labels(small(rows=45), [0, 1, 1] * 15)
    results = run(two, tmp_path / "2", models=models)
    assert "other classes" in str(first_error(results))


def test_a_class_that_validation_rows_lack_is_no_error(tmp_path: Path) -> None:
    data = three_classes()
    held_out = with_labels(small(rows=45), ["a"] * 45)
    results = run(data, tmp_path, ports={"train_data": data, "validate_data": held_out})
    assert table_of(results).num_rows == 90


def test_validation_labels_of_another_kind_are_refused(tmp_path: Path) -> None:
    data = three_classes()
    numbers = with_labels(small(rows=45), list(range(45)))
    ports = {"train_data": data, "validate_data": numbers}
    error = first_error(run(data, tmp_path, ports=ports, validation_freqs=1))
    assert isinstance(error, BadData)
    assert "labels are int64" in str(error)


def test_an_identifier_as_label_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedflow.components.training.one_vs_rest.MAX_CLASSES", 30)
    results = run(with_labels(small(), list(range(40))), tmp_path)
    error = first_error(results)
    assert isinstance(error, BadData)
    assert "40 classes" in str(error)


@pytest.mark.parametrize("told", [None, {"count": "3"}, {"count": 1}, {"count": 10**9}])
def test_an_impossible_number_of_classes_is_refused(told: Any) -> None:
    federation = LocalFederation(SITES)
    federation.at(GUEST).send("classes", told, to=(HOST, ARBITER))
    host: Any = SimpleNamespace(federation=federation.at(HOST), only=lambda role: GUEST)
    with pytest.raises(CodecError):
        agree_on_classes(host, None)
