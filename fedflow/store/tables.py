"""Every table, column and index of the store.

Names and keys are FATE's where FATE has the column (`docs/reference/jobs.md#stored-columns`); the
others are ours and begin with `f_` too. Differences from FATE: one table for all days, party ids up
to 64 characters, JSON instead of pickles, no `_date` twins of the `_time` columns. Declared is the
newest schema: a new database gets all of it, an older one gets there by the steps in `migrate`.

Column types are MySQL's words; SQLite reads its own meaning from them (VARCHAR and LONGTEXT are
text, BIGINT and TINYINT integers, DOUBLE real).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

LONG: Final = "LONGTEXT NOT NULL"  #: JSON, or text of any length
LONG_NULL: Final = "LONGTEXT NULL"
TIME: Final = "BIGINT NOT NULL"  #: milliseconds since the epoch
TIME_NULL: Final = "BIGINT NULL"
TIME_0: Final = "BIGINT NOT NULL DEFAULT 0"
INT: Final = "INTEGER NOT NULL"
INT_NULL: Final = "INTEGER NULL"
INT_0: Final = "INTEGER NOT NULL DEFAULT 0"
BIG: Final = "BIGINT NOT NULL"
BIG_NULL: Final = "BIGINT NULL"
BIG_0: Final = "BIGINT NOT NULL DEFAULT 0"
FLAG: Final = "TINYINT NOT NULL"
FLAG_0: Final = "TINYINT NOT NULL DEFAULT 0"
FLOAT: Final = "DOUBLE NOT NULL"


def text(limit: int) -> str:
    """Return the type of a text of at most `limit` characters (MySQL refuses longer ones)."""
    return f"VARCHAR({limit}) NOT NULL"


def text_null(limit: int) -> str:
    return f"VARCHAR({limit}) NULL"


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: its columns with their types, and what the database keeps in order.

    `numbered` is a further column that the database counts up; numbers are never used twice.
    `clustered` keeps the rows in the order of the key (for small rows that are read together).
    Indexes are columns between commas, as in SQL.
    """

    name: str
    columns: Mapping[str, str]
    key: Sequence[str]
    numbered: str | None = None
    clustered: bool = False
    indexes: Sequence[str] = ()


