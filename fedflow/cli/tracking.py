"""`fedflow tracking`: What jobs produced: metrics, tables, models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from fedflow.base.errors.data import NoData
from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import Output, json_text
from fedflow.cli.session import Session, asks_server
from fedflow.domain.site import Site
from fedflow.wire.api.tracking import Metric

_POINTS = 60  #: a curve with more points is shown by its ends only


@click.group(cls=Nouns)
def command() -> None:
    """What jobs produced: metrics, tables, models."""


@command.command()
@session.job_id
@session.component
@session.site_options
@asks_server
def metrics(at: Session, job_id: str, component: str, site: Site | None) -> None:
    """Show the metrics of a component, for example AUC, or the loss of every iteration."""
    found = at.client.metrics(job_id, component, site=site)
    if not found:
        _check_here(at, job_id, component, site)
    at.out.result(found, lambda: show_metrics(at.out, found))


@command.command()
@session.job_id
@session.component
@session.site_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Save all rows in this folder as CSV instead of showing the first ones.",
)
@click.option("-l", "--limit", default=10, show_default=True, type=click.IntRange(1, 100))
@asks_server
def output(
    at: Session, *, job_id: str, component: str, site: Site | None, output: Path | None, limit: int
) -> None:
    """Show or save the output tables of a component at one site."""
    if output is not None:
        with _nothing_found(at, job_id, component, site):
            files = at.client.download_output(job_id, component, output, site=site)
        at.out.result(
            [str(file) for file in files],
            lambda: click.echo("\n".join(str(file) for file in files)),
        )
        return
    tables = at.client.output_data(job_id, component, site=site)
    if not tables:
        _check_here(at, job_id, component, site)

    def text() -> None:
        if not tables:
            click.echo("This site has no output of the component.")
        for table in tables:
            at.out.note(f"{table.name}: {table.total} rows")
            at.out.table(table.header, table.rows[:limit])

    at.out.result(tables, text)


@command.command()
@session.job_id
@session.component
@session.site_options
@asks_server
def summary(at: Session, job_id: str, component: str, site: Site | None) -> None:
    """Show the summary of a component, as JSON."""
    with _nothing_found(at, job_id, component, site):
        found = at.client.summary(job_id, component, site=site)
    click.echo(json_text(found))


@command.command()
@session.job_id
@session.component
@session.site_options
@asks_server
def model(at: Session, job_id: str, component: str, site: Site | None) -> None:
    """Show a site's model of a component, as JSON."""
    share = at.client.model(job_id, component, site=site)
    if share is None:
        _check_here(at, job_id, component, site)
        raise NoData(reason="this site has no model of the component")
    click.echo(json_text(share))


@command.command()
@session.job_id
@session.component
@session.site_options
@asks_server
def parameters(at: Session, job_id: str, component: str, site: Site | None) -> None:
    """Show the parameters that a component ran with, as JSON."""
    click.echo(json_text(at.client.parameters(job_id, component, site=site)))


@command.command()
@session.job_id
@asks_server
def components(at: Session, job_id: str) -> None:
    """List the components of a job."""
    found = at.client.components_of(job_id)
    at.out.listing(found, ("component",), [(name,) for name in found], none="No components.")


@command.command("delete-metrics")
@session.job_id
@session.yes
@asks_server
def delete_metrics(at: Session, job_id: str, yes: bool) -> None:
    """Delete all metrics of an ended job at this server."""
    session.confirm(at, f"Delete all metrics of job {job_id}?", yes=yes)
    at.client.delete_metrics(job_id)
    at.out.done({"job_id": job_id, "deleted": True}, f"The metrics of job {job_id} were deleted.")


@contextmanager
def _nothing_found(at: Session, job_id: str, component: str, site: Site | None) -> Iterator[None]:
    """Ask inside for results; if there are none, say whether they are at another server."""
    try:
        yield
    except NoData:
        _check_here(at, job_id, component, site)
        raise


def _check_here(at: Session, job_id: str, component: str, site: Site | None) -> None:
    """Raises: NoData: what a site made of the component is at the server of its party."""
    tasks = at.client.job(job_id).tasks if site is not None else ()
    asked = [t for t in tasks if t.component == component and site and t.site == site.key]
    if asked and not any(task.here for task in asked):
        party = asked[0].site.rpartition("-")[2]
        raise NoData(reason=f"what {component} made at {site} is at the server of party {party}")


def show_metrics(out: Output, metrics: list[Metric]) -> None:
    """Print named values as a table each, curves as their points."""
    if not metrics:
        click.echo("This site has no metrics of the component.")
    for metric in metrics:
        title = f"{metric.namespace} / {metric.name}"
        if not metric.points:
            out.note(f"{title}: --json has it")
        elif metric.is_summary:
            out.note(title)
            out.table(("name", "value"), metric.points)
        elif len(metric.points) > _POINTS:
            first, last = metric.points[0], metric.points[-1]
            out.note(f"{title}: {len(metric.points)} points from {first} to {last}; --json has all")
        else:
            out.note(title)
            out.table((str(metric.meta.get("unit_name") or "at"), "value"), metric.points)
