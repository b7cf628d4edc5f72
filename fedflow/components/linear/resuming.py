"""What a checkpoint stores beside the model, so that a training that goes on ends as it would have.

At each site: whether training had ended, which iteration is best so far, and the weights that may
still turn out to be it; at the guest the measures and how long they have got no better.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from fedflow.components.training.watch import WatchState
from fedflow.sdk import BadData, Model
from fedflow.sdk.decoding import read_as

FIELD = "resume_state"  #: in the parameters of a checkpoint's model; final models have none


class ResumeState(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    ended: bool = False
    converged: bool = False
    best: int = -1
    kept: dict[str, list[float]] = msgspec.field(default_factory=dict)  #: by iteration
    watch: WatchState = msgspec.field(default_factory=WatchState)
    history: dict[str, dict[str, list[float]]] = msgspec.field(default_factory=dict)

    def into(self, model: Model) -> Model:
        """Return the model of a checkpoint with this state."""
        state = msgspec.to_builtins(self)
        return replace(model, param={**model.param, FIELD: state})

    @staticmethod
    def read(state: Mapping[str, Any]) -> ResumeState:
        """Return the state of a checkpoint, that of a new training if it has none.

        Raises: BadData: it is none.
        """
        try:
            return read_as(dict(state), ResumeState)
        except msgspec.ValidationError as exc:
            raise BadData(where="checkpoint", reason=f"{FIELD}: {exc}") from exc
