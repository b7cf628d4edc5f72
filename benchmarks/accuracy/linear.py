"""HeteroLR, HeteroLinR, HeteroPoisson and the SSHE models against scikit-learn and in the clear.

Two kinds of reference. "Same updates in the clear" is fedflow.testing.oracle on the joined columns:
what is left is the error of fixed-point numbers and of encryption. scikit-learn's model is the
converged optimum: what is left is also that training stops after some iterations. The logistic
models train on a quadratic expansion of their loss, whose optimum is a ridge regression on labels
of -2 and 2 with four times the penalty; scikit-learn's logistic regression has the same penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.metrics import accuracy_score, mean_squared_error, r2_score, roc_auc_score, roc_curve
from sklearn.preprocessing import scale

from benchmarks.accuracy.chain import ARBITER, GUEST, HOST, KEY, Chain, Step
from benchmarks.accuracy.data import DataFolder, Floats, Vertical
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.components.sshe.component import HeteroSSHELinR, HeteroSSHELR
from fedflow.testing.oracle import OracleRun, OracleSettings, train_in_clear

RANKING, FIT, WEIGHTS = 0.005, 0.01, 1e-4  #: tolerances of AUC and KS, of R2, of weights
IN_CLEAR = "same updates in the clear"
PUBLISHED = 0.975186  #: AUC that FATE's flow test expects within 1e-4
PUBLISHED_R2, PUBLISHED_RMSE = 0.9031412, 0.3139978  #: of FATE's manual of fate_test


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """Settings of a training, for the component and in the clear."""

    family: str
    optimizer: str
    iterations: int
    learning_rate: float
    alpha: float
    decay: float = 0.0

    @property
    def params(self) -> dict[str, Any]:
        """Return the component's parameters; zero weights, all rows at once, no early stop."""
        return {
            "optimizer": self.optimizer,
            "max_iter": self.iterations,
            "learning_rate": self.learning_rate,
            "alpha": self.alpha,
            "decay": self.decay,
            "early_stop": "weight_diff",
            "tol": 0.0,
            "init_param": {"init_method": "zeros"},
            **KEY,
        }

    def in_clear(self, features: Floats, labels: Floats) -> OracleRun:
        """Return the same training of joined columns."""
        settings = OracleSettings(
            iterations=self.iterations,
            family=self.family,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            alpha=self.alpha,
            decay=self.decay,
        )
        return train_in_clear(features, labels, settings)


def signs(labels: Floats) -> Floats:
    """Return -1 and 1 for classes 0 and 1."""
    return np.where(labels == 1, 1.0, -1.0)


def ks_of(labels: Floats, scores: Floats) -> float:
    """Return KS over all thresholds, by scikit-learn's ROC curve."""
    fpr, tpr, _ = roc_curve(labels, scores)
    return float((tpr - fpr).max())


def weights(step: Step) -> Floats:
    """Return the weights of guest and host, then the intercept."""
    models = [step.param(site) for site in (GUEST, HOST)]
    coef = [m["weight"][name] for m in models for name in m["header"]]
    return np.array([*coef, models[0]["intercept"]])


def evaluated(chain: Chain, step: Step, **params: Any) -> Mapping[str, float]:
    """Return what Evaluation says of the guest's predictions of its train rows.

    KS is the exact one; that over 100 cuts, as FATE's, is compared in `measures`.
    """
    measured = chain.run(Evaluation, {"data": step.tables()}, sites=(GUEST,), **params)
    ((producer, parts),) = measured.summary(GUEST).items()
    found = dict(parts["train"])
    if "ks" in found:
        found["ks"] = measured.metric(GUEST, "train", f"{producer}_ks_tpr").meta["exact_ks"]
    return found


def ranking(rows: Rows, found: Mapping[str, float], labels: Floats, scores: Floats) -> list[Row]:
    """Return AUC and KS of the evaluated model against those of `scores`."""
    return [
        rows.one("AUC", roc_auc_score(labels, scores), found["auc"], RANKING),
        rows.one("KS", ks_of(labels, scores), found["ks"], RANKING),
    ]


