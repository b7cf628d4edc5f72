"""Rows of the lists and queries of jobs, tasks and their outputs. Times in ms since the epoch.

A query answers FATE's records, whose names begin with `f_`; a list answers the same without it.
Source: `docs/reference/rest.md#records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from fedflow.domain.job.figures import Figure
from fedflow.wire.api import PartyNumber, prefixed, without_prefix


class ReasonRow(msgspec.Struct, frozen=True, kw_only=True):
    """Why something waits or ended, and where."""

    code: str
    message: str
    role: str | None = None
    party_id: str | None = None


class JobQueryRow(msgspec.Struct, frozen=True, kw_only=True, rename=prefixed):
    """A JOB record: one site's share of a job."""

    job_id: str
    name: str = ""
    description: str | None = None
    tag: str = ""
    user_id: str = ""
    user: Mapping[str, Mapping[str, str]] = {}
    dsl: Any = None
    runtime_conf: Any = None
    runtime_conf_on_party: Any = None
    train_runtime_conf: Any = None
    roles: Mapping[str, Sequence[PartyNumber]] = {}
    initiator_role: str = ""
    initiator_party_id: str = ""
    role: str
    party_id: PartyNumber  #: text in a query, a number in a list
    is_initiator: bool = False
    status: str
    status_code: int | None = None
    progress: int | float | None = None
    ready_signal: bool = False
    ready_time: int | None = None
    cancel_signal: bool = False
    cancel_time: int | None = None
    rerun_signal: bool = False
    end_scheduling_updates: int = 0
    engine_name: str = ""
    engine_type: str = "computing"
    cores: int = 0
    memory: int = 0
    remaining_cores: int = 0
    remaining_memory: int = 0
    resource_in_use: bool = False
    apply_resource_time: int | None = None
    return_resource_time: int | None = None
    inheritance_info: Any = None
    inheritance_status: str = "pass"
    create_time: int | None = None
    create_date: str | None = None
    update_time: int | None = None
    update_date: str | None = None
    start_time: int | None = None
    start_date: str | None = None
    end_time: int | None = None
    end_date: str | None = None
    elapsed: int | None = None
    since: int | None = None  #: since when it is as it is
    deadline: int | None = None  #: when it ends by itself
    reason: ReasonRow | None = None


@without_prefix
class JobRow(JobQueryRow, frozen=True, kw_only=True):
    """One site's share of a job, as a list of jobs shows it."""

    SHOWN: ClassVar = (
        "job_id role party_id status progress create_time start_time end_time elapsed"
        " description partners"
    )

    partners: tuple[PartyNumber, ...] = ()
    figures: tuple[Figure, ...] = ()  #: results of its components at this site

    def __repr__(self) -> str:
        return f"<Job {self.job_id} at {self.role} {self.party_id}: {self.status}>"


class JobPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some jobs, newest first unless asked otherwise, and how many there are in all."""

    jobs: tuple[JobRow, ...]
    count: int

    def __repr__(self) -> str:
        return f"<{len(self.jobs)} of {self.count} jobs>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [
            (j.job_id, f"{j.role} {j.party_id}", j.status, j.progress, j.description)
            for j in self.jobs
        ]
        return html.table(("job", "site", "status", "%", "notes"), rows, title=repr(self)[1:-1])


class TaskQueryRow(msgspec.Struct, frozen=True, kw_only=True, rename=prefixed):
    """A TASK record: one attempt of a component at one site."""

    job_id: str
    component_name: str
    component_module: str = ""
    task_id: str = ""
    task_version: int = 0
    initiator_role: str = ""
    initiator_party_id: str = ""
    federated_mode: str = "MULTIPLE"
    federated_status_collect_type: str = "PUSH"
    status: str
    status_code: int | None = None
    auto_retries: int = 0
    auto_retry_delay: int | float = 0
    role: str
    party_id: PartyNumber  #: text in a query, a number in a list
    run_on_this_party: bool = False
    worker_id: str | None = None
    cmd: list[str] = []
    run_ip: str | None = None
    run_port: int | None = None
    run_pid: int | None = None
    party_status: str | None = None
    provider_info: Mapping[str, str] = {}
    component_parameters: Any = None
    engine_conf: Mapping[str, str] = {}
    kill_status: bool = False
    error_report: str = ""
    is_deepspeed: bool = False
    deepspeed_id: str | None = None
    progress: int | float | None = None
    inherited_from: str = ""
    create_time: int | None = None
    create_date: str | None = None
    update_time: int | None = None
    update_date: str | None = None
    start_time: int | None = None
    start_date: str | None = None
    end_time: int | None = None
    end_date: str | None = None
    elapsed: int | None = None  #: milliseconds
    since: int | None = None
    reason: ReasonRow | None = None


@without_prefix
class TaskRow(TaskQueryRow, frozen=True, kw_only=True):
    """One attempt of a component at one site, as a list of tasks shows it."""

    SHOWN: ClassVar = (
        "job_id component_name role party_id status task_version party_status start_time"
        " end_time elapsed"
    )

    def __repr__(self) -> str:
        return f"<Task {self.component_name} at {self.role} {self.party_id}: {self.status}>"


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some tasks, newest first unless asked otherwise, and how many there are in all."""

    tasks: tuple[TaskRow, ...]
    count: int

    def __repr__(self) -> str:
        return f"<{len(self.tasks)} of {self.count} tasks>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [
            (t.job_id, t.component_name, f"{t.role} {t.party_id}", t.task_version, t.status)
            for t in self.tasks
        ]
        columns = ("job", "component", "site", "attempt", "status")
        return html.table(columns, rows, title=repr(self)[1:-1])


class OutputTable(msgspec.Struct, frozen=True, kw_only=True, rename=prefixed):
    """A table that a component made."""

    SHOWN: ClassVar = (
        "job_id component_name role party_id data_name table_namespace table_name task_version"
    )

    job_id: str
    component_name: str
    task_id: str = ""
    task_version: int = 0
    data_name: str
    role: str
    party_id: str
    table_name: str
    table_namespace: str
    description: str = ""
