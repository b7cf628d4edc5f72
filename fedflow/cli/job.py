"""`fedflow job`: Submit jobs, watch and stop them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click
import msgspec

from fedflow.base.errors.jobs import LogNotHere
from fedflow.cli import job_history, job_ledger, session
from fedflow.cli.files import JobFileParam, JsonFile
from fedflow.cli.groups import Nouns
from fedflow.cli.job_changes import COMMANDS
from fedflow.cli.job_view import show_figures, show_first_error, show_job, wait_for
from fedflow.cli.output import clean, duration, moment, number, place
from fedflow.cli.session import Session, asks_server
from fedflow.client.client import Client
from fedflow.client.job_file import JobFile
from fedflow.domain.site import Site

_LEVELS = ("debug", "info", "warning", "error", "stdout")
_TAIL_LINES = 20  #: of the failed task's log, shown with the first real error


@click.group(cls=Nouns)
def command() -> None:
    """Submit jobs, watch and stop them."""


for _one in (*COMMANDS, *job_history.COMMANDS, *job_ledger.COMMANDS):
    command.add_command(_one)


@command.command()
@click.option(
    "-f",
    "--file",
    "file",
    type=JobFileParam(),
    help="Whole job in one file, YAML or JSON, with the members `dsl` and `conf`.",
)
@click.option("-c", "--conf", "conf", type=JsonFile(), help="Runtime conf, as for FATE.")
@click.option(
    "-d", "--dsl", "dsl", type=JsonFile(), help="DSL, as for FATE; a predict job needs none."
)
@click.option(
    "--idempotency-key",
    metavar="KEY",
    help="Key of this submit, for a week: a repeat with the same key gives the same job.",
)
@click.option("--name", metavar="TEXT", help="What people call the job.")
@click.option("--strict", is_flag=True, help="Refuse the job where it would only be warned of.")
@click.option("--wait", "wait_", is_flag=True, help="Wait for its end; exit code 3 if it fails.")
@asks_server
def submit(
    at: Session, *, file: JobFile | None, conf: dict[str, Any] | None, dsl: dict[str, Any] | None,
    idempotency_key: str | None, name: str | None, strict: bool, wait_: bool,
) -> None:  # fmt: skip
    """Submit a job: DSL and conf as two files, or both in one."""
    job = _one_job(file, conf=conf, dsl=dsl)
    made = at.client.submit(
        job.dsl, job.conf, idempotency_key=idempotency_key, strict=strict, name=name
    )
    for component, job_id in made.reused.items():
        click.echo(f"{clean(component)} is taken over from job {clean(job_id)}.", err=True)
    for warning in made.warnings:
        click.echo(f"Warning: {clean(str(warning))} {clean(warning.hint)}".rstrip(), err=True)
    if wait_:
        at.out.note(f"Job {made.job_id} was submitted.")
        wait_for(at.client, at.out, made.job_id)
        return

    def text() -> None:
        click.echo(f"Job {made.job_id} was submitted.")
        click.echo(f"Watch it: fedflow job wait -j {made.job_id}")

    at.out.result(made, text)


def _one_job(
    file: JobFile | None, *, conf: dict[str, Any] | None, dsl: dict[str, Any] | None
) -> JobFile:
    """Return the job that the options name. Raises: click.UsageError."""
    if file is None and conf is None:
        raise click.UsageError("name the job with `--file`, or with `--conf` and `--dsl`")
    if file is not None and (conf is not None or dsl is not None):
        raise click.UsageError("`--file` has the whole job: leave `--conf` and `--dsl` out")
    return file or JobFile(dsl=dsl or {}, conf=conf or {})


@command.command()
@session.job_id
@asks_server
def query(at: Session, job_id: str) -> None:
    """Show a job's status, with every task and the first real error."""
    view = at.client.job(job_id)
    at.out.result(view, lambda: show_job(at.out, view))


