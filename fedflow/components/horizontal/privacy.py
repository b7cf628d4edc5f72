"""Differential privacy of members: clipped updates, noise, and the budget spent so far.

Each member clips its update to a length and adds its part of the noise, so that the sum has all of
it. Members count alike, whatever their rows: a sum is then changed by one member by no more than
the clipped length. The budget is that of a member (all of its rows), for an observer of the sums.
Others of the round know their own part of the noise, so their view has n - 1 parts of n of it.

Sources: McMahan et al. 2018, "Learning Differentially Private Recurrent Language Models"; the
budget: Rényi accounting of `dp-accounting` (Google), extra `dp`.
"""

from __future__ import annotations

import math

import numpy as np

from fedflow.components.horizontal.packing import Floats
from fedflow.sdk import Context, ExtraMissing, Params
from fedflow.sdk.crypto import random_uniform


class DpParam(Params, frozen=True, kw_only=True):
    """Differential privacy of each party's part; fedflow's own, needs the extra `dp`."""

    need_dp: bool = False  #: clip updates and add noise
    clip: float = 1.0  #: largest Euclidean length of a party's update of all weights
    #: standard deviation of the noise in the sum, divided by `clip`
    noise_multiplier: float = 1.0
    delta: float = 1e-5  #: of the budget (epsilon, delta) in the metrics

    def check(self) -> None:
        if self.clip <= 0 or not math.isfinite(self.clip):
            raise ValueError("dp_param.clip: must be above 0")
        if self.noise_multiplier <= 0 or not math.isfinite(self.noise_multiplier):
            raise ValueError("dp_param.noise_multiplier: must be above 0")
        if not 0 < self.delta < 1:
            raise ValueError("dp_param.delta: must be between 0 and 1")


def private(before: Floats, after: Floats, param: DpParam, *, members: int) -> Floats:
    """Return weights whose update is clipped and has this member's part of the noise.

    A round that goes on with fewer members than began it has less noise, by their part.
    """
    update = after - before
    length = float(np.linalg.norm(update))
    if length > param.clip:
        update = update * (param.clip / length)
    scale = param.noise_multiplier * param.clip / math.sqrt(members)
    return before + update + scale * _gaussian(update.shape)


def spent(rounds: int, param: DpParam, *, members: int) -> float:
    """Return epsilon after so many rounds, to one of the members, who knows its part of the noise.

    Raises: ExtraMissing: the extra `dp` is not installed.
    """
    try:
        from dp_accounting.dp_event import GaussianDpEvent
        from dp_accounting.rdp import RdpAccountant
    except ImportError as exc:
        raise ExtraMissing(what="dp_param", package="dp-accounting (extra dp)") from exc

    seen = param.noise_multiplier * math.sqrt((members - 1) / members)
    accountant = RdpAccountant()
    accountant.compose(GaussianDpEvent(seen), rounds)
    return float(accountant.get_epsilon(param.delta))


def record_budget(ctx: Context, number: int, epsilon: float) -> None:
    """Show the budget spent after round `number`, from 0."""
    ctx.tracker.metric(
        "train",
        "epsilon",
        metric_type="LOSS",
        points=[(number, epsilon)],
        meta={"name": "epsilon", "metric_type": "LOSS", "unit_name": "aggregate_round"},
    )


def _gaussian(shape: tuple[int, ...]) -> Floats:
    """Return standard normal numbers of secure randomness. Source: Box and Muller 1958."""
    first = random_uniform(shape)
    second = random_uniform(shape)
    return np.sqrt(-2.0 * np.log1p(-first)) * np.cos(2.0 * np.pi * second)