def logistic(
    chain: Chain, kind: type[Any], data: Vertical, training: Training, **params: Any
) -> Iterator[Row]:
    """Train on two classes and compare with scikit-learn and in the clear."""
    name, x, y = kind.__name__, data.features, data.labels
    step = chain.run(kind, {"train_data": chain.aligned(data)}, **training.params, **params)
    found = evaluated(chain, step)
    logit = LogisticRegression(C=1 / (len(y) * training.alpha), max_iter=1000).fit(x, y)
    ridge = Ridge(alpha=4 * training.alpha * len(y)).fit(x, 2 * signs(y))
    sk = Rows(name, data.name, "scikit-learn LogisticRegression")
    yield from ranking(sk, found, y, logit.decision_function(x))
    yield from ranking(Rows(name, data.name, "scikit-learn Ridge"), found, y, ridge.predict(x))
    clear = training.in_clear(x, signs(y))
    rows = Rows(name, data.name, IN_CLEAR)
    yield from ranking(rows, found, y, clear.scores_per_iteration[-1])
    yield apart(rows, clear, step)


def apart(rows: Rows, clear: OracleRun, step: Step) -> Row:
    """Return the largest difference of a weight."""
    expected = [*clear.coef, clear.intercept]
    return rows.worst("weights", expected, weights(step), WEIGHTS, relative=False)


def numbers(
    chain: Chain, kind: type[Any], data: Vertical, training: Training, **params: Any
) -> Iterator[Row]:
    """Train on numbers, scaled columns, and compare with scikit-learn and in the clear."""
    name, x, y = kind.__name__, scale(data.features), data.labels
    scaled = chain.run(FeatureScale, {"data": chain.aligned(data)}).tables()
    step = chain.run(kind, {"train_data": scaled}, **training.params, **params)
    found = evaluated(chain, step, eval_type="regression")
    clear = training.in_clear(x, y)
    if training.family == "poisson":
        known = PoissonRegressor(alpha=training.alpha, max_iter=1000).fit(x, y)
        in_clear = np.exp(clear.scores_per_iteration[-1])
    else:
        known = Ridge(alpha=training.alpha * len(y)).fit(x, y)
        in_clear = clear.scores_per_iteration[-1]
    sk = Rows(name, data.name, f"scikit-learn {type(known).__name__}")
    yield sk.one("R2", r2_score(y, known.predict(x)), found["r2_score"], FIT)
    rows = Rows(name, data.name, IN_CLEAR)
    yield rows.one("R2", r2_score(y, in_clear), found["r2_score"], FIT)
    rmse = float(np.sqrt(mean_squared_error(y, in_clear)))
    yield rows.one("RMSE", rmse, found["root_mean_squared_error"], WEIGHTS, relative=True)
    yield apart(rows, clear, step)


def several_classes(
    chain: Chain, kind: type[Any], data: Vertical, training: Training, **params: Any
) -> Iterator[Row]:
    """Train one model per class and compare with the same models in the clear."""
    name, x, y = kind.__name__, data.features, data.labels
    step = chain.run(kind, {"train_data": chain.aligned(data)}, **training.params, **params)
    found = evaluated(chain, step, eval_type="multi")
    ids = data.joined.index
    scores = np.column_stack(
        [training.in_clear(x, signs(y == k)).scores_per_iteration[-1] for k in np.unique(y)]
    )
    ridge = [
        Ridge(alpha=4 * training.alpha * len(y)).fit(x, 2 * signs(y == k)) for k in np.unique(y)
    ]
    best = np.column_stack([model.predict(x) for model in ridge]).argmax(axis=1)
    sk = Rows(name, data.name, "scikit-learn Ridge per class")
    yield sk.one("accuracy", accuracy_score(y, best), found["accuracy"], FIT)
    rows = Rows(name, data.name, IN_CLEAR)
    yield rows.one("accuracy", accuracy_score(y, scores.argmax(axis=1)), found["accuracy"], RANKING)
    measured = chain.run(
        Evaluation,
        {"data": step.tables()},
        sites=(GUEST,),
        eval_type="multi",
        unfold_multi_result=True,
    )
    for label, column in zip(np.unique(y).astype(int), scores.T, strict=True):
        unfolded = dict(measured.metric(GUEST, "train", f"data_0_class_{label}_ovr").points)
        auc = roc_auc_score(y == label, column)
        yield rows.one(f"AUC of class {label} against the rest", auc, unfolded["auc"], RANKING)
    largest = 1 / (1 + np.exp(-scores.max(axis=1)))
    yield rows.worst(
        "predict_score", largest, step.column("predict_score", ids), WEIGHTS, relative=False
    )


