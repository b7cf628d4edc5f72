"""`fedflow template`: Examples of jobs and of conf files."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.cli.files import folder
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Examples of jobs and of conf files."""


@command.command()
@click.option("-o", "--output", type=folder, required=True, help="Folder for the files.")
@asks_server
def download(at: Session, output: Path) -> None:
    """Save example jobs with their data, and conf files of other commands."""
    files = at.client.template(output)
    at.out.done([str(one) for one in files], f"{len(files)} files were saved in {output}.")
