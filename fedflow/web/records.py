"""The shapes of what routes answer, for their declarations: JOB and TASK records, tables, pages.

Members that a record may have beside the named ones are FATE's and rarely read.
Source: `docs/reference/rest.md#records`.
"""

from __future__ import annotations

from typing import Any, TypedDict

PartyNumber = int | str  #: a party id as a number, or as it is if it is none


class Reason(TypedDict):
    """Why something waits or ended, and where (fedflow's own)."""

    code: str
    message: str
    role: str | None
    party_id: str | None


class JobRow(TypedDict, total=False):
    """A JOB record: one site's share of a job. Times are in ms since the epoch."""

    f_job_id: str
    f_name: str
    f_description: str
    f_tag: str
    f_role: str
    f_party_id: str
    f_is_initiator: bool
    f_initiator_role: str
    f_initiator_party_id: str
    f_roles: dict[str, list[PartyNumber]]
    f_status: str
    f_progress: int | None
    f_dsl: Any
    f_runtime_conf: Any
    f_train_runtime_conf: Any
    f_cores: int
    f_resource_in_use: bool
    f_create_time: int
    f_create_date: str | None
    f_update_time: int
    f_update_date: str | None
    f_start_time: int | None
    f_start_date: str | None
    f_end_time: int | None
    f_end_date: str | None
    f_elapsed: int | None
    f_since: int
    f_deadline: int | None
    f_reason: Reason | None


class TaskRow(TypedDict, total=False):
    """A TASK record: one attempt of a component at one site. Times are in ms since the epoch."""

    f_job_id: str
    f_component_name: str
    f_component_module: str
    f_task_id: str
    f_task_version: int
    f_role: str
    f_party_id: str
    f_status: str
    f_party_status: str
    f_progress: int | None
    f_component_parameters: Any
    f_error_report: str
    f_run_ip: str | None
    f_run_pid: int | None
    f_create_time: int
    f_start_time: int | None
    f_end_time: int | None
    f_elapsed: int | None
    f_since: int
    f_reason: Reason | None


class JobPageRow(TypedDict, total=False):
    """A JOB record without the prefix `f_`, and the other parties."""

    job_id: str
    role: str
    party_id: PartyNumber
    status: str
    description: str
    roles: dict[str, list[PartyNumber]]
    partners: list[PartyNumber]
    create_time: int
    start_time: int | None
    end_time: int | None
    elapsed: int | None


class JobPage(TypedDict):
    """One page of jobs, and how many fit in all."""

    jobs: list[JobPageRow]
    count: int


class TaskPageRow(TypedDict, total=False):
    """A TASK record without the prefix `f_`."""

    job_id: str
    component_name: str
    task_version: int
    role: str
    party_id: PartyNumber
    status: str
    party_status: str
    create_time: int
    start_time: int | None
    end_time: int | None
    elapsed: int | None


class TaskPage(TypedDict):
    """One page of tasks, and how many fit in all."""

    tasks: list[TaskPageRow]
    count: int


class ModelInfo(TypedDict):
    """Which model a job makes."""

    model_id: str
    model_version: str


class Submission(TypedDict, total=False):
    """What a submit tells; the paths are on the server."""

    code: int
    message: str
    job_id: str
    model_info: ModelInfo
    board_url: str
    logs_directory: str
    warnings: list[str]
    reused: dict[str, str]  #: component -> id of the job that made its results


class OutputRow(TypedDict, total=False):
    """An output table of a component."""

    f_job_id: str
    f_component_name: str
    f_task_id: str
    f_task_version: int
    f_data_name: str
    f_role: str
    f_party_id: str
    f_table_name: str
    f_table_namespace: str


class OutputTableRow(TypedDict, total=False):
    """Where an output table is."""

    table_name: str
    table_namespace: str
    namespace: str
    data_name: str


class LogsDirectory(TypedDict):
    """A folder on the server."""

    logs_directory: str


class DataView(TypedDict):
    """Which tables a job reads, its roles, and this site's partners."""

    dataset: dict[str, dict[str, dict[str, str]]]
    roles: dict[str, list[PartyNumber]]
    partner: dict[str, list[PartyNumber]]
    model_summary: dict[str, Any]


class Components(TypedDict):
    """The component names of a job."""

    components: list[str]


class MetricContent(TypedDict):
    """The points of a metric, [key, value] each, and what is known of it."""

    data: list[list[Any]]
    meta: dict[str, Any]


class OutputDataMeta(TypedDict):
    """For each output: its columns (null when it is empty), its rows in all, its name."""

    header: list[list[str] | None]
    total: list[int]
    names: list[str]


class ModelMeta(TypedDict, total=False):
    """The meta part of a model, and the module that made it."""

    meta_data: Any
    module_name: str


class ModuleRow(TypedDict):
    """A component module as FATE shows it."""

    default_provider: str
    support_provider: list[str]
    alias: list[str]
