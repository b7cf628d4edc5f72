"""Stored values as FATE shows them: JOB and TASK records, tables, uploads, connectors.

Source: `docs/reference/rest.md#records` and `docs/reference/rest.md#tables`. Two facts of FATE's
clients are kept here:
a job that is `ready` is shown as `waiting` (the SDK raises on any other word), and party ids are
text in `f_party_id` but numbers in `f_roles`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from fedflow import __version__
from fedflow.domain.data.storages import bound_from_json, is_bound, shown_address
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.job.providers import provider_of_module
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    JOB_END,
    ColumnFacts,
    Connector,
    JobRecord,
    OutputTable,
    TableRecord,
    TaskRecord,
)
from fedflow.domain.site import Role
from fedflow.domain.states import JOB_FINAL, TASK_SEVERITY, JobStatus
from fedflow.wire.api import job_lists, tables
from fedflow.wire.api.job_lists import JobQueryRow, JobRow, ReasonRow, TaskQueryRow, TaskRow
from fedflow.wire.api.tables import (
    ListedTable,
    ProducedBy,
    TableColumn,
    TableInfo,
    Upload,
    UploadInfo,
)

Row = dict[str, Any]
J = TypeVar("J", bound=JobQueryRow)
T = TypeVar("T", bound=TaskQueryRow)


# --- jobs ----------------------------------------------------------------------------------------


def job_row(job: JobRecord, kind: type[J]) -> J:
    """Return a job as FATE's JOB record, or as a list shows it."""
    site, started, ended = job.key.site, job.started_ms, job.ended_ms
    inherited = job.parameters.get("inheritance_info") or {}
    return kind(
        job_id=job.key.job_id,
        name=job.name,
        description=job.description,
        tag=job.tag or (JOB_END if job.status in JOB_FINAL else ""),
        user_id=job.user,
        user={site.role.value: {site.party_id: job.user}},
        dsl=job.dsl,
        runtime_conf=seen_conf(job, job.conf),
        runtime_conf_on_party=_conf_on_party(job),
        train_runtime_conf=seen_conf(job, job.train_conf),
        roles=roles_as_numbers(job.roles),
        initiator_role=job.initiator.role.value,
        initiator_party_id=job.initiator.party_id,
        role=site.role.value,
        party_id=site.party_id,
        is_initiator=job.is_initiator,
        status=job_status_word(job.status),
        progress=job.progress,
        cancel_signal=job.status is JobStatus.CANCELED,
        cancel_time=job.ended_ms if job.status is JobStatus.CANCELED else None,
        rerun_signal=job.epoch > 0 and job.status is JobStatus.WAITING,
        engine_name=job.engine,
        cores=job.cores,
        memory=job.memory,
        remaining_cores=job.cores if job.in_use else 0,
        remaining_memory=job.memory if job.in_use else 0,
        resource_in_use=job.in_use,
        apply_resource_time=job.applied_ms,
        return_resource_time=job.returned_ms,
        inheritance_info=inherited,
        inheritance_status="success" if inherited else "pass",
        create_time=job.created_ms,
        create_date=date_text(job.created_ms),
        update_time=job.updated_ms,
        update_date=date_text(job.updated_ms),
        start_time=started,
        start_date=date_text(started),
        end_time=ended,
        end_date=date_text(ended),
        elapsed=_elapsed_ms(job),
        since=job.since_ms,
        deadline=job.deadline_ms,
        reason=reason_row(job.reason),
    )


def listed_job(job: JobRecord) -> JobRow:
    """Return a job as `list/job` shows it: the party id is a number, and its partners."""
    return msgspec.structs.replace(
        job_row(job, JobRow),
        party_id=party_number(job.key.site.party_id),
        figures=job.figures,
        partners=tuple(sorted((party_number(p) for p in job.partners), key=_party_order)),
    )


def job_status_word(status: JobStatus) -> str:
    """Return the status that clients understand: `ready` is shown as `waiting`."""
    return JobStatus.WAITING.value if status is JobStatus.READY else status.value


def roles_as_numbers(roles: Mapping[str, Sequence[str]]) -> dict[str, list[int | str]]:
    """Return roles with party ids as numbers, as FATE's records have them."""
    return {role: [party_number(p) for p in parties] for role, parties in roles.items()}


def party_number(party_id: str) -> int | str:
    """Return a party id as a number, or as it is if it is none."""
    return int(party_id) if party_id.isascii() and party_id.isdigit() else party_id


