"""Stored values as FATE shows them: JOB and TASK records with `f_` names, tables, metrics.

Source: `docs/reference/rest.md#records` and `docs/reference/rest.md#tables`. Two facts of FATE's
clients are kept here:
a job that is `ready` is shown as `waiting` (the SDK raises on any other word), and party ids are
text in `f_party_id` but numbers in `f_roles`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fedflow import __version__
from fedflow.domain.data.storages import bound_from_json, is_bound, shown_address
from fedflow.domain.job.engines import SECTIONS
from fedflow.domain.job.own_conf import own_conf
from fedflow.domain.job.providers import provider_of_module
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    JOB_END,
    ColumnFacts,
    Connector,
    Engine,
    JobRecord,
    Metric,
    OutputTable,
    TableRecord,
    TaskRecord,
)
from fedflow.domain.site import Role
from fedflow.domain.states import JOB_FINAL, TASK_SEVERITY, JobStatus
from fedflow.wire.api.tables import ListedTable, ProducedBy, TableColumn

Row = dict[str, Any]

PREFIX: Final = "f_"


# --- jobs ----------------------------------------------------------------------------------------


def job_row(job: JobRecord) -> Row:
    """Return a job as FATE's JOB record, with the prefix `f_`."""
    site, holds = job.key.site, job.cores if job.in_use else 0
    inherited = job.parameters.get("inheritance_info") or {}
    return {
        "f_job_id": job.key.job_id,
        "f_name": "",
        "f_description": job.description,
        "f_tag": job.tag or (JOB_END if job.status in JOB_FINAL else ""),
        "f_user_id": job.user,
        "f_user": {site.role.value: {site.party_id: job.user}},
        "f_dsl": job.dsl,
        "f_runtime_conf": seen_conf(job, job.conf),
        "f_runtime_conf_on_party": _conf_on_party(job),
        "f_train_runtime_conf": seen_conf(job, job.train_conf),
        "f_roles": roles_as_numbers(job.roles),
        "f_initiator_role": job.initiator.role.value,
        "f_initiator_party_id": job.initiator.party_id,
        "f_role": site.role.value,
        "f_party_id": site.party_id,
        "f_is_initiator": job.is_initiator,
        "f_status": job_status_word(job.status),
        "f_status_code": None,
        "f_progress": job.progress,
        "f_ready_signal": False,
        "f_ready_time": None,
        "f_cancel_signal": job.status is JobStatus.CANCELED,
        "f_cancel_time": job.ended_ms if job.status is JobStatus.CANCELED else None,
        "f_rerun_signal": job.epoch > 0 and job.status is JobStatus.WAITING,
        "f_end_scheduling_updates": 0,
        "f_engine_name": job.engine,
        "f_engine_type": "computing",
        "f_cores": job.cores,
        "f_memory": job.memory,
        "f_remaining_cores": holds,
        "f_remaining_memory": job.memory if job.in_use else 0,
        "f_resource_in_use": job.in_use,
        "f_apply_resource_time": job.applied_ms,
        "f_return_resource_time": job.returned_ms,
        "f_inheritance_info": inherited,
        "f_inheritance_status": "success" if inherited else "pass",
        **_times(job),
        "f_since": job.since_ms,
        "f_deadline": job.deadline_ms,
        "f_reason": reason_row(job.reason),
    }


def job_list_row(job: JobRecord) -> Row:
    """Return a job as `list/job` shows it: no prefix, the party id a number, and its partners."""
    row = without_prefix(job_row(job))
    row["party_id"] = party_number(job.key.site.party_id)
    row["partners"] = sorted((party_number(p) for p in job.partners), key=_party_order)
    return row


def engine_row(engine: Engine) -> Row:
    """Return a computing engine as FATE's record; memory in MiB, 0 if it is not counted."""
    return {
        "f_engine_name": engine.name,
        "f_engine_type": "computing",
        "f_engine_entrance": SECTIONS[engine.name].partition(".")[0],
        "f_engine_config": {},
        "f_cores": engine.cores,
        "f_remaining_cores": engine.remaining_cores,
        "f_memory": engine.memory,
        "f_remaining_memory": engine.remaining_memory if engine.memory else 0,
        "f_nodes": 1,
    }


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


def task_row(task: TaskRecord) -> Row:
    """Return an attempt as FATE's TASK record, with the prefix `f_`. Its token stays here."""
    key, handle = task.key, task.handle
    mode = "SINGLE" if key.site.role is Role.LOCAL else "MULTIPLE"
    return {
        "f_job_id": key.job_id,
        "f_component_name": key.component,
        "f_component_module": task.module,
        "f_task_id": key.task_id,
        "f_task_version": key.version,
        "f_initiator_role": task.initiator.role.value,
        "f_initiator_party_id": task.initiator.party_id,
        "f_federated_mode": mode,
        "f_federated_status_collect_type": "PUSH",
        "f_status": task.status.value,
        "f_status_code": None,
        "f_auto_retries": task.auto_retries,
        "f_auto_retry_delay": task.auto_retry_delay_s,
        "f_role": key.site.role.value,
        "f_party_id": key.site.party_id,
        "f_run_on_this_party": task.here,
        "f_worker_id": task.launch_id,
        "f_cmd": [],
        "f_run_ip": handle.host if handle else None,
        "f_run_port": None,
        "f_run_pid": handle.pid if handle else None,
        "f_party_status": task.party_status.value,
        "f_provider_info": {"name": provider_of_module(task.module), "version": __version__},
        "f_component_parameters": task.parameters,
        "f_engine_conf": {"computing_engine": task.engine} if task.engine else {},
        "f_kill_status": handle is None and task.party_status in TASK_SEVERITY,
        "f_error_report": task.traceback or (task.reason.message if task.reason else ""),
        "f_is_deepspeed": False,
        "f_deepspeed_id": None,
        "f_progress": task.progress,
        "f_inherited_from": task.inherited_from,
        **_times(task),
        "f_since": task.since_ms,
        "f_reason": reason_row(task.reason),
    }


