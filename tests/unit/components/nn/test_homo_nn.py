"""HomoNN at real parties, with masks, against the same network on all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter, ExtraMissing
from fedflow.base.errors.data import BadData
from fedflow.components.nn.homo_nn import HomoNN
from fedflow.sdk import Model, Site
from fedflow.testing.checkpoints import MemoryCheckpoints
from tests.unit.components.hetero_lr_parties import auc
from tests.unit.components.homo_parties import (
    ARBITER,
    GUEST,
    HOST,
    breast_rows,
    outputs,
    rows_of,
    run_homo,
)

torch = pytest.importorskip("torch", exc_type=ImportError)

ADAM = {"optimizer": "Adam", "lr": 0.01, "config_type": "pytorch"}
TRAIN = ("train_data",)


def linear(inputs: int, outputs: int, last: str | None) -> dict[str, Any]:
    layers = {"0-0": {"layer": "Linear", "in_features": inputs, "out_features": outputs}}
    return layers if last is None else {**layers, "1-1": {"layer": last}}


def params(**given: Any) -> dict[str, Any]:
    """Return the parameters of the network of FATE's example; others are the trainer's."""
    trainer = {"epochs": 3, "batch_size": 128, **given}
    return {
        "trainer": {"trainer_name": "fedavg_trainer", "param": trainer},
        "nn_define": linear(30, 1, "Sigmoid"),
        "loss": {"loss_fn": "BCELoss"},
        "optimizer": ADAM,
    }


def train(rows: Any, folder: Path, given: dict[str, Any], **more: Any) -> Any:
    return run_homo(HomoNN, rows, folder, params=given, ports=TRAIN, **more)


def scores(found: Any) -> tuple[Any, Any]:
    rows = rows_of(found)
    return np.array(rows["label"]), np.array(rows["predict_score"])


def test_breast_is_learnt_and_all_parties_have_the_same_network(tmp_path: Path) -> None:
    found = outputs(train(breast_rows(), tmp_path, params(epochs=20)))
    labels, predicted = (
        np.concatenate(both)
        for both in zip(*(scores(found[s]) for s in (GUEST, HOST)), strict=True)
    )
    assert auc(labels, predicted) >= 0.994
    guest, host = found[GUEST].model, found[HOST].model
    assert isinstance(guest, Model)
    assert isinstance(host, Model)
    assert guest == host
    assert guest.param["epoch_idx"] == 20
    assert len(found[GUEST].summary["loss_history"]) == 20
    assert found[GUEST].summary["best_epoch"] == 19
    assert found[ARBITER].model is None
    assert rows_of(found[GUEST])["predict_detail"][0].startswith("{'0': ")


def test_one_round_is_the_mean_of_what_the_parties_trained(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = {
        site: {
            "id": [f"{n}" for n in range(count)],
            "y": rng.normal(size=count),
            "x": rng.normal(size=count),
        }
        for site, count in ((GUEST, 30), (HOST, 10))
    }
    given = {
        "trainer": {"param": {"epochs": 1, "batch_size": -1}},
        "nn_define": linear(1, 1, None),
        "loss": {"loss_fn": "MSELoss"},
        "optimizer": {"optimizer": "SGD", "lr": 0.1},
    }
    found = outputs(train(rows, tmp_path, given))
    torch.manual_seed(100)
    first = torch.nn.Linear(1, 1)
    w, b = float(first.weight.detach()), float(first.bias.detach())
    trained = []
    for columns in rows.values():
        x, y = columns["x"], columns["y"]
        error = w * x + b - y
        trained.append((w - 0.2 * (error * x).mean(), b - 0.2 * error.mean()))
    weight, bias = (30 * np.array(trained[0]) + 10 * np.array(trained[1])) / 40
    predicted = rows_of(found[HOST])["predict_score"]
    assert predicted == pytest.approx((weight * rows[HOST]["x"] + bias).tolist(), abs=1e-5)


@pytest.mark.parametrize("secure", [True, False])
def test_masks_change_nothing(secure: bool, tmp_path: Path) -> None:
    found = outputs(train(breast_rows(), tmp_path, params(epochs=2, secure_aggregate=secure)))
    model = found[HOST].model
    assert model is not None
    expected = outputs(train(breast_rows(), tmp_path, params(epochs=2)))[GUEST].model
    assert model == expected


def test_classes_are_learnt_with_a_softmax(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = {}
    for site in (GUEST, HOST):
        y = rng.integers(0, 3, 60)
        rows[site] = {"id": [f"{n}" for n in range(60)], "y": y, "x0": y * 2.0, "x1": -1.0 * y * y}
    given = {
        **params(epochs=60, batch_size=-1, validation_freqs=30),
        "nn_define": linear(2, 3, "Softmax"),
        "loss": {"loss_fn": "CrossEntropyLoss"},
        "optimizer": {**ADAM, "lr": 0.1},
    }
    given["nn_define"]["1-1"]["dim"] = 1
    results = train(rows, tmp_path, given)
    found = rows_of(outputs(results)[HOST])
    right = np.array(found["predict_result"]) == np.array(found["label"])
    assert right.mean() > 0.9
    assert ("train", "iteration_29") in results[GUEST].metrics
    assert ("train", "iteration_28") not in results[GUEST].metrics


def test_training_goes_on_from_a_model_and_predicts(tmp_path: Path) -> None:
    rows = breast_rows()
    first = outputs(train(rows, tmp_path, params(epochs=2)))
    models: dict[Site, Model] = {s: first[s].model for s in (GUEST, HOST)}  # type: ignore[misc]
    more = outputs(train(rows, tmp_path, params(epochs=3), models=models))
    model = more[GUEST].model
    assert model is not None
    assert model.param["epoch_idx"] == 5
    alone = run_homo(
        HomoNN, rows, tmp_path, models={GUEST: model, HOST: model}, ports=("test_data",)
    )
    assert scores(outputs(alone)[HOST])[1] == pytest.approx(scores(more[HOST])[1])
    assert set(rows_of(outputs(alone)[HOST])["type"]) == {"predict"}


def test_it_stops_early_when_the_mean_loss_changes_little(tmp_path: Path) -> None:
    given = params(epochs=50, early_stop="diff", tol=10.0, aggregate_every_n_epoch=2)
    found = outputs(train(breast_rows(), tmp_path, given))
    assert len(found[GUEST].summary["loss_history"]) == 2
    assert found[GUEST].summary["need_stop"] is True
    assert found[GUEST].model.param["epoch_idx"] == 4  # type: ignore[union-attr]


def test_validation_data_are_measured_and_predicted(tmp_path: Path) -> None:
    rows = breast_rows()
    results = run_homo(
        HomoNN,
        rows,
        tmp_path,
        params=params(epochs=4, validation_freqs=2),
        ports=("train_data", "validate_data"),
    )
    found = outputs(results)[HOST]
    assert set(rows_of(found)["type"]) == {"train", "validate"}
    assert len(found.summary["metrics_summary"]["validate"]["auc"]) == 2


def test_a_repeated_attempt_goes_on_from_the_last_checkpoint(tmp_path: Path) -> None:
    rows = breast_rows()
    stores = {site: MemoryCheckpoints() for site in rows}
    whole = params(epochs=4, checkpoint_save_freqs=1, shuffle=False)
    outputs(train(rows, tmp_path, whole, checkpoints=stores))
    kept = {site: MemoryCheckpoints() for site in rows}
    for site, store in stores.items():
        step = store.load(3)
        kept[site].save(3, step.step_name, step.model)
    results = train(rows, tmp_path, whole, checkpoints=kept, task_version=1)
    again = outputs(results)[HOST]
    assert again.model.param["epoch_idx"] == 4  # type: ignore[union-attr]
    assert len(again.summary["loss_history"]) == 4
    assert [name for _, name in kept[HOST].steps()] == ["round_3", "round_4.1", "round_5.1"]


def test_parties_with_other_networks_are_named(tmp_path: Path) -> None:
    rows = breast_rows()
    del rows[HOST]["x29"]
    results = train(rows, tmp_path, params())
    assert "host 10000 differs from guest 9999 in the columns" in str(results[ARBITER].error)


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"y": [2] * 227}, BadData, "its labels are not all 0 or 1"),
        ({"x3": [float("nan")] * 227}, BadData, "missing or infinite values"),
    ],
)
def test_rows_that_cannot_be_learnt_are_refused(
    change: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    rows = breast_rows()
    rows[GUEST].update(change)
    found = train(rows, tmp_path, params())[GUEST].error
    assert isinstance(found, error)
    assert said in str(found)


def test_a_network_that_does_not_fit_the_columns_is_refused(tmp_path: Path) -> None:
    given = {**params(), "nn_define": linear(7, 1, "Sigmoid")}
    found = train(breast_rows(), tmp_path, given)[GUEST].error
    assert isinstance(found, BadData)


def test_without_pytorch_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    found = train(breast_rows(), tmp_path, params())[GUEST].error
    assert isinstance(found, ExtraMissing)
    assert "HomoNN needs PyTorch" in str(found)
    assert "fedflow[nn]" in str(found)


OWN = {
    "models/own_net.py": """
