"""Cross validation: folds as scikit-learn's, measures and rows of each training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.model_selection import KFold

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.components.samples.alignment import ids_digest
from fedflow.components.training.cross_validation import k_folds
from fedflow.components.training.params import CvParam
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    auc,
    first_error,
    run,
    small,
    with_labels,
    with_numbers,
)

CV = {"need_cv": True, "n_splits": 3, "random_seed": 7}
SITES = (GUEST, HOST, ARBITER)


def rows_of(results: Any, site: Any = GUEST) -> pa.Table:
    (table,) = outputs_of(results)[site].data
    assert table is not None
    return table.read()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("rows", "splits"), [(10, 3), (9, 3), (7, 7), (101, 5)])
def test_folds_are_those_of_scikit_learn(rows: int, splits: int, shuffle: bool) -> None:
    param = CvParam(n_splits=splits, shuffle=shuffle, random_seed=13)
    known = KFold(splits, shuffle=shuffle, random_state=13 if shuffle else None)
    expected = [test.tolist() for _, test in known.split(np.zeros(rows))]
    assert [part.tolist() for part in k_folds(rows, param)] == expected


def test_folds_without_a_seed_differ() -> None:
    param = CvParam(n_splits=2, random_seed=None)
    one, two = k_folds(200, param)[0], k_folds(200, param)[0]
    assert one.tolist() != two.tolist()


def test_every_fold_equals_a_training_in_the_clear_on_its_rows(tmp_path: Path) -> None:
    data = small(rows=60)
    federation = LocalFederation(SITES)
    results = run(data, tmp_path, cv_param=CV, federation=federation)
    assert federation.unread() == []
    rows = rows_of(results)
    ids = data.tables[GUEST]["id"].to_pylist()
    known = KFold(3, shuffle=True, random_state=7)
    place = 0
    for number, (train, test) in enumerate(known.split(np.zeros(60))):
        expected = train_in_clear(
            data.features[train], data.labels[train], OracleSettings(iterations=3)
        )
        scores = data.features @ expected.coef + expected.intercept
        for part, chosen in (("train", train), ("validate", test)):
            found = rows.slice(place, len(chosen))
            place += len(chosen)
            assert found["id"].to_pylist() == [f"{ids[i]}#fold{number}#{part}" for i in chosen]
            assert set(found["type"].to_pylist()) == {part}
            predicted = 1 / (1 + np.exp(-scores[chosen]))
            np.testing.assert_allclose(found["predict_score"].to_numpy(), predicted, atol=1e-6)
            metric = results[GUEST].metrics[part, f"{part}_fold_{number}"]
            assert metric.metric_type == "EVALUATION_SUMMARY"
            values = dict(metric.points)
            assert values["auc"] == pytest.approx(
                auc(data.labels[chosen], scores[chosen]), abs=1e-6
            )
            assert set(values) == {"auc", "ks"}
        loss = results[ARBITER].metrics["train", f"loss.{number}"]
        assert [value for _, value in loss.points] == pytest.approx(expected.losses, rel=1e-6)
        assert loss.meta["curve_name"] == f"fold_{number}"
    assert place == rows.num_rows


def test_there_is_no_model_but_a_summary_per_fold(tmp_path: Path) -> None:
    results = run(small(rows=60), tmp_path, cv_param=CV, validation_freqs=3)
    for site in SITES:
        output = outputs_of(results)[site]
        assert output.model is None
        assert output.summary["fold_num"] == 3
        assert set(output.summary) == {"fold_num", "fold_0", "fold_1", "fold_2"}
        shown = results[site].progress
        assert list(shown) == sorted(shown)
        assert {1 / 3, 2 / 3} < set(shown)
        assert (shown[-1], len(set(shown)) > 5) == (1.0, True), "iterations of each fold count"
    assert "coef" in outputs_of(results)[HOST].summary["fold_1"]
    assert outputs_of(results)[HOST].data == ()
    assert ("validate", "fold_2.iteration_2") in results[GUEST].metrics


def test_instances_of_each_fold_exist_at_all_data_parties(tmp_path: Path) -> None:
    data = small(rows=30)
    cv = {**CV, "history_value_type": "instance"}
    results = run(data, tmp_path, max_iter=1, cv_param=cv)
    guest, host = rows_of(results), rows_of(results, HOST)
    assert guest["id"].equals(host["id"])
    assert guest.num_rows == 90
    assert guest.column_names == data.tables[GUEST].column_names
    train = next(iter(KFold(3, shuffle=True, random_state=7).split(np.zeros(30))))[0]
    assert host["x3"].to_pylist()[:20] == data.tables[HOST]["x3"].take(train).to_pylist()


def test_without_history_the_input_is_the_output(tmp_path: Path) -> None:
    data = small(rows=30)
    cv = {**CV, "output_fold_history": False}
    results = run(data, tmp_path, max_iter=1, cv_param=cv)
    for site in (GUEST, HOST):
        assert rows_of(results, site).equals(data.tables[site])
    assert outputs_of(results)[ARBITER].data == ()


def test_a_long_history_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fedflow.components.training.cross_validation.MAX_HISTORY_ROWS", 80)
    data = small(rows=30)
    results = run(data, tmp_path, max_iter=1, cv_param=CV)
    assert rows_of(results).equals(data.tables[GUEST])
    assert "no output_fold_history" in caplog.text


def test_numbers_and_two_hosts(tmp_path: Path) -> None:
    data = with_numbers(small(rows=36, widths={GUEST: 2, HOST: 2, HOST_2: 3}))
    results = run(
        data, tmp_path, cls=HeteroLinR, early_stop="weight_diff", optimizer="sgd", cv_param=CV
    )
    train, test = next(iter(KFold(3, shuffle=True, random_state=7).split(np.zeros(36))))
    settings = OracleSettings(iterations=3, family="linear", optimizer="sgd")
    expected = train_in_clear(data.features[train], data.labels[train], settings)
    error = data.features[test] @ expected.coef + expected.intercept - data.labels[test]
    values = dict(results[GUEST].metrics["validate", "validate_fold_0"].points)
    root = float(np.sqrt(np.mean(error**2)))
    assert values["root_mean_squared_error"] == pytest.approx(root, abs=2e-6)
    assert not [name for _, name in results[ARBITER].metrics if "loss" in name]


def test_counts_are_cross_validated_too(tmp_path: Path) -> None:
    data = with_numbers(small(rows=30), counts=True)
    results = run(data, tmp_path, cls=HeteroPoisson, max_iter=1, cv_param=CV, metrics=["mae"])
    assert set(dict(results[GUEST].metrics["train", "train_fold_0"].points)) == {
        "mean_absolute_error"
    }


def test_several_classes_are_measured_as_such(tmp_path: Path) -> None:
    data = with_labels(small(rows=45), ["a", "b", "c"] * 15)
    results = run(data, tmp_path, max_iter=1, cv_param={**CV, "n_splits": 2})
    values = dict(results[GUEST].metrics["validate", "validate_fold_0"].points)
    assert set(values) == {"accuracy", "precision", "recall"}


def test_more_folds_than_rows_are_refused(tmp_path: Path) -> None:
    results = run(small(rows=12), tmp_path, cv_param={**CV, "n_splits": 13})
    error = first_error(results)
    assert isinstance(error, BadData)
    assert "12 rows cannot be cut into 13 parts" in str(error)


@pytest.mark.parametrize("ports", [("train_data", "validate_data"), ("train_data", "eval_data")])
def test_other_inputs_are_refused(ports: tuple[str, ...], tmp_path: Path) -> None:
    data = small()
    results = run(data, tmp_path, ports=dict.fromkeys(ports, data), cv_param=CV)
    error = first_error(results)
    assert isinstance(error, BadParameter)
    assert "cv_param.need_cv" in str(error)


def test_missing_values_are_counted_in_the_whole_table(tmp_path: Path) -> None:
    data = small()
    host = data.tables[HOST]
    gaps = pa.array([None if i % 10 == 3 else float(i) for i in range(40)])
    data.tables[HOST] = host.set_column(host.column_names.index("x1"), "x1", gaps)
    results = run(data, tmp_path, cv_param=CV)
    told = "table test.table_0: column 'x1' has 4 missing"
    assert told in str(results[HOST].error)
    assert all(told in str(results[site].error) for site in (GUEST, ARBITER))


def test_rows_in_another_order_are_refused(tmp_path: Path) -> None:
    data = small()
    data.tables[HOST] = data.tables[HOST].take(pa.array(list(range(39, -1, -1))))
    results = run(data, tmp_path, cv_param=CV)
    assert "another order" in str(first_error(results))


@pytest.mark.parametrize(
    "told",
    [[1, 2], np.arange(40), np.arange(13), np.arange(27, 41), np.zeros(14, dtype=np.int64)],
)
def test_impossible_rows_of_the_guest_are_refused(told: Any, tmp_path: Path) -> None:
    data = small()
    federation = LocalFederation(SITES)
    ids = {"rows": 40, "digest": ids_digest(data.tables[HOST]["id"])}
    federation.at(GUEST).send("sample_ids", ids, to=HOST, tag="cross_validation")
    federation.at(GUEST).send("test_sid", told, to=HOST, tag="0")
    alone = replace(data, tables={HOST: data.tables[HOST]})
    results = run(alone, tmp_path, cv_param=CV, federation=federation, also=(GUEST,), arbiter=False)
    error = first_error(results)
    assert isinstance(error, CodecError)
    assert "test_sid" in str(error)
