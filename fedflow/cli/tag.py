"""`fedflow tag`: Tags, and the models that have them."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server

description_option = click.option("-d", "--description", metavar="TEXT", help="Description.")


@click.group(cls=Nouns)
def command() -> None:
    """Tags, and the models that have them."""


@command.command("list")
@click.option("-l", "--limit", default=100, show_default=True, type=click.IntRange(1))
@asks_server
def list_(at: Session, limit: int) -> None:
    """List tags, newest first."""
    found = at.client.tags.all(limit)
    rows = [(t.name, t.model_count, t.description) for t in found]
    at.out.listing(found, ("tag", "models", "description"), rows, none="No tags.")


@command.command()
@click.argument("part")
@asks_server
def query(at: Session, part: str) -> None:
    """List the tags whose name has this part."""
    found = at.client.tags.find(part)
    rows = [(t.name, t.description) for t in found]
    at.out.listing(found, ("tag", "description"), rows, none="No such tag.")


@command.command()
@click.argument("name")
@asks_server
def models(at: Session, name: str) -> None:
    """List the models that have a tag."""
    found = at.client.tags.models(name)
    rows = [(m.model_id, m.model_version, f"{m.role} {m.party_id}", m.model_size) for m in found]
    at.out.listing(found, ("model", "version", "site", "KiB"), rows, none="No model has it.")


@command.command()
@click.argument("name")
@description_option
@asks_server
def create(at: Session, name: str, description: str | None) -> None:
    """Create a tag."""
    at.client.tags.create(name, description or "")
    at.out.done({"tag": name, "created": True}, f"Tag {name} was created.")


@command.command()
@click.argument("name")
@click.option("--name", "new_name", metavar="NEW", help="New name.")
@description_option
@asks_server
def update(at: Session, name: str, new_name: str | None, description: str | None) -> None:
    """Rename or describe a tag."""
    if new_name is None and description is None:
        raise click.UsageError("give `--name` or `--description`")
    at.client.tags.update(name, new_name=new_name, description=description)
    at.out.done({"tag": new_name or name, "updated": True}, f"Tag {name} was changed.")


@command.command()
@click.argument("name")
@session.yes
@asks_server
def delete(at: Session, name: str, yes: bool) -> None:
    """Delete a tag; the models stay."""
    session.confirm(at, f"Delete the tag {name}?", yes=yes)
    at.client.tags.delete(name)
    at.out.done({"tag": name, "deleted": True}, f"Tag {name} was deleted.")
