"""`fedflow task`: Tasks: the components of jobs at each site."""

from __future__ import annotations

import click

from fedflow.cli import session, suggestions
from fedflow.cli.groups import Nouns
from fedflow.cli.output import duration, moment
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site


@click.group(cls=Nouns)
def command() -> None:
    """Tasks: the components of jobs at each site."""


@command.command("list")
@click.option(
    "-j",
    "--job",
    "job_id",
    metavar="JOB",
    help="Only of this job.",
    shell_complete=suggestions.jobs,
)
@session.one_component("Only of this component.")
@session.site_options
@click.option(
    "-l", "--limit", default=20, show_default=True, type=click.IntRange(0), help="0: all."
)
@click.option("--page", default=1, type=click.IntRange(1), help="Page, each of `limit` tasks.")
@asks_server
def list_(
    at: Session, *, job_id: str | None, component: str | None, site: Site | None, limit: int,
    page: int,
) -> None:  # fmt: skip
    """List tasks, newest first."""
    found = at.client.tasks(limit, page=page, job_id=job_id, component=component, site=site)
    rows = [
        (t.job_id, t.component_name, f"{t.role} {t.party_id}", t.task_version, t.status,
         moment(t.start_time), duration(t.elapsed / 1000) if t.elapsed is not None else None)
        for t in found.tasks
    ]  # fmt: skip

    columns = ("job", "component", "site", "attempt", "status", "started", "took")
    at.out.listing(found, columns, rows, none="No tasks.", count=found.count)