def seen_conf(job: JobRecord, conf: Any) -> Any:
    """Return what the site of a share may see of a conf of its job."""
    return own_conf(conf, job.key.site, job.roles, is_initiator=job.is_initiator)


def _conf_on_party(job: JobRecord) -> Row:
    """Return the runtime conf with the job parameters that count at this site."""
    parameters = job.parameters or _common_parameters(job.conf)
    conf = seen_conf(job, job.conf) if isinstance(job.conf, dict) else {}
    return {**conf, "job_parameters": parameters}


def _common_parameters(conf: Any) -> Any:
    parameters = conf.get("job_parameters") if isinstance(conf, dict) else None
    common = parameters.get("common") if isinstance(parameters, dict) else None
    return common if isinstance(common, dict) else {}


def _party_order(party: int | str) -> tuple[int, str]:
    return (party, "") if isinstance(party, int) else (0, party)


# --- tasks ---------------------------------------------------------------------------------------


def task_row(task: TaskRecord, kind: type[T]) -> T:
    """Return an attempt as FATE's TASK record, or as a list shows it. Its token stays here."""
    key, handle, started, ended = task.key, task.handle, task.started_ms, task.ended_ms
    return kind(
        job_id=key.job_id,
        component_name=key.component,
        component_module=task.module,
        task_id=key.task_id,
        task_version=key.version,
        initiator_role=task.initiator.role.value,
        initiator_party_id=task.initiator.party_id,
        federated_mode="SINGLE" if key.site.role is Role.LOCAL else "MULTIPLE",
        status=task.status.value,
        auto_retries=task.auto_retries,
        auto_retry_delay=task.auto_retry_delay_s,
        role=key.site.role.value,
        party_id=key.site.party_id,
        run_on_this_party=task.here,
        worker_id=task.launch_id,
        run_ip=handle.host if handle else None,
        run_pid=handle.pid if handle else None,
        party_status=task.party_status.value,
        provider_info={"name": provider_of_module(task.module), "version": __version__},
        component_parameters=task.parameters,
        engine_conf={"computing_engine": task.engine} if task.engine else {},
        kill_status=handle is None and task.party_status in TASK_SEVERITY,
        error_report=task.traceback or (task.reason.message if task.reason else ""),
        progress=task.progress,
        inherited_from=task.inherited_from,
        create_time=task.created_ms,
        create_date=date_text(task.created_ms),
        update_time=task.updated_ms,
        update_date=date_text(task.updated_ms),
        start_time=started,
        start_date=date_text(started),
        end_time=ended,
        end_date=date_text(ended),
        elapsed=_elapsed_ms(task),
        since=task.since_ms,
        reason=reason_row(task.reason),
    )


def listed_task(task: TaskRecord) -> TaskRow:
    """Return an attempt as `list/task` shows it: the party id is a number."""
    row = task_row(task, TaskRow)
    return msgspec.structs.replace(row, party_id=party_number(task.key.site.party_id))


# --- parts of both -------------------------------------------------------------------------------


def reason_row(reason: Reason | None) -> ReasonRow | None:
    """Return why something waits or ended: code, message and where."""
    if reason is None:
        return None
    site = reason.site
    return ReasonRow(
        code=reason.code,
        message=reason.message,
        role=site.role.value if site else None,
        party_id=site.party_id if site else None,
    )


def _elapsed_ms(record: JobRecord | TaskRecord) -> int | None:
    if record.started_ms is None or record.ended_ms is None:
        return None
    return record.ended_ms - record.started_ms


