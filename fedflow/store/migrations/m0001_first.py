"""Step 1: all tables of the first schema."""

from __future__ import annotations

from fedflow.store.schema import (
    BIG,
    FLAG,
    FLOAT,
    INT,
    LONG,
    LONG_NULL,
    TIME,
    TIME_NULL,
    Schema,
    text,
    text_null,
)


def up(schema: Schema) -> None:
    """Make the tables."""
    _party_half(schema)
    _schedule_half(schema)
    _between_parties(schema)
    _tracking(schema)


def _party_half(schema: Schema) -> None:
    schema.table(
        "t_job",
        {
            "f_job_id": text(64),
            "f_role": text(16),
            "f_party_id": text(64),
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
            "f_elapsed": TIME_NULL,
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=("f_job_id", "f_role", "f_party_id"),
        indexes=(
            ("f_create_time", "f_job_id"),
            ("f_status", "f_create_time"),
            ("f_resource_in_use",),
        ),
    )
    schema.table(
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
            "f_run_pid": "BIGINT NULL",
            "f_run_pid_start": "BIGINT NULL",
            "f_run_ip": text_null(255),
            "f_progress": FLOAT,
            "f_error_report": LONG,
            "f_start_time": TIME_NULL,
            "f_end_time": TIME_NULL,
            "f_elapsed": TIME_NULL,
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"),
        numbered="f_number",
        indexes=(("f_run_pid",), ("f_party_status", "f_request_time"), ("f_status",)),
    )
    schema.table(
        "t_engine_registry",
        {
            "f_engine_name": text(50),
            "f_engine_type": text(10),
            "f_cores": INT,
            "f_remaining_cores": INT,
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=("f_engine_name", "f_engine_type"),
    )
    schema.table(
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
        },
        key=("f_name", "f_namespace"),
        indexes=(("f_namespace", "f_create_time"), ("f_create_time",)),
    )


def _schedule_half(schema: Schema) -> None:
    schema.table(
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
            "f_elapsed": TIME_NULL,
            "f_create_time": TIME,
            "f_update_time": TIME,
        },
        key=("f_job_id",),
        indexes=(("f_status", "f_create_time"),),
    )
    schema.table(
        "t_schedule_site",
        {
            "f_job_id": text(64),
            "f_role": text(16),
            "f_party_id": text(64),
            "f_position": INT,
            "f_phase": text(16),
            "f_retry_time": TIME,
            "f_denials": INT,
            "f_reason": LONG_NULL,
        },
        key=("f_job_id", "f_role", "f_party_id"),
        clustered=True,
    )
    schema.table(
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
        },
        key=("f_job_id", "f_component_name", "f_task_version"),
        clustered=True,
    )
    schema.table(
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


def _between_parties(schema: Schema) -> None:
    schema.table(
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
            ("f_destination_party_id", "f_id"),
            ("f_destination_party_id", "f_job_id", "f_id"),
        ),
    )
    schema.table(
        "t_received_request",
        {
            "f_request_id": text(128),
            "f_retcode": INT,
            "f_retmsg": LONG,
            "f_data": LONG,
            "f_create_time": TIME,
        },
        key=("f_request_id",),
        indexes=(("f_create_time",),),
    )
    schema.table(
        "t_lease",
        {"f_name": text(200), "f_owner": text(200), "f_expire_time": TIME},
        key=("f_name",),
        numbered="f_token",
    )


def _tracking(schema: Schema) -> None:
    attempt = {
        "f_job_id": text(64),
        "f_task_id": text(200),
        "f_task_version": BIG,
        "f_role": text(16),
        "f_party_id": text(64),
        "f_component_name": text(100),
        "f_create_time": TIME,
    }
    key = ("f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id")
    schema.table(
        "t_tracking_metric",
        {
            **attempt,
            "f_metric_namespace": text(180),
            "f_metric_name": text(180),
            "f_key": LONG,
            "f_value": LONG,
            "f_type": FLAG,
        },
        key=("f_id",),
        numbered="f_id",
        indexes=((*key, "f_type"),),
    )
    schema.table(
        "t_tracking_output_data_info",
        {
            **attempt,
            "f_data_name": text(100),
            "f_position": INT,
            "f_table_name": text(500),
            "f_table_namespace": text(500),
        },
        key=("f_job_id", "f_task_id", "f_task_version", "f_data_name", "f_role", "f_party_id"),
    )
    schema.table("t_component_summary", {**attempt, "f_summary": LONG}, key=key)
    schema.table(
        "t_model_share",
        {
            **attempt,
            "f_model_alias": text(100),
            "f_meta_name": text(200),
            "f_param_name": text(200),
            "f_meta": LONG,
            "f_param": LONG,
        },
        key=key,
    )
