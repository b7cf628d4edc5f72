"""Tells how far the Spark jobs of a task are: lines in its log and points of a metric."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedflow.base.clock import pause
from fedflow.sdk.context import Tracker

logger = logging.getLogger(__name__)

LOOK_S: Final = 1.0  #: pause between two looks; one costs the task less than 1 ms, seconds
POINT_LOOKS: Final = 5  #: looks between two points of the metric while a stage runs
_JOIN_S: Final = 2.0  #: a driver that is well answers sooner, seconds
NAMESPACE: Final = "spark"
METRIC: Final = "stages"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """One stage that runs."""

    number: int
    tasks: int
    done: int
    failed: int
    active: int


class StageProgress:
    """Looks at the stages of one job group from a thread of its own, which ends with `close`."""

    def __init__(self, context: Any, *, group: str, sink: Tracker | None) -> None:
        self._status = context._jsc.sc().statusTracker()
        self._as_text = context._jvm.java.util.Arrays.toString
        self._group = group
        self._sink = sink
        self._seen: dict[int, Stage] = {}
        self._looks = 0
        self._points = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="fedflow-spark-progress", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Tell what ran in all, and end the thread; a second call does nothing.

        A thread that asks a driver which does not answer is left to the process.
        """
        self._stop.set()
        self._thread.join(_JOIN_S)

    def tick(self) -> None:
        """Look once and tell what is new."""
        stages = {stage.number: stage for stage in self._stages()}
        began = [s for s in stages.values() if s.number not in self._seen]
        ended = [s for s in self._seen.values() if s.number not in stages]
        for stage in began:
            logger.info("Spark stage %s begins: %s tasks", stage.number, stage.tasks)
        for stage in stages.values():
            before = self._seen.get(stage.number)
            new = stage.failed - (before.failed if before is not None else 0)
            if new > 0:
                logger.warning("%s tasks of Spark stage %s failed", new, stage.number)
        for stage in ended:
            logger.info("Spark stage %s is over", stage.number)
        self._seen = stages
        self._looks += 1
        if began or ended or (stages and self._looks % POINT_LOOKS == 0):
            self._tell(stages, self._jobs())

    def _jobs(self) -> set[int]:
        """Return the Spark jobs of the task, ended ones too; the driver keeps the last 1,000."""
        return self._numbers(self._status.getJobIdsForGroup(self._group))

    def _stages(self) -> list[Stage]:
        """Return the stages that run now. Few calls, since each goes to the driver and back."""
        active = self._numbers(self._status.getActiveJobIds())
        if not active:
            return []
        own = self._jobs()
        running = self._numbers(self._status.getActiveStageIds())
        found = []
        for job in sorted(active & own):
            info = self._status.getJobInfo(job)
            stages = self._numbers(info.get().stageIds()) if info.isDefined() else set()
            found += [self._stage(number) for number in sorted(stages & running)]
        return [stage for stage in found if stage is not None]

    def _stage(self, number: int) -> Stage | None:
        found = self._status.getStageInfo(number)
        if not found.isDefined():
            return None
        info = found.get()
        return Stage(
            number=number,
            tasks=info.numTasks(),
            done=info.numCompletedTasks(),
            failed=info.numFailedTasks(),
            active=info.numActiveTasks(),
        )

    def _numbers(self, array: Any) -> set[int]:
        """Return an array of numbers that lies at the driver, with one call."""
        return {int(word) for word in str(self._as_text(array)).strip("[]").split(",") if word}

    def _tell(self, stages: Mapping[int, Stage], jobs: set[int]) -> None:
        if self._sink is None:
            return
        tasks = sum(s.tasks for s in stages.values())
        done = sum(s.done for s in stages.values())
        failed = sum(s.failed for s in stages.values())
        counts = {"tasks": tasks, "done": done, "failed": failed}
        value = {"jobs": len(jobs), "stages": len(stages), **counts}
        self._sink.metric(
            NAMESPACE, METRIC, metric_type="SPARK_STAGES", points=[(self._points, value)]
        )
        self._points += 1

    def _run(self) -> None:
        try:
            while not pause(LOOK_S, self._stop):
                self.tick()
            if jobs := self._jobs():
                self._tell({}, jobs)
        except Exception as exc:  # noqa: BLE001  the task itself meets what is wrong
            logger.debug("The stages could not be looked at: %s", type(exc).__name__)
