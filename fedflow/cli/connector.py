"""`fedflow connector`: Hosts and credentials for tables of other storages."""

from __future__ import annotations

from typing import Any

import click

from fedflow.cli import session
from fedflow.cli.files import JsonFile
from fedflow.cli.groups import Nouns
from fedflow.cli.output import json_text, moment
from fedflow.cli.session import Session, asks_server

connector_name = click.argument("name")


@click.group(cls=Nouns)
def command() -> None:
    """Connectors: hosts and credentials for tables that are bound to other storages.

    A connector is made once; conf files of `fedflow table bind` name it in their address. The
    server stores credentials encrypted, and shows them to nobody.
    """


@command.command()
@session.json_file
@click.option("--replace", is_flag=True, help="Replace the connector of that name.")
@asks_server
def create(at: Session, conf: dict[str, Any], replace: bool) -> None:
    """Store a connector.

    \b
    {"connector_name": "warehouse", "engine": "MYSQL",
     "connector_info": {"host": "db.example.com", "port": 3306, "user": "u", "passwd": "p"}}

    S3 has endpoint, region, access_key, secret_key; HDFS name_node, user; HIVE host, port,
    username, password. A file `-` is the standard input, so that credentials need no file.
    """
    at.client.tables.create_connector(conf, replace=replace)
    name = conf.get("connector_name")
    at.out.done({"connector": name, "created": True}, f"Connector {name} was stored.")


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the connectors."""
    found = at.client.tables.connectors()
    rows = [(one.name, one.engine, moment(one.created_ms)) for one in found]
    at.out.listing(found, ("connector", "engine", "stored"), rows, none="There is no connector.")


@command.command()
@connector_name
@asks_server
def show(at: Session, name: str) -> None:
    """Show a connector, credentials masked, as JSON."""
    click.echo(json_text(at.client.tables.connector(name)))


@command.command()
@connector_name
@click.option(
    "-c", "--conf", type=JsonFile(), help="JSON file with an address that the connector completes."
)
@asks_server
def test(at: Session, name: str, conf: dict[str, Any] | None) -> None:
    """Test whether the storage of a connector answers; nothing is stored.

    A connector of MYSQL needs no address; others need one, of a table or data set.
    """
    columns = at.client.tables.test_connector(name, conf or {})
    names = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
    word = "column" if len(columns) == 1 else "columns"
    rows = f"; what it read has the {word} {names}" if conf else ""
    at.out.done({"connector": name, "columns": columns}, f"The storage of {name} answers{rows}.")


@command.command()
@connector_name
@session.yes
@asks_server
def delete(at: Session, name: str, yes: bool) -> None:
    """Delete a connector that no table uses."""
    session.confirm(at, f"Delete connector {name} and its credentials?", yes=yes)
    at.client.tables.delete_connector(name)
    at.out.done({"connector": name, "deleted": True}, f"Connector {name} was deleted.")
