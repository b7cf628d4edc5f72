"""A small model to serve: the logistic function of a weighted sum, each party with weights.

Its share is the JSON that a serving process is given: the head, `weights` and `intercept`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.base.errors.serving import BadPartial
from fedflow.base.errors.serving_process import LoadRefused
from fedflow.serving.scoring.host_answer import answer_of, read_answer

MODEL_ID = "guest-9999#host-10000#model"
GUEST, HOST = "9999", "10000"
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "guest": {"x0": 0.5, "x1": -1.25},
    "host": {"y0": 2.0, "y1": 0.125},
}
INTERCEPT = 0.25


class LinearShare(msgspec.Struct, frozen=True, kw_only=True):
    """One party's weights."""

    role: str
    party_id: str
    model_id: str = MODEL_ID
    model_version: str
    digest: str
    roles: dict[str, list[str]]
    weights: dict[str, float]
    intercept: float = 0.0
    damaged: bool = False
    whole: bool = False  #: the party has the whole model, as of horizontal training


@dataclass(frozen=True)
class LinearBatch:
    """Rows, by number."""

    rows: list[dict[str, float]]
    errors: dict[int, str] = field(default_factory=dict)

    @property
    def features(self) -> NDArray[np.float64]:
        return np.array([list(row.values()) for row in self.rows], dtype=np.float64)


@dataclass(frozen=True)
class LinearScore:
    """The score of one row."""

    score: float | list[float] | None
    label: Any = None
    credit_score: float | None = None
    error: str | None = None


class LinearModel:
    """One party's share of a model; a missing value counts as 0."""

    def __init__(self, share: LinearShare) -> None:
        self.role = share.role
        self.inputs = tuple(share.weights)
        self.text_inputs = frozenset[str]()
        self.labels = (0, 1)
        self.scores_alone = share.whole
        self.hosts = () if share.whole else tuple(share.roles.get("host", ()))
        self.digest = share.digest
        self._share = share

    def read(self, rows: Sequence[Mapping[str, Any]]) -> LinearBatch:
        batch = LinearBatch([{} for _ in rows])
        for number, row in enumerate(rows):
            for name in self.inputs:
                value = row.get(name)
                if isinstance(value, str) or (value is not None and not math.isfinite(value)):
                    batch.errors[number] = f"{name} is no number"
                else:
                    batch.rows[number][name] = float(value or 0.0)
        return batch

    def partial(self, batch: LinearBatch) -> bytes:
        return _part(self._sums(batch))

    def without(self, host: str) -> bytes:
        return _part([0.0])

    def local(self, batch: LinearBatch) -> list[float]:
        return [one + self._share.intercept for one in self._sums(batch)]

    def merge(self, local: list[float], partials: Mapping[str, bytes]) -> list[LinearScore]:
        total = list(local)
        for party, raw in partials.items():
            try:
                said = read_answer(raw).scores[:, 0].tolist()
                total = [a + b for a, b in zip(total, said, strict=True)]
            except (ValueError, IndexError) as exc:
                raise BadPartial(party=party, reason=str(exc)) from exc
        scores = [logistic(one) for one in total]
        return [LinearScore(score=one, label=int(one > 0.5)) for one in scores]

    def _sums(self, batch: LinearBatch) -> list[float]:
        weights = self._share.weights
        return [sum(weights[name] * row[name] for name in weights) for row in batch.rows]


def _part(sums: Sequence[float]) -> bytes:
    scores = np.array(sums, np.float64)[:, None]
    return answer_of(np.zeros(len(scores), np.bool_), scores=scores).to_bytes()


def logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


def build_linear(share: bytes) -> LinearModel:
    """Return the model of a share. Raises: LoadRefused: it says that it is damaged."""
    read = msgspec.json.decode(share, type=LinearShare)
    if read.damaged:
        raise LoadRefused(model_version=read.model_version, reason="its model is damaged")
    return LinearModel(read)


def share_of(role: str, version: str = "v1", **changes: Any) -> dict[str, Any]:
    """Return a share as JSON values; versions differ in the intercept."""
    share = {
        "role": role,
        "party_id": GUEST if role == "guest" else HOST,
        "model_id": MODEL_ID,
        "model_version": version,
        "digest": f"digest-{version}",
        "roles": {"guest": [GUEST], "host": [HOST]},
        "weights": dict(WEIGHTS[role]),
        "intercept": INTERCEPT + (0.0 if version == "v1" else 1.0),
    }
    return {**share, **changes}


def expected_score(row: Mapping[str, float], *, version: str = "v1") -> float:
    """Return the score of a row of both parties' values."""
    weights = {**WEIGHTS["guest"], **WEIGHTS["host"]}
    intercept = INTERCEPT + (0.0 if version == "v1" else 1.0)
    return logistic(intercept + sum(weights[name] * value for name, value in row.items()))
