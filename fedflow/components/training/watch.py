"""Which iteration of a training is best so far, by its measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fedflow.components.training.measures import SINGLE_VALUED, larger_is_better
from fedflow.components.training.params import CallbackParam
from fedflow.sdk import BadParameter


class WatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The best values of early stopping, by measure."""

    values: dict[str, float] = msgspec.field(default_factory=dict)
    iterations: dict[str, int] = msgspec.field(default_factory=dict)
    waits: dict[str, int] = msgspec.field(default_factory=dict)


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


def watch_of(asked: CallbackParam, measures: Sequence[str], kind: str, *, stops: bool) -> Watch:
    """Return what looks at those of `measures` that are one number, for early stopping if it stops.

    Raises: BadParameter: training may stop, and none of them is one.
    """
    single = SINGLE_VALUED[kind]
    watched = [name for name in measures if name in single]
    if stops and not watched:
        reason = f"EarlyStopping needs one of {', '.join(single)}"
        raise BadParameter(path="callback_param.metrics", reason=reason)
    return Watch(watched[:1] if asked.use_first_metric_only else watched)


def _is_better(name: str, value: float, known: float) -> bool:
    return value > known if larger_is_better(name) else value < known
