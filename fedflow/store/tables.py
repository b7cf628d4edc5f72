"""Every table and column of the store, as peewee models.

Names and keys are FATE's where FATE has the column (`docs/reference/jobs.md#stored-columns`); the
others are ours and begin with `f_` too. Differences from FATE: one table for all days, party ids up
to 64 characters, JSON instead of pickles, no `_date` twins of the `_time` columns. All `_time`
columns are milliseconds since the epoch. The models say what the newest schema is; the steps in
`migrations/` make it, and a test compares the two. A row leaves this package only as a frozen
value.
"""

from __future__ import annotations

from typing import ClassVar, Final

from peewee import (
    BigIntegerField,
    CharField,
    CompositeKey,
    DoubleField,
    IntegerField,
    Model,
    SmallIntegerField,
    TextField,
)


class Row(Model):
    """A model; `numbered` is the column, if any, that the database counts up itself."""

    numbered: ClassVar[str | None] = None

    class Meta:
        legacy_table_names = False


class JobRow(Row):
    """One site's share of a job."""

    f_job_id = CharField(max_length=64)
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_initiator_role = CharField(max_length=16)
    f_initiator_party_id = CharField(max_length=64)
    f_is_initiator = SmallIntegerField()
    f_status = CharField(max_length=16)
    f_epoch = IntegerField()
    f_dsl = TextField()
    f_runtime_conf = TextField()
    f_roles = TextField()
    f_cores = IntegerField()
    f_memory = BigIntegerField()  #: MiB
    f_resource_in_use = SmallIntegerField()
    f_queue_time = BigIntegerField()  #: when it began to wait here
    f_denied_time = BigIntegerField(null=True)  #: when it last asked for cores in vain
    f_engine_name = CharField(max_length=50, null=True)
    f_apply_resource_time = BigIntegerField(null=True)
    f_return_resource_time = BigIntegerField(null=True)
    f_reason = TextField(null=True)
    f_progress = IntegerField()
    f_description = TextField()
    f_user_id = CharField(max_length=255)
    f_tag = CharField(max_length=255)
    f_warnings = TextField()
    f_job_parameters = TextField(null=True)
    f_train_runtime_conf = TextField(null=True)
    f_partners = TextField(null=True)  #: ids of the other parties, between commas
    f_partners_short = CharField(max_length=150, null=True)  #: the same, null if it is longer
    f_description_short = CharField(max_length=150, null=True)  #: null if it is longer
    f_start_time = BigIntegerField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_elapsed = BigIntegerField(null=True)
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_job"
        primary_key = CompositeKey("f_job_id", "f_role", "f_party_id")


class TaskRow(Row):
    """One site's share of one attempt of a task."""

    numbered = "f_number"

    f_number = BigIntegerField()  #: the order in which attempts were added
    f_job_id = CharField(max_length=64)
    f_task_id = CharField(max_length=200)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_component_module = CharField(max_length=200)
    f_initiator_role = CharField(max_length=16)
    f_initiator_party_id = CharField(max_length=64)
    f_status = CharField(max_length=16)
    f_party_status = CharField(max_length=16)
    f_component_parameters = TextField()
    f_reason = TextField(null=True)
    f_worker_id = CharField(max_length=100, null=True)
    f_token = CharField(max_length=100, null=True)
    f_request_time = BigIntegerField(null=True)
    f_run_pid = BigIntegerField(null=True)
    f_run_pid_start = BigIntegerField(null=True)
    f_run_ip = CharField(max_length=255, null=True)
    f_progress = DoubleField()
    f_error_report = TextField()
    f_auto_retries = IntegerField()
    f_auto_retry_delay = IntegerField()
    f_inherited_from = CharField(max_length=64)
    f_absent = TextField(null=True)  #: upstream components without outputs
    f_instance_id = CharField(max_length=64)  #: the server that runs it, empty before its start
    f_latest = SmallIntegerField()  #: 1 unless there is a newer attempt
    f_start_time = BigIntegerField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_elapsed = BigIntegerField(null=True)
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_task"
        primary_key = CompositeKey(
            "f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"
        )


class TaskCountRow(Row):
    """How many tasks, whatever the number of their attempts, a job has at a site."""

    f_job_id = CharField(max_length=64)
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_count = BigIntegerField()

    class Meta:
        table_name = "t_task_count"
        primary_key = CompositeKey("f_job_id", "f_role", "f_party_id")


