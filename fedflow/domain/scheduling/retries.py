"""Which failed tasks are tried again, and when."""

from __future__ import annotations

from fedflow.domain.reason import NOT_SELECTED, SKIPPED, Reason
from fedflow.domain.scheduling.views import TaskView
from fedflow.domain.states import TaskStatus

PERMANENT: frozenset[str] = frozenset(
    {
        "BadParameter", "UnknownComponent", "TableNotFound", "TableExists", "BadTableName",
        "BadData", "FileNotAllowed", "NoData", "NoCommonIds", "Diverged", "NotEncodable",
        "NotSupportedYet", "BadRequest", "InvalidJobSpec", "CodecError",
    }
)  # fmt: skip
"""Errors that a second try would meet again."""

INFRASTRUCTURE: frozenset[str] = frozenset(
    {"ServerRestarted", "ServerLost", "PeerFailed", "SparkLost"}
)
"""Errors that are no doing of the task: a server went away. `PeerFailed` comes first only if no
site had an error of its own to tell, so the way between them, or a server, broke.
"""


def was_skipped(status: TaskStatus, reason: Reason | None) -> bool:
    """Tell whether a task ended without having had its turn."""
    return (
        status is TaskStatus.CANCELED
        and reason is not None
        and reason.code in (SKIPPED, NOT_SELECTED)
    )


def may_retry(task: TaskView, status: TaskStatus, reason: Reason | None) -> bool:
    """Tell whether an attempt that ended so will be tried again."""
    if status not in (TaskStatus.FAILED, TaskStatus.TIMEOUT) or task.kept:
        return False
    if is_infrastructure(task, reason):
        return True
    code = reason.code if reason is not None else ""
    if task.rule.retry_on is not None:
        return task.retries_left > 0 and code in task.rule.retry_on
    return task.retries_left > 0 and code not in PERMANENT


def is_infrastructure(task: TaskView, reason: Reason | None) -> bool:
    """Tell whether an attempt failed for no doing of its own, and may be tried again for that."""
    is_one = reason is not None and reason.code in INFRASTRUCTURE
    return is_one and task.infrastructure_left > 0


def retry_at_ms(task: TaskView) -> int:
    """Return when the retry of an ended attempt is due."""
    return (task.ended_ms or 0) + task.rule.retry_delay_ms
