"""Records metrics and progress: collected here, sent now and then, the rest with the end report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedflow.base.clock import Clock, SystemClock
from fedflow.base.errors.executors import LaunchRefused, ServerRefused
from fedflow.base.errors.start import ServerNotReachable
from fedflow.sdk.arguments import check_metric
from fedflow.wire.task_report import MetricBatch, RunningReport
from fedflow.wire.worker_commands import SaveMetrics
from fedflow.worker.report import ServerLink

logger = logging.getLogger(__name__)

METRIC_INTERVAL_S = 1.0  #: at most one batch of points in this time, seconds
PROGRESS_INTERVAL_S = 0.5  #: at most one progress report in this time, seconds
PROGRESS_FROM_S = 1.0  #: a run of less time sends none, seconds
_PATIENCE_S = 0.3  #: a computation does not wait longer for a server that is away, seconds


@dataclass(slots=True)
class _Metric:
    """One metric; `points` and `meta` are what was not sent yet, `sent` counts earlier points."""

    metric_type: str
    points: list[tuple[Any, Any]] = field(default_factory=list)
    meta: dict[str, Any] = field(default_factory=dict)
    sent: int = 0


class ServerTracker:
    """The tracker of a worker; see `fedflow.sdk.Tracker`. Safe for threads.

    A server that cannot be reached delays nothing: what could not be sent is kept for the next
    batch and for the end report (`rest`). Progress that comes too early or too often is held back;
    if no later one takes its place, a thread sends it when its time has come.
    """

    def __init__(self, link: ServerLink, *, clock: Clock | None = None) -> None:
        self._link = link
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._metrics: dict[tuple[str, str], _Metric] = {}
        begin_s = self._clock.monotonic_s()
        self._sent_s: float | None = None  #: from when the next batch waits; None: no metric yet
        self._batch_s = begin_s  #: of the last batch
        self._progress_s = begin_s + PROGRESS_FROM_S  #: earliest next report
        self._held: float | None = None  #: progress that was not sent yet
        self._sender: threading.Thread | None = None
        self._end = threading.Event()
        self._refusal: LaunchRefused | None = None  #: what the thread learnt

    def metric(
        self,
        namespace: str,
        name: str,
        *,
        metric_type: str,
        points: Sequence[tuple[Any, Any]] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add points to the metric (namespace, name); `meta` entries replace earlier ones.

        Raises: TypeError: a value is not plain JSON, or a point no pair. ValueError: a number is
            not finite, or the metric had another type before. LaunchRefused: this process must
            exit.
        """
        pairs = check_metric(f"{namespace}/{name}", points, meta)
        with self._lock:
            found = self._metrics.get((namespace, name))
            if found is None:
                found = _Metric(metric_type, meta={"name": name, "metric_type": metric_type})
                self._metrics[namespace, name] = found
            if found.metric_type != metric_type:
                raise ValueError(f"{namespace}/{name} is {found.metric_type}, not {metric_type}")
            found.points.extend(pairs)
            found.meta.update(meta or {})
            now_s = self._clock.monotonic_s()
            if self._sent_s is None:
                self._sent_s = now_s  # short runs send all with their end
            elif now_s - self._sent_s >= METRIC_INTERVAL_S:
                self._send()

    def progress(self, done: float) -> None:
        """Tell how much of the run is done, 0 to 1; of too frequent ones the last is sent.

        Raises: ValueError: it is not within 0 to 1. LaunchRefused: this process must exit.
        """
        if not 0.0 <= done <= 1.0:
            raise ValueError(f"progress {done} is not within 0 to 1")
        with self._lock:
            if self._refusal is not None:
                raise self._refusal
            self._held = float(done)
            if self._left_s() <= 0.0:
                self._send_progress()
            elif self._sender is None and done < 1.0 and not self._end.is_set():
                self._sender = threading.Thread(
                    target=self._send_later, name="progress", daemon=True
                )
                self._sender.start()

    def _left_s(self) -> float:
        """Return the time until the next progress report may be sent, seconds."""
        return self._progress_s - self._clock.monotonic_s()

    def _send_later(self) -> None:
        """Send what is held back when its time has come, unless the run ends before."""
        while not self._end.wait(self._left_s()):
            with self._lock:
                if self._left_s() > 0.0:
                    continue
                self._sender = None
                try:
                    self._send_progress()
                except LaunchRefused as exc:
                    self._refusal = exc
                return

    def _send_progress(self) -> None:
        """Send what is held back, if anything is. Raises: LaunchRefused."""
        if self._held is None:
            return
        done, self._held = self._held, None
        self._progress_s = self._clock.monotonic_s() + PROGRESS_INTERVAL_S
        try:
            self._link.report(RunningReport(progress=done), patience_s=_PATIENCE_S)
        except (ServerNotReachable, ServerRefused) as exc:
            logger.info("A progress report was not taken: %s", exc)
        if self._clock.monotonic_s() - self._batch_s >= METRIC_INTERVAL_S and self._batch():
            self._send()  # what an iteration gave is seen with its progress

    def rest(self) -> list[MetricBatch]:
        """Return what was not sent yet and regard it as sent; nothing is sent from now on."""
        self._end.set()
        sender = self._sender
        if sender is not None:
            sender.join()
        with self._lock:
            batch = self._batch()
            self._forget()
            return batch

    def _send(self) -> None:
        self._sent_s = self._batch_s = self._clock.monotonic_s()
        try:
            self._link.call(SaveMetrics(metrics=self._batch()), patience_s=_PATIENCE_S)
        except (ServerNotReachable, ServerRefused) as exc:
            logger.info("A batch of metrics was not taken; it is kept: %s", exc)
        else:
            self._forget()

    def _batch(self) -> list[MetricBatch]:
        return [
            MetricBatch(
                namespace=namespace,
                name=name,
                start=metric.sent,
                points=metric.points,
                meta=metric.meta,
            )
            for (namespace, name), metric in self._metrics.items()
            if metric.points or metric.meta
        ]

    def _forget(self) -> None:
        for metric in self._metrics.values():
            metric.sent += len(metric.points)
            metric.points, metric.meta = [], {}
