"""How a job is shown to people: while somebody waits, at its end, and when they ask."""

from __future__ import annotations

import click

from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.output import Output, clean, console, duration, moment, place
from fedflow.cli.progress import JobProgress, progress_table
from fedflow.client.client import Client
from fedflow.wire.api.jobs import JobStatusView


def wait_for(
    client: Client, out: Output, job_id: str, *, timeout_s: float | None = None
) -> JobStatusView:
    """Show a job's progress until it ended, then how it ended.

    Raises: click.exceptions.Exit: it did not succeed. StillRunning.
    """
    with JobProgress(out) as progress:
        view = client.wait(job_id, timeout_s=timeout_s, on_change=progress)
    out.result(view, lambda: _show_end(view))
    if not view.succeeded:
        raise click.exceptions.Exit(CliExitCode.JOB_FAILED)
    return view


def show_job(out: Output, view: JobStatusView) -> None:
    """Print a job with all its tasks."""
    click.echo(f"job        {view.job_id}")
    click.echo(f"status     {clean(view.status)} ({view.progress} %)")
    if view.reason and not view.succeeded:
        click.echo(f"reason     {clean(str(view.reason))}")
    click.echo(f"initiator  {place(clean(view.initiator))}")
    click.echo(f"created    {moment(view.created_ms)}")
    if view.started_ms is not None and view.ended_ms is not None:
        click.echo(f"took       {duration((view.ended_ms - view.started_ms) / 1000)}")
    for component, job_id in view.reused.items():
        click.echo(f"reused     {clean(component)} of job {clean(job_id)}")
    for warning in view.warnings:
        click.echo(f"warning    {clean(warning)}")
    click.echo()
    console().print(progress_table(view))
    show_first_error(view)


def _show_end(view: JobStatusView) -> None:
    started = view.started_ms if view.started_ms is not None else view.created_ms
    took = duration((view.ended_ms - started) / 1000) if view.ended_ms is not None else None
    click.echo(f"Job {view.job_id}: {clean(view.status)}" + (f" after {took}." if took else "."))
    if view.reason and not view.succeeded:
        click.echo(f"Reason: {clean(str(view.reason))}")
    show_first_error(view)


def show_first_error(view: JobStatusView) -> None:
    error = view.first_error
    if error is None or error.reason is None:
        return
    click.echo()
    what = "First error, which does not count:" if view.succeeded else "First error:"
    click.echo(f"{what} {error.component} at {place(error.site)}, {clean(error.reason.code)}")
    click.echo(f"  {clean(error.reason.message)}")