class EngineRow(Row):
    """A computing engine and its free cores."""

    f_engine_name = CharField(max_length=50)
    f_engine_type = CharField(max_length=10)
    f_cores = IntegerField()
    f_remaining_cores = IntegerField()
    f_memory = BigIntegerField()  #: MiB; 0: not counted
    f_remaining_memory = BigIntegerField()
    f_cores_percent = DoubleField()  #: share of the cores that one job may hold
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_engine_registry"
        primary_key = CompositeKey("f_engine_name", "f_engine_type")


class TableRow(Row):
    """A data set of this party."""

    f_name = CharField(max_length=100)
    f_namespace = CharField(max_length=100)
    f_address = CharField(max_length=255)
    f_schema = TextField()
    f_count = BigIntegerField()
    f_partitions = IntegerField()
    f_origin = CharField(max_length=50)
    f_part_of_data = TextField()
    f_id_delimiter = CharField(max_length=16)
    f_have_head = SmallIntegerField()
    f_extend_sid = SmallIntegerField()
    f_create_time = BigIntegerField()
    f_engine = CharField(max_length=100)
    f_source = TextField(null=True)
    f_disable = SmallIntegerField()
    f_extra = TextField(null=True)
    f_storage = TextField(null=True)

    class Meta:
        table_name = "t_storage_table_meta"
        primary_key = CompositeKey("f_name", "f_namespace")


class ConnectorRow(Row):
    """How to reach another storage."""

    f_name = CharField(max_length=100, primary_key=True)
    f_engine = CharField(max_length=100)
    f_connector_info = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_storage_connector"


class ScheduledJobRow(Row):
    """A job that this server initiated."""

    f_job_id = CharField(max_length=64, primary_key=True)
    f_initiator_role = CharField(max_length=16)
    f_initiator_party_id = CharField(max_length=64)
    f_status = CharField(max_length=16)
    f_epoch = IntegerField()
    f_dsl = TextField()
    f_runtime_conf = TextField()
    f_priority = IntegerField()
    f_need_cores = IntegerField()  #: of this server's own machine
    f_need_memory = BigIntegerField()  #: MiB
    f_need_spark = IntegerField()  #: cores of its Spark cluster
    f_queue_time = BigIntegerField()  #: since when it waits
    f_ask_time = BigIntegerField()  #: it was denied, and asks again then
    f_look_time = BigIntegerField()  #: while it waits: when to look at it whatever happens
    f_deadline_time = BigIntegerField()  #: when its timeout passes
    f_stop = TextField(null=True)
    f_reason = TextField(null=True)
    f_rerun_time = BigIntegerField(null=True)
    f_control = TextField(null=True)  #: pauses and steps of this epoch, see `domain/control.py`
    f_held_time = BigIntegerField(null=True)  #: since when it is held
    f_start_time = BigIntegerField(null=True)
    f_end_time = BigIntegerField(null=True)
    f_elapsed = BigIntegerField(null=True)
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_schedule_job"


class ScheduledSiteRow(Row):
    """How far a job has come at one of its sites."""

    f_job_id = CharField(max_length=64)
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_position = IntegerField()
    f_phase = CharField(max_length=16)
    f_retry_time = BigIntegerField()
    f_denials = IntegerField()
    f_open = SmallIntegerField()  #: 1 until the job has ended
    f_reason = TextField(null=True)

    class Meta:
        table_name = "t_schedule_site"
        primary_key = CompositeKey("f_job_id", "f_role", "f_party_id")


class ScheduledTaskRow(Row):
    """One attempt of a task, all sites."""

    f_job_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_task_version = BigIntegerField()
    f_position = IntegerField()
    f_status = CharField(max_length=16)
    f_epoch = IntegerField()
    f_retries = IntegerField()
    f_infrastructure_retries = IntegerField()
    f_cache_key = CharField(max_length=64, null=True)  #: see `domain/reuse.py`
    f_inherited_from = CharField(max_length=64)
    f_reason = TextField(null=True)
    f_start_time = BigIntegerField(null=True)
    f_end_time = BigIntegerField(null=True)

    class Meta:
        table_name = "t_schedule_task"
        primary_key = CompositeKey("f_job_id", "f_component_name", "f_task_version")


