"""How a job is shown to people: while somebody waits, at its end, and when they ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from fedflow.base.errors.error import FedflowError
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.groups import WaitInterrupted
from fedflow.cli.output import Output, clean, console, duration, moment, number, place
from fedflow.cli.progress import JobProgress, WhyAgain, progress_table
from fedflow.client.client import Client
from fedflow.domain.job.figures import CONVERGED, ITERATIONS, ROWS, progress, scores
from fedflow.wire.api.jobs import FOLLOWERS, JobStatusView


def wait_for(
    client: Client, out: Output, job_id: str, *, timeout_s: float | None = None
) -> JobStatusView:
    """Show a job's progress until it ended, then how it ended.

    Raises: click.exceptions.Exit: it did not succeed. StillRunning.
    """
    with goes_on(job_id), JobProgress(out, why_again=_from_history(client, job_id)) as progress:
        view = client.wait(job_id, timeout_s=timeout_s, on_change=progress)
    end_with(out, view)
    return view


def end_with(out: Output, view: JobStatusView) -> None:
    """Show how a job ended. Raises: click.exceptions.Exit: it did not succeed."""
    out.result(view, lambda: _show_end(view))
    if not view.succeeded:
        raise click.exceptions.Exit(CliExitCode.JOB_FAILED)


@contextmanager
def goes_on(job_id: str) -> Iterator[None]:
    """Wait for a job inside: Ctrl-C says that the job goes on, and how to watch and stop it.

    Raises: WaitInterrupted.
    """
    try:
        yield
    except KeyboardInterrupt:
        for line in (
            f"\nJob {job_id} goes on.",
            f"Watch it: fedflow job wait -j {job_id}",
            f"Stop it:  fedflow job stop -j {job_id}\n",
        ):
            click.echo(line, err=True)
        raise WaitInterrupted(job_id) from None


def _from_history(client: Client, job_id: str) -> WhyAgain:
    """Return what reads from a job's history why an attempt failed."""

    def why(component: str, version: int) -> str | None:
        try:
            told = [
                event
                for event in client.history(job_id, component=component)
                if event.version == version and event.code and event.new in ("failed", "timeout")
            ]
        except FedflowError:  # the wait for the job tells it, if it lasts
            return None
        if not told:
            return None
        first = min(told, key=lambda event: (event.code in FOLLOWERS, event.number))
        where = f"{place(first.cause_site or first.site or '')}, ".removeprefix(", ")
        return f"{where}{first.code}: {first.message}"

    return why


def show_job(out: Output, view: JobStatusView) -> None:
    """Print a job with all its tasks."""
    click.echo(f"job        {view.job_id}")
    if view.name:
        click.echo(f"name       {clean(view.name)}")
    click.echo(f"status     {clean(view.status)} ({view.progress} %)")
    if view.reason and not view.succeeded and not _tells_reason(view):
        click.echo(f"reason     {clean(str(view.reason))}")
    click.echo(f"initiator  {place(clean(view.initiator))}")
    click.echo(f"created    {moment(view.created_ms)}")
    if view.started_ms is not None and view.ended_ms is not None:
        click.echo(f"took       {duration((view.ended_ms - view.started_ms) / 1000)}")
    if view.figures:
        click.echo(f"result     {headline(view)}")
    for component, job_id in view.reused.items():
        click.echo(f"reused     {clean(component)} of job {clean(job_id)}")
    for warning in view.warnings:
        click.echo(f"warning    {clean(str(warning))}")
        if warning.hint:
            click.echo(f"           {clean(warning.hint)}")
    click.echo()
    console().print(progress_table(view))
    show_first_error(view)


def _show_end(view: JobStatusView) -> None:
    started = view.started_ms if view.started_ms is not None else view.created_ms
    took = duration((view.ended_ms - started) / 1000) if view.ended_ms is not None else None
    click.echo(f"Job {view.job_id}: {clean(view.status)}" + (f" after {took}." if took else "."))
    if view.succeeded and view.figures:
        click.echo(f"Result: {headline(view)}")
    if view.reason and not view.succeeded and not _tells_reason(view):
        click.echo(f"Reason: {clean(str(view.reason))}")
    show_first_error(view)
    if view.first_error is not None and not view.succeeded:
        click.echo(f"What helps: `fedflow job explain -j {view.job_id}` says it.")


def headline(view: JobStatusView) -> str:
    """Return the figures of this server's part of a job that count most, in one line."""
    told = [f"{f.name} {f.value:.4g} ({f.part})" for f in scores(view.figures)]
    found = progress(view.figures, CONVERGED)
    counted = progress(view.figures, ITERATIONS)
    if found is not None:
        told.append("converged" if found.value else "not converged")
    if counted is not None:
        told.append(f"{number(counted.value)} iterations")
    rows = progress(view.figures, ROWS)
    if rows is not None:
        told.append(f"{number(rows.value)} rows in common")
    return clean(", ".join(told))


def show_figures(out: Output, view: JobStatusView) -> None:
    """Print all figures of a job."""
    rows = [(f.component, f.model, f.part, f.name, number(f.value)) for f in view.figures]
    out.note(f"{clean(view.name or view.job_id)}: {clean(view.status)}")
    none = "No component evaluated, trained or joined anything at this site."
    out.listing(view, ("component", "model", "rows of", "figure", "value"), rows, none=none)


def _tells_reason(view: JobStatusView) -> bool:
    """Tell whether the first error says what the job's reason says."""
    first = view.first_error.reason if view.first_error is not None else None
    return first is not None and view.reason is not None and first.message in view.reason.message


def show_first_error(view: JobStatusView) -> None:
    error = view.first_error
    if error is None or error.reason is None:
        return
    click.echo()
    what = "First error, which does not count:" if view.succeeded else "First error:"
    click.echo(f"{what} {error.component} at {place(error.site)}, {clean(error.reason.code)}")
    click.echo(f"  {clean(error.reason.message)}")
