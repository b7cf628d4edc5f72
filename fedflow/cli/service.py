"""`fedflow service`: Servers and services that are registered at this server."""

from __future__ import annotations

from typing import Any

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Servers and services that are registered at this server."""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the servers that the conf names or that were registered."""
    found = at.client.servers.all()
    rows = [(name, f"{one.host}:{one.port}", one.protocol) for name, one in found.items()]
    at.out.listing(found, ("server", "address", "protocol"), rows, none="No servers.")


@command.command()
@click.argument("service")
@click.option("--of", "of_server", metavar="NAME", help="Only of this registered server.")
@asks_server
def query(at: Session, service: str, of_server: str | None) -> None:
    """Show the services of a name."""
    found = at.client.servers.services(service, of_server)
    rows = [(one.server_name, one.service_name, one.method, one.url) for one in found]
    at.out.listing(found, ("server", "service", "method", "URL"), rows, none="No such service.")


@command.command()
@session.json_file
@asks_server
def register(at: Session, conf: dict[str, Any]) -> None:
    """Register a service of a server, or servers with their services."""
    at.client.servers.register_service(conf)
    at.out.done({"registered": True}, "It was registered.")


@command.command("register-server")
@click.argument("name")
@click.option("--host", required=True, help="Where it listens.")
@click.option("--port", required=True, type=click.IntRange(1, 65535))
@click.option("--protocol", type=click.Choice(["http", "https"]), default="http")
@asks_server
def register_server(at: Session, name: str, host: str, port: int, protocol: str) -> None:
    """Store where a server listens."""
    at.client.servers.register(name, host, port, protocol)
    at.out.done({"name": name, "registered": True}, f"{name} was registered.")
