"""`fedflow key`: Public keys of other parties."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.base.errors.requests import BadDocument
from fedflow.cli import session
from fedflow.cli.files import existing_file
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Public keys of other parties."""


@command.command()
@session.party
@click.option("-f", "--file", type=existing_file, required=True, help="RSA public key, PEM.")
@asks_server
def save(at: Session, party_id: str, file: Path) -> None:
    """Store another party's public key."""
    try:
        text = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadDocument(where=str(file), reason="it is not a PEM file") from exc
    at.client.keys.save(party_id, text)
    at.out.done({"party_id": party_id, "saved": True}, f"The key of party {party_id} was stored.")


@command.command()
@session.party
@asks_server
def show(at: Session, party_id: str) -> None:
    """Print a party's public key; this server's own too."""
    found = at.client.keys.get(party_id)
    at.out.result({"party_id": party_id, "key": found}, lambda: at.out.note(found.rstrip()))


@command.command()
@session.party
@session.yes
@asks_server
def delete(at: Session, party_id: str, yes: bool) -> None:
    """Delete another party's public key."""
    session.confirm(at, f"Delete the key of party {party_id}?", yes=yes)
    at.client.keys.delete(party_id)
    at.out.done({"party_id": party_id, "deleted": True}, f"Deleted the key of party {party_id}.")