_ATTEMPT: Final = {
    "f_job_id": text(64),
    "f_task_id": text(200),
    "f_task_version": BIG,
    "f_role": text(16),
    "f_party_id": text(64),
    "f_component_name": text(100),
    "f_create_time": TIME,
}
_MODEL: Final = {
    "f_role": text(16),
    "f_party_id": text(64),
    "f_model_id": text(512),
    "f_model_version": text(64),
}
_OBJECTS: Final = {
    "f_meta_name": text(200),
    "f_meta_sha256": text(64),
    "f_meta_sha1": text(40),
    "f_meta_size": BIG,
    "f_param_name": text(200),
    "f_param_sha256": text(64),
    "f_param_sha1": text(40),
    "f_param_size": BIG,
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
        "f_absent": LONG_NULL,  #: upstream components without outputs
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

ENGINE: Final = Table(
    "t_engine_registry",
    {
        "f_engine_name": text(50),
        "f_engine_type": text(10),
        "f_cores": INT,
        "f_remaining_cores": INT,
        "f_create_time": TIME,
        "f_update_time": TIME,
        "f_memory": BIG_0,  #: MiB; 0: not counted
        "f_remaining_memory": BIG_0,
        "f_cores_percent": "DOUBLE NOT NULL DEFAULT 1",  #: share of the cores that one job may hold
    },
    key=("f_engine_name", "f_engine_type"),
)
"""A computing engine and its free cores."""

TABLE: Final = Table(
    "t_storage_table_meta",
    {
        "f_name": text(100),
        "f_namespace": text(100),
        "f_address": text(255),
        "f_schema": LONG,
        "f_count": BIG,
        "f_partitions": INT,
        "f_origin": text(50),
        "f_part_of_data": LONG,
        "f_id_delimiter": text(16),
        "f_have_head": FLAG,
        "f_extend_sid": FLAG,
        "f_create_time": TIME,
        "f_engine": "VARCHAR(100) NOT NULL DEFAULT 'STANDALONE'",
        "f_source": LONG_NULL,
        "f_disable": FLAG_0,
        "f_extra": LONG_NULL,
        "f_storage": LONG_NULL,
    },
    key=("f_name", "f_namespace"),
    indexes=(
        "f_namespace, f_create_time",
        "f_create_time",
        "f_address",
        "f_namespace",
        "f_create_time, f_namespace, f_name, f_origin, f_disable, f_count",
    ),
)
"""A data set of this party."""

CONNECTOR: Final = Table(
    "t_storage_connector",
    {
        "f_name": text(100),
        "f_engine": text(100),
        "f_connector_info": LONG,
        "f_create_time": TIME,
    },
    key=("f_name",),
)
"""How to reach another storage."""

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

OUTBOX: Final = Table(
    "t_outbox",
    {
        "f_kind": text(32),
        "f_job_id": text(64),
        "f_source_role": text(16),
        "f_source_party_id": text(64),
        "f_destination_role": text(16),
        "f_destination_party_id": text(64),
        "f_path": LONG,
        "f_body": LONG,
        "f_request_id": text(128),
        "f_create_time": TIME,
        "f_deadline_time": TIME,
        "f_attempts": INT,
        "f_due_time": TIME,
        "f_error": LONG,
    },
    key=("f_id",),
    numbered="f_id",
    indexes=(
        "f_destination_party_id, f_id",
        "f_destination_party_id, f_job_id, f_id",
    ),
)
"""A command that must arrive at another site."""

RECEIVED: Final = Table(
    "t_received_request",
    {
        "f_request_id": text(128),
        "f_retcode": INT,
        "f_retmsg": LONG,
        "f_data": LONG,
        "f_create_time": TIME,
    },
    key=("f_request_id",),
    indexes=("f_create_time",),
)
"""The reply to a request that was carried out."""

LEASE: Final = Table(
    "t_lease",
    {
        "f_name": text(200),
        "f_owner": text(200),
        "f_expire_time": TIME,
    },
    key=("f_name",),
    numbered="f_token",
)
"""A claim with an end. A new owner is a new row, so its token is greater than all before."""

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

PERMISSION: Final = Table(
    "t_permission",
    {
        "f_party_id": text(64),
        "f_role": text(16),
        "f_kind": text(16),
        "f_name": text(200),
        "f_namespace": text(200),
        "f_create_time": TIME,
    },
    key=("f_party_id", "f_role", "f_kind", "f_name", "f_namespace"),
)
"""One thing that another party may use here."""

SITE_KEY: Final = Table(
    "t_site_key_info",
    {
        "f_party_id": text(64),
        "f_key_name": text(10),
        "f_key": LONG,
        "f_update_time": TIME,
    },
    key=("f_party_id", "f_key_name"),
)
"""A public key of another party."""

SERVER: Final = Table(
    "t_server_registry_info",
    {
        "f_server_name": text(30),
        "f_host": text(255),
        "f_port": INT,
        "f_protocol": text(10),
        "f_update_time": TIME,
    },
    key=("f_server_name",),
)
"""Where another program of this party listens."""

SERVICE: Final = Table(
    "t_service_registry_info",
    {
        "f_server_name": text(30),
        "f_service_name": text(100),
        "f_url": text(2000),
        "f_method": text(10),
        "f_params": LONG,
        "f_data": LONG,
        "f_headers": LONG,
        "f_update_time": TIME,
    },
    key=("f_server_name", "f_service_name"),
)
"""One address of a server and how it is called."""

MODEL_VERSION: Final = Table(
    "t_machine_learning_model_info",
    {
        **_MODEL,
        "f_job_id": text(64),
        "f_roles": LONG,
        "f_initiator_role": text(16),
        "f_initiator_party_id": text(64),
        "f_train_dsl": LONG,
        "f_train_runtime_conf": LONG,
        "f_runtime_conf_on_party": LONG,
        "f_inference_dsl": LONG,
        "f_fate_version": text(32),
        "f_parent": FLAG,
        "f_parent_info": LONG,
        "f_size": BIG,
        "f_loaded_times": INT,
        "f_imported": FLAG,
        "f_archive_sha256": text_null(100),
        "f_archive_from_ip": text_null(100),
        "f_ready": FLAG,
        "f_create_time": TIME,
        "f_update_time": TIME,
    },
    key=("f_role", "f_party_id", "f_model_id", "f_model_version"),
    indexes=(
        "f_model_version",
        "f_job_id",
        "f_create_time",
        "f_ready, f_create_time",
    ),
)
"""One site's part of a version of a model; `f_size` in bytes (FATE: KiB)."""

MODEL_COMPONENT: Final = Table(
    "t_pipeline_component_meta",
    {
        **_MODEL,
        "f_component_name": text(100),
        "f_component_module_name": text(200),
        "f_model_alias": text(100),
        **_OBJECTS,
        "f_run_parameters": LONG,
        "f_create_time": TIME,
    },
    key=("f_role", "f_party_id", "f_model_id", "f_model_version", "f_component_name"),
    indexes=(
        "f_model_version",
        "f_meta_sha256",
        "f_param_sha256",
    ),
)
"""The model of one component: names and digests of its two objects."""

MODEL_CHECKPOINT: Final = Table(
    "t_model_checkpoint",
    {
        **_MODEL,
        "f_component_name": text(100),
        "f_step_index": INT,
        "f_step_name": text(100),
        "f_task_version": BIG,
        "f_model_alias": text(100),
        **_OBJECTS,
        "f_create_time": TIME,
    },
    key=(
        "f_role",
        "f_party_id",
        "f_model_id",
        "f_model_version",
        "f_component_name",
        "f_step_index",
    ),
    indexes=(
        "f_meta_sha256",
        "f_param_sha256",
    ),
)
"""The model of one component as it was after a step of its training."""

TAG: Final = Table(
    "t_tags",
    {
        "f_name": text(100),
        "f_desc": LONG,
        "f_create_time": TIME,
        "f_update_time": TIME,
    },
    key=("f_name",),
    numbered="f_id",
)
"""A name for versions of models."""

MODEL_TAG: Final = Table(
    "t_model_tag",
    {
        "f_m_id": text(64),  #: the model version
        "f_t_id": BIG,
        "f_create_time": TIME,
    },
    key=("f_m_id", "f_t_id"),
    numbered="f_id",
    indexes=("f_t_id",),
)
"""A version that has a tag."""

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

INSTANCE: Final = Table(
    "t_server_instance",
    {
        "f_instance_id": text(64),
        "f_host": text(255),
        "f_http_address": text(300),
        "f_grpc_address": text(300),
        "f_version": text(32),
        "f_shared_mark": text(64),
        "f_secret": text(64),
        "f_state": text(16),
        "f_start_time": TIME,
        "f_beat_time": TIME,
    },
    key=("f_instance_id",),
)
"""One server of this party; its times are the database's."""

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

ACCOUNT: Final = Table(
    "t_account",
    {
        "f_name": text(64),
        "f_role": text(16),
        "f_password": text(255),  #: a hash
        "f_create_time": TIME,
        "f_update_time": TIME,
    },
    key=("f_name",),
)
"""Somebody who may sign in to the board."""

ACCOUNT_SESSION: Final = Table(
    "t_account_session",
    {
        "f_digest": text(64),  #: of its token
        "f_name": text(64),
        "f_address": text(64),
        "f_create_time": TIME,
        "f_seen_time": TIME,
    },
    key=("f_digest",),
    indexes=("f_name",),
)
"""A browser that somebody signed in with."""

SCHEMA_VERSION: Final = Table(
    "t_schema_version",
    {
        "f_version": INT,
        "f_name": text(100),
        "f_apply_time": TIME,
    },
    key=("f_version",),
)
"""A migration step that was done."""

TABLES: Final[tuple[Table, ...]] = (
    JOB,
    TASK,
    TASK_COUNT,
    ENGINE,
    TABLE,
    CONNECTOR,
    SCHEDULED_JOB,
    SCHEDULED_SITE,
    SCHEDULED_TASK,
    SCHEDULED_PARTY_TASK,
    SUBMIT_KEY,
    OUTBOX,
    RECEIVED,
    LEASE,
    METRIC,
    OUTPUT,
    SUMMARY,
    MODEL_SHARE,
    PERMISSION,
    SITE_KEY,
    SERVER,
    SERVICE,
    MODEL_VERSION,
    MODEL_COMPONENT,
    MODEL_CHECKPOINT,
    TAG,
    MODEL_TAG,
    CACHE,
    JOB_EVENT,
    INSTANCE,
    JOB_TAG,
    ACCOUNT,
    ACCOUNT_SESSION,
)
"""What a new database has, beside the version of its schema."""
