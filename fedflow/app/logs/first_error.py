"""Which error made a share of a job fail, and which ones only followed from it. Pure.

Sites stop each other: when one fails, the others' receives end with errors too. What a person
wants to read is the first error that no other site caused; it may be another site's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final

from fedflow.app.logs.records import start_of
from fedflow.base.errors.catalog import all_errors
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskRecord
from fedflow.domain.scheduling.decide import FOLLOW_ON
from fedflow.domain.states import TaskStatus

MAX_LINES: Final = 60  #: of an error's record that are shown

_FAILED: Final = (TaskStatus.FAILED, TaskStatus.TIMEOUT)
_SEVERE: Final = ("ERROR", "CRITICAL")


@dataclass(frozen=True, kw_only=True, slots=True)
class FailedAttempt:
    """An attempt that failed, and why."""

    component: str
    attempt: int
    reason: Reason
    is_followed: bool  #: another site's failure caused it
    is_past: bool  #: a later attempt of the component is better
    ended_ms: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorRecord:
    """An error in a log: the number of its first line there, and its lines."""

    line: int
    lines: tuple[str, ...]


def first_failure(tasks: Iterable[TaskRecord]) -> FailedAttempt | None:
    """Return what failed first by itself among all attempts of one site's tasks; failures that
    later attempts made good come last. None: nothing has failed.
    """
    attempts = list(tasks)
    newest: dict[str, int] = {}
    for task in attempts:
        newest[task.key.component] = max(task.key.version, newest.get(task.key.component, 0))
    failures = [
        _failure(task, is_past=task.key.version < newest[task.key.component])
        for task in attempts
        if task.party_status in _FAILED
    ]
    return min(failures, key=_rank, default=None)


def _failure(task: TaskRecord, *, is_past: bool) -> FailedAttempt:
    reason = task.reason or Reason(
        code="ComponentFailed",
        message=Message("{component} did not succeed", task.key.component),
    )
    return FailedAttempt(
        component=task.key.component,
        attempt=task.key.version,
        reason=reason,
        is_followed=reason.code in FOLLOW_ON,
        is_past=is_past,
        ended_ms=task.ended_ms,
    )


def _rank(failure: FailedAttempt) -> tuple[bool, bool, float, str, int]:
    ended_ms = float("inf") if failure.ended_ms is None else failure.ended_ms
    return (
        failure.is_past, failure.is_followed, ended_ms, failure.component, failure.attempt,
    )  # fmt: skip


def first_record(lines: Sequence[str]) -> ErrorRecord | None:
    """Return the first error among the lines of a log that no other site caused; if all were,
    the first one. None: there is none.
    """
    first: ErrorRecord | None = None
    for begin, end in _records(lines):
        while end > begin + 1 and not lines[end - 1].strip():
            end -= 1
        shown = lines[begin : min(end, begin + MAX_LINES)]
        record = ErrorRecord(line=begin + 1, lines=tuple(shown))
        if not is_follow_on(lines[begin:end]):
            return record
        first = first or record
    return first


def is_follow_on(record: Sequence[str]) -> bool:
    """Tell whether an error's record is about the failure of another site."""
    start = start_of(record[0])
    text = record[0][start.length :] if start is not None else record[0]
    if _follow_on_text().search(text[:2000]):
        return True
    last = record[-1].split(":", 1)[0].rpartition(".")[2].strip()
    return len(record) > 1 and last in FOLLOW_ON


def _records(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return where records of errors begin and end."""
    found: list[tuple[int, int]] = []
    begin: int | None = None
    for at, line in enumerate(lines):
        start = start_of(line)
        if start is None:
            continue
        if begin is not None:
            found.append((begin, at))
        begin = at if start.level in _SEVERE else None
    if begin is not None:
        found.append((begin, len(lines)))
    return found


@functools.cache
def _follow_on_text() -> re.Pattern[str]:
    """Return what the sentences of such errors have in common: their first fixed parts."""
    parts = []
    for kind in all_errors():
        if kind.__name__ in FOLLOW_ON:
            template = kind.template().rstrip(".")
            fixed = [piece.strip() for piece in re.split(r"\{[^}]*\}", template)]
            parts.append(".{1,80}?".join(re.escape(piece) for piece in fixed if piece[2:])[:200])
    return re.compile("|".join(parts))
