"""Trainings within a run: folds of a cross validation, one model per class, steps of a selection.

Each works with a context of its own, whose values and metrics have names that no other one uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedflow.sdk import (
    Arrival,
    Context,
    Departure,
    Federation,
    Inputs,
    Model,
    Site,
    Step,
    Tracker,
)
from fedflow.sdk.context import Value


def nested(
    ctx: Context,
    tag: str,
    *,
    params: Any = None,
    inputs: Inputs | None = None,
    tracker: Tracker | None = None,
) -> Context:
    """Return a context for a training within that of `ctx`; `tag` differs from those of others.

    All parties must use the same tags. Metrics are named `<tag>.<name>` unless another `tracker` is
    given, and there are no checkpoints: a repeated attempt does the whole of it again.
    """
    return replace(
        ctx,
        params=ctx.params if params is None else params,
        inputs=ctx.inputs if inputs is None else inputs,
        federation=_TaggedFederation(ctx.federation, tag),
        tracker=TaggedTracker(ctx.tracker, tag) if tracker is None else tracker,
        checkpoints=_NoCheckpoints(),
    )


@dataclass(frozen=True, slots=True)
class _TaggedFederation:
    """Satisfies `fedflow.sdk.Federation`."""

    inner: Federation
    prefix: str

    def send(
        self,
        name: str,
        value: Value,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        self.inner.send(name, value, to=to, tag=self._within(tag), required=required)

    def send_nothing(
        self,
        name: str,
        *,
        to: Site | Sequence[Site],
        tag: str = "",
        required: bool = True,
    ) -> None:
        self.inner.send_nothing(name, to=to, tag=self._within(tag), required=required)

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        return self.inner.recv(name, from_=from_, tag=self._within(tag), timeout_s=timeout_s)

    def recv_all(
        self, name: str, *, from_: Sequence[Site], tag: str = "", timeout_s: float | None = None
    ) -> list[Any]:
        return self.inner.recv_all(name, from_=from_, tag=self._within(tag), timeout_s=timeout_s)

    def recv_any(
        self, name: str, *, from_: Sequence[Site], timeout_s: float, tags: str = ""
    ) -> Arrival | Departure | None:
        found = self.inner.recv_any(name, from_=from_, timeout_s=timeout_s, tags=self._within(tags))
        if isinstance(found, Arrival):
            return replace(found, tag=found.tag.removeprefix(self._within("")))
        return found

    def drop(self, tags: str) -> None:
        self.inner.drop(self._within(tags))

    def _within(self, tag: str) -> str:
        return f"{self.prefix}.{tag}"


def _nothing(_done: float) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class TaggedTracker:
    """Names metrics `<prefix>.<name>`. Satisfies `fedflow.sdk.Tracker`."""

    inner: Tracker
    prefix: str
    without: frozenset[str] = frozenset()  #: types of metrics that are not recorded
    show: Callable[[float], None] = _nothing  #: how far this part is, 0 to 1

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        if metric_type not in self.without:
            self.inner.metric(
                namespace,
                f"{self.prefix}.{name}",
                metric_type=metric_type,
                points=points,
                meta=meta,
            )

    def progress(self, done: float) -> None:
        self.show(done)


@dataclass(frozen=True, slots=True)
class SilentTracker:
    """Records no metrics. Satisfies `fedflow.sdk.Tracker`."""

    show: Callable[[float], None] = _nothing  #: how far this part is, 0 to 1

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Do nothing."""

    def progress(self, done: float) -> None:
        self.show(done)


class _NoCheckpoints:
    """Satisfies `fedflow.sdk.Checkpoints`."""

    def save(self, step_index: int, step_name: str, model: Model) -> None:
        """Store nothing."""

    def steps(self) -> Sequence[tuple[int, str]]:
        return ()

    def load(self, step_index: int) -> Step:
        raise LookupError(f"there is no step {step_index}")

    def latest(self) -> Step | None:
        return None
