"""What a Flower run produced: metrics of each round, and the arrays as a model.

A ServerApp returns nothing. Its strategy makes a `Result`, a `History` or a `Server` of Flower, so
those that are made during a run are remembered, and read after each round.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any, Final

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.server import Server
from flwr.server.history import History
from flwr.serverapp.strategy import Result
from numpy.typing import NDArray

from fedflow.flower.arrays import Arrays
from fedflow.flower.messages import NUMPY_MAGIC
from fedflow.sdk import Tracker

_LEGACY_ARRAYS: Final = (
    "parameters"  #: where Flower's older workflows keep the arrays in a context's state
)
#: where a reply of an older client keeps the metrics that it returns
_LEGACY_METRICS: Final = ("fitres.metrics", "evaluateres.metrics")


class ServerResults:
    """The strategies' results of one run, and their metrics in the tracker.

    | namespace | has |
    |---|---|
    | train | what strategies aggregate of the clients' training |
    | validate | the same of the clients' evaluation |
    | server | what the ServerApp itself evaluates |
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._found: list[Any] = []
        self._recorded: set[tuple[str, str, int, int]] = set()
        self.latest: dict[str, float] = {}  #: `namespace.name` -> value of the last round
        self.rounds = 0

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Remember what strategies make in this block."""
        before = [(kind, kind.__init__) for kind in (Result, History, Server)]
        for kind, init in before:
            kind.__init__ = self._remembering(init)
        try:
            yield
        finally:
            for kind, init in before:
                kind.__init__ = init

    def _remembering(self, init: Any) -> Any:
        def remember(made: Any, *args: Any, **kwargs: Any) -> None:
            init(made, *args, **kwargs)
            self._found.append(made)

        return remember

    def record(self) -> None:
        """Add the metrics of rounds that are new."""
        for number, made in enumerate(self._found):
            for namespace, name, step, value in _metrics_of(made):
                key = (namespace, name, step, number)
                if key in self._recorded or not _is_number(value):
                    continue
                self._recorded.add(key)
                self.rounds = max(self.rounds, step)
                self.latest[f"{namespace}.{name}"] = float(value)
                record_point(self._tracker, namespace, name, step, float(value))

    def arrays(self, state: Any, last_sent: Any) -> Arrays:
        """Return the final arrays: of a strategy, of the context, or those that were sent last."""
        for made in reversed(self._found):
            if isinstance(made, Result) and len(made.arrays):
                return named_arrays(made.arrays)
            if isinstance(made, Server) and made.parameters.tensors:
                return {str(i): _loaded(one) for i, one in enumerate(made.parameters.tensors)}
        record = state.array_records.get(_LEGACY_ARRAYS, last_sent)
        return named_arrays(record) if record is not None else {}


class ReplyMetrics:
    """Metrics of the own ClientApp's replies, in the own tracker."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._steps: dict[str, int] = {}

    def record(self, message: Message, reply: Message) -> None:
        """Add the numbers of a reply's metrics, at the round that the message names."""
        kind = message.metadata.message_type
        self._steps[kind] = self._steps.get(kind, 0) + 1
        if not reply.has_content():
            return
        step = _named_round(message) or self._steps[kind]
        namespace = {"evaluate": "validate"}.get(kind, kind)
        older = reply.content.config_records
        records = [
            *reply.content.metric_records.values(),
            *(older[name] for name in _LEGACY_METRICS if name in older),
        ]
        for record in records:
            for name, value in record.items():
                if _is_number(value):
                    record_point(self._tracker, namespace, str(name), step, float(value))


def record_point(tracker: Tracker, namespace: str, name: str, step: int, value: float) -> None:
    """Add one point; losses are drawn as such."""
    kind = "LOSS" if "loss" in name.lower() else "FLOWER_METRIC"
    meta = {"curve_name": name, "unit_name": "rounds"}
    tracker.metric(namespace, name, metric_type=kind, points=[(step, value)], meta=meta)


def named_arrays(record: Mapping[str, Any]) -> Arrays:
    """Return the arrays of an ArrayRecord; what is not of numpy's format becomes uint8 numbers."""
    return {str(name): _loaded(array.data) for name, array in record.items()}


def _loaded(data: bytes) -> NDArray[Any]:
    if not data.startswith(NUMPY_MAGIC):
        return np.frombuffer(data, np.uint8)
    loaded: NDArray[Any] = np.load(BytesIO(data), allow_pickle=False)
    return loaded


def _metrics_of(made: Any) -> Iterator[tuple[str, str, int, Any]]:
    """Yield (namespace, name, round, value) of what a Result or a History holds."""
    if isinstance(made, Result):
        parts = {
            "train": made.train_metrics_clientapp,
            "validate": made.evaluate_metrics_clientapp,
            "server": made.evaluate_metrics_serverapp,
        }
        for namespace, rounds in parts.items():
            for step, record in list(rounds.items()):
                for name, value in record.items():
                    yield namespace, str(name), step, value
    elif isinstance(made, History):
        yield from (("validate", "loss", step, value) for step, value in made.losses_distributed)
        yield from (("server", "loss", step, value) for step, value in made.losses_centralized)
        lists = {
            "train": made.metrics_distributed_fit,
            "validate": made.metrics_distributed,
            "server": made.metrics_centralized,
        }
        for namespace, metrics in lists.items():
            for name, points in list(metrics.items()):
                yield from ((namespace, str(name), step, value) for step, value in points)


def _named_round(message: Message) -> int | None:
    """Return the round that a strategy wrote into its message, None if it did not."""
    for record in message.content.values() if message.has_content() else ():
        if isinstance(record, ConfigRecord):
            step = record.get("server-round")
            if isinstance(step, int) and 0 <= step < 2**31:
                return step
    group = message.metadata.group_id
    return int(group) if group.isdecimal() and len(group) < 10 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
