"""FATE-Board's answers: its envelope and codes, and jobs, progress and logs in its members.

Its programs read `code`, `msg` and `data`; names of a job record are `fJobId` and so on. Source:
`docs/reference/board.md#endpoints`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from fedflow.base.errors.data import NoData
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import JobNotFound, RerunRefused, TaskNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.job.dependencies import DependencyInfo
from fedflow.domain.records import JobRecord, TaskRecord
from fedflow.domain.site import Role
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.wire.api.tracking import DataView
from fedflow.wire.envelope import error_member
from fedflow.wire.fields import job_status_word, roles_as_numbers

SUCCESS: Final = 0
DEFECT: Final = 10010
NOT_SIGNED_IN: Final = 10015
CODES: Final[tuple[tuple[type[FedflowError], int], ...]] = (
    (BadRequest, 10008),
    (MissingArgument, 10008),
    (JobNotFound, 10006),
    (TaskNotFound, 10006),
    (RerunRefused, 10013),
    (NoData, 10016),
)
"""Errors -> FATE-Board's codes; any other keeps its retcode, as when FATE-Board passes one on."""

STATUSES: Final = ("success", "running", "waiting", "failed", "canceled")
ROLES: Final = ("guest", "host", "arbiter", "local")
ORDER_FIELDS: Final = ("f_start_time", "f_end_time", "f_elapsed", "f_job_id")
ORDER_RULES: Final = ("asc", "desc")
LOG_TYPES: Final = {
    "jobSchedule": "jobSchedule",
    "jobError": "jobScheduleError",
    "partyError": "partyError",
    "partyWarning": "partyWarning",
    "partyInfo": "partyInfo",
    "partyDebug": "partyDebug",
    "componentInfo": "componentInfo",
}
"""FATE-Board's names of logs -> those of FATE Flow."""

Members = dict[str, Any]


def _of_job(name: str) -> str:
    """Return the member of a job for an attribute: `fJobId` for `job_id`."""
    return name if name == "partners" else "f" + name.title().replace("_", "")


class BoardJob(msgspec.Struct, frozen=True, kw_only=True, rename=_of_job):
    """One site's share of a job, its JobDO. Times and durations in ms; DSL and conf are null."""

    job_id: str
    name: str = ""
    description: str
    tag: str
    dsl: None = None
    runtime_conf: None = None
    train_runtime_conf: None = None
    roles: str  #: JSON text
    work_mode: int = 1
    initiator_role: str
    initiator_party_id: str
    status: str
    role: str
    party_id: str
    is_initiator: int
    progress: int | None
    create_time: int
    update_time: int
    start_time: int | None
    end_time: int | None
    elapsed: int | None
    partners: tuple[str, ...] | None


class PageRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, and which tables it reads."""

    job: BoardJob
    dataset: DataView


class PageBean(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One page of jobs; pages are counted from 1."""

    page_num: int
    page_size: int
    total_record: int
    total_page: int
    start_index: int
    start: int  #: this and `end` are the page numbers to offer
    end: int
    list: tuple[PageRow, ...]


class LogRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A line of a log, from 1."""

    line_num: int
    content: str


# --- envelope -------------------------------------------------------------------------------------


def success(data: Any = None, msg: str = "OK") -> Members:
    """Return the envelope of a success."""
    return {"code": SUCCESS, "msg": msg, "data": data}


def failure(exc: FedflowError) -> Members:
    """Return the envelope of an error; `error` is for machines, beside FATE-Board's members."""
    code = next((code for kind, code in CODES if isinstance(exc, kind)), exc.retcode)
    code = NOT_SIGNED_IN if exc.http == HTTPStatus.UNAUTHORIZED else code
    return {"code": code, "msg": str(exc.advice), "data": None, "error": error_member(exc)}


def defect() -> Members:
    """Return the envelope of a defect, without details."""
    error = {"code": FedflowError.code, "name": "InternalError", "hint": FedflowError.hint}
    return {"code": DEFECT, "msg": "System error!", "data": None, "error": error}