@command.command()
@session.job_id
@asks_server
def result(at: Session, job_id: str) -> None:
    """Show the figures of a job at this server: scores, convergence, rows in common."""
    show_figures(at.out, at.client.job(job_id))


@command.command("list")
@click.option(
    "-l", "--limit", default=20, show_default=True, type=click.IntRange(0), help="0: all."
)
@click.option("--page", default=1, type=click.IntRange(1), help="Page, each of `limit` jobs.")
@click.option(
    "-s",
    "--status",
    type=click.Choice(["waiting", "running", "success", "failed", "canceled"]),
    help="Only jobs with this status.",
)
@click.option("--tag", metavar="NAME", help="Only jobs with this tag.")
@asks_server
def list_(at: Session, *, limit: int, page: int, status: str | None, tag: str | None) -> None:
    """List this server's jobs, newest first."""
    found = at.client.jobs(limit, page=page, status=status, tag=tag)
    rows = [
        (
            job.job_id,
            job.name,
            f"{job.role} {job.party_id}",
            f"{job.status} {number(job.progress)}%" if job.status == "running" and job.progress
            else job.status,
            moment(job.create_time),
            duration(job.elapsed / 1000) if job.elapsed is not None else None,
        )
        for job in found.jobs
    ]  # fmt: skip

    def text() -> None:
        if not rows:
            click.echo("No jobs.")
            return
        at.out.table(("job", "name", "site", "status", "created", "took"), rows)
        if len(rows) < found.count:
            click.echo(f"{len(rows)} of {found.count}; --page or --limit shows more.")

    at.out.result(found, text)


@command.command()
@session.job_id
@asks_server
def stop(at: Session, job_id: str) -> None:
    """Stop a job at all its parties."""
    stopped = at.client.stop(job_id)
    said = f"is {clean(stopped.status)}"
    if stopped.had_ended:
        said = f"had ended before: {clean(stopped.status)}"
    elif not stopped.is_final:
        said = (
            f"is being stopped, and still {clean(stopped.status)}: `fedflow job explain` says why"
        )
    at.out.result(stopped, lambda: click.echo(f"Job {job_id} {said}."))


@command.command()
@session.job_id
@click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Longest wait, seconds.")
@asks_server
def wait(at: Session, job_id: str, timeout: float | None) -> None:
    """Wait until a job has ended; exit code 3 if it did not succeed."""
    wait_for(at.client, at.out, job_id, timeout_s=timeout)


@command.command()
@session.job_id
@session.one_component("Component; default: the first error's.")
@session.site_options
@click.option(
    "--level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default="info",
    help="Which log to print.",
)
@click.option("-f", "--follow", is_flag=True, help="Print new lines until the job ends.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Save all logs of the job in this folder instead of printing.",
)
@asks_server
def log(
    at: Session,
    *,
    job_id: str,
    component: str | None,
    site: Site | None,
    level: str,
    follow: bool,
    output: Path | None,
) -> None:
    """Print the first real error of a job, or the log of one component at this server."""
    if follow:
        _follow(at, job_id, component=component, site=site, level=level)
        return
    if output is not None:
        files = at.client.log_download(job_id, output)
        at.out.result(
            [str(file) for file in files],
            lambda: click.echo(f"{len(files)} files were saved in {output}."),
        )
        return
    if component is None and site is None:
        _print_first_error(at, job_id)
        return
    with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
        chosen = _chosen(
            at.client, job_id, folder=Path(folder), component=component, site=site, level=level
        )
        if not chosen:
            raise _no_log(at.client, job_id, component=component, site=site, level=level)
        logs = [(name, _read(path)) for name, path in chosen]

    def text() -> None:
        for name, lines in logs:
            if len(logs) > 1:
                click.echo(f"==> {name} <==")
            click.echo(clean(lines), nl=not lines.endswith("\n"))

    at.out.result(dict(logs), text)


# --- logs, as they come ---------------------------------------------------------------------------


