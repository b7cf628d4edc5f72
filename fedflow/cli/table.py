"""`fedflow table`: what tables this party has and what is in them."""

from __future__ import annotations

import click

from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server

namespace_option = click.option("-n", "--namespace", required=True, metavar="NAME")
table_option = click.option("-t", "--table", "name", required=True, metavar="NAME")


@click.group()
def command() -> None:
    """Tables of this party."""


@command.command()
@namespace_option
@table_option
@asks_server
def info(at: Session, namespace: str, name: str) -> None:
    """Show what the server knows of a table."""
    found = at.client.table_info(namespace, name)

    def text() -> None:
        if not found.exists:
            click.echo(f"Table {namespace}.{name} does not exist.")
            return
        at.out.note(f"table       {found.namespace}.{found.name}")
        at.out.note(f"rows        {found.count}")
        at.out.note(f"partitions  {found.partitions}")
        at.out.note(f"origin      {found.origin}")
        at.out.note(f"schema      {json_text(found.schema)}")

    at.out.result(found, text)


@command.command()
@namespace_option
@table_option
@click.option("-l", "--limit", default=10, show_default=True, type=click.IntRange(1, 100))
@asks_server
def preview(at: Session, namespace: str, name: str, limit: int) -> None:
    """Show the first rows of a table."""
    found = at.client.table_preview(namespace, name, limit=limit)
    at.out.result(found, lambda: at.out.table(found.header, found.rows))


@command.command()
@namespace_option
@table_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_server
def delete(at: Session, namespace: str, name: str, yes: bool) -> None:
    """Delete a table and its data."""
    if not yes and not at.out.as_json:
        click.confirm(f"Delete table {namespace}.{name} and its data?", abort=True)
    at.client.table_delete(namespace, name)
    at.out.result(
        {"namespace": namespace, "name": name, "deleted": True},
        lambda: at.out.note(f"Table {namespace}.{name} was deleted."),
    )
