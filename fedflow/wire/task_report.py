"""What a worker reports of its task: that it runs, how far it is, how it ended.

JSON, one object per report; the end is also what `wire/undelivered_reports.py` keeps in a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import TableRecord
from fedflow.domain.states import TaskStatus

T = TypeVar("T")


class ReportedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that the task leaves under a declared output name."""

    data_name: str
    position: int = 0
    table: TableRecord


class ReportedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as two plain JSON objects; `alias` is its declared output name."""

    alias: str = "model"
    meta_name: str
    param_name: str
    meta: Mapping[str, Any]
    param: Mapping[str, Any]


class ReportedCache(msgspec.Struct, frozen=True, kw_only=True):
    """What the task keeps for later jobs, by its declared output name."""

    name: str
    tables: dict[str, TableRecord] = {}
    meta: dict[str, Any] = {}
    private: dict[str, Any] = {}


class MetricBatch(msgspec.Struct, frozen=True, kw_only=True):
    """New points of one metric, and members of its meta that are new or changed."""

    namespace: str
    name: str
    start: int | None = None  #: points that were sent before: a batch that comes twice adds nothing
    points: list[tuple[Any, Any]] = []
    meta: dict[str, Any] = {}


class ReportedError(msgspec.Struct, frozen=True, kw_only=True):
    """Why the task failed."""

    code: str = "ComponentFailed"
    message: str = "the component failed without a message"
    said: Any = None  #: what the message is made of, see `base/messages.structure`
    hint: str = ""


class RunningReport(msgspec.Struct, frozen=True, kw_only=True):
    """The task goes on."""

    launch_id: str = ""
    party_status: TaskStatus = TaskStatus.RUNNING
    pid: int | None = None
    start_time: int | None = None  #: of the process, as /proc/PID/stat has it
    progress: float | None = None  #: 0 to 1


class EndReport(msgspec.Struct, frozen=True, kw_only=True):
    """How the task ended: `success`, `pass` or `failed`, and what it leaves."""

    launch_id: str = ""
    party_status: TaskStatus
    outputs: list[ReportedOutput] = []
    model: ReportedModel | None = None
    caches: list[ReportedCache] = []
    summary: dict[str, Any] = {}
    metrics: list[MetricBatch] = []  #: what was not sent before
    warnings: list[JobWarning] = []
    error: ReportedError | None = None
    traceback: str = ""


def read_report(body: Mapping[str, Any]) -> RunningReport | EndReport:
    """Return a report that came as JSON. Raises: BadRequest: it is none.

    A progress or an error that cannot be read counts as absent, so that the rest is not lost.
    """
    given = {name: value for name, value in body.items() if value is not None}
    if given.get("party_status") == TaskStatus.RUNNING:
        return _read(_without(given, "progress", float), RunningReport)
    return _read(_without(given, "error", ReportedError), EndReport)


def member_values(value: object) -> Any:
    """Return a report, a command, or a part of one, as an object for `json.dumps(..., default=)`.

    A member that is None is left out. `json.dumps` refuses what is no plain JSON; msgspec's own
    encoder writes dates, NaN and others as text or null. Raises: TypeError.
    """
    if isinstance(value, msgspec.Struct):
        members = ((name, getattr(value, name)) for name in value.__struct_fields__)
        return {name: member for name, member in members if member is not None}
    if isinstance(value, TableRecord):
        return msgspec.to_builtins(value)
    raise TypeError(f"a {type(value).__name__} is no plain JSON")


def _read(value: Any, kind: type[T]) -> T:
    try:
        return read_as(value, kind)
    except msgspec.ValidationError as exc:
        raise BadRequest(reason=f"no report of a task: {exc}") from exc


def _without(given: dict[str, Any], name: str, kind: type[Any]) -> dict[str, Any]:
    """Return an object without a member that is no `kind`."""
    try:
        read_as(given.get(name), kind)
    except msgspec.ValidationError:
        given.pop(name, None)
    return given
