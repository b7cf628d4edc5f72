"""Jobs as lists show them: without their documents, which are long. And tags: short words that
people of one server give to jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.job.figures import Figure
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey
from fedflow.domain.site import Site
from fedflow.domain.states import (
    JOB_FINAL,
    TASK_FINAL,
    TASK_SUCCEEDED,
    JobStatus,
    TaskStatus,
)

MAX_TAG: Final = 50  #: characters of a tag
MAX_TAGS: Final = 20  #: tags of a job


Strip = dict[str, TaskStatus]
"""A party job's components in the order of their adding, each with the latest status. One that
went well here and failed elsewhere has failed.
"""


def strip_status(task: TaskStatus, here: TaskStatus) -> TaskStatus:
    """Return what a strip shows of a task from its status, and that of the own site's part."""
    return task if here in TASK_SUCCEEDED and task in TASK_FINAL else here


@dataclass(frozen=True, kw_only=True, slots=True)
class JobLine:
    """One party job, as a list shows it."""

    key: JobKey
    initiator: Site
    status: JobStatus
    epoch: int
    roles: Mapping[str, list[str]]
    created_ms: int
    updated_ms: int
    started_ms: int | None = None
    ended_ms: int | None = None
    progress: int = 0  #: percent of the tasks that ended
    reason: Reason | None = None
    name: str = ""
    figures: tuple[Figure, ...] = ()
    description: str = ""  #: notes of people
    user: str = ""
    refused: bool = False  #: it was refused at the submit
    tags: tuple[str, ...] = ()
    on_hold: bool = False  #: it is paused, as far as this site knows
    silent: tuple[str, ...] = ()  #: parties that it needs and that do not answer

    @property
    def is_initiator(self) -> bool:
        return self.initiator == self.key.site


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusCount:
    """How many jobs, or party jobs, have a status."""

    status: JobStatus
    count: int
    refused: bool = False  #: they were refused at the submit


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedJobs:
    """Jobs that ended before a time, in one of some ways."""

    before_ms: int
    statuses: frozenset[JobStatus] = JOB_FINAL


@dataclass(frozen=True, kw_only=True, slots=True)
class EndedJob:
    """A job that ended, or its party job at one site; lists go by time and id."""

    job_id: str
    created_ms: int


def tag_problem(name: str) -> str | None:
    """Return what is wrong with the name of a tag, None if it is one."""
    if not 1 <= len(name) <= MAX_TAG:
        return f"a tag has 1 to {MAX_TAG} characters"
    if name != name.strip():
        return "a tag neither begins nor ends with a blank"
    if any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in name):
        return "a tag has no control characters"
    return None
