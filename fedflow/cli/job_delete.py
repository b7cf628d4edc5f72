"""`fedflow job delete`: one ended job, or all that ended long ago."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from fedflow.base.errors.requests import BadRequest
from fedflow.cli import session
from fedflow.cli.output import clean, moment
from fedflow.cli.session import Session, asks_server
from fedflow.domain.retention import read_age, read_statuses
from fedflow.wire.api.job_delete import DeletedJob, DeletedJobs, RetainedJob

_UNITS = ("bytes", "KB", "MB", "GB", "TB")


class _Sum(msgspec.Struct, kw_only=True):
    """What went, or would go, in all."""

    jobs: int = 0
    job_ids: list[str] = []
    tables: int = 0
    size_bytes: int = 0
    kept: int = 0
    kept_jobs: list[RetainedJob] = []  #: that cannot be deleted now, and why
    preview: bool = False

    def add(self, found: DeletedJobs) -> None:
        self.jobs += len(found.jobs)
        self.tables += sum(len(job.tables) for job in found.jobs)
        self.size_bytes += sum(job.size_bytes for job in found.jobs)
        self.kept += len(found.kept)
        self.job_ids.extend(job.job_id for job in found.jobs)
        self.kept_jobs.extend(found.kept)

    def sentence(self, text: str) -> str:
        """Return `text`, but what is true if no job goes."""
        if self.jobs:
            return text
        return "None of these jobs can be deleted now." if self.kept else "No job is that old."

    @property
    def what(self) -> str:
        return f"{self.jobs} jobs with {self.tables} tables, {size(self.size_bytes)} in files"


@click.command()
@click.option("-j", "--job", "job_id", metavar="JOB", help="Id of the job.")
@click.option("--older-than", metavar="AGE", help="All jobs that ended longer ago: 12h, 30d or 8w.")
@click.option(
    "--status",
    metavar="WORDS",
    default="",
    help="Of these only those that ended so: success,failed,canceled,timeout.",
)
@session.yes
@click.option("--preview", "--dry-run", "preview", is_flag=True, help="Only show what would go.")
@asks_server
def delete(
    at: Session, *, job_id: str | None, older_than: str | None, status: str, yes: bool,
    preview: bool,
) -> None:  # fmt: skip
    """Delete ended jobs at this server, with everything that they created there."""
    if job_id is not None and older_than is not None:
        raise click.UsageError("give `--job` or `--older-than`, not both")
    if job_id is None and older_than is None:
        raise click.UsageError("give `--job`, or `--older-than`")
    if older_than is not None:
        statuses = [word.strip() for word in status.split(",") if word.strip()]
        try:
            read_age(older_than)
            read_statuses(statuses)
        except BadRequest as exc:
            raise click.UsageError(str(exc.fields["reason"])) from exc
        _delete_old(at, older_than, statuses, yes=yes, preview=preview)
    elif job_id is not None:
        if status:
            raise click.UsageError("`--status` goes with `--older-than`")
        _delete_one(at, job_id, yes=yes, preview=preview)


def _delete_one(at: Session, job_id: str, *, yes: bool, preview: bool) -> None:
    if preview or not (yes or at.out.as_json):
        found = at.client.delete(job_id, preview=True)
        if preview:
            at.out.result(found, lambda: _say_what_goes(found))
            return
        _say_what_goes(found)
    session.confirm(at, f"Delete job {job_id}?", yes=yes)
    done = at.client.delete(job_id)
    at.out.done(done, f"Job {job_id} was deleted.")


def _delete_old(
    at: Session, older_than: str, statuses: list[str], *, yes: bool, preview: bool
) -> None:
    def looks(preview: bool) -> Iterator[DeletedJobs]:
        return at.client.delete_old(older_than, statuses=statuses, preview=preview)

    if preview or not (yes or at.out.as_json):
        would = _Sum(preview=True)
        for found in looks(preview=True):
            would.add(found)
            if not at.out.as_json:
                _list(found)
        if preview:
            text = f"Would delete {would.what}. Nothing was deleted."
            at.out.done(would, would.sentence(text))
            return
        if not would.jobs:
            at.out.note(would.sentence(""))
            return
        click.echo(f"Delete {would.what}.")
    session.confirm(at, f"Delete these jobs older than {older_than}?", yes=yes)
    done = _Sum()
    for found in looks(preview=False):
        done.add(found)
        for kept in found.kept:
            click.echo(f"Kept: job {kept.job_id}: {clean(kept.reason)}.", err=True)
    at.out.done(done, done.sentence(f"{done.what} were deleted."))


def _list(found: DeletedJobs) -> None:
    """Print a line per job of an answer."""
    for job in found.jobs:
        click.echo(
            f"{job.job_id}  {job.status:<8}  {moment(job.ended)}  {len(job.tables)} tables, "
            f"{size(job.size_bytes)}"
        )
        for model in job.models:
            if model.kept:
                click.echo(f"  Keeps the model of {model.role} {model.party_id}: {model.kept}.")
    for kept in found.kept:
        click.echo(f"{kept.job_id}  stays: {clean(kept.reason)}")


def size(size_bytes: float) -> str:
    """Return bytes in a unit that fits."""
    unit = 0
    while size_bytes >= 1000 and unit < len(_UNITS) - 1:
        size_bytes, unit = size_bytes / 1000, unit + 1
    return f"{size_bytes:.{1 if unit else 0}f} {_UNITS[unit]}"


def _say_what_goes(found: DeletedJob) -> None:
    """Print what deleting a job removes."""
    if found.left_over:
        click.echo(f"Job {found.job_id} was deleted; {found.file_bytes} bytes of it are left.")
        return
    click.echo(f"Of job {found.job_id} at {', '.join(found.sites) or 'this server'} delete:")
    click.echo(f"  {found.tasks} tasks, {found.metrics} metrics, {found.caches} caches")
    for table in found.tables:
        click.echo(f"  table {clean(f'{table.namespace}.{table.name}')}, {table.rows} rows")
    for model in found.models:
        if not model.kept:
            click.echo(f"  the model of {model.role} {model.party_id}, {model.size_bytes} bytes")
    click.echo(f"  {found.log_files} log files, {found.log_bytes} bytes")
    click.echo(f"  its files, {found.file_bytes} bytes")
    for kept in found.kept_tables:
        used = ", ".join(kept.jobs)
        click.echo(f"Kept: table {clean(f'{kept.namespace}.{kept.name}')}, used by {used}")
    for model in found.models:
        if model.kept:
            click.echo(f"Kept: the model of {model.role} {model.party_id}, {model.kept}")
    if found.partners:
        click.echo(f"Parties {', '.join(found.partners)} keep their parts.")
