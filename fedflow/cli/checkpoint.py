"""`fedflow checkpoint`: States of models while they were trained."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import json_text
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site


@click.group(cls=Nouns)
def command() -> None:
    """States of models while they were trained."""


@command.command("list")
@session.model_version
@session.one_site
@session.component
@asks_server
def list_(at: Session, model_id: str, version: str, site: Site, component: str) -> None:
    """List the checkpoints of a component by step."""
    found = at.client.checkpoints.all(model_id, version, site, component)
    rows = [(c.step_index, c.step_name, c.create_time) for c in found]
    at.out.listing(found, ("step", "name", "created (UTC)"), rows, none="No checkpoints.")


@command.command()
@session.model_version
@session.one_site
@session.component
@click.option("--step", type=int, help="Index of the step.")
@click.option("--step-name", help="Name of the step.")
@asks_server
def get(
    at: Session, *, model_id: str, version: str, site: Site, component: str, step: int | None,
    step_name: str | None,
) -> None:  # fmt: skip
    """Print one checkpoint with its contents, as JSON."""
    which = step if step is not None else step_name
    if which is None or (step is not None and step_name is not None):
        raise click.UsageError("give either `--step` or `--step-name`")
    found = at.client.checkpoints.get(model_id, version, site, component, which)
    click.echo(json_text(found))