def date_text(time_ms: int | None) -> str | None:
    """Return milliseconds since the epoch as local `YYYY-MM-DD HH:MM:SS`."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


# --- tables --------------------------------------------------------------------------------------


def table_columns(table: TableRecord) -> list[str]:
    """Return the names of all columns in order: id, match id, label, weight, then the others."""
    schema = table.schema if isinstance(table.schema, dict) else {}
    leading = (schema.get(name) for name in ("id", "match_id", "label", "weight"))
    columns = schema.get("columns") or ()
    return [str(name) for name in (*leading, *columns) if name]


def listed_table(table: TableRecord) -> ListedTable:
    """Return a table as `table/list/all` shows it."""
    return ListedTable(
        name=table.name,
        namespace=table.namespace,
        count=table.count,
        columns=len(table_columns(table)),
        partitions=table.partitions,
        origin=table.origin,
        engine=table.engine,
        enabled=not table.disabled,
        created_ms=table.created_ms,
    )


def table_schema_row(table: TableRecord) -> Row:
    """Return a table's schema in FATE's words: `header` (joined by the delimiter), `sid` etc.

    With `meta` the header is a list without the label.
    Source: `docs/reference/data-formats.md#upload`.
    """
    more = table.extra if isinstance(table.extra, dict) else {}
    schema = table.schema if isinstance(table.schema, dict) else {}
    sid = str(schema.get("id") or "")
    if schema.get("kind") == "raw" and not table.have_head:
        return {"header": "", "sid": "", **more}
    shown: Row = {
        "header": table.id_delimiter.join(str(c) for c in schema.get("columns") or ()),
        "sid": sid,
    }
    for ours, theirs in (("label", "label_name"), ("match_id", "match_id_name")):
        if schema.get(ours):
            shown[theirs] = str(schema[ours])
    anonymous = schema.get("anonymous") or ()
    if anonymous and all(anonymous):
        shown["anonymous_header"] = list(anonymous)
    return {**shown, **more}


def table_info(
    table: TableRecord, *, maker: OutputTable | None = None, columns: Sequence[ColumnFacts] = ()
) -> TableInfo:
    """Return what `table_info` tells of a table, the task that made it, and facts of columns."""
    return TableInfo(
        name=table.name,
        namespace=table.namespace,
        exist=1,
        count=table.count,
        partitions=table.partitions,
        schema=table_schema_row(table),
        enabled=not table.disabled,
        origin=table.origin,
        extend_sid=table.extend_sid,
        engine=table.engine,
        address=_address_row(table),
        created_ms=table.created_ms,
        made_by=None if maker is None else _made_by(maker),
        columns=tuple(map(_facts, columns)),
    )


def _address_row(table: TableRecord) -> Row:
    """Return where the rows are. Credentials are never part of it."""
    if table.engine != "PATH" and is_bound(table.engine, table.storage):
        return shown_address(bound_from_json(table.storage))
    return {"path": table.source or table.address}


def _facts(column: ColumnFacts) -> TableColumn:
    return TableColumn(
        name=column.name,
        kind=column.kind,
        count=column.count,
        missing=column.missing,
        min=column.least,
        max=column.greatest,
        mean=column.mean,
    )


def _made_by(maker: OutputTable) -> ProducedBy:
    key = maker.key
    return ProducedBy(
        job_id=key.job_id,
        component_name=key.component,
        task_version=key.version,
        role=key.site.role.value,
        party_id=key.site.party_id,
        data_name=maker.data_name,
    )


def upload(job: JobRecord, info: UploadInfo, table: TableRecord | None) -> Upload:
    """Return an upload as `upload/history` shows it; `table` None: its rows are gone."""
    return Upload(
        upload_info=info,
        notes=job.description,
        schema={"header": "", "sid": ""} if table is None else table_schema_row(table),
        created_ms=job.created_ms,
        gone=table is None,
    )


def shown_connector(connector: Connector) -> tables.Connector:
    """Return a connector without what could be a credential."""
    info = {n: v if _is_harmless(n, v) else _HIDDEN for n, v in connector.info.items()}
    return tables.Connector(
        connector_name=connector.name, engine=connector.engine, connector_info=info
    )


_HIDDEN: Final = "******"
_SHOWN_OF_CONNECTORS: Final = frozenset(
    {
        "host",
        "port",
        "db",
        "database",
        "name",
        "namespace",
        "table",
        "path",
        "home",
        "engine",
        "bucket",
        "endpoint",
        "region",
        "name_node",
        "auth_mechanism",
        "format",
    }
)
"""Members of a connector that are no credentials; every other one is hidden."""


def _is_harmless(name: str, value: Any) -> bool:
    if name.lower() not in _SHOWN_OF_CONNECTORS:
        return False
    return isinstance(value, int) or (isinstance(value, str) and not set(value) & set("@?="))


def data_view_row(output: OutputTable) -> job_lists.OutputTable:
    """Return an output as `data/view/query` shows it."""
    key = output.key
    return job_lists.OutputTable(
        job_id=key.job_id,
        component_name=key.component,
        task_id=key.task_id,
        task_version=key.version,
        data_name=output.data_name,
        role=key.site.role.value,
        party_id=key.site.party_id,
        table_name=output.name,
        table_namespace=output.namespace,
    )
