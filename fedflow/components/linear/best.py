"""The weights of the iterations that may still turn out to be the best of a training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.party_weights import PartyWeights
from fedflow.sdk import BadData
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]


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