class ScheduledPartyTaskRow(Row):
    """One site's share of an attempt, as reported to the initiator."""

    f_job_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_position = IntegerField()
    f_party_status = CharField(max_length=16)
    f_reason = TextField(null=True)
    f_since_time = BigIntegerField()
    f_progress = DoubleField()

    class Meta:
        table_name = "t_schedule_party_task"
        primary_key = CompositeKey(
            "f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id"
        )


class SubmitKeyRow(Row):
    """An idempotency key that a submit gave, and the job that it stands for."""

    f_key = CharField(max_length=255, primary_key=True)
    f_digest = CharField(max_length=64)
    f_job_id = CharField(max_length=64)
    f_warnings = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_submit_key"


class OutboxRow(Row):
    """A command that must arrive at another site."""

    numbered = "f_id"

    f_id = BigIntegerField(primary_key=True)
    f_kind = CharField(max_length=32)
    f_job_id = CharField(max_length=64)
    f_source_role = CharField(max_length=16)
    f_source_party_id = CharField(max_length=64)
    f_destination_role = CharField(max_length=16)
    f_destination_party_id = CharField(max_length=64)
    f_path = TextField()
    f_body = TextField()
    f_request_id = CharField(max_length=128)
    f_create_time = BigIntegerField()
    f_deadline_time = BigIntegerField()
    f_attempts = IntegerField()
    f_due_time = BigIntegerField()
    f_error = TextField()

    class Meta:
        table_name = "t_outbox"


class ReceivedRow(Row):
    """The reply to a request that was carried out."""

    f_request_id = CharField(max_length=128, primary_key=True)
    f_retcode = IntegerField()
    f_retmsg = TextField()
    f_data = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_received_request"


class LeaseRow(Row):
    """A claim with an end. A new owner is a new row, so its token is greater than all before."""

    numbered = "f_token"

    f_token = BigIntegerField()
    f_name = CharField(max_length=200, primary_key=True)
    f_owner = CharField(max_length=200)
    f_expire_time = BigIntegerField()

    class Meta:
        table_name = "t_lease"


class MetricRow(Row):
    """A point (`f_type` 1) or the meta (`f_type` 0) of a metric."""

    numbered = "f_id"

    f_id = BigIntegerField(primary_key=True)
    f_job_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_task_id = CharField(max_length=200)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_metric_namespace = CharField(max_length=180)
    f_metric_name = CharField(max_length=180)
    f_key = TextField()
    f_value = TextField()
    f_type = SmallIntegerField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_tracking_metric"


class OutputRow(Row):
    """Which table an attempt produced under an output name."""

    f_job_id = CharField(max_length=64)
    f_task_id = CharField(max_length=200)
    f_task_version = BigIntegerField()
    f_data_name = CharField(max_length=100)
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_position = IntegerField()
    f_table_name = CharField(max_length=500)
    f_table_namespace = CharField(max_length=500)
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_tracking_output_data_info"
        primary_key = CompositeKey(
            "f_job_id", "f_task_id", "f_task_version", "f_data_name", "f_role", "f_party_id"
        )


class SummaryRow(Row):
    """The summary that an attempt told."""

    f_job_id = CharField(max_length=64)
    f_task_id = CharField(max_length=200)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_summary = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_component_summary"
        primary_key = CompositeKey(
            "f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"
        )


class ModelShareRow(Row):
    """The share of a model that an attempt trained at one site."""

    f_job_id = CharField(max_length=64)
    f_task_id = CharField(max_length=200)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_model_alias = CharField(max_length=100)
    f_meta_name = CharField(max_length=200)
    f_param_name = CharField(max_length=200)
    f_meta = TextField()
    f_param = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_model_share"
        primary_key = CompositeKey(
            "f_job_id", "f_task_id", "f_task_version", "f_role", "f_party_id"
        )


class PermissionRow(Row):
    """One thing that another party may use here."""

    f_party_id = CharField(max_length=64)
    f_role = CharField(max_length=16)
    f_kind = CharField(max_length=16)
    f_name = CharField(max_length=200)
    f_namespace = CharField(max_length=200)
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_permission"
        primary_key = CompositeKey("f_party_id", "f_role", "f_kind", "f_name", "f_namespace")