def task_list_row(task: TaskRecord) -> Row:
    """Return an attempt as `list/task` shows it: no prefix, the party id a number."""
    row = without_prefix(task_row(task))
    row["party_id"] = party_number(task.key.site.party_id)
    return row


# --- parts of both -------------------------------------------------------------------------------


def without_prefix(row: Row) -> Row:
    """Return a record without the prefix `f_`, as the `list/*` routes show it."""
    return {name.removeprefix(PREFIX): value for name, value in row.items()}


def reason_row(reason: Reason | None) -> Row | None:
    """Return why something waits or ended: code, message and where."""
    if reason is None:
        return None
    site = reason.site
    return {
        "code": reason.code,
        "message": reason.message,
        "role": site.role.value if site else None,
        "party_id": site.party_id if site else None,
    }


def _times(record: JobRecord | TaskRecord) -> Row:
    started, ended = record.started_ms, record.ended_ms
    return {
        "f_create_time": record.created_ms,
        "f_create_date": date_text(record.created_ms),
        "f_update_time": record.updated_ms,
        "f_update_date": date_text(record.updated_ms),
        "f_start_time": started,
        "f_start_date": date_text(started),
        "f_end_time": ended,
        "f_end_date": date_text(ended),
        "f_elapsed": ended - started if started is not None and ended is not None else None,
    }


def date_text(time_ms: int | None) -> str | None:
    """Return milliseconds since the epoch as local `YYYY-MM-DD HH:MM:SS`."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


# --- tables, metrics -----------------------------------------------------------------------------


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


def table_info_row(
    namespace: str,
    name: str,
    table: TableRecord | None,
    *,
    maker: OutputTable | None = None,
    columns: Sequence[ColumnFacts] = (),
) -> Row:
    """Return what `table_info` tells; an unknown table has `exist` 0.

    Beyond FATE: the task that made it, and facts of its columns.
    """
    row: Row = {"table_name": name, "namespace": namespace, "exist": 0, "count": 0}
    if table is None:
        return row
    return {
        **row,
        "exist": 1,
        "count": table.count,
        "partition": table.partitions,
        "schema": table_schema_row(table),
        "enable": not table.disabled,
        "origin": table.origin,
        "extend_sid": table.extend_sid,
        "engine": table.engine,
        "address": _address_row(table),
        "created": table.created_ms,
        "made_by": None if maker is None else _made_by(maker),
        "columns": [_facts(column) for column in columns],
    }


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


def upload_history_row(job: JobRecord, table: TableRecord) -> dict[str, Row]:
    """Return an upload as `upload/history` shows it: by its job's id."""
    info = {
        "table_name": table.name,
        "namespace": table.namespace,
        "partition": table.partitions,
        "upload_count": table.count,
    }
    row = {"upload_info": info, "notes": job.description, "schema": table_schema_row(table)}
    return {job.key.job_id: row}


def connector_row(connector: Connector) -> Row:
    """Return a connector without what could be a credential."""
    return {
        "connector_name": connector.name,
        "engine": connector.engine,
        "connector_info": {
            name: value if _is_harmless(name, value) else _HIDDEN
            for name, value in connector.info.items()
        },
    }


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


def output_table_row(output: OutputTable) -> Row:
    """Return an output as `output/data/table` shows it; `namespace` is what older clients read."""
    return {
        "table_name": output.name,
        "table_namespace": output.namespace,
        "namespace": output.namespace,
        "data_name": output.data_name,
    }


def data_view_row(output: OutputTable) -> Row:
    """Return an output as `data/view/query` shows it."""
    key = output.key
    return {
        "f_job_id": key.job_id,
        "f_component_name": key.component,
        "f_task_id": key.task_id,
        "f_task_version": key.version,
        "f_data_name": output.data_name,
        "f_role": key.site.role.value,
        "f_party_id": key.site.party_id,
        "f_table_name": output.name,
        "f_table_namespace": output.namespace,
        "f_description": "",
    }


def metric_names(metrics: Sequence[Metric]) -> dict[str, list[str]]:
    """Return the names of metrics by namespace, in the order in which they were written."""
    names: dict[str, list[str]] = {}
    for metric in metrics:
        names.setdefault(metric.namespace, []).append(metric.name)
    return names


def metric_tree(metrics: Sequence[Metric]) -> dict[str, dict[str, Row]]:
    """Return namespace -> name -> points and meta, as `metric/all` shows metrics."""
    tree: dict[str, dict[str, Row]] = {}
    for metric in metrics:
        shown = {"data": metric_points(metric), "meta": dict(metric.meta)}
        tree.setdefault(metric.namespace, {})[metric.name] = shown
    return tree


def metric_points(metric: Metric) -> list[list[Any]]:
    """Return the points as [key, value], in order of their keys if these can be compared."""
    points = [[key, value] for key, value in metric.points]
    numbers = all(isinstance(k, (int, float)) for k, _ in points)
    if numbers or all(isinstance(k, str) for k, _ in points):
        points.sort(key=lambda point: point[0])
    return points
