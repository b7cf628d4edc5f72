"""HeteroSSHELR and HeteroSSHELinR: training on shares equals the same training in the clear."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.components.sshe.component import HeteroSSHELinR
from fedflow.testing.federation import LocalFederation
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of
from tests.unit.components.hetero_lr_parties import (
    GUEST,
    HOST,
    Data,
    auc,
    breast_data,
    small,
    with_negative_weights,
)
from tests.unit.components.sshe_parties import (
    HIDDEN,
    KNOWN,
    SITES,
    assert_equals,
    losses,
    models_of,
    run,
    scores_of,
)


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
def test_breast_cancer_data_equal_the_oracle(mode: dict[str, Any], tmp_path: Path) -> None:
    breast = breast_data()
    federation = LocalFederation(SITES)
    results = run(breast, tmp_path, max_iter=3, federation=federation, **mode)
    settings = OracleSettings(iterations=3, optimizer="sgd")
    expected = train_in_clear(breast.features, breast.labels, settings)
    assert_equals(results, expected)
    assert federation.unread() == []
    found, wanted = scores_of(results), expected.scores_per_iteration[-1]
    np.testing.assert_allclose(found, 1.0 / (1.0 + np.exp(-wanted)), atol=1e-6)
    assert auc(breast.labels, found) == pytest.approx(auc(breast.labels, wanted), abs=1e-6)


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
@pytest.mark.parametrize(
    ("params", "oracle"),
    [
        ({}, {}),
        ({"penalty": None}, {"penalty": "none"}),
        ({"alpha": -0.1, "learning_rate": -0.05}, {"alpha": -0.1, "learning_rate": -0.05}),
        ({"batch_size": 16}, {"batch_size": 16}),
        ({"decay": 2.0, "decay_sqrt": False}, {"decay": 2.0, "decay_sqrt": False}),
        ({"init_param": {"init_method": "zeros", "fit_intercept": False}}, {"intercept": False}),
        ({"optimizer": "nesterov_momentum_sgd"}, {"optimizer": "nesterov_momentum_sgd"}),
    ],
)
def test_options_mean_what_the_oracle_means(
    params: dict[str, Any], oracle: dict[str, Any], mode: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    results = run(data, tmp_path, **mode, **params)
    settings = OracleSettings(**{"iterations": 3, "optimizer": "sgd", **oracle})
    assert_equals(results, train_in_clear(data.features, data.labels, settings))


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam", "adagrad", "nesterov_momentum_sgd"])
def test_known_weights_take_any_optimizer(optimizer: str, tmp_path: Path) -> None:
    data = small()
    results = run(data, tmp_path, optimizer=optimizer, batch_size=16, **KNOWN)
    settings = OracleSettings(iterations=3, optimizer=optimizer, batch_size=16)
    assert_equals(results, train_in_clear(data.features, data.labels, settings))


def test_known_weights_take_an_l1_penalty(tmp_path: Path) -> None:
    data = small()
    results = run(data, tmp_path, penalty="L1", alpha=0.1, **KNOWN)
    settings = OracleSettings(iterations=3, optimizer="sgd", penalty="L1", alpha=0.1)
    assert_equals(results, train_in_clear(data.features, data.labels, settings))


@pytest.mark.parametrize(("mode", "negative"), [(KNOWN, True), (HIDDEN, False), (HIDDEN, True)])
def test_sample_weights_count_in_the_gradient(
    mode: dict[str, Any], negative: bool, tmp_path: Path
) -> None:
    data = small(weighted=True)
    data = with_negative_weights(data) if negative else data
    federation = LocalFederation(SITES)
    results = run(data, tmp_path, batch_size=25, federation=federation, **mode)
    settings = OracleSettings(iterations=3, optimizer="sgd", batch_size=25)
    expected = train_in_clear(data.features, data.labels, settings, weights=data.weights)
    assert_equals(results, expected)
    assert federation.unread() == []


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
@pytest.mark.parametrize(("stop", "tol"), [("diff", 0.025), ("weight_diff", 0.2), ("abs", 0.6)])
def test_training_stops_in_the_oracles_iteration(
    stop: str, tol: float, mode: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    settings = OracleSettings(
        iterations=9, optimizer="sgd", learning_rate=0.5, stop=stop, tol=tol, batch_size=20
    )
    expected = train_in_clear(data.features, data.labels, settings)
    federation = LocalFederation(SITES)
    results = run(
        data,
        tmp_path,
        learning_rate=0.5,
        early_stop=stop,
        tol=tol,
        max_iter=9,
        batch_size=20,
        federation=federation,
        **mode,
    )
    assert 1 < len(expected.losses) < 9
    assert expected.converged
    assert_equals(results, expected)
    assert federation.unread() == []
    for out in outputs_of(results).values():
        assert out.summary["is_converged"] is True


def regression(rows: int = 40) -> Data:
    """Return data whose labels are numbers."""
    data = small(rows=rows)
    labels = data.features @ np.linspace(-1.0, 1.0, data.features.shape[1]) + 0.5
    guest = data.tables[GUEST]
    at = guest.column_names.index("y")
    tables = {**data.tables, GUEST: guest.set_column(at, "y", pa.array(labels))}
    return Data(tables, data.features, labels)


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
def test_linear_regression_equals_the_oracle(mode: dict[str, Any], tmp_path: Path) -> None:
    data = regression()
    results = run(data, tmp_path, kind=HeteroSSHELinR, batch_size=30, **mode)
    settings = OracleSettings(iterations=3, family="linear", optimizer="sgd", batch_size=30)
    expected = train_in_clear(data.features, data.labels, settings)
    assert_equals(results, expected)
    np.testing.assert_allclose(scores_of(results), expected.scores_per_iteration[-1], atol=1e-5)
    assert models_of(results)[GUEST].param_name == "HeteroLinearRegressionParam"
    assert "one_vs_rest" not in outputs_of(results)[GUEST].summary


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
def test_several_classes_are_trained_one_against_the_rest(
    mode: dict[str, Any], tmp_path: Path
) -> None:
    data = small()
    three = np.array([0, 1, 2, 1] * 10)
    guest = data.tables[GUEST]
    data.tables[GUEST] = guest.set_column(1, "y", pa.array(three))
    results = run(data, tmp_path, max_iter=2, **mode)
    settings = OracleSettings(iterations=2, optimizer="sgd")
    scores = []
    for value in range(3):
        labels = np.where(three == value, 1.0, -1.0)
        expected = train_in_clear(data.features, labels, settings)
        scores.append(1.0 / (1.0 + np.exp(-expected.scores_per_iteration[-1])))
    np.testing.assert_allclose(scores_of(results), np.max(scores, axis=0), atol=1e-6)
    model = models_of(results)[HOST]
    assert len(model.param["one_vs_rest_result"]["completed_models"]) == 3
    again = run(data, tmp_path / "2", ports={"test_data": data}, models=models_of(results))
    np.testing.assert_allclose(scores_of(again), scores_of(results), atol=1e-12)
    assert set(outputs_of(results)[GUEST].summary) == {"0", "1", "2"}


def test_the_loss_metric_and_the_summary_are_fates(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="fedflow.task")
    results = run(small(), tmp_path, **HIDDEN)
    for site in SITES:
        lines = [r.getMessage() for r in caplog.records if r.name.endswith(site.key)]
        third = [line for line in lines if line.startswith("iteration 3 of at most 3 is done")]
        assert len(third) == 1
        assert ("loss" in third[0]) is (site == GUEST)
    metric = results[GUEST].metrics["train", "loss"]
    assert metric.metric_type == "LOSS"
    assert [key for key, _ in metric.points] == [0, 1, 2]
    assert metric.meta["unit_name"] == "iters"
    assert ("train", "loss") not in results[HOST].metrics
    assert results[HOST].metrics["train", "round_seconds"].meta["loss_at"] == GUEST.key
    outputs = outputs_of(results)
    for site in SITES:
        summary = outputs[site].summary
        assert set(summary) == {
            "coef",
            "intercept",
            "is_converged",
            "best_iteration",
            "one_vs_rest",
        }
        assert results[site].progress == (1 / 3, 2 / 3, 1.0)
    assert outputs[GUEST].model.param["loss_history"] == losses(results)  # type: ignore[union-attr]
    assert outputs[GUEST].model.meta["reveal_strategy"] == "respectively"  # type: ignore[union-attr]
    assert outputs[HOST].data == ()


@pytest.mark.parametrize("mode", [KNOWN, HIDDEN])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_guest_may_have_labels_only(
    mode: dict[str, Any], intercept: bool, tmp_path: Path
) -> None:
    data = small(widths={GUEST: 0, HOST: 4})
    init = {"init_method": "zeros", "fit_intercept": intercept}
    results = run(data, tmp_path, init_param=init, early_stop="weight_diff", **mode)
    settings = OracleSettings(iterations=3, optimizer="sgd", intercept=intercept)
    assert_equals(results, train_in_clear(data.features, data.labels, settings))
