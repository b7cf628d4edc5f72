"""The tables of jobs, with what their tasks leave. `tables` says whose names these are."""

from __future__ import annotations

from typing import Final

from fedflow.store.table import (
    BIG,
    BIG_0,
    BIG_NULL,
    FLAG,
    FLAG_0,
    FLOAT,
    INT,
    INT_0,
    INT_NULL,
    LONG,
    LONG_NULL,
    TIME,
    TIME_0,
    TIME_NULL,
    Table,
    text,
    text_null,
)

_ATTEMPT: Final = {
    "f_job_id": text(64),
    "f_task_id": text(200),
    "f_task_version": BIG,
    "f_role": text(16),
    "f_party_id": text(64),
    "f_component_name": text(100),
    "f_create_time": TIME,
}
_AT_SITE: Final = {
    "f_job_id": text(64),
    "f_role": text(16),
    "f_party_id": text(64),
}

JOB: Final = Table(
    "t_job",
    {
        **_AT_SITE,
        "f_initiator_role": text(16),
        "f_initiator_party_id": text(64),
        "f_is_initiator": FLAG,
        "f_status": text(16),
        "f_epoch": INT,
        "f_dsl": LONG,
        "f_runtime_conf": LONG,
        "f_roles": LONG,
        "f_cores": INT,
        "f_resource_in_use": FLAG,
        "f_engine_name": text_null(50),
        "f_apply_resource_time": TIME_NULL,
        "f_return_resource_time": TIME_NULL,
        "f_reason": LONG_NULL,
        "f_progress": INT,
        "f_description": LONG,
        "f_user_id": text(255),
        "f_tag": text(255),
        "f_warnings": LONG,
        "f_start_time": TIME_NULL,
        "f_end_time": TIME_NULL,
        "f_elapsed": BIG_NULL,
        "f_create_time": TIME,
        "f_update_time": TIME,
        "f_job_parameters": LONG_NULL,
        "f_train_runtime_conf": LONG_NULL,
        "f_partners": LONG_NULL,  #: ids of the other parties, between commas
        "f_partners_short": text_null(150),  #: the same, null if it is longer
        "f_description_short": text_null(150),  #: null if it is longer
        "f_memory": BIG_0,  #: MiB
        "f_queue_time": TIME_0,  #: when it began to wait here
        "f_denied_time": TIME_NULL,  #: when it was last denied cores
        "f_bytes": BIG_0,  #: about what is stored of it, of another party's job
        "f_name": "VARCHAR(150) NOT NULL DEFAULT ''",
        "f_figures": LONG_NULL,  #: see `domain/job/figures.py`
    },
    key=("f_job_id", "f_role", "f_party_id"),
    indexes=(
        "f_initiator_party_id, f_status, f_bytes",
        "f_resource_in_use",
        "f_create_time DESC, f_job_id DESC, f_role, f_party_id, f_status, f_tag, "
        "f_start_time, f_end_time, f_elapsed, f_partners_short, f_description_short",
        "f_status, f_create_time DESC, f_job_id DESC, f_role, f_party_id, f_tag, "
        "f_start_time, f_end_time, f_elapsed, f_partners_short, f_description_short",
        "f_resource_in_use, f_denied_time",
        "f_status, f_resource_in_use, f_job_id",
        "f_name, f_job_id",
    ),
)
"""One party job."""