def published(data: DataFolder, folder: Path) -> Iterator[Row]:
    """The figure that FATE publishes for HeteroLR: five iterations on breast_hetero."""
    chain, breast = Chain(folder), data.breast()
    training = Training(
        family="logistic",
        optimizer="rmsprop",
        iterations=5,
        learning_rate=0.15,
        alpha=0.01,
        decay=1.0,
    )
    step = chain.run(HeteroLR, {"train_data": chain.aligned(breast)}, **training.params)
    auc = evaluated(chain, step)["auc"]
    yield Rows("HeteroLR", breast.name, "FATE's flow test").one("AUC", PUBLISHED, auc, 1e-4)
    clear = training.in_clear(breast.features, signs(breast.labels))
    rows = Rows("HeteroLR", breast.name, f"{IN_CLEAR} (5 iterations)")
    losses = [loss for _, loss in step.metric(ARBITER, "train", "loss").points]
    yield rows.worst("loss", clear.losses, losses)
    yield apart(rows, clear, step)


def published_numbers(data: DataFolder, folder: Path) -> Iterator[Row]:
    """What FATE's manual says of HeteroLinR on motor_hetero, within FATE's own tolerance of 1 %."""
    chain, motor = Chain(folder), data.motor()
    training = Training(
        family="linear", optimizer="sgd", iterations=6, learning_rate=0.13, alpha=0.01, decay=1.0
    )
    given = {"train_data": chain.aligned(motor)}
    step = chain.run(HeteroLinR, given, **{**training.params, "batch_size": 100})
    found = evaluated(chain, step, eval_type="regression")
    rows = Rows("HeteroLinR", motor.name, "FATE's manual (batches in another order)")
    yield rows.one("R2", PUBLISHED_R2, found["r2_score"], FIT, relative=True)
    rmse = found["root_mean_squared_error"]
    yield rows.one("RMSE", PUBLISHED_RMSE, rmse, FIT, relative=True)


NESTEROV = "nesterov_momentum_sgd"
BINARY = Training(
    family="logistic", optimizer=NESTEROV, iterations=20, learning_rate=0.1, alpha=0.1
)
CREDIT = Training(
    family="logistic", optimizer=NESTEROV, iterations=10, learning_rate=0.1, alpha=0.1
)
CLASSES = Training(
    family="logistic", optimizer=NESTEROV, iterations=20, learning_rate=0.3, alpha=0.05
)
LINEAR = Training(family="linear", optimizer="sgd", iterations=20, learning_rate=0.3, alpha=0.1)
COUNTS = Training(family="poisson", optimizer="sgd", iterations=10, learning_rate=0.5, alpha=0.1)


def lr_breast(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from logistic(Chain(folder), HeteroLR, data.breast(), BINARY)


def lr_credit(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from logistic(Chain(folder), HeteroLR, data.credit(3000), CREDIT)


def lr_vehicle(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from several_classes(Chain(folder), HeteroLR, data.vehicle(), CLASSES)


def linr(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from numbers(Chain(folder / "motor"), HeteroLinR, data.motor(), LINEAR)
    yield from numbers(Chain(folder / "student"), HeteroLinR, data.student(), LINEAR)


def poisson(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from numbers(Chain(folder), HeteroPoisson, data.dvisits(), COUNTS)


def sshe_lr(data: DataFolder, folder: Path) -> Iterator[Row]:
    known: dict[str, Any] = {"reveal_every_iter": True}
    yield from logistic(Chain(folder), HeteroSSHELR, data.breast(), BINARY, **known)


def sshe_linr(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from numbers(Chain(folder), HeteroSSHELinR, data.motor(), LINEAR)


CHECKS = (
    Check(name="lr-published", make=published, quick=True),
    Check(name="lr-breast", make=lr_breast),
    Check(name="lr-credit", make=lr_credit),
    Check(name="lr-vehicle", make=lr_vehicle),
    Check(name="linr", make=linr),
    Check(name="linr-published", make=published_numbers),
    Check(name="poisson", make=poisson),
    Check(name="sshe-lr", make=sshe_lr),
    Check(name="sshe-linr", make=sshe_linr),
)
