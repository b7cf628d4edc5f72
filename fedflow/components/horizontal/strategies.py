"""What an aggregator makes of the members' weights: strategies, and how others add theirs.

A strategy sees vectors: the weights before the round, and the mean by rows of those after it. Most
need no more. The robust ones look at each member's weights alone, so nothing is masked for them.
Others come from installed packages: an entry point of the group `fedflow.strategies`, whose value
is called with the parameters and returns a `Strategy`.

Sources: FedAvg: McMahan et al. 2017; FedProx: Li et al. 2020; FedAdam, FedYogi: Reddi et al. 2021,
"Adaptive Federated Optimization"; trimmed mean: Yin et al. 2018; Krum: Blanchard et al. 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, TypeAlias

import numpy as np
from msgspec import field

from fedflow.components.horizontal.packing import Floats
from fedflow.components.horizontal.privacy import DpParam
from fedflow.sdk import BadParameter, Params

GROUP: Final = "fedflow.strategies"

Memory: TypeAlias = Mapping[str, Floats]
"""What a strategy remembers from round to round: vectors like the weights. It is in the state."""


class StrategyParam(Params, frozen=True, kw_only=True):
    """How the members' weights become the next ones; fedflow's own."""

    #: `fedavg`, `fedprox`, `fedadam`, `fedyogi`, `trimmed_mean`, `krum`, or that of a plug-in
    name: str = "fedavg"
    mu: float = 0.1  #: `fedprox`: how strongly members are held at the round's first weights
    server_learning_rate: float = 0.1  #: `fedadam`, `fedyogi`: step of the aggregator
    beta_1: float = 0.9  #: `fedadam`, `fedyogi`: how slowly the mean of updates changes
    beta_2: float = 0.99  #: `fedadam`, `fedyogi`: how slowly the mean of their squares changes
    tau: float = 1e-3  #: `fedadam`, `fedyogi`: added to the root, so that small updates stay small
    #: `trimmed_mean`: part of the members that is left out at each end; `krum`: that may lie
    trimmed: float = 0.2
    options: dict[str, float | int | str | bool] = field(default_factory=dict)  #: of a plug-in

    def check(self) -> None:
        for name in ("mu", "tau"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(f"strategy.{name}: must be a number from 0")
        for name in ("beta_1", "beta_2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"strategy.{name}: must be from 0, and below 1")
        if not 0 <= self.trimmed < 0.5:
            raise ValueError("strategy.trimmed: must be from 0, and below 0.5")
        if self.name.lower() not in _BUILT_IN and self.name not in _others():
            raise ValueError(f"strategy.name: {_unknown(self.name)}")


class Strategy(Protocol):
    """One way to aggregate. It keeps nothing itself."""

    @property
    def needs_singles(self) -> bool:
        """Tell whether it sees each member's weights, so that nothing can be masked."""

    @property
    def proximal(self) -> float:
        """Return the strength of the members' proximal term, 0 for none."""

    def memory(self, size: int) -> Memory:
        """Return what is remembered before the first round, for `size` weights."""

    def following(
        self, weights: Floats, mean: Floats, memory: Memory, singles: Sequence[Floats]
    ) -> tuple[Floats, Memory]:
        """Return the next weights, and what to remember.

        Args:
            weights: before the round.
            mean: of the members' weights after it, by rows.
            singles: each member's weights, in the order of sites; empty unless `needs_singles`.
        """


def check_strategy(param: StrategyParam, dp: DpParam, *, secure: bool) -> None:
    """Do nothing if what the strategy needs is there. Raises: ValueError."""
    if param.name.lower() not in {"trimmed_mean", "krum"}:
        return
    if secure:
        raise ValueError(
            f"strategy.name: {param.name} looks at each party's weights; with it"
            " secure_aggregate must be false, and the arbiter sees them"
        )
    if dp.need_dp:
        raise ValueError("dp_param.need_dp: needs sums, and the strategy looks at each party")


def strategy_of(param: StrategyParam) -> Strategy:
    """Return the strategy that is named. Raises: BadParameter: there is none of this name."""
    make = _BUILT_IN.get(param.name.lower())
    if make is not None:
        return make(param)
    others = _others()
    if param.name not in others:
        raise BadParameter(path="strategy.name", reason=_unknown(param.name))
    found: Strategy = others[param.name].load()(param)
    return found


def _others() -> dict[str, EntryPoint]:
    return {one.name: one for one in entry_points(group=GROUP)}


def _unknown(name: str) -> str:
    return f"{name!r} is not one of {', '.join([*_BUILT_IN, *sorted(_others())])}"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Average:
    """FedAvg; with a proximal term FedProx."""

    proximal: float = 0.0
    needs_singles: bool = False

    def memory(self, size: int) -> Memory:
        return {}

    def following(
        self, weights: Floats, mean: Floats, memory: Memory, singles: Sequence[Floats]
    ) -> tuple[Floats, Memory]:
        return mean, {}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Adaptive:
    """FedAdam and FedYogi: the mean update is a gradient for the aggregator."""

    param: StrategyParam
    yogi: bool
    proximal: float = 0.0
    needs_singles: bool = False

    def memory(self, size: int) -> Memory:
        return {"first": np.zeros(size), "second": np.full(size, self.param.tau**2)}

    def following(
        self, weights: Floats, mean: Floats, memory: Memory, singles: Sequence[Floats]
    ) -> tuple[Floats, Memory]:
        param, update = self.param, mean - weights
        square = update**2
        first = param.beta_1 * memory["first"] + (1.0 - param.beta_1) * update
        second = memory["second"]
        if self.yogi:
            second = second - (1.0 - param.beta_2) * square * np.sign(second - square)
        else:
            second = param.beta_2 * second + (1.0 - param.beta_2) * square
        step = param.server_learning_rate * first / (np.sqrt(second) + param.tau)
        return weights + step, {"first": first, "second": second}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Robust:
    """What looks at the members' single weights, and remembers nothing from round to round."""

    param: StrategyParam
    proximal: float = 0.0
    needs_singles: bool = True

    def memory(self, size: int) -> Memory:
        return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class _TrimmedMean(_Robust):
    """The mean of each weight, without the largest and the smallest ones; rows do not count."""

    def following(
        self, weights: Floats, mean: Floats, memory: Memory, singles: Sequence[Floats]
    ) -> tuple[Floats, Memory]:
        count = len(singles)
        cut = int(self.param.trimmed * count)
        ordered = np.sort(np.stack(singles), axis=0)
        return ordered[cut : count - cut].mean(axis=0), {}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Krum(_Robust):
    """The weights of one member: those that are nearest to their nearest others."""

    def following(
        self, weights: Floats, mean: Floats, memory: Memory, singles: Sequence[Floats]
    ) -> tuple[Floats, Memory]:
        stacked = np.stack(singles)
        count = len(stacked)
        near = max(1, count - int(self.param.trimmed * count) - 2)
        scores = []
        for index, one in enumerate(stacked):
            away = np.square(np.delete(stacked, index, axis=0) - one).sum(axis=1)
            scores.append(float(np.sort(away)[:near].sum()))
        return stacked[int(np.argmin(scores))].copy(), {}


_BUILT_IN: Final[Mapping[str, Callable[[StrategyParam], Strategy]]] = {
    "fedavg": lambda param: _Average(),
    "fedprox": lambda param: _Average(proximal=param.mu),
    "fedadam": lambda param: _Adaptive(param=param, yogi=False),
    "fedyogi": lambda param: _Adaptive(param=param, yogi=True),
    "trimmed_mean": lambda param: _TrimmedMean(param=param),
    "krum": lambda param: _Krum(param=param),
}
