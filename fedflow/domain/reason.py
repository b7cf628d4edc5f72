"""Why a job or a task ended or waits, and the request to end one."""

from __future__ import annotations

from typing import Final

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """Why something waits or ended: an error's name, a sentence with its fields, and the site it
    happened at.
    """

    code: str
    message: Message
    site: Site | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequest:
    """Somebody wants the job to end with `status`."""

    status: JobStatus
    reason: Reason


SKIPPED: Final = "Skipped"
NOT_SELECTED: Final = "NotSelected"
PAUSED: Final = "Paused"
AWAITS_STEP: Final = "AwaitsStep"
