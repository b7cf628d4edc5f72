"""`fedflow queue`: jobs that wait for cores."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Jobs that wait for cores."""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the jobs that wait, newest first."""
    found = at.client.jobs(0, status="waiting")
    rows = [(j.job_id, f"{j.role} {j.party_id}", moment(j.create_time)) for j in found.jobs]
    at.out.listing(found, ("job", "site", "created"), rows, none="No job waits.")


@command.command()
@session.yes
@asks_server
def clean(at: Session, yes: bool) -> None:
    """Cancel every job that waits."""
    session.confirm(at, "Cancel every job that waits?", yes=yes)
    found = at.client.clean_queue()
    at.out.done({"canceled": found}, f"{len(found)} jobs were canceled.")