import torch
class Net(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = torch.nn.Linear(30, width)
        self.outer = torch.nn.Linear(width, 1)
    def forward(self, x):
        return torch.sigmoid(self.outer(torch.relu(self.inner(x))))
""",
    "losses/own_loss.py": """
import torch
class Squares(torch.nn.Module):
    def forward(self, outputs, labels):
        return ((outputs - labels) ** 2).mean()
""",
    "datasets/own_rows.py": """
class Dataset:
    def __init__(self, scale):
        self.scale = scale
    def load(self, table):
        rows = table.read().to_pydict()
        names = [n for n in rows if n not in ("id", "y")]
        self.rows = [([rows[n][i] * self.scale for n in names], [float(rows["y"][i])])
                     for i in range(table.count)]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, number):
        return self.rows[number]
""",
    "trainers/own_trainer.py": """
class Trainer:
    def __init__(self, twice):
        self.passes = 2 if twice else 1
    def train(self, model, optimizer, loss, batches):
        total, count = 0.0, 0
        for features, labels in batches:
            for _ in range(self.passes):
                optimizer.zero_grad()
                found = loss(model(features), labels)
                found.backward()
                optimizer.step()
            total += found.item() * len(features)
            count += len(features)
        return total / count
""",
}


def test_a_partys_own_classes_come_from_its_folder(tmp_path: Path) -> None:
    for name, text in OWN.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(text)
    given = {
        "trainer": {
            "trainer_name": "own_trainer",
            "param": {"epochs": 5, "batch_size": 64, "task_type": "binary", "twice": True},
        },
        "dataset": {"dataset_name": "own_rows", "param": {"scale": 0.5}},
        "nn_define": {
            "0-0": {
                "layer": "CustModel",
                "module_name": "own_net.py",
                "class_name": "Net",
                "param": {"width": 4},
            }
        },
        "loss": {"loss_fn": "CustLoss", "loss_module_name": "own_loss", "class_name": "Squares"},
        "optimizer": ADAM,
    }
    found = outputs(train(breast_rows(), tmp_path, given, nn_folder=tmp_path / "own"))
    assert auc(*scores(found[GUEST])) > 0.9
    refused = train(breast_rows(), tmp_path, given)[GUEST].error
    assert isinstance(refused, BadParameter)
    assert "executor.nn_folder" in str(refused)