# --- jobs -----------------------------------------------------------------------------------------


def board_job(job: JobRecord) -> BoardJob:
    """Return a job as FATE-Board's JobDO."""
    site, started, ended = job.key.site, job.started_ms, job.ended_ms
    return BoardJob(
        job_id=job.key.job_id,
        description=job.description,
        tag=job.tag,
        roles=json.dumps(roles_as_numbers(job.roles)),
        initiator_role=job.initiator.role.value,
        initiator_party_id=job.initiator.party_id,
        status=status_word(job.status),
        role=site.role.value,
        party_id=site.party_id,
        is_initiator=int(job.is_initiator),
        progress=job.progress,
        create_time=job.created_ms,
        update_time=job.updated_ms,
        start_time=started,
        end_time=ended,
        elapsed=ended - started if started is not None and ended is not None else None,
        partners=_partners(job),
    )


def status_word(status: JobStatus) -> str:
    """Return FATE-Board's word: it shows `timeout` as `failed`."""
    return JobStatus.FAILED.value if status is JobStatus.TIMEOUT else job_status_word(status)


def statuses_of(words: Sequence[str]) -> tuple[str, ...]:
    """Return the statuses that its words stand for: `failed` are those that timed out, too."""
    more = (JobStatus.TIMEOUT.value,) if JobStatus.FAILED.value in words else ()
    return (*words, *more)


def _partners(job: JobRecord) -> tuple[str, ...] | None:
    """Return a guest's hosts and arbiters, or a host's guests; no other role has any."""
    shown = {Role.GUEST: ("host", "arbiter"), Role.HOST: ("guest",)}.get(job.key.site.role)
    if shown is None:
        return None
    return tuple(sorted({party for role in shown for party in job.roles.get(role, ())}))


def page_bean(rows: Iterable[PageRow], *, number: int, size: int, count: int) -> PageBean:
    """Return one page of a list."""
    last = -(-count // size)
    start, end = 1, min(last, 5)
    if last > 5:
        start = max(1, min(number - 2, last - 4))
        end = start + 4
    return PageBean(
        page_num=number,
        page_size=size,
        total_record=count,
        total_page=last,
        start_index=(number - 1) * size,
        start=start,
        end=end,
        list=tuple(rows),
    )


# --- the DAG, live --------------------------------------------------------------------------------


def dependencies(info: DependencyInfo, tasks: Mapping[str, TaskRecord]) -> Members:
    """Return the DAG with the status and start of each component's task at the asked site."""
    return {**info, "component_list": [_component(n, tasks.get(n)) for n in info["component_list"]]}


def _component(name: str, task: TaskRecord | None) -> Members:
    status = None if task is None else task.party_status
    word = TaskStatus.FAILED.value if status is TaskStatus.TIMEOUT else status
    return {
        "component_name": name,
        "status": None if word is None else str(word),
        "time": None if task is None else task.started_ms,
    }


def progress(
    job: JobRecord, dag: Members, dataset: DataView, *, now_ms: int, first: bool
) -> Members:
    """Return a message of the websocket `progress`; only the `first` has what never changes."""
    start = job.started_ms
    end = job.ended_ms if job.ended_ms is not None else now_ms
    shown = dag if first else {"component_list": dag["component_list"]}
    summary: Members = {"job": board_job(job)}
    return {
        "process": 100 if job.status is JobStatus.SUCCESS else job.progress,
        "duration": 0 if start is None else max(0, end - start),
        "status": status_word(job.status),
        "dependency_data": shown,
        "summary_date": {**summary, "dataset": dataset} if first else summary,
    }


# --- others ---------------------------------------------------------------------------------------


def output_command(job_id: str, role: str, party_id: str, component: str) -> str:
    """Return the command that fetches a component's output tables."""
    return (
        f"flow component output-data -j {job_id} -r {role} -p {party_id} -cpn {component}"
        " --output-path ./"
    )
