"""HeteroLinR: every variant of the protocol must equal the same training in the clear."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.params import HeteroLinRParams
from fedflow.sdk import Model, check_params
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import RunResult, outputs_of
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    Data,
    assert_equals_oracle,
    assert_weights_equal_oracle,
    first_error,
    losses,
    run,
    small,
    weights_of,
    with_labels,
    with_numbers,
)

SITES = (GUEST, HOST, ARBITER)


def settings(iterations: int = 3, **changes: Any) -> OracleSettings:
    return OracleSettings(
        iterations=iterations, **{"family": "linear", "optimizer": "sgd", **changes}
    )


def models_of(results: dict[Any, RunResult]) -> dict[Any, Model]:
    return {site: out.model for site, out in outputs_of(results).items() if out.model is not None}


def rows_of(results: dict[Any, RunResult]) -> pa.Table:
    table = outputs_of(results)[GUEST].data[0]
    assert table is not None
    return table.read()


@pytest.mark.parametrize(
    "optimizer", ["sgd", "rmsprop", "adam", "adagrad", "nesterov_momentum_sgd"]
)
@pytest.mark.parametrize("batch_size", [-1, 16])
def test_training_equals_the_oracle(optimizer: str, batch_size: int, tmp_path: Path) -> None:
    data = with_numbers(small())
    federation = LocalFederation(SITES)
    results = run(
        data,
        tmp_path,
        cls=HeteroLinR,
        optimizer=optimizer,
        batch_size=batch_size,
        federation=federation,
    )
    expected = train_in_clear(
        data.features, data.labels, settings(optimizer=optimizer, batch_size=batch_size)
    )
    assert_equals_oracle(results, expected)
    assert federation.unread() == []


@pytest.mark.parametrize("penalty", ["L1", "L2", "none"])
def test_penalties_equal_the_oracle(penalty: str, tmp_path: Path) -> None:
    data = with_numbers(small())
    results = run(data, tmp_path, cls=HeteroLinR, penalty=penalty, alpha=0.1)
    expected = train_in_clear(data.features, data.labels, settings(penalty=penalty, alpha=0.1))
    assert_equals_oracle(results, expected)


@pytest.mark.parametrize("hosts", [1, 2])
def test_sample_weights_and_several_hosts_equal_the_oracle(hosts: int, tmp_path: Path) -> None:
    widths = {GUEST: 3, HOST: 4} if hosts == 1 else {GUEST: 3, HOST: 2, HOST_2: 2}
    data = with_numbers(small(widths=widths, weighted=True))
    results = run(data, tmp_path, cls=HeteroLinR, early_stop="weight_diff", batch_size=25)
    expected = train_in_clear(
        data.features, data.labels, settings(batch_size=25), weights=data.weights
    )
    assert_weights_equal_oracle(results, expected, *widths)
    if hosts == 1:
        assert_equals_oracle(results, expected)


def test_outputs_are_those_of_fate(tmp_path: Path) -> None:
    data = with_numbers(small())
    results = run(data, tmp_path, cls=HeteroLinR, ports={"train_data": data, "validate_data": data})
    outputs = outputs_of(results)
    rows = rows_of(results)
    scores = rows["predict_score"].to_numpy()[:40]
    expected = train_in_clear(data.features, data.labels, settings())
    np.testing.assert_allclose(scores, expected.scores_per_iteration[-1], atol=1e-5)
    assert rows["predict_result"].to_pylist() == rows["predict_score"].to_pylist()
    assert rows["label"].to_pylist()[:40] == data.labels.tolist()
    assert rows["predict_detail"][0].as_py() == f"{{'label': {scores[0].item()!r}}}"
    assert rows["type"].to_pylist() == ["train"] * 40 + ["validate"] * 40
    guest, arbiter = outputs[GUEST].model, outputs[ARBITER].model
    assert guest is not None
    assert arbiter is not None
    assert guest.meta_name == "HeteroLinearRegressionMeta"
    assert guest.param_name == "HeteroLinearRegressionParam"
    assert guest.meta["reveal_strategy"] == ""
    assert "classes" not in guest.param
    assert "need_one_vs_rest" not in guest.param
    assert arbiter.param["loss_history"] == losses(results)
    assert set(outputs[GUEST].summary) == {"coef", "intercept", "is_converged", "best_iteration"}


def test_a_stored_model_predicts_the_same_numbers_without_labels(tmp_path: Path) -> None:
    data = with_numbers(small())
    trained = run(data, tmp_path / "1", cls=HeteroLinR)
    unlabelled = Data(dict(data.tables), data.features, data.labels)
    unlabelled.tables[GUEST] = data.tables[GUEST].drop(["y"])
    results = run(
        data,
        tmp_path / "2",
        cls=HeteroLinR,
        ports={"test_data": unlabelled},
        models=models_of(trained),
    )
    before, after = rows_of(trained), rows_of(results)
    assert after["predict_score"].to_pylist() == before["predict_score"].to_pylist()
    assert after["label"].null_count == 40
    assert outputs_of(results)[HOST].data == ()


def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    data = with_numbers(small())
    model = Model(meta_name="A", param_name="HeteroPoissonRegressionParam", meta={}, param={})
    ports = {"test_data": data}
    results = run(data, tmp_path, cls=HeteroLinR, ports=ports, models=dict.fromkeys(SITES, model))
    assert "not one of HeteroLinR but a HeteroPoisson" in str(first_error(results))


# --- between iterations ---------------------------------------------------------------------------


def test_measures_are_those_of_numbers(tmp_path: Path) -> None:
    data = with_numbers(small())
    results = run(data, tmp_path, cls=HeteroLinR, validation_freqs=1)
    expected = train_in_clear(data.features, data.labels, settings())
    measured = outputs_of(results)[GUEST].summary["validation_metrics"]["train"]
    errors = [s - data.labels for s in expected.scores_per_iteration]
    root = [math.sqrt(float(np.mean(e**2))) for e in errors]
    assert measured["root_mean_squared_error"] == pytest.approx(root, abs=2e-6)
    absolute = [float(np.mean(np.abs(e))) for e in errors]
    assert measured["mean_absolute_error"] == pytest.approx(absolute, abs=2e-6)
    assert set(measured) == {"root_mean_squared_error", "mean_absolute_error"}
    metric = results[GUEST].metrics["train", "iteration_1"]
    assert metric.metric_type == "EVALUATION_SUMMARY"


@pytest.mark.parametrize(
    ("name", "best"), [("mean_absolute_error", np.argmin), ("r2_score", np.argmax)]
)
def test_early_stopping_knows_which_way_is_better(name: str, best: Any, tmp_path: Path) -> None:
    data = with_numbers(small())
    results = run(
        data,
        tmp_path,
        cls=HeteroLinR,
        ports={"train_data": data, "validate_data": data},
        optimizer="adam",
        learning_rate=3.0,
        max_iter=15,
        callback_param={
            "callbacks": ["EarlyStopping"],
            "validation_freqs": 1,
            "early_stopping_rounds": 3,
            "metrics": [name],
        },
    )
    summary = outputs_of(results)[GUEST].summary
    values = summary["validation_metrics"]["validate"][name]
    assert summary["best_iteration"] == int(best(values)) < len(values) - 1


def test_a_warm_start_is_one_uninterrupted_training(tmp_path: Path) -> None:
    data = with_numbers(small())
    first = run(data, tmp_path / "1", cls=HeteroLinR, max_iter=2, optimizer="adam")
    again = run(
        data, tmp_path / "2", cls=HeteroLinR, max_iter=4, optimizer="adam", models=models_of(first)
    )
    expected = train_in_clear(data.features, data.labels, settings(4, optimizer="adam"))
    assert_weights_equal_oracle(again, expected)
    assert again[GUEST].metrics["train", "init_iter"].points == [("init_iter", 2)]


def test_a_resumed_training_gives_the_same_bits(tmp_path: Path) -> None:
    data = with_numbers(small())
    callbacks = {"callbacks": ["ModelCheckpoint"]}
    params: dict[str, Any] = {"cls": HeteroLinR, "optimizer": "adam", "callback_param": callbacks}
    whole = run(data, tmp_path / "0", max_iter=4, **params)
    stored = {site: MemoryCheckpoints() for site in SITES}
    run(data, tmp_path / "1", max_iter=2, checkpoints=stored, **params)
    for store in stored.values():
        store.begin()
    resumed = run(data, tmp_path / "2", max_iter=4, checkpoints=stored, task_version=1, **params)
    assert weights_of(resumed, GUEST, HOST).tolist() == weights_of(whole, GUEST, HOST).tolist()
    assert models_of(resumed)[ARBITER].param == models_of(whole)[ARBITER].param
    assert len(losses(resumed)) == 2


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "what"),
    [
        (["a"] * 40, "not a number"),
        ([None, *[1.0] * 39], "1 rows have no label"),
        ([math.nan, *[1.0] * 39], "1 rows have no label"),
        ([math.inf, *[1.0] * 39], "1 missing or infinite"),
    ],
)
def test_labels_that_are_no_numbers_are_refused(labels: Any, what: str, tmp_path: Path) -> None:
    results = run(with_labels(small(), labels), tmp_path, cls=HeteroLinR)
    error = first_error(results)
    assert isinstance(error, BadData)
    assert what in str(error)
    assert all(result.error is not None for result in results.values())


def test_defaults_are_fates() -> None:
    params = check_params(HeteroLinRParams, {}, path="$")
    assert (params.optimizer, params.max_iter, params.early_stop) == ("sgd", 20, "diff")
    for name in ("shuffle", "masked_rate", "multi_class"):
        with pytest.raises(BadParameter, match=name):
            check_params(HeteroLinRParams, {name: 1}, path="$")
    with pytest.raises(BadParameter, match="none of them fits"):
        check_params(HeteroLinRParams, {"validation_freqs": 1, "metrics": ["auc"]}, path="$")
