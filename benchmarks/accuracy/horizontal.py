"""HomoLR against the same rounds in the clear, scikit-learn, and the figures known of FATE's rules.

Each party scales its own rows, as FATE's example does. FATE's published AUC of 0.998095 is not that
of its own update rule, whose rate decays; see the measures of it in docs/reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from benchmarks.accuracy.chain import GUEST, HOST, Chain
from benchmarks.accuracy.data import DataFolder, Floats
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.horizontal.homo_lr import HomoLR

ROUNDS, RATE, ALPHA = 30, 0.15, 0.01
KNOWN_AUC = 0.9957  #: of the guest's rows after 30 rounds of federated averaging


def scaled(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a party's rows with features of mean 0 and deviation 1."""
    names = [name for name in frame.columns if name not in {"id", "y"}]
    numbers = frame[names].astype(np.float64)
    known = (numbers - numbers.mean()) / numbers.std(ddof=0)
    return pd.concat([frame[["id"]], frame["y"].astype(np.int64), known], axis=1)


def in_clear(parties: list[pd.DataFrame]) -> Floats:
    """Return the weights of federated averaging, the intercept last."""
    known = [(one.drop(columns=["id", "y"]).to_numpy(), one["y"].to_numpy()) for one in parties]
    weights = np.zeros(known[0][0].shape[1] + 1)
    for number in range(ROUNDS):
        total = np.zeros_like(weights)
        for features, labels in known:
            own = weights.copy()
            if number == 0:
                own[-1] = np.log(labels.sum() / (len(labels) - labels.sum()))
            away = 1 / (1 + np.exp(-(features @ own[:-1] + own[-1]))) - labels
            gradient = np.append(away @ features, away.sum()) / len(labels) + ALPHA * own
            total += len(labels) * (own - RATE / np.sqrt(1 + number) * gradient)
        weights = total / sum(len(labels) for _, labels in known)
    return weights


def breast(data: DataFolder, folder: Path) -> Iterator[Row]:
    parties = [scaled(data.csv(f"breast_homo_{party}")) for party in ("guest", "host")]
    chain = Chain(folder)
    tables = chain.instances(dict(zip((GUEST, HOST), parties, strict=True)), label="y")
    step = chain.run(
        HomoLR,
        {"train_data": tables},
        optimizer="sgd",
        learning_rate=RATE,
        alpha=ALPHA,
        max_iter=ROUNDS,
        tol=-1.0,
        init_param={"init_method": "zeros"},
    )
    param = step.param(GUEST)
    found = np.array([*(param["weight"][name] for name in param["header"]), param["intercept"]])
    clear = Rows("HomoLR", "breast_homo", "same rounds in the clear")
    yield clear.worst("weights", in_clear(parties), found, 1e-6, relative=False)
    own = parties[0].drop(columns=["id", "y"]).to_numpy()
    auc = roc_auc_score(parties[0]["y"], own @ found[:-1])
    yield Rows("HomoLR", "breast_homo", "measured of FATE's rules").one(
        "AUC of the guest", KNOWN_AUC, auc, 2e-3
    )
    whole = pd.concat(parties)
    features, labels = whole.drop(columns=["id", "y"]).to_numpy(), whole["y"].to_numpy()
    pooled = LogisticRegression(C=1 / (len(labels) * ALPHA), max_iter=1000).fit(features, labels)
    expected = roc_auc_score(labels, pooled.decision_function(features))
    yield Rows("HomoLR", "breast_homo", "scikit-learn LogisticRegression, pooled rows").one(
        "AUC", expected, roc_auc_score(labels, features @ found[:-1]), 0.01
    )


CHECKS = (Check(name="homo-lr-breast", make=breast, quick=True),)
