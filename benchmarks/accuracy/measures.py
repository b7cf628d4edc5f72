"""Evaluation, LocalBaseline and Scorecard; cross validation and stepwise selection."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn import metrics as sk
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold

from benchmarks.accuracy.chain import ARBITER, GUEST, HOST, Chain, Step, Tables
from benchmarks.accuracy.data import DataFolder, Floats, Vertical
from benchmarks.accuracy.linear import IN_CLEAR, RANKING, Training, ks_of, signs
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.clustering.hetero_kmeans import HeteroKmeans
from fedflow.components.evaluation.evaluation import Evaluation
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.local.local_baseline import LocalBaseline
from fedflow.components.scoring.scorecard import Scorecard
from fedflow.sdk import TableKind, TableSchema
from fedflow.testing.memory_tables import MemoryTableStore

WRITTEN = 1e-6  #: Evaluation writes six decimals
CUTS = 100
PRODUCER = "data_0"  #: the name that `Chain` gives the component before Evaluation
FOLDS = {"need_cv": True, "n_splits": 3, "random_seed": 7}


def baseline(chain: Chain, data: Vertical) -> tuple[Step, LogisticRegression, Floats]:
    """Return LocalBaseline's step on the guest's columns, scikit-learn's model, and the columns."""
    options: dict[str, Any] = {"solver": "lbfgs", "C": 1.0, "max_iter": 2000, "tol": 1e-6}
    step = chain.run(
        LocalBaseline, {"train_data": chain.aligned(data)}, sites=(GUEST,), model_opts=options
    )
    x = data.joined[data.guest_columns].to_numpy()
    return step, LogisticRegression(**options).fit(x, data.labels), x


def local(data: DataFolder, folder: Path) -> Iterator[Row]:
    breast = data.breast()
    step, known, x = baseline(Chain(folder), breast)
    found = step.column("predict_score", breast.joined.index)
    expected = known.predict_proba(x)[:, 1]
    rows = Rows("LocalBaseline", f"{breast.name} guest", "scikit-learn LogisticRegression")
    yield rows.worst("predict_score", expected, found)
    known_auc, auc = (sk.roc_auc_score(breast.labels, scores) for scores in (expected, found))
    yield rows.one("AUC", known_auc, auc, RANKING)


def scorecard(data: DataFolder, folder: Path) -> Iterator[Row]:
    chain, breast = Chain(folder), data.breast()
    step, _, _ = baseline(chain, breast)
    ids = breast.joined.index
    p = step.column("predict_score", ids)
    with np.errstate(divide="ignore"):
        credit = np.clip(500 + 20 / math.log(2) * np.log((1 - p) / p), 0, 1500).round(2)
    scored = chain.run(Scorecard, {"data": step.tables()}, sites=(GUEST,))
    rows = Rows("Scorecard", breast.name, "numpy")
    yield rows.worst("credit_score", credit, scored.column("credit_score", ids))


