"""HomoNN with strategies, differential privacy, and the network of the best round."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.nn.homo_nn import HomoNN
from fedflow.sdk import BadParameter, GroupDiffers, Site
from tests.unit.components.hetero_lr_parties import auc
from tests.unit.components.homo_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    outputs,
    rows_of,
    run_homo,
)

torch = pytest.importorskip("torch", exc_type=ImportError)

SITES = (GUEST, HOST, HOST_2, Site(HOST.role, "10003"))  # type: ignore[arg-type]
LINEAR = {"0-0": {"layer": "Linear", "in_features": 2, "out_features": 1}}


def made(rows: int, *, seed: int, lies: bool = False) -> dict[str, Any]:
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, 2))
    y = (x @ (2.0, -1.0) + 0.2 * draw.normal(size=rows) > 0).astype(int)
    ids = [f"{seed}_{n}" for n in range(rows)]
    return {"id": ids, "y": 1 - y if lies else y, "x0": x[:, 0], "x1": x[:, 1]}


def fit(
    work_dir: Path,
    *,
    sites: tuple[Site, ...] = SITES[:2],
    liar: Site | None = None,
    trainer: dict[str, Any] | None = None,
    ports: tuple[str, ...] = ("train_data",),
    rows: Any = None,
    more: Any = None,
    **params: Any,
) -> Any:
    given = {
        "trainer": {"param": {"epochs": 6, "batch_size": -1, **(trainer or {})}},
        "nn_define": LINEAR,
        "loss": {"loss_fn": "BCEWithLogitsLoss"},
        "optimizer": {"optimizer": "SGD", "lr": 1.0},
        **params,
    }
    rows = rows or {s: made(60 + n, seed=n, lies=s == liar) for n, s in enumerate(sites)}
    return run_homo(HomoNN, rows, work_dir, params=given, ports=ports, more=more)


def weights(found: Any, site: Site = GUEST) -> Any:
    """Return scores of fixed rows, which stand for the weights."""
    return np.array(rows_of(found[site])["predict_score"])


@pytest.mark.parametrize("name", ["fedprox", "fedadam", "fedyogi", "trimmed_mean", "krum"])
def test_the_loss_falls_with_every_strategy(name: str, tmp_path: Path) -> None:
    open_ = name in {"trimmed_mean", "krum"}
    found = outputs(
        fit(
            tmp_path,
            sites=SITES,
            strategy={"name": name},
            trainer={"secure_aggregate": not open_},
        )
    )
    losses = found[ARBITER].summary["loss_history"]
    assert losses[-1] < losses[0]
    assert found[GUEST].model == found[HOST].model


def test_robust_strategies_withstand_a_party_that_lies(tmp_path: Path) -> None:
    found = {}
    for name in ("fedavg", "krum", "trimmed_mean"):
        out = outputs(
            fit(
                tmp_path / name,
                sites=SITES,
                liar=SITES[-1],
                strategy={"name": name, "trimmed": 0.26},
                trainer={"secure_aggregate": False},
                optimizer={"optimizer": "SGD", "lr": 3.0},
            )
        )
        rows = rows_of(out[GUEST])
        labels, scores = np.array(rows["label"]), np.array(rows["predict_score"])
        chosen = np.where(labels == 1, scores, 1 - scores)
        found[name] = float(-np.log(np.maximum(chosen, 1e-9)).mean())
        assert auc(labels, scores) > 0.9
    assert found["krum"] < found["fedavg"]
    assert found["trimmed_mean"] < found["fedavg"]


def test_mu_of_fedprox_reaches_the_training_of_each_party(tmp_path: Path) -> None:
    """One party's steps of gradient descent with the proximal term, computed by hand."""
    rows = {s: made(30, seed=7) for s in SITES[:2]}  # all rows alike, so the mean is each one's
    found = outputs(
        fit(
            tmp_path,
            rows=rows,
            strategy={"name": "fedprox", "mu": 0.5},
            trainer={"epochs": 4, "aggregate_every_n_epoch": 4},
        )
    )
    torch.manual_seed(100)
    first = torch.nn.Linear(2, 1)
    x = np.column_stack([rows[GUEST]["x0"], rows[GUEST]["x1"], np.ones(30)])
    start = np.append(first.weight.detach().numpy()[0], first.bias.detach().numpy())
    now = start.astype(np.float64)
    for _ in range(4):
        away = 1 / (1 + np.exp(-x @ now)) - rows[GUEST]["y"]
        now = now - (away @ x / 30 + 0.5 * (now - start))
    expected = 1 / (1 + np.exp(-x @ now))
    np.testing.assert_allclose(weights(found), expected, atol=1e-5)


def test_a_robust_strategy_is_refused_with_masks(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="secure_aggregate must be false"):
        outputs(fit(tmp_path, strategy={"name": "krum"}))


