"""`fedflow table`: Tables of this party."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from fedflow.cli import session, suggestions
from fedflow.cli.files import folder
from fedflow.cli.groups import Nouns
from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server
from fedflow.wire.api.tables import TableInfo


@click.group(cls=Nouns)
def command() -> None:
    """Tables of this party."""


@command.command("list")
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    help="Only of this namespace.",
    shell_complete=suggestions.namespaces,
)
@click.option("-s", "--search", metavar="TEXT", default="", help="A part of namespace or name.")
@click.option("-l", "--limit", default=20, type=click.IntRange(1, 1000), help="How many, at most.")
@click.option("--page", default=1, type=click.IntRange(1), help="Page, each of `limit` tables.")
@asks_server
def list_tables(at: Session, namespace: str | None, search: str, limit: int, page: int) -> None:
    """List the tables of this party, newest first."""
    found = at.client.tables.listed(
        search, namespace=namespace, limit=limit, offset=limit * (page - 1)
    )
    rows = [
        (one.namespace, one.name, one.count, one.origin, "yes" if one.enabled else "no")
        for one in found.tables
    ]
    heads = ("namespace", "name", "rows", "origin", "enabled")
    at.out.listing(found, heads, rows, none="There are no such tables.", count=found.count)


@command.command()
@session.namespace
@session.table
@asks_server
def info(at: Session, namespace: str, name: str) -> None:
    """Show what the server knows of a table and of its columns."""
    found = at.client.table_info(namespace, name)

    def text() -> None:
        if not found.exists:
            click.echo(f"Table {namespace}.{name} does not exist.")
            return
        at.out.note(f"table       {found.namespace}.{found.name}")
        at.out.note(f"rows        {found.count}")
        at.out.note(f"partitions  {found.partitions}")
        at.out.note(f"origin      {found.origin}")
        if found.engine not in ("", "STANDALONE"):
            at.out.note(f"engine      {found.engine}")
            at.out.note(f"address     {json_text(found.address)}")
        if found.made_by is not None:
            made = found.made_by
            at.out.note(f"made by     {made.component_name} of job {made.job_id}")
        at.out.note(f"schema      {json_text(found.schema)}")
        if found.columns:
            at.out.table(("column", "kind", "missing", "min", "max", "mean"), _facts(found))

    at.out.result(found, text)


def _facts(table: TableInfo) -> list[tuple[object, ...]]:
    return [
        (c.name, c.kind, c.missing, _number(c.min), _number(c.max), _number(c.mean))
        for c in table.columns
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


@command.command()
@session.namespace
@session.table
@click.option("-l", "--limit", default=10, show_default=True, type=click.IntRange(1, 100))
@asks_server
def preview(at: Session, namespace: str, name: str, limit: int) -> None:
    """Show the first rows of a table."""
    found = at.client.table_preview(namespace, name, limit=limit)
    at.out.result(found, lambda: at.out.table(found.header, found.rows))


@command.command()
@session.namespace
@session.table
@session.yes
@asks_server
def delete(at: Session, namespace: str, name: str, yes: bool) -> None:
    """Delete a table and its data."""
    session.confirm(at, f"Delete table {namespace}.{name} and its data?", yes=yes)
    at.client.table_delete(namespace, name)
    at.out.result(
        {"namespace": namespace, "name": name, "deleted": True},
        lambda: at.out.note(f"Table {namespace}.{name} was deleted."),
    )


@command.command("delete-outputs")
@session.job_id
@session.one_component("Only of this component.")
@session.yes
@asks_server
def delete_outputs(at: Session, job_id: str, component: str | None, yes: bool) -> None:
    """Delete the tables that a job created."""
    session.confirm(at, f"Delete the tables that job {job_id} created?", yes=yes)
    found = at.client.tables.delete_outputs(job_id, component=component)
    at.out.done({"job_id": job_id, "tables": found}, f"{len(found)} tables were deleted.")


@command.command()
@session.namespace
@session.table
@click.option("-o", "--output", type=folder, required=True, help="Folder for the files.")
@asks_server
def download(at: Session, namespace: str, name: str, output: Path) -> None:
    """Save a table on this machine: `table.csv` and `table.meta`."""
    files = [str(one) for one in at.client.tables.download(namespace, name, output)]
    at.out.done(files, "\n".join(files))


@command.command()
@session.json_file
@click.option("--drop", is_flag=True, help="Replace a table of this name.")
@asks_server
def bind(at: Session, conf: dict[str, Any], drop: bool) -> None:
    """Bind data in another storage to a table name; nothing is copied until a job reads them.

    The conf is FATE's: `engine`, `address`, `namespace`, `name`. Engines and addresses:

    \b
    PATH        {"path": "/data/a.csv"}
    LOCALFS     {"path": "/data/a_folder", "format": "parquet"}
    S3          {"bucket": "b", "path": "a_folder", "connector_name": "store"}
    HDFS        {"name_node": "hdfs://host:8020", "path": "/a_folder"}
    MYSQL       {"db": "d", "name": "t", "connector_name": "warehouse"}
    MYSQL       {"db": "d", "query": "SELECT ...", "connector_name": "warehouse"}
    HIVE        {"database": "d", "name": "t", "connector_name": "hive"}
    STANDALONE  {"namespace": "n", "name": "t"}: a second name of a table

    `id_column` names the id (else the first column), `feature_column` the other columns with
    commas between them (else all).
    """
    at.client.tables.bind(conf, drop=drop)
    shown = f"{conf.get('namespace')}.{conf.get('name')}"
    at.out.done({"table": shown, "bound": True}, f"Table {shown} was bound.")


@command.command()
@session.namespace
@session.table
@asks_server
def disable(at: Session, namespace: str, name: str) -> None:
    """Disable a table: no job reads it until `enable`."""
    at.client.tables.disable(namespace, name)
    at.out.done({"namespace": namespace, "name": name, "enabled": False},
                f"Table {namespace}.{name} is disabled.")  # fmt: skip


@command.command()
@session.namespace
@session.table
@asks_server
def enable(at: Session, namespace: str, name: str) -> None:
    """Let jobs read a disabled table again."""
    at.client.tables.enable(namespace, name)
    at.out.done({"namespace": namespace, "name": name, "enabled": True},
                f"Table {namespace}.{name} is enabled.")  # fmt: skip


@command.command("delete-disabled")
@session.yes
@asks_server
def delete_disabled(at: Session, yes: bool) -> None:
    """Delete all disabled tables."""
    session.confirm(at, "Delete all disabled tables?", yes=yes)
    count = at.client.tables.delete_disabled()
    at.out.done({"deleted": count}, f"{count} tables were deleted.")


@command.command()
@session.namespace
@session.table
@asks_server
def source(at: Session, namespace: str, name: str) -> None:
    """Show the tables from which a table was created."""
    found = [
        t
        for t in at.client.tables.sources(namespace, name)
        if (t.parent_table_namespace, t.parent_table_name) != (namespace, name)
    ]  # what a reader reads counts as its output, too
    rows = [
        (f"{t.parent_table_namespace}.{t.parent_table_name}",
         f"{t.source_table_namespace}.{t.source_table_name}")
        for t in found
    ]  # fmt: skip
    at.out.listing(found, ("made from", "first"), rows, none="It was not created from a table.")


@command.command()
@session.namespace
@session.table
@asks_server
def jobs(at: Session, namespace: str, name: str) -> None:
    """List the jobs that created or read a table."""
    found = at.client.tables.used_by(namespace, name)
    at.out.listing(found, ("job",), [(one,) for one in found], none="No job used it.")


@command.command("connector-create")
@session.json_file
@asks_server
def connector_create(at: Session, conf: dict[str, Any]) -> None:
    """Store how an external source is reached; the conf is FATE's."""
    at.client.tables.create_connector(conf)
    name = conf.get("connector_name")
    at.out.done({"connector": name, "created": True}, f"Connector {name} was stored.")


@command.command("connector-show")
@click.argument("name")
@asks_server
def connector_show(at: Session, name: str) -> None:
    """Show a stored connector, credentials masked, as JSON."""
    click.echo(json_text(at.client.tables.connector(name)))
