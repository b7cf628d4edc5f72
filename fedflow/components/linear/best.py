"""Which iteration of a training is best so far, and the weights that may still be it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.party_weights import PartyWeights
from fedflow.components.linear.resuming import WatchState
from fedflow.components.training.measures import larger_is_better
from fedflow.sdk import BadData
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]


class Watch:
    """The best value of each measure so far, and how long ago it was."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._values: dict[str, float] = {}
        self._iterations: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self.best = -1  #: the iteration whose model to keep

    def state(self) -> WatchState:
        """Return what it remembers."""
        return WatchState(
            values=dict(self._values), iterations=dict(self._iterations), waits=dict(self._waits)
        )

    def restore(self, state: WatchState, *, best: int) -> None:
        """Go on from what it remembered."""
        self._values, self._waits = dict(state.values), dict(state.waits)
        self._iterations = dict(state.iterations)
        self.best = best

    def stops(self, values: Mapping[str, float], iteration: int, *, patience: int) -> bool:
        """Take new values; tell whether one measure was no better `patience` times in a row.

        Its best iteration counts then, else that of the first measure.
        """
        for name in self._names:
            known = self._values.get(name)
            if known is None or _is_better(name, values[name], known):
                self._values[name] = values[name]
                self._iterations[name] = iteration
                self._waits[name] = 0
            else:
                self._waits[name] += 1
        tired = [name for name in self._names if self._waits[name] >= patience]
        self.best = self._iterations[(tired or self._names)[0]]
        return bool(tired)


class CandidateWeights:
    """The weights of the iterations that may still turn out to be the best."""

    def __init__(self, share: PartyWeights) -> None:
        self.share = share
        self._weights: dict[int, Floats] = {}

    def keep(self, iteration: int, *, patience: int | None) -> None:
        """Remember the weights after `iteration`, with early stopping.

        A best value is at most `patience` validations old, or training has stopped.
        """
        if patience is not None:
            self._weights[iteration] = self.share.weights
            recent = sorted(self._weights)[-(patience + 1) :]
            self._weights = {i: self._weights[i] for i in recent}

    def plain(self) -> dict[str, list[float]]:
        """Return what it remembers, weights by iteration."""
        return {str(iteration): weights.tolist() for iteration, weights in self._weights.items()}

    def read(self, kept: Mapping[str, Sequence[float]]) -> None:
        """Go on from what it remembered. Raises: BadData: not the weights of this share."""
        if any(len(weights) != self.share.size for weights in kept.values()):
            raise BadData(where="checkpoint", reason=f"not {self.share.size} weights per iteration")
        if not all(iteration.isdecimal() for iteration in kept):
            raise BadData(where="checkpoint", reason="weights of no iteration")
        self._weights = {int(i): np.array(weights, dtype=np.float64) for i, weights in kept.items()}

    def restore(self, iteration: int) -> None:
        """Take back the weights after `iteration`, none for -1. Raises: CodecError."""
        if iteration == -1:
            return
        if iteration not in self._weights:
            raise CodecError(reason=f"validation_status: iteration {iteration} was not measured")
        self.share.weights = self._weights[iteration]


def _is_better(name: str, value: float, known: float) -> bool:
    return value > known if larger_is_better(name) else value < known
