"""Starts party tasks as new interpreters: where fork without exec is not safe (macOS).

A start costs an interpreter and its imports, many times what a fork costs. Everything else is as
with `ZygoteExecutor`: the process that would fork starts and waits for new interpreters instead.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from fedflow.app.ports.executors import ExecutorEvents
from fedflow.executor.limits import ExecutorLimits
from fedflow.executor.zygote import ZygoteExecutor


class PlainExecutor(ZygoteExecutor):
    """The executor port over ordinary processes; see `fedflow.app.ports.executors.Executor`."""

    def __init__(
        self, *, events: ExecutorEvents, python: str, env: Mapping[str, str] | None = None,
        limits: ExecutorLimits | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            events=events, python=python, preload=(), env=env, limits=limits, fork=False
        )


def local_executor(
    *, events: ExecutorEvents, python: str = sys.executable, env: Mapping[str, str] | None = None,
    limits: ExecutorLimits | None = None,
) -> ZygoteExecutor:  # fmt: skip
    """Return the executor that suits this system: forks on Linux, new interpreters elsewhere."""
    if sys.platform == "linux":
        return ZygoteExecutor(events=events, python=python, env=env, limits=limits)
    return PlainExecutor(events=events, python=python, env=env, limits=limits)
