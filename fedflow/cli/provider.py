"""`fedflow provider`: Packages of components."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.cli.groups import Nouns
from fedflow.cli.output import clean
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
@click.argument("path", type=click.Path(path_type=Path))
@asks_server
def register(at: Session, path: Path) -> None:
    """Add the provider in the folder PATH of the server's machine, or read it again.

    The folder has a provider.toml (or provider.json) with `name`, `version` and `components`, the
    `module:attribute` of its components; `python` is optional, an interpreter of its own. It lies
    in `providers` of the server's home or in a folder of the setting provider.allowed_folders.
    """
    added = at.client.providers.register(str(path.expanduser().absolute()))
    names = ", ".join(clean(name) for name in added.modules or added.components)
    what = f"Provider {added.name}@{added.version}"
    if added.replaced_path is None:
        told = f"{what} was added with {names}."
    elif added.replaced_path == added.path:
        told = f"{what} was read again, with {names}."
    else:
        told = f"{what} has {names} now. It replaces the folder {clean(added.replaced_path)}."
    at.out.done(added, told)


@command.command()
@click.argument("name")
@click.argument("version")
@asks_server
def delete(at: Session, name: str, version: str) -> None:
    """Remove a version of a provider; its folder stays."""
    at.client.providers.delete(name, version)
    at.out.done({"deleted": f"{name}@{version}"}, f"Provider {name}@{version} was deleted.")
