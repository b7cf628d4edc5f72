"""`/v1/table`: tables of other storages, where a table comes from, what its schema says.

Source: `docs/reference/rest.md#tables`.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.app.data.bindings import Binding
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, Flag, NoBody, Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire import fields
from fedflow.wire.api.tables import (
    Connector,
    ConnectorColumns,
    ConnectorName,
    JobsOfTable,
    TableName,
    TableSource,
)

table_sources = Blueprint("table_sources", __name__, url_prefix="/table")
table_sources.before_request(require_client)

Schema = dict[str, Any]


class BindBody(Body, frozen=True):
    """What becomes a table: an engine and an address in it, and how its rows are to be read."""

    engine: Text
    address: dict[str, Any]
    namespace: Text
    name: Text
    drop: Flag = Flag(0)
    head: Flag = Flag(1)
    id_delimiter: str = ","
    partitions: Whole = Whole(1)
    id_column: Text | None = None
    id_name: Text | None = None
    feature_column: Text | None = None
    feature_name: Text | None = None
    extend_sid: Flag = Flag(0)
    with_meta: Flag = Flag(0)
    meta: dict[str, Any] | None = None
    schema: dict[str, Any] | None = None


class ConnectorBody(Body, frozen=True):
    """How another storage is reached."""

    connector_name: Text
    engine: Text
    connector_info: dict[str, Any]
    replace: Flag = Flag(1)


class ConnectorNameBody(Body, frozen=True):
    """Which connector."""

    connector_name: Text


class ConnectorTestBody(Body, frozen=True):
    """Which connector, and what to read with it; of MYSQL by default nothing that people made."""

    connector_name: Text
    address: dict[str, Any] | None = None


class TrackedBody(Body, frozen=True):
    """Which table."""

    table_name: Text
    namespace: Text


class SchemaBody(Body, frozen=True):
    """Which table, and the members of its schema that change."""

    namespace: Text
    name: Text
    schema: dict[str, Any]


class MigrateBody(Body, frozen=True):
    """Which table, whose it was, and the new party ids by role and old id."""

    namespace: Text
    name: Text
    role: Text
    party_id: Text
    migrate_mapping: dict[str, dict[str, Any]]


# --- binding --------------------------------------------------------------------------------------


@route(table_sources, "/add", body=BindBody, data=TableName)
@route(table_sources, "/bind", body=BindBody, data=TableName)
def bind(body: BindBody) -> Response:
    """Create a table whose rows stay in their storage, file or other table."""
    bound = services().data.bindings.bind(
        Binding(
            engine=body.engine,
            address=body.address,
            namespace=body.namespace,
            name=body.name,
            drop=bool(body.drop),
            head=bool(body.head),
            id_delimiter=body.id_delimiter,
            partitions=body.partitions,
            id_column=body.id_column or body.id_name,
            feature_column=body.feature_column or body.feature_name,
            extend_sid=bool(body.extend_sid),
            with_meta=bool(body.with_meta),
            meta=body.meta,
            schema=body.schema,
        )
    )
    return success(TableName(name=bound.name, namespace=bound.namespace))


@route(table_sources, "/connector/create", body=ConnectorBody)
def connector_create(body: ConnectorBody) -> Response:
    """Store how another storage is reached, as in FATE in place of an older connector of that
    name; `replace` 0 refuses that.
    """
    services().data.connectors.put(
        body.connector_name, body.engine, body.connector_info, replaces=bool(body.replace)
    )
    return success()


@route(table_sources, "/connector/query", body=ConnectorNameBody, data=Connector)
def connector_query(body: ConnectorNameBody) -> Response:
    """Return a connector; what could be a credential is hidden."""
    return success(fields.shown_connector(services().data.connectors.get(body.connector_name)))


@route(table_sources, "/connector/list", data=list[ConnectorName])
def connector_list(_body: NoBody) -> Response:
    """Return the names and engines of all connectors."""
    found = services().data.connectors.all()
    return success(
        [ConnectorName(name=c.name, engine=c.engine, created_ms=c.created_ms) for c in found]
    )


@route(table_sources, "/connector/delete", body=ConnectorNameBody)
def connector_delete(body: ConnectorNameBody) -> Response:
    """Delete a connector that no table uses."""
    services().data.connectors.delete(body.connector_name)
    return success()


@route(table_sources, "/connector/test", body=ConnectorTestBody, data=ConnectorColumns)
def connector_test(body: ConnectorTestBody) -> Response:
    """Test a connector, with an address that completes it; nothing is stored."""
    columns = services().data.bindings.try_connector(body.connector_name, body.address or {})
    return success(ConnectorColumns(columns=tuple(columns)))


# --- provenance -----------------------------------------------------------------------------------


@route(table_sources, "/tracking/source", body=TrackedBody, data=list[TableSource])
def tracking_source(body: TrackedBody) -> Response:
    """Return the tables from which a table was created, and the first ones of that chain."""
    found = services().data.provenance.sources(body.namespace, body.table_name)
    rows = [
        TableSource(
            parent_table_name=one.parent[1],
            parent_table_namespace=one.parent[0],
            source_table_name=one.source[1],
            source_table_namespace=one.source[0],
        )
        for one in found
    ]
    return success(rows)


@route(table_sources, "/tracking/job", body=TrackedBody, data=JobsOfTable)
def tracking_job(body: TrackedBody) -> Response:
    """Return the jobs that created or read a table."""
    jobs = services().data.provenance.jobs(body.namespace, body.table_name)
    return success(JobsOfTable(count=len(jobs), job=tuple(jobs)))


# --- schema ---------------------------------------------------------------------------------------


@route(table_sources, "/schema/update", body=SchemaBody, data=Schema)
def schema_update(body: SchemaBody) -> Response:
    """Change members of a table's schema beside its column names; `meta` is merged."""
    changed = services().data.table_schemas.update(body.namespace, body.name, body.schema)
    return success(fields.table_schema_row(changed))


@route(table_sources, "/schema/anonymous/migrate", body=MigrateBody, data=Schema)
def schema_anonymous_migrate(body: MigrateBody) -> Response:
    """Rename the anonymous columns after party ids changed."""
    changed = services().data.table_schemas.migrate(
        body.namespace, body.name, role=body.role, party_id=body.party_id,
        mapping=body.migrate_mapping,
    )  # fmt: skip
    return success(fields.table_schema_row(changed))