class SiteKeyRow(Row):
    """A public key of another party."""

    f_party_id = CharField(max_length=64)
    f_key_name = CharField(max_length=10)
    f_key = TextField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_site_key_info"
        primary_key = CompositeKey("f_party_id", "f_key_name")


class ServerRow(Row):
    """Where another program of this party listens."""

    f_server_name = CharField(max_length=30, primary_key=True)
    f_host = CharField(max_length=255)
    f_port = IntegerField()
    f_protocol = CharField(max_length=10)
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_server_registry_info"


class ServiceRow(Row):
    """One address of a server and how it is called."""

    f_server_name = CharField(max_length=30)
    f_service_name = CharField(max_length=100)
    f_url = CharField(max_length=2000)
    f_method = CharField(max_length=10)
    f_params = TextField()
    f_data = TextField()
    f_headers = TextField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_service_registry_info"
        primary_key = CompositeKey("f_server_name", "f_service_name")


class ModelVersionRow(Row):
    """One site's share of a version of a model; `f_size` in bytes (FATE: KiB)."""

    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_model_id = CharField(max_length=512)
    f_model_version = CharField(max_length=64)
    f_job_id = CharField(max_length=64)
    f_roles = TextField()
    f_initiator_role = CharField(max_length=16)
    f_initiator_party_id = CharField(max_length=64)
    f_train_dsl = TextField()
    f_train_runtime_conf = TextField()
    f_runtime_conf_on_party = TextField()
    f_inference_dsl = TextField()
    f_fate_version = CharField(max_length=32)
    f_parent = SmallIntegerField()
    f_parent_info = TextField()
    f_size = BigIntegerField()
    f_loaded_times = IntegerField()
    f_imported = SmallIntegerField()
    f_archive_sha256 = CharField(max_length=100, null=True)
    f_archive_from_ip = CharField(max_length=100, null=True)
    f_ready = SmallIntegerField()
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_machine_learning_model_info"
        primary_key = CompositeKey("f_role", "f_party_id", "f_model_id", "f_model_version")


class ModelComponentRow(Row):
    """The model of one component: names and digests of its two objects."""

    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_model_id = CharField(max_length=512)
    f_model_version = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_component_module_name = CharField(max_length=200)
    f_model_alias = CharField(max_length=100)
    f_meta_name = CharField(max_length=200)
    f_meta_sha256 = CharField(max_length=64)
    f_meta_sha1 = CharField(max_length=40)
    f_meta_size = BigIntegerField()
    f_param_name = CharField(max_length=200)
    f_param_sha256 = CharField(max_length=64)
    f_param_sha1 = CharField(max_length=40)
    f_param_size = BigIntegerField()
    f_run_parameters = TextField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_pipeline_component_meta"
        primary_key = CompositeKey(
            "f_role", "f_party_id", "f_model_id", "f_model_version", "f_component_name"
        )


class ModelCheckpointRow(Row):
    """The model of one component as it was after a step of its training."""

    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_model_id = CharField(max_length=512)
    f_model_version = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_step_index = IntegerField()
    f_step_name = CharField(max_length=100)
    f_task_version = BigIntegerField()
    f_model_alias = CharField(max_length=100)
    f_meta_name = CharField(max_length=200)
    f_meta_sha256 = CharField(max_length=64)
    f_meta_sha1 = CharField(max_length=40)
    f_meta_size = BigIntegerField()
    f_param_name = CharField(max_length=200)
    f_param_sha256 = CharField(max_length=64)
    f_param_sha1 = CharField(max_length=40)
    f_param_size = BigIntegerField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_model_checkpoint"
        primary_key = CompositeKey(
            "f_role", "f_party_id", "f_model_id", "f_model_version", "f_component_name",
            "f_step_index",
        )  # fmt: skip


class TagRow(Row):
    """A name for versions of models."""

    numbered = "f_id"

    f_id = BigIntegerField()
    f_name = CharField(max_length=100)
    f_desc = TextField()
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_tags"
        primary_key = CompositeKey("f_name")


class ModelTagRow(Row):
    """A version that has a tag."""

    numbered = "f_id"

    f_id = BigIntegerField()
    f_m_id = CharField(max_length=64)  #: the model version
    f_t_id = BigIntegerField()
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_model_tag"
        primary_key = CompositeKey("f_m_id", "f_t_id")


