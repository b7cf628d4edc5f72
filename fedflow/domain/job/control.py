"""How far people let a job go: pauses, and steps that must be allowed one after the other.

Steps are counted as *how many components of this epoch may begin*, not as how many are left. So
what is stored changes only when somebody says something, and a repeated start costs no step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.reason import AWAITS_STEP, PAUSED, Reason
from fedflow.domain.states import JobStatus

ALL_STEPS: Final = 1_000_000_000  #: more components than any job has
MAX_STEPS: Final = 1_000_000  #: that one `continue` may allow


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """What was said about one epoch of a job, and since when it is held."""

    paused: Reason | None = None  #: who paused it; nothing starts until somebody continues it
    allowed: int | None = None  #: how many components may begin; None: as the parameter `step` says
    held_ms: int | None = None  #: since when nothing of it runs and nothing may start
    rested_ms: int = 0  #: how long it was held before
    waits_ms: int | None = None  #: when it went on last after it was held: it waits anew since

    @property
    def on_hold(self) -> bool:
        """Tell whether people call the job paused: nothing more starts until somebody says so."""
        return self.paused is not None or self.held_ms is not None


FREE: Final = Control()
"""Nobody said anything."""


def is_told_to_hold(status: JobStatus, reason: Reason | None) -> bool:
    """Tell whether a site that did not submit a job was told that it is paused."""
    told = reason is not None and reason.code in (PAUSED, AWAITS_STEP)
    return told and status is JobStatus.WAITING


def steps_left(control: Control, *, step: bool, begun: int) -> int | None:
    """Return how many more components may begin, None if all may.

    `step` is the job's parameter, `begun` how many components of this epoch have begun.
    """
    allowed = control.allowed
    if allowed is None:
        allowed = 0 if step else ALL_STEPS
    return None if allowed == ALL_STEPS else max(0, allowed - begun)


def is_stopped(control: Control, *, step: bool, begun: int) -> bool:
    """Tell whether nothing may start: then, and only then, a job can be continued."""
    return control.paused is not None or steps_left(control, step=step, begun=begun) == 0


def held(control: Control, *, now_ms: int) -> Control:
    """Return what is stored of a job that has come to rest."""
    return replace(control, held_ms=now_ms)


def continued(
    control: Control, *, steps: int | None, step: bool, begun: int, now_ms: int
) -> Control:
    """Return what is stored once a job goes on.

    `steps` is how many components may begin from now on, `ALL_STEPS` for all; None ends a pause,
    and allows one component if none is allowed.
    """
    allowed = control.allowed
    if steps == ALL_STEPS:
        allowed = ALL_STEPS
    elif steps is not None:
        allowed = begun + steps
    elif steps_left(control, step=step, begun=begun) == 0:
        allowed = begun + 1
    rested_ms, waits_ms = control.rested_ms, control.waits_ms
    if control.held_ms is not None:
        rested_ms += max(0, now_ms - control.held_ms)
        waits_ms = now_ms
    return Control(allowed=allowed, rested_ms=rested_ms, waits_ms=waits_ms)
