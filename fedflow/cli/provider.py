"""`fedflow provider`: packages of components."""

from __future__ import annotations

from typing import Any

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Packages of components."""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List providers with their versions."""
    found = at.client.providers.all()
    rows = [(p.name, p.version, "yes" if p.is_default else "", len(p.components)) for p in found]
    at.out.listing(found, ("provider", "version", "default", "components"), rows, none="None.")


@command.command()
@session.json_file
@asks_server
def register(at: Session, conf: dict[str, Any]) -> None:
    """Add a provider of the server's machine."""
    at.client.providers.register(conf)
    at.out.done({"registered": True}, "The provider was added.")