TASK: Final = Table(
    "t_task",
    {
        "f_job_id": text(64),
        "f_task_id": text(200),
        "f_task_version": BIG,
        "f_role": text(16),
        "f_party_id": text(64),
        "f_component_name": text(100),
        "f_component_module": text(200),
        "f_initiator_role": text(16),
        "f_initiator_party_id": text(64),
        "f_status": text(16),
        "f_party_status": text(16),
        "f_component_parameters": LONG,
        "f_reason": LONG_NULL,
        "f_worker_id": text_null(100),
        "f_token": text_null(100),
        "f_request_time": TIME_NULL,
        "f_run_pid": BIG_NULL,
        "f_run_pid_start": BIG_NULL,
        "f_run_ip": text_null(255),
        "f_progress": FLOAT,
        "f_error_report": LONG,
        "f_start_time": TIME_NULL,
        "f_end_time": TIME_NULL,
        "f_elapsed": BIG_NULL,
        "f_create_time": TIME,
        "f_update_time": TIME,
        "f_auto_retries": INT_0,
        "f_auto_retry_delay": INT_0,
        "f_inherited_from": "VARCHAR(64) NOT NULL DEFAULT ''",
        "f_latest": "TINYINT NOT NULL DEFAULT 1",  #: 1 unless there is a newer attempt
        "f_launch": INT_0,  #: how often an elastic job has started it again
        "f_absent": LONG_NULL,  #: upstream components without outputs
        "f_ledger": LONG_NULL,  #: see `domain/job/ledger.py`
        "f_instance_id": "VARCHAR(64) NOT NULL DEFAULT ''",  #: its server, empty before its start
    },
    key=("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"),
    numbered="f_number",  #: the order in which attempts were added
    indexes=(
        "f_run_pid",
        "f_party_status, f_request_time",
        "f_status",
        "f_latest, f_create_time, f_number, f_role, f_party_id, f_status, f_component_name",
        "f_latest, f_start_time, f_number",
        "f_latest, f_end_time, f_number",
        "f_latest, f_elapsed, f_number",
        "f_latest, f_job_id, f_number",
        "f_latest, f_task_version, f_number",
    ),
)
"""One attempt of a party task."""

TASK_COUNT: Final = Table(
    "t_task_count",
    {
        **_AT_SITE,
        "f_count": BIG,
    },
    key=("f_job_id", "f_role", "f_party_id"),
    clustered=True,
)
"""How many tasks, whatever the number of their attempts, a job has at a site."""

SCHEDULED_JOB: Final = Table(
    "t_schedule_job",
    {
        "f_job_id": text(64),
        "f_initiator_role": text(16),
        "f_initiator_party_id": text(64),
        "f_status": text(16),
        "f_epoch": INT,
        "f_dsl": LONG,
        "f_runtime_conf": LONG,
        "f_priority": INT,
        "f_stop": LONG_NULL,
        "f_reason": LONG_NULL,
        "f_start_time": TIME_NULL,
        "f_end_time": TIME_NULL,
        "f_elapsed": BIG_NULL,
        "f_create_time": TIME,
        "f_update_time": TIME,
        "f_rerun_time": TIME_NULL,
        "f_control": LONG_NULL,  #: pauses and steps of this epoch, see `domain/job/control.py`
        "f_held_time": TIME_NULL,  #: since when it is held
        "f_need_cores": INT_0,  #: of this server's own machine
        "f_need_memory": BIG_0,  #: MiB
        "f_queue_time": TIME_0,  #: since when it waits
        "f_ask_time": TIME_0,  #: it was denied, and asks again then
        "f_look_time": TIME_0,  #: while it waits: when to look at it whatever happens
        "f_deadline_time": TIME_0,  #: when its timeout passes
        "f_need_spark": INT_0,  #: cores of its Spark cluster
    },
    key=("f_job_id",),
    indexes=(
        "f_status, f_create_time",
        "f_status, f_queue_time, f_job_id",
        "f_status, f_look_time",
        "f_status, f_deadline_time",
        "f_status, f_priority DESC, f_queue_time, f_job_id, f_need_cores, f_need_memory, "
        "f_need_spark, f_ask_time",
    ),
)
"""A job that this server initiated."""

SCHEDULED_SITE: Final = Table(
    "t_schedule_site",
    {
        **_AT_SITE,
        "f_position": INT,
        "f_phase": text(16),
        "f_retry_time": TIME,
        "f_denials": INT,
        "f_reason": LONG_NULL,
        "f_open": FLAG_0,  #: 1 until the job has ended
    },
    key=("f_job_id", "f_role", "f_party_id"),
    clustered=True,
    indexes=(
        "f_open, f_party_id, f_job_id",
        "f_open, f_phase, f_party_id, f_job_id",
    ),
)
"""How far a job has come at one of its sites."""

SCHEDULED_TASK: Final = Table(
    "t_schedule_task",
    {
        "f_job_id": text(64),
        "f_component_name": text(100),
        "f_task_version": BIG,
        "f_position": INT,
        "f_status": text(16),
        "f_reason": LONG_NULL,
        "f_start_time": TIME_NULL,
        "f_end_time": TIME_NULL,
        "f_epoch": INT_0,
        "f_retries": INT_0,
        "f_infrastructure_retries": INT_0,
        "f_cache_key": text_null(64),  #: see `domain/job/reuse.py`
        "f_inherited_from": "VARCHAR(64) NOT NULL DEFAULT ''",
    },
    key=("f_job_id", "f_component_name", "f_task_version"),
    clustered=True,
    indexes=("f_cache_key, f_job_id",),
)
"""One attempt of a task, all sites."""