def _follow(
    at: Session, job_id: str, *, component: str | None, site: Site | None, level: str
) -> None:
    """Print the lines of one log: of the job, of a site, or of a component at a site."""
    if component is not None and level != "info":
        raise click.UsageError("`--follow` with a component shows its info log only")
    if site is None and component is not None:
        site = at.client.own_sites(job_id)[0]
    if level == "stdout":
        raise click.UsageError("`--follow` cannot show what a component printed")
    kind = "componentInfo" if component else f"party{level.capitalize()}"
    if site is None:
        kind = "jobScheduleError" if level == "error" else "jobSchedule"
    for line in at.client.follow_log(job_id, kind, site=site, component=component):
        if at.out.as_json:
            click.echo(msgspec.json.encode(line))
        else:
            click.echo(clean(line.content))


# --- logs -----------------------------------------------------------------------------------------


def _print_first_error(at: Session, job_id: str) -> None:
    view = at.client.job(job_id)
    error = view.first_error
    tail: list[str] = []
    if error is not None:
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            site = Site.from_key(error.site)
            for _, path in _chosen(
                at.client, job_id, folder=Path(folder), component=error.component, site=site,
                level="error",
            ):  # fmt: skip
                tail += _read(path).splitlines()[-_TAIL_LINES:]

    def text() -> None:
        if error is None:
            click.echo(f"Job {job_id} is {clean(view.status)}; no task has failed at this server.")
            if view.reason and not view.succeeded:
                click.echo(f"Reason: {clean(str(view.reason))}")
            click.echo("`-c COMPONENT` prints the log of a component.")
            return
        show_first_error(view)
        for line in tail:
            click.echo(f"  {clean(line)}")
        if not error.here:
            click.echo(f"Its log is at the server of party {Site.from_key(error.site).party_id}.")

    at.out.result({"status": view.status, "first_error": error, "log": tail}, text)


def _chosen(
    client: Client,
    job_id: str,
    *,
    folder: Path,
    component: str | None,
    site: Site | None,
    level: str,
) -> list[tuple[str, Path]]:
    """Return (name, file) of the logs of a level below `folder`, the newest attempt of each."""
    wanted = "stdout.log" if level == "stdout" else f"{level.upper()}.log"
    newest: dict[tuple[str, ...], tuple[int, Path]] = {}
    root = folder.resolve()
    for path in client.log_download(job_id, folder):
        parts = path.relative_to(root).parts
        if len(parts) != 5 or parts[4] != wanted or not parts[3].isdigit():
            continue
        role, party_id, name = parts[:3]
        if component is not None and name != component:
            continue
        if site is not None and (role, party_id) != (site.role.value, site.party_id):
            continue
        key = (role, party_id, name)
        if key not in newest or newest[key][0] < int(parts[3]):
            newest[key] = (int(parts[3]), path)
    return [(f"{r} {p} {name}", path) for (r, p, name), (_, path) in sorted(newest.items())]


def _no_log(
    client: Client, job_id: str, *, component: str | None, site: Site | None, level: str
) -> LogNotHere:
    """Return why there is no such log: who has it, or that there is none at all."""
    fitting = [
        task
        for task in client.job(job_id).tasks
        if component in (None, task.component) and (site is None or site.key == task.site)
    ]
    where = " and ".join(dict.fromkeys(place(task.site) for task in fitting))
    if not fitting:
        reason = f"the job has no {component or 'component'}{f' at {site}' if site else ''}"
    elif not any(task.here for task in fitting):
        parties = dict.fromkeys(Site.from_key(task.site).party_id for task in fitting)
        reason = f"it is at the server of party {', '.join(parties)}"
    elif all(task.started_ms is None for task in fitting):
        why = next((f" ({task.reason})" for task in fitting if task.reason), "")
        reason = f"no process of {component or 'the job'} ran at {where}{why}"
    else:
        reason = f"nothing was logged at level {level} at {where}"
    return LogNotHere(reason=reason)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")
