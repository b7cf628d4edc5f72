"""Every table, column and index of the store.

Names and keys are FATE's where FATE has the column (`docs/reference/jobs.md#stored-columns`); the
others are ours and begin with `f_` too. Differences from FATE: one table for all days, party ids up
to 64 characters, JSON instead of pickles, no `_date` twins of the `_time` columns. Declared is the
newest schema: a new database gets all of it, an older one gets there by the steps in `migrate`.

Those of jobs are in `job_tables`; `table` says what a table is.
"""

from __future__ import annotations

from typing import Final

from fedflow.store.job_tables import (
    CACHE,
    JOB,
    JOB_EVENT,
    JOB_TAG,
    METRIC,
    MODEL_SHARE,
    OUTPUT,
    SCHEDULED_JOB,
    SCHEDULED_PARTY_TASK,
    SCHEDULED_SITE,
    SCHEDULED_TASK,
    SUBMIT_KEY,
    SUMMARY,
    TASK,
    TASK_COUNT,
)
from fedflow.store.table import (
    BIG,
    BIG_0,
    FLAG,
    FLAG_0,
    INT,
    LONG,
    LONG_NULL,
    TIME,
    Table,
    text,
    text_null,
)

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
        "f_model_id, f_role, f_party_id, f_create_time, f_model_version",
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

MODEL_COMMIT: Final = Table(
    "t_model_commit",
    {
        **_MODEL,
        "f_change_id": text(64),
        "f_message": LONG,
        "f_author": text(64),  #: a party id
        "f_person": text(64),
        "f_approval": text(200),
        "f_shares": LONG,
        "f_made_with": LONG,
        "f_create_time": TIME,
    },
    key=("f_role", "f_party_id", "f_model_id", "f_model_version"),
)
"""What was said of a version, beyond what other rows say."""

MODEL_BRANCH: Final = Table(
    "t_model_branch",
    {
        "f_role": text(16),
        "f_party_id": text(64),
        "f_model_id": text(512),
        "f_branch": text(64),
        "f_number": INT,
        "f_change_id": text(64),
        "f_kind": text(16),
        "f_model_version": text(64),
        "f_author": text(64),  #: a party id
        "f_person": text(64),
        "f_message": LONG,
        "f_create_time": TIME,
    },
    key=("f_role", "f_party_id", "f_model_id", "f_branch", "f_number"),
)
"""One move of a branch of a model; the last one says what it names."""

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

RENDEZVOUS: Final = Table(
    "t_rendezvous",
    {
        "f_scope": text(80),
        "f_run_id": text(128),
        "f_caller": text(80),
        "f_token": text(32),
        "f_state": LONG,
        "f_create_time": TIME,
        "f_update_time": TIME,
    },
    key=("f_scope", "f_run_id"),
)
"""The state of a rendezvous, as its members wrote it; see `domain/administration/rendezvous.py`."""

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
    MODEL_COMMIT,
    MODEL_BRANCH,
    CACHE,
    JOB_EVENT,
    INSTANCE,
    JOB_TAG,
    ACCOUNT,
    ACCOUNT_SESSION,
    RENDEZVOUS,
)
"""What a new database has, beside the version of its schema."""
