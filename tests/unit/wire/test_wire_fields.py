"""Records as FATE's clients read them."""

from __future__ import annotations

from dataclasses import replace

from msgspec import to_builtins

from fedflow.base.ids import PartyId
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Handle,
    JobKey,
    JobRecord,
    Metric,
    TableRecord,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.wire import fields, tracking_fields
from fedflow.wire.api.job_lists import JobQueryRow, TaskQueryRow
from fedflow.wire.api.tables import NoTable
from fedflow.wire.envelope import encode
from fedflow.wire.json_text import decode_json

GUEST = Site(Role.GUEST, PartyId("9999"))
JOB = JobRecord(
    key=JobKey(job_id="202611201000000000000", site=GUEST),
    initiator=GUEST,
    status=JobStatus.RUNNING,
    epoch=0,
    dsl={"components": {}},
    conf={"dsl_version": 2, "job_parameters": {"common": {"task_cores": 2}}},
    roles={"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10000"]},
    cores=4,
    created_ms=1795168800000,
    updated_ms=1795168805000,
    in_use=True,
    progress=50,
    started_ms=1795168801000,
)
TASK = TaskRecord(
    key=TaskKey(job_id=JOB.key.job_id, component="lr_0", version=1, site=GUEST),
    module="HeteroLR",
    initiator=GUEST,
    status=TaskStatus.RUNNING,
    party_status=TaskStatus.FAILED,
    parameters={"max_iter": 3},
    created_ms=1,
    updated_ms=2,
    token="secret-token",
    handle=Handle(pid=4242, start_time=7, host="127.0.0.1"),
    started_ms=1_000,
    ended_ms=3_500,
    reason=Reason(code="BadData", message="no label", site=GUEST),
)
JOB_COLUMNS = (
    "job_id", "name", "description", "tag", "user_id", "user", "dsl", "runtime_conf",
    "runtime_conf_on_party", "train_runtime_conf", "roles", "initiator_role",
    "initiator_party_id", "role", "party_id", "is_initiator", "status", "status_code", "progress",
    "ready_signal", "ready_time", "cancel_signal", "cancel_time", "rerun_signal",
    "end_scheduling_updates", "engine_name", "engine_type", "cores", "memory", "remaining_cores",
    "remaining_memory", "resource_in_use", "apply_resource_time", "return_resource_time",
    "inheritance_info", "inheritance_status", "create_time", "create_date", "update_time",
    "update_date", "start_time", "start_date", "end_time", "end_date", "elapsed",
)  # fmt: skip
TASK_COLUMNS = (
    "job_id", "component_name", "component_module", "task_id", "task_version", "initiator_role",
    "initiator_party_id", "federated_mode", "federated_status_collect_type", "status",
    "party_status", "status_code", "auto_retries", "auto_retry_delay", "role", "party_id",
    "run_on_this_party", "worker_id", "cmd", "run_ip", "run_port", "run_pid", "provider_info",
    "component_parameters", "engine_conf", "kill_status", "error_report", "is_deepspeed",
    "deepspeed_id", "create_time", "start_time", "end_time", "elapsed",
)  # fmt: skip


def test_a_job_has_all_of_fates_columns() -> None:
    assert {f"f_{name}" for name in JOB_COLUMNS} <= set(
        to_builtins(fields.job_row(JOB, JobQueryRow))
    )


def test_a_task_has_all_of_fates_columns() -> None:
    assert {f"f_{name}" for name in TASK_COLUMNS} <= set(
        to_builtins(fields.task_row(TASK, TaskQueryRow))
    )


def test_a_ready_job_is_shown_as_waiting() -> None:
    assert fields.job_row(replace(JOB, status=JobStatus.READY), JobQueryRow).status == "waiting"


def test_party_ids_are_text_in_the_record_and_numbers_in_the_roles() -> None:
    row = fields.job_row(JOB, JobQueryRow)
    assert row.party_id == "9999"
    assert row.roles == {"guest": [9999], "host": [10000, 10001], "arbiter": [10000]}


def test_a_listed_job_has_no_prefix_and_its_partners() -> None:
    row = decode_json(encode(fields.listed_job(JOB)))
    assert row["party_id"] == 9999
    assert row["partners"] == [10000, 10001]
    assert not any(name.startswith("f_") for name in row)


def test_a_running_job_has_no_end() -> None:
    row = fields.job_row(JOB, JobQueryRow)
    assert (row.end_time, row.end_date, row.elapsed) == (None, None, None)


def test_elapsed_is_in_milliseconds() -> None:
    assert fields.task_row(TASK, TaskQueryRow).elapsed == 2_500


def test_a_task_never_shows_its_token() -> None:
    assert b"secret-token" not in encode(fields.task_row(TASK, TaskQueryRow))


def test_a_failed_task_says_why() -> None:
    row = fields.task_row(TASK, TaskQueryRow)
    assert row.error_report == "no label"
    assert row.reason is not None
    assert row.reason.code == "BadData"


def test_a_local_job_is_in_single_mode() -> None:
    local = replace(TASK, key=replace(TASK.key, site=Site(Role.LOCAL, PartyId("0"))))
    assert fields.task_row(local, TaskQueryRow).federated_mode == "SINGLE"


def table(**changes: object) -> TableRecord:
    values: dict[str, object] = {
        "namespace": "exp",
        "name": "g",
        "address": "ab" * 16,
        "schema": {"kind": "raw", "id": "id", "columns": ["y", "x0"]},
        "count": 2,
        "partitions": 4,
        "origin": "upload",
        "created_ms": 1,
    }
    return TableRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_a_tables_schema_is_shown_in_fates_words() -> None:
    assert fields.table_schema_row(table()) == {"header": "y,x0", "sid": "id"}
    assert fields.table_schema_row(table(have_head=False)) == {"header": "", "sid": ""}


def test_an_instances_table_names_its_label() -> None:
    schema = {"kind": "instances", "id": "id", "label": "y", "columns": ["x0"]}
    assert fields.table_schema_row(table(schema=schema))["label_name"] == "y"
    assert fields.table_columns(table(schema=schema)) == ["id", "y", "x0"]


def test_anonymous_names_are_shown_once_all_are_known() -> None:
    schema = {"kind": "instances", "id": "id", "columns": ["x0"], "anonymous": ["host_1_x0"]}
    assert fields.table_schema_row(table(schema=schema))["anonymous_header"] == ["host_1_x0"]
    raw = {"kind": "raw", "id": "id", "columns": ["a", "p"], "anonymous": ["", "host_1_exp_0"]}
    assert "anonymous_header" not in fields.table_schema_row(table(schema=raw))


def test_an_unknown_table_has_exist_0() -> None:
    row = NoTable(namespace="exp", name="g")
    assert decode_json(encode(row)) == {
        "table_name": "g",
        "namespace": "exp",
        "exist": 0,
        "count": 0,
    }


def test_metric_points_are_sorted_by_key_if_that_makes_sense() -> None:
    assert tracking_fields.metric_points(
        Metric(namespace="n", name="m", points=((2, 1), (1, 5)))
    ) == (
        (1, 5),
        (2, 1),
    )
    mixed = Metric(namespace="n", name="m", points=(("b", 1), (1, 5)))
    assert tracking_fields.metric_points(mixed) == (("b", 1), (1, 5))