def binary(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Every measure of two classes."""
    chain, breast = Chain(folder), data.breast()
    step, _, _ = baseline(chain, breast)
    measured = chain.run(Evaluation, {"data": step.tables()}, sites=(GUEST,))
    y, p = breast.labels, step.column("predict_score", breast.joined.index)
    rows = Rows("Evaluation binary", breast.name, "scikit-learn")
    found = measured.summary(GUEST)[PRODUCER]["train"]
    yield rows.one("auc", sk.roc_auc_score(y, p), found["auc"], WRITTEN)
    exact = measured.metric(GUEST, "train", f"{PRODUCER}_ks_tpr").meta["exact_ks"]
    yield rows.one("exact_ks", ks_of(y, p), exact, WRITTEN)
    cuts = Rows("Evaluation binary", breast.name, "numpy, over FATE's 100 cuts")
    yield cuts.one("ks", ks_over_cuts(y, p), found["ks"], WRITTEN)
    roc = measured.metric(GUEST, "train", f"{PRODUCER}_roc").points
    fpr, tpr, _ = sk.roc_curve(y, p)
    known = [tpr[np.isclose(fpr, x, atol=WRITTEN)] for x, _ in roc]
    near = [at[np.abs(at - t).argmin()] for (_, t), at in zip(roc, known, strict=True)]
    yield rows.worst("roc", near, [t for _, t in roc], WRITTEN, relative=False)
    table = measured.metric(GUEST, "train", f"{PRODUCER}_confusion_mat").meta
    matrices = [sk.confusion_matrix(y, p > t).ravel() for t in table["thresholds"]]
    counts = np.column_stack([table[name] for name in ("tn", "fp", "fn", "tp")])
    yield rows.worst("confusion_mat", matrices, counts)
    f1 = measured.metric(GUEST, "train", f"{PRODUCER}_f1_score").meta
    known_f1 = [sk.f1_score(y, p > t, zero_division=0) for t in f1["thresholds"]]
    yield rows.worst("f1_score", known_f1, f1["f1_scores"], WRITTEN, relative=False)
    for name, score in (
        ("accuracy", sk.accuracy_score),
        ("precision", sk.precision_score),
        ("recall", sk.recall_score),
    ):
        curve = measured.metric(GUEST, "train", f"{PRODUCER}_{name}")
        more = {} if name == "accuracy" else {"zero_division": 1 if name == "precision" else 0}
        at = cut_thresholds(p)
        expected = [score(y, p > t, **more) for t in at]
        found_curve = [value for _, value in curve.points]
        yield rows.worst(f"{name} curve", expected, found_curve, WRITTEN, relative=False)


def cut_thresholds(scores: Floats) -> Floats:
    """Return the thresholds of FATE's curves: of distinct scores, descending, and one below all."""
    distinct = np.unique(scores)[::-1]
    index = [int(len(distinct) * k / CUTS) for k in range(CUTS)]
    return np.array([*distinct[index], distinct[-1] - 0.001])


def ks_over_cuts(labels: Floats, scores: Floats) -> float:
    """Return the largest gap of the two rates at FATE's 100 thresholds."""
    ordered = np.sort(scores)[::-1]
    thresholds = [ordered[int(len(ordered) * k / CUTS)] for k in range(CUTS)]
    return max(
        float((scores[labels == 1] > t).mean() - (scores[labels != 1] > t).mean())
        for t in thresholds
    )


def classes(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Several classes, also each against the rest."""
    chain, vehicle = Chain(folder), data.vehicle()
    step, _, _ = baseline(chain, vehicle)
    settings: dict[str, Any] = {"eval_type": "multi", "unfold_multi_result": True}
    measured = chain.run(Evaluation, {"data": step.tables()}, sites=(GUEST,), **settings)
    frame = step.frame(GUEST)
    y, named = frame["label"].to_numpy(), frame["predict_result"].to_numpy()
    found = measured.summary(GUEST)[PRODUCER]["train"]
    rows = Rows("Evaluation multi", vehicle.name, "scikit-learn")
    yield rows.one("accuracy", sk.accuracy_score(y, named), found["accuracy"], WRITTEN)
    for name, score in (("precision", sk.precision_score), ("recall", sk.recall_score)):
        yield rows.one(name, score(y, named, average="macro"), found[name], WRITTEN)
    details = pd.json_normalize(frame["predict_detail"].map(ast.literal_eval))
    unfolded = [
        dict(measured.metric(GUEST, "train", f"{PRODUCER}_class_{c}_ovr").points)["auc"]
        for c in details
    ]
    known = [sk.roc_auc_score(y == int(c), details[c]) for c in details]
    yield rows.worst("auc of each class against the rest", known, unfolded, WRITTEN, relative=False)


def predicted(columns: dict[str, Any]) -> Tables:
    """Return the guest's table of predictions or clusters."""
    names = list(columns)
    schema = TableSchema(kind=TableKind.PREDICTIONS, id="id", columns=tuple(names[1:]))
    return {GUEST: MemoryTableStore().add(columns, schema=schema)}


def regression(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Measures of numbers, predicted by the mean of each student's neighbours in the file."""
    chain, student = Chain(folder), data.student()
    y = student.labels
    guess = pd.Series(y).rolling(9, center=True, min_periods=1).mean().to_numpy()
    table = predicted(
        {
            "id": list(student.joined.index),
            "label": y,
            "predict_result": guess,
            "predict_score": guess,
            "predict_detail": ["{}"] * len(y),
            "type": ["train"] * len(y),
        },
    )
    names = {
        "explained_variance": sk.explained_variance_score,
        "mean_absolute_error": sk.mean_absolute_error,
        "mean_squared_error": sk.mean_squared_error,
        "median_absolute_error": sk.median_absolute_error,
        "r2_score": sk.r2_score,
        "root_mean_squared_error": sk.root_mean_squared_error,
        "mean_squared_log_error": sk.mean_squared_log_error,
    }
    asked: dict[str, Any] = {"eval_type": "regression", "metrics": list(names)}
    step = chain.run(Evaluation, {"data": table}, sites=(GUEST,), **asked)
    found = step.summary(GUEST)[PRODUCER]["train"]
    rows = Rows("Evaluation regression", student.name, "scikit-learn")
    for name, score in names.items():
        yield rows.one(name, score(y, guess), found[name], WRITTEN)


def clusters(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Measures of clusters that scikit-learn's k-means finds."""
    chain, breast = Chain(folder), data.breast()
    x, y = breast.features, breast.labels
    model = KMeans(3, random_state=1, n_init=2).fit(x)
    ids = list(breast.joined.index)
    rows_of_clusters = predicted(
        {
            "id": ids,
            "label": y.astype(int),
            "predicted_cluster_index": model.labels_,
            "type": ["train"] * len(ids),
        },
    )
    centroids = np.array([x[model.labels_ == c].mean(axis=0) for c in range(3)])
    away = np.linalg.norm(x - centroids[model.labels_], axis=1)
    apart = ((centroids[:, None] - centroids[None]) ** 2).sum(axis=2)
    shape = predicted(
        {
            "id": ["0", "1", "2"],
            "cluster_sample_count": np.bincount(model.labels_),
            "cluster_inner_dist": [away[model.labels_ == c].mean() for c in range(3)],
            "max_radius": [away[model.labels_ == c].max() for c in range(3)],
            "inter_cluster_dist": [np.delete(row, i).tolist() for i, row in enumerate(apart)],
            "type": ["train"] * 3,
        },
    )
    (_, together), (split, both) = sk.cluster.pair_confusion_matrix(y, model.labels_)
    expected = {
        "jaccard_similarity_score": both / (both + split + together),
        "fowlkes_mallows_score": sk.fowlkes_mallows_score(y, model.labels_),
        "adjusted_rand_score": sk.adjusted_rand_score(y, model.labels_),
        "davies_bouldin_index": sk.davies_bouldin_score(x, model.labels_),
    }
    found: dict[str, float] = {}
    for table in (rows_of_clusters, shape):
        step = chain.run(Evaluation, {"data": table}, sites=(GUEST,), eval_type="clustering")
        found |= step.summary(GUEST)[PRODUCER]["train"]
    rows = Rows("Evaluation clustering", breast.name, "scikit-learn")
    for name, value in expected.items():
        yield rows.one(name, value, found[name], WRITTEN)


def kmeans(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from lloyd(Chain(folder), data.breast(), k=4, seed=3)


def kmeans_classes(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from lloyd(Chain(folder), data.vehicle(), k=4, seed=5)


def lloyd(chain: Chain, data: Vertical, *, k: int, seed: int) -> Iterator[Row]:
    """HeteroKmeans against scikit-learn's Lloyd iteration from the same rows."""
    tables = chain.aligned(data)
    guest = tables[GUEST]
    assert guest is not None
    ids = guest.read((guest.schema.id,)).column(0).to_pylist()
    places = data.joined.index.get_indexer(ids)
    x, y = data.features[places], data.labels[places]
    start = x[np.random.RandomState(seed).choice(len(x), k, replace=False)]
    known = KMeans(k, init=start, n_init=1, algorithm="lloyd", tol=0.0).fit(x)
    step = chain.run(HeteroKmeans, {"train_data": tables}, k=k, tol=0.0, random_stat=seed)
    frame = step.frame(GUEST)
    clusters = frame["predicted_cluster_index"].loc[ids].to_numpy()
    parts = [step.param(site)["centroid_detail"] for site in (GUEST, HOST)]
    centroids = np.hstack([[row["centroid"] for row in part] for part in parts])
    index = step.metric(ARBITER, "train", "DBI").points[-1][1]
    rows = Rows("HeteroKmeans", data.name, "scikit-learn KMeans")
    yield rows.one("rows in another cluster", 0, int((clusters != known.labels_).sum()), 0)
    yield rows.worst("centroids", known.cluster_centers_, centroids)
    expected = sk.davies_bouldin_score(x, known.labels_)
    yield rows.one("Davies-Bouldin index", expected, index, 1e-6, relative=True)
    measured = chain.run(
        Evaluation, {"data": step.tables()}, sites=(GUEST,), eval_type="clustering"
    )
    found = measured.summary(GUEST)[PRODUCER]["train"]
    for name in ("adjusted_rand_score", "fowlkes_mallows_score"):
        yield rows.one(name, getattr(sk, name)(y, known.labels_), found[name], WRITTEN)


def cross_validation(data: DataFolder, folder: Path) -> Iterator[Row]:
    """HeteroLR on three folds, each against the same training of its rows in the clear."""
    chain, breast = Chain(folder), data.breast()
    training = Training(
        family="logistic", optimizer="sgd", iterations=3, learning_rate=0.5, alpha=0.05
    )
    step = chain.run(
        HeteroLR, {"train_data": chain.aligned(breast)}, **training.params, cv_param=FOLDS
    )
    x, y = breast.features, breast.labels
    parts = KFold(3, shuffle=True, random_state=7).split(x)
    rows = Rows("HeteroLR, cross validation", breast.name, f"KFold, {IN_CLEAR}")
    for number, (train, test) in enumerate(parts):
        clear = training.in_clear(x[train], signs(y[train]))
        scores = x[test] @ clear.coef + clear.intercept
        found = dict(step.metric(GUEST, "validate", f"validate_fold_{number}").points)
        auc = sk.roc_auc_score(y[test], scores)
        yield rows.one(f"validate AUC of fold {number}", auc, found["auc"], RANKING)


def stepwise(data: DataFolder, folder: Path) -> Iterator[Row]:
    """HeteroLinR adds the column that lowers the criterion most, as a search in the clear does."""
    chain, motor = Chain(folder), data.pair("motor_hetero_mini", "motor_speed")
    training = Training(
        family="linear", optimizer="sgd", iterations=4, learning_rate=0.3, alpha=0.0
    )
    chosen: dict[str, Any] = {
        "need_stepwise": True,
        "score_name": "BIC",
        "direction": "forward",
        "max_step": 2,
    }
    step = chain.run(
        HeteroLinR, {"train_data": chain.aligned(motor)}, **training.params, stepwise_param=chosen
    )
    x, y = motor.features, motor.labels
    guest = len(motor.guest_columns)

    def criterion(columns: frozenset[int]) -> float:
        loss = training.in_clear(x[:, sorted(columns)], y).losses[-1]
        return (len(columns) + 1) * math.log(len(y)) + len(y) * math.log(2 * loss)

    best: frozenset[int] = frozenset()
    rows = Rows("HeteroLinR, stepwise", motor.name, f"forward search, {IN_CLEAR}")
    for number in range(3):
        if number:
            more = [best | {i} for i in range(x.shape[1])]
            best = min([best, *more], key=criterion)
        meta = step.metric(GUEST, "train", f"stepwise_{number}").meta
        mask = [*meta["guest_mask"], *meta["host_mask"]]
        wrong = sum(taken != (i in best) for i, taken in enumerate(mask))
        assert len(meta["guest_mask"]) == guest
        yield rows.worst(f"BIC after step {number}", criterion(best), meta["current_ic_val"])
        yield rows.one(f"columns chosen otherwise after step {number}", 0, wrong, 0.0)


CHECKS = (
    Check(name="evaluation-binary", make=binary, quick=True),
    Check(name="evaluation-classes", make=classes),
    Check(name="evaluation-regression", make=regression),
    Check(name="evaluation-clusters", make=clusters, quick=True),
    Check(name="kmeans", make=kmeans, quick=True),
    Check(name="kmeans-classes", make=kmeans_classes),
    Check(name="baseline", make=local, quick=True),
    Check(name="scorecard", make=scorecard, quick=True),
    Check(name="cross-validation", make=cross_validation),
    Check(name="stepwise", make=stepwise),
)