def test_counts_of_rows_are_averaged_whatever_the_strategy(tmp_path: Path) -> None:
    define = {**LINEAR, "1-1": {"layer": "BatchNorm1d", "num_features": 1}}
    found = outputs(
        fit(tmp_path, strategy={"name": "fedadam"}, nn_define=define, trainer={"epochs": 3})
    )
    assert np.isfinite(weights(found)).all()
    assert found[GUEST].model == found[HOST].model


def test_differential_privacy_bounds_the_update_and_shows_the_budget(tmp_path: Path) -> None:
    pytest.importorskip("dp_accounting")
    dp = {"need_dp": True, "clip": 0.01, "noise_multiplier": 0.001}
    results = fit(tmp_path / "dp", sites=SITES[:3], dp_param=dp)
    found = outputs(results)
    assert found[ARBITER].summary["epsilon"] > 1000
    assert found[GUEST].summary["epsilon"] == found[ARBITER].summary["epsilon"]
    points = results[ARBITER].metrics["train", "epsilon"].points
    assert [number for number, _ in points] == list(range(6))
    assert all(a < b for (_, a), (_, b) in itertools.pairwise(points))
    untrained = outputs(
        fit(tmp_path / "0", sites=SITES[:3], optimizer={"optimizer": "SGD", "lr": 1e-12})
    )
    free = outputs(fit(tmp_path / "free", sites=SITES[:3]))
    assert np.abs(weights(found) - weights(untrained)).max() < 0.1
    assert np.abs(weights(free) - weights(untrained)).max() > 0.3
    (counted,) = [entry["counted"] for entry in found[ARBITER].summary["rounds"]]
    assert set(counted.values()) == {1}


def test_numbers_without_noise_are_refused_with_differential_privacy(tmp_path: Path) -> None:
    define = {**LINEAR, "1-1": {"layer": "BatchNorm1d", "num_features": 1}}
    found = fit(tmp_path, nn_define=define, dp_param={"need_dp": True})[GUEST].error
    assert isinstance(found, BadParameter)
    assert "would have no noise" in str(found)


def test_the_network_of_the_best_round_is_kept_and_training_stops(tmp_path: Path) -> None:
    """Validation labels are turned round, so that the first network is the best."""
    wrong = {s: made(40, seed=9 + n, lies=True) for n, s in enumerate(SITES[:2])}
    found = outputs(
        fit(
            tmp_path / "wrong",
            ports=("train_data", "validate_data"),
            more={"validate_data": wrong},
            trainer={"epochs": 30},
            early_stopping_rounds=2,
        )
    )
    told = found[GUEST].summary
    assert told["validated"] == sorted(told["validated"])
    assert len(told["loss_history"]) == 3
    assert told["best_epoch"] == found[GUEST].model.param["best_epoch"] == -1
    untrained = outputs(fit(tmp_path / "0", optimizer={"optimizer": "SGD", "lr": 1e-12}))
    scores = weights(found)[: len(weights(untrained))]
    np.testing.assert_allclose(scores, weights(untrained), atol=1e-6)


def test_validation_that_gets_better_keeps_the_last_measured_network(tmp_path: Path) -> None:
    right = {s: made(40, seed=9 + n) for n, s in enumerate(SITES[:2])}
    found = outputs(
        fit(
            tmp_path,
            ports=("train_data", "validate_data"),
            more={"validate_data": right},
            keep_best=True,
        )
    )
    told = found[HOST].summary
    assert told["validated"] == sorted(told["validated"], reverse=True)
    assert (len(told["validated"]), told["best_epoch"]) == (6, 4)


def test_the_best_network_needs_validation_rows(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="keep_best: needs validate_data"):
        outputs(fit(tmp_path, keep_best=True))


def test_a_party_that_lacks_a_class_is_warned_and_trains(tmp_path: Path) -> None:
    rows = {s: made(40, seed=n) for n, s in enumerate(SITES[:2])}
    rows[HOST]["y"] = np.ones(40, dtype=int)
    results = fit(tmp_path, rows=rows)
    outputs(results)
    (warning,) = [w for w in results[HOST].warnings if w.code == "LacksClasses"]
    assert "host 10000 has no rows with the label 0" in warning.message
    assert not [w for w in results[GUEST].warnings if w.code == "LacksClasses"]


def test_parties_whose_labels_have_nothing_in_common_are_named(tmp_path: Path) -> None:
    rows = {s: made(40, seed=n) for n, s in enumerate(SITES[:2])}
    rows[HOST]["y"] = rows[HOST]["y"] + 7
    ten = {"0-0": {"layer": "Linear", "in_features": 2, "out_features": 10}}
    results = fit(tmp_path, rows=rows, nn_define=ten, loss={"loss_fn": "CrossEntropyLoss"})
    error = results[ARBITER].error
    assert isinstance(error, GroupDiffers)
    assert "host 10000 differs from guest 9999 in the labels" in str(error)
    assert "7, 8 instead of 0, 1" in str(error)
