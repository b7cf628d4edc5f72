"""`fedflow queue`: Jobs that wait for cores."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Jobs that wait for cores and memory."""


@command.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, help="How many to show.")
@asks_server
def list_(at: Session, limit: int) -> None:
    """List the jobs that wait, in their order, and what each waits for."""
    found = at.client.queue(limit=limit)
    rows = [
        (
            j.position,
            j.job_id,
            f"{j.role} {j.party_id}",
            f"{j.priority}{' (starving)' if j.starving else ''}",
            moment(j.since),
            j.reason.message if j.reason else "",
        )
        for j in found.jobs
    ]
    columns = ("place", "job", "site", "priority", "since", "waits for")
    at.out.listing(found, columns, rows, none="No job waits.")


@command.command()
@session.yes
@asks_server
def clean(at: Session, yes: bool) -> None:
    """Cancel every job that waits."""
    question, otherwise = "Cancel every job that waits?", "Nothing was canceled."
    session.confirm(at, question, yes=yes, otherwise=otherwise)
    found = at.client.clean_queue()
    at.out.done({"canceled": found}, f"{len(found)} jobs were canceled.")
