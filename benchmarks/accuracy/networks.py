"""HomoNN against the same network trained on all rows, with PyTorch. Needs the extra `nn`."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics as sk

from benchmarks.accuracy.chain import GUEST, HOST, Chain, Step
from benchmarks.accuracy.common_bins import typed
from benchmarks.accuracy.data import DataFolder, Floats
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.nn.homo_nn import HomoNN

ADAM = {"optimizer": "Adam", "config_type": "pytorch"}
LEAST_AUC = 0.994  #: of breast_homo after twenty epochs


def breast(data: DataFolder, folder: Path) -> Iterator[Row]:
    """FATE's example: one layer and a sigmoid, twenty epochs, an aggregation after each."""
    chain = Chain(folder)
    tables, _ = typed(chain, data, "breast_homo")
    define = {
        "0-0": {"layer": "Linear", "in_features": 30, "out_features": 1},
        "1-1": {"layer": "Sigmoid"},
    }
    for seed in (100, 1, 2):
        step = chain.run(
            HomoNN,
            {"train_data": tables},
            trainer={"param": {"epochs": 20, "batch_size": 128}},
            nn_define=define,
            loss={"loss_fn": "BCELoss"},
            optimizer={**ADAM, "lr": 0.01},
            torch_seed=seed,
        )
        labels, scores = predictions(step)
        rows = Rows("HomoNN", "breast_homo", f"20 epochs, seed {seed}")
        auc = float(sk.roc_auc_score(labels, scores))
        yield rows.one("AUC", LEAST_AUC, auc, 0.0, at_least=True)


def vehicle(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Four classes, against PyTorch on all rows with the same steps."""
    chain = Chain(folder)
    tables, pooled = typed(chain, data, "vehicle_scale_homo", label_type="int")
    define = {
        "0-0": {"layer": "Linear", "in_features": 18, "out_features": 4},
        "1-1": {"layer": "Softmax", "dim": 1},
    }
    step = chain.run(
        HomoNN,
        {"train_data": tables},
        trainer={"param": {"epochs": 50, "batch_size": 64}},  # as many steps as on all rows
        nn_define=define,
        loss={"loss_fn": "CrossEntropyLoss"},
        optimizer={**ADAM, "lr": 0.01},
    )
    found = np.concatenate([np.asarray(step.frame(s)["predict_result"]) for s in (GUEST, HOST)])
    labels = np.concatenate([np.asarray(step.frame(s)["label"]) for s in (GUEST, HOST)])
    expected = pooled_accuracy(pooled, epochs=50, batch=128)
    rows = Rows("HomoNN", "vehicle_scale_homo", "PyTorch, all rows")
    yield rows.one("accuracy", expected, float((found == labels).mean()), 0.05)


def pooled_accuracy(pooled: Mapping[str, Floats], *, epochs: int, batch: int) -> float:
    """Return the accuracy of the network of `vehicle` after a training on all rows."""
    import torch

    labels = torch.from_numpy(pooled["y"].astype(np.int64))
    columns = np.column_stack([values for name, values in pooled.items() if name != "y"])
    features = torch.from_numpy(columns.astype(np.float32))
    torch.manual_seed(100)
    network = torch.nn.Sequential(torch.nn.Linear(18, 4), torch.nn.Softmax(dim=1))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(batch):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(features[rows]), labels[rows]).backward()
            optimizer.step()
    return float((network(features).argmax(dim=1) == labels).double().mean())


def predictions(step: Step) -> tuple[Floats, Floats]:
    """Return labels and scores of all parties' rows; details hold the same scores."""
    frames = [step.frame(site) for site in (GUEST, HOST)]
    labels = np.concatenate([np.asarray(frame["label"], dtype=np.float64) for frame in frames])
    scores = np.concatenate(
        [np.asarray(frame["predict_score"], dtype=np.float64) for frame in frames]
    )
    detail: dict[str, Any] = ast.literal_eval(str(frames[0]["predict_detail"].iloc[0]))
    assert detail["1"] == scores[0]
    return labels, scores


CHECKS = (
    (Check(name="homo-nn-breast", make=breast), Check(name="homo-nn-vehicle", make=vehicle))
    if importlib.util.find_spec("torch")
    else ()
)
