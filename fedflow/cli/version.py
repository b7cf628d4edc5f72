"""`fedflow version`: Versions of this command and of a server."""

from __future__ import annotations

import click

from fedflow import __version__
from fedflow.cli.session import Session, asks_server


@click.command()
@asks_server
def command(at: Session) -> None:
    """Show the versions of this command and of a server."""
    found = {"client": __version__, **at.client.versions()}

    def text() -> None:
        for name, version in found.items():
            at.out.note(f"{name:10} {version}")

    at.out.result(found, text)