SCHEDULED_PARTY_TASK: Final = Table(
    "t_schedule_party_task",
    {
        "f_job_id": text(64),
        "f_component_name": text(100),
        "f_task_version": BIG,
        "f_role": text(16),
        "f_party_id": text(64),
        "f_position": INT,
        "f_party_status": text(16),
        "f_reason": LONG_NULL,
        "f_since_time": TIME,
        "f_progress": FLOAT,
        "f_launch": INT_0,  #: how often an elastic job has started it again
    },
    key=("f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id"),
    clustered=True,
)
"""One party task, as reported to the initiator."""

SUBMIT_KEY: Final = Table(
    "t_submit_key",
    {
        "f_key": text(255),
        "f_digest": text(64),
        "f_job_id": text(64),
        "f_warnings": LONG,
        "f_create_time": TIME,
    },
    key=("f_key",),
    indexes=("f_create_time",),
)
"""An idempotency key that a submit gave, and the job that it stands for."""

METRIC: Final = Table(
    "t_tracking_metric",
    {
        **_ATTEMPT,
        "f_metric_namespace": text(180),
        "f_metric_name": text(180),
        "f_key": LONG,
        "f_value": LONG,
        "f_type": FLAG,
    },
    key=("f_id",),
    numbered="f_id",
    indexes=("f_job_id, f_task_id, f_task_version, f_role, f_party_id, f_type",),
)
"""A point (`f_type` 1) or the meta (`f_type` 0) of a metric."""

OUTPUT: Final = Table(
    "t_tracking_output_data_info",
    {
        **_ATTEMPT,
        "f_data_name": text(100),
        "f_position": INT,
        "f_table_name": text(500),
        "f_table_namespace": text(500),
        "f_table_address": text(255),
    },
    key=("f_job_id", "f_task_id", "f_task_version", "f_data_name", "f_role", "f_party_id"),
    indexes=("f_table_name",),
)
"""Which table an attempt produced under an output name."""

SUMMARY: Final = Table(
    "t_component_summary",
    {
        **_ATTEMPT,
        "f_summary": LONG,
    },
    key=("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"),
)
"""The summary that an attempt reported."""

MODEL_SHARE: Final = Table(
    "t_model_share",
    {
        **_ATTEMPT,
        "f_model_alias": text(100),
        "f_meta_name": text(200),
        "f_param_name": text(200),
        "f_meta": LONG,
        "f_param": LONG,
    },
    key=("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"),
)
"""The model that an attempt trained at one site."""

CACHE: Final = Table(
    "t_cache_record",
    {
        "f_cache_key": text(64),
        "f_job_id": text(64),
        "f_component_name": text(100),
        "f_task_version": BIG,
        "f_role": text(16),
        "f_party_id": text(64),
        "f_cache_name": text(100),
        "f_tables": LONG,
        "f_meta": LONG,
        "f_private": LONG,
        "f_same_as": text_null(64),
        "f_create_time": TIME,
    },
    key=("f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id", "f_cache_name"),
    indexes=("f_cache_key",),
)
"""What an attempt keeps for later jobs."""

JOB_EVENT: Final = Table(
    "t_job_event",
    {
        "f_job_id": text(64),
        "f_time": TIME,
        "f_epoch": INT_NULL,  #: only where one begins
        "f_subject": text(16),
        "f_role": text(16),
        "f_party_id": text(64),
        "f_component_name": text(100),
        "f_task_version": BIG_NULL,
        "f_from": text(16),
        "f_to": text(16),
        "f_reason": LONG_NULL,
    },
    key=("f_number",),
    numbered="f_number",
    indexes=("f_job_id, f_number",),
)
"""Something that happened to a job; see `domain/scheduling/history.py`."""

JOB_TAG: Final = Table(
    "t_job_tag",
    {
        "f_job_id": text(64),
        "f_name": text(50),
        "f_create_time": TIME,
    },
    key=("f_job_id", "f_name"),
    clustered=True,
    indexes=("f_name, f_job_id",),
)
"""A word that people gave to a job."""
