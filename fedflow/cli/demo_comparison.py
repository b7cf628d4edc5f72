"""The demo's result beside what two other ways give on the same data, joined in the clear.

This is what no party could do in earnest: it has both files. numpy and scikit-learn are imported
when the job has ended, by the function that needs them.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.cli.demo_servers import GUEST, HOST, DemoServers
from fedflow.domain.site import Role, Site

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

LEARNER, ALIGNED = "hetero_lr_0", "intersection_0"
GUEST_SITE = Site(Role.GUEST, PartyId(GUEST))
HOST_SITE = Site(Role.HOST, PartyId(HOST))
ARBITER_SITE = Site(Role.ARBITER, PartyId(HOST))


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """How well a model ranks the training rows."""

    model: str
    auc: float
    ks: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The federated model against the same algorithm in the clear."""

    iterations: int
    losses: tuple[float, ...]  #: of the federated run, per iteration
    loss_error: float  #: largest relative difference of an iteration's loss
    weight_error: float  #: difference of the weights relative to their norm
    in_clear: Quality
    scikit_learn: Quality


def compare(
    servers: DemoServers, job_id: str, *, data: Path, learner: dict[str, Any]
) -> Comparison:
    """Train both other models on the joined rows, in the order in which the job had them.

    `data` holds the two CSV files, `learner` the parameters of HeteroLR.
    """
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from fedflow.testing.oracle import OracleSettings, train_in_clear

    ids = _aligned_ids(servers, job_id)
    guest_names, guest_rows = _read(data / "breast_hetero_guest.csv")
    host_names, host_rows = _read(data / "breast_hetero_host.csv")
    guest = np.array([guest_rows[i] for i in ids], dtype=np.float64)
    host = np.array([host_rows[i] for i in ids], dtype=np.float64)
    labels = np.where(guest[:, 0] == 1, 1.0, -1.0)
    features = np.hstack((guest[:, 1:], host))
    clear = train_in_clear(
        features,
        labels,
        OracleSettings(
            iterations=learner["max_iter"],
            optimizer=learner["optimizer"],
            learning_rate=learner["learning_rate"],
            alpha=learner["alpha"],
            penalty=learner["penalty"],
            batch_size=learner["batch_size"],
            stop=learner["early_stop"],
            tol=learner["tol"],
        ),
    )
    alpha_rows = learner["alpha"] * len(ids)  # scikit-learn's C weighs the sum of the losses
    usual = LogisticRegression(C=1.0 / alpha_rows, max_iter=1000).fit(features, labels)
    weights = _weights(servers, job_id, guest_names[1:], host_names)
    expected = np.append(clear.coef, clear.intercept)
    losses = _losses(servers, job_id)
    return Comparison(
        iterations=len(losses),
        losses=losses,
        loss_error=_largest_error(losses, clear.losses),
        weight_error=float(np.linalg.norm(weights - expected) / np.linalg.norm(expected)),
        in_clear=_quality("the same algorithm in the clear", labels, features @ clear.coef),
        scikit_learn=_quality(
            "scikit-learn LogisticRegression", labels, usual.decision_function(features)
        ),
    )


def _largest_error(found: tuple[float, ...], expected: list[float]) -> float:
    if len(found) != len(expected):
        return float("inf")
    return max((abs(a - b) / abs(b) for a, b in zip(found, expected)), default=0.0)


def _quality(model: str, labels: Floats, scores: Floats) -> Quality:
    """Return AUC as scikit-learn computes it, and KS over FATE's 100 cuts as Evaluation does."""
    from sklearn.metrics import roc_auc_score

    from fedflow.components.evaluation.binary import BinaryScores

    ks, _, _ = BinaryScores(labels > 0, scores).ks()
    return Quality(model=model, auc=float(roc_auc_score(labels, scores)), ks=ks)


def _aligned_ids(servers: DemoServers, job_id: str) -> list[str]:
    """Return the ids of the intersection in the guest's order."""
    with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
        files = servers.guest.client.download_output(job_id, ALIGNED, Path(folder), site=GUEST_SITE)
        table = next(file for file in files if file.suffix == ".csv")
        with table.open(newline="", encoding="utf-8") as file:
            return [row[0] for row in csv.reader(file)][1:]


def _read(path: Path) -> tuple[list[str], dict[str, list[float]]]:
    """Return the names of a file's columns after the id, and its rows by id."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        names = next(lines)[1:]
        return names, {line[0]: [float(cell) for cell in line[1:]] for line in lines}


def _weights(
    servers: DemoServers, job_id: str, guest_names: list[str], host_names: list[str]
) -> Floats:
    """Return the weights of guest and host, and the intercept, in the order of the columns."""
    import numpy as np

    weights: list[float] = []
    intercept = 0.0
    for site, names in ((GUEST_SITE, guest_names), (HOST_SITE, host_names)):
        share = servers.of(site.party_id).client.model(job_id, LEARNER, site=site)
        if share is None:
            raise RuntimeError(f"{site} has no share of the model")
        weights += [share.param["weight"][name] for name in names]
        intercept += share.param["intercept"]
    return np.array([*weights, intercept])


def _losses(servers: DemoServers, job_id: str) -> tuple[float, ...]:
    client = servers.of(ARBITER_SITE.party_id).client
    for metric in client.metrics(job_id, LEARNER, site=ARBITER_SITE):
        if metric.kind == "LOSS":
            return tuple(float(loss) for _, loss in metric.points)
    return ()