class CacheRow(Row):
    """What an attempt keeps for later jobs."""

    f_cache_key = CharField(max_length=64)
    f_job_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_task_version = BigIntegerField()
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_cache_name = CharField(max_length=100)
    f_tables = TextField()
    f_meta = TextField()
    f_private = TextField()
    f_same_as = CharField(max_length=64, null=True)
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_cache_record"
        primary_key = CompositeKey(
            "f_job_id", "f_component_name", "f_task_version", "f_role", "f_party_id",
            "f_cache_name",
        )  # fmt: skip


class InstanceRow(Row):
    """One server of this party; its times are the database's."""

    f_instance_id = CharField(max_length=64, primary_key=True)
    f_host = CharField(max_length=255)
    f_http_address = CharField(max_length=300)
    f_grpc_address = CharField(max_length=300)
    f_version = CharField(max_length=32)
    f_shared_mark = CharField(max_length=64)
    f_secret = CharField(max_length=64)
    f_state = CharField(max_length=16)
    f_start_time = BigIntegerField()
    f_beat_time = BigIntegerField()

    class Meta:
        table_name = "t_server_instance"


class AccountRow(Row):
    """Somebody who may sign in to the board."""

    f_name = CharField(max_length=64, primary_key=True)
    f_role = CharField(max_length=16)
    f_password = CharField(max_length=255)  #: a hash
    f_create_time = BigIntegerField()
    f_update_time = BigIntegerField()

    class Meta:
        table_name = "t_account"


class AccountSessionRow(Row):
    """A browser that somebody signed in with."""

    f_digest = CharField(max_length=64, primary_key=True)  #: of its token
    f_name = CharField(max_length=64)
    f_address = CharField(max_length=64)
    f_create_time = BigIntegerField()
    f_seen_time = BigIntegerField()

    class Meta:
        table_name = "t_account_session"


class JobEventRow(Row):
    """Something that happened to a job; see `domain/history.py`."""

    numbered = "f_number"

    f_number = BigIntegerField(primary_key=True)
    f_job_id = CharField(max_length=64)
    f_time = BigIntegerField()
    f_epoch = IntegerField(null=True)  #: only where one begins
    f_subject = CharField(max_length=16)
    f_role = CharField(max_length=16)
    f_party_id = CharField(max_length=64)
    f_component_name = CharField(max_length=100)
    f_task_version = BigIntegerField(null=True)
    f_from = CharField(max_length=16)
    f_to = CharField(max_length=16)
    f_reason = TextField(null=True)

    class Meta:
        table_name = "t_job_event"


class JobTagRow(Row):
    """A word that people gave to a job."""

    f_job_id = CharField(max_length=64)
    f_name = CharField(max_length=50)
    f_create_time = BigIntegerField()

    class Meta:
        table_name = "t_job_tag"
        primary_key = CompositeKey("f_job_id", "f_name")


class SchemaVersionRow(Row):
    """A migration step that was done."""

    f_version = IntegerField(primary_key=True)
    f_name = CharField(max_length=100)
    f_apply_time = BigIntegerField()

    class Meta:
        table_name = "t_schema_version"


MODELS: Final[tuple[type[Row], ...]] = (
    JobRow,
    TaskRow,
    TaskCountRow,
    EngineRow,
    TableRow,
    ConnectorRow,
    ScheduledJobRow,
    ScheduledSiteRow,
    ScheduledTaskRow,
    ScheduledPartyTaskRow,
    SubmitKeyRow,
    OutboxRow,
    ReceivedRow,
    LeaseRow,
    MetricRow,
    OutputRow,
    SummaryRow,
    ModelShareRow,
    PermissionRow,
    SiteKeyRow,
    ServerRow,
    ServiceRow,
    ModelVersionRow,
    ModelComponentRow,
    ModelCheckpointRow,
    TagRow,
    ModelTagRow,
    CacheRow,
    JobEventRow,
    InstanceRow,
    JobTagRow,
    AccountRow,
    AccountSessionRow,
    SchemaVersionRow,
)


def table_name(model: type[Row]) -> str:
    """Return the name of a model's table."""
    return str(model._meta.table_name)


def written_columns(model: type[Row]) -> tuple[str, ...]:
    """Return the columns that an insert must name: all but the one that the database counts up."""
    return tuple(str(f) for f in model._meta.sorted_field_names if f != model.numbered)
