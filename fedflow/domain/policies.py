"""When a component may start, as its schedule policy says: `verdict(policy, ends)`.

Source: `docs/reference/jobs.md#policies`. What each policy waits for, and why `one_success` waits
for all: `docs/decisions/0014-when-components-run.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Policy(StrEnum):
    """Which ends of its upstream components let a component start."""

    ALL_SUCCESS = "all_success"
    NONE_FAILED = "none_failed"
    ONE_SUCCESS = "one_success"
    ALL_DONE = "all_done"


class UpstreamEnd(StrEnum):
    """How an upstream component stands, as far as those behind it care."""

    OPEN = "open"  #: it may still succeed
    SUCCEEDED = "succeeded"
    FAILED = "failed"  #: for good: no retry is left
    SKIPPED = "skipped"


class Verdict(StrEnum):
    """What follows for a component that has not started."""

    START = "start"
    WAIT = "wait"
    SKIP = "skip"


_STOPS: Final = {
    Policy.ALL_SUCCESS: frozenset({UpstreamEnd.FAILED, UpstreamEnd.SKIPPED}),
    Policy.NONE_FAILED: frozenset({UpstreamEnd.FAILED}),
}
"""Ends of a single upstream component after which nothing else matters."""


def verdict(policy: Policy, ends: Iterable[UpstreamEnd]) -> Verdict:
    """Return what a component does whose upstream components stand so; without any it starts."""
    seen = frozenset(ends)
    if not seen:
        return Verdict.START
    if seen & _STOPS.get(policy, frozenset()):
        return Verdict.SKIP
    if UpstreamEnd.OPEN in seen:
        return Verdict.WAIT
    if policy is Policy.ONE_SUCCESS and UpstreamEnd.SUCCEEDED not in seen:
        return Verdict.SKIP
    return Verdict.START
