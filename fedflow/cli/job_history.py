"""Commands of `fedflow job` about why: what happened to a job, what it waits for, why it ended."""

from __future__ import annotations

from collections.abc import Iterator

import click
import msgspec

from fedflow.cli import session
from fedflow.cli.job_ledger import wait_line
from fedflow.cli.output import clean, moment, place
from fedflow.cli.session import Session, asks_server
from fedflow.domain.states import TaskStatus
from fedflow.wire.api.job_history import Absence, End, Explanation, Wait
from fedflow.wire.api.ledgers import JobLedger


@click.command()
@session.job_id
@session.one_component("Only what happened to this component.")
@click.option("-f", "--follow", is_flag=True, help="Print also what happens until the job's end.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), help="Longest wait, seconds.")
@asks_server
def events(
    at: Session, job_id: str, component: str | None, follow: bool, timeout: float | None
) -> None:
    """Print what happened to a job, and why, in UTC; with `--json` one object per line."""
    if timeout is not None and not follow:
        raise click.UsageError("`--timeout` goes with `--follow`")
    if follow:
        told = at.client.follow_history(job_id, component=component, timeout_s=timeout)
    else:
        told = at.client.history(job_id, component=component)
    for event in told:
        if at.out.as_json:
            click.echo(msgspec.json.encode(event))
        else:
            at.out.note(str(event))


@click.command()
@session.job_id
@asks_server
def explain(at: Session, job_id: str) -> None:
    """Say what a job waits for, where, since when and until when, and what would help; or why it
    ended.
    """
    from fedflow.domain.scheduling.explain import RUNNING  # which other commands never need

    found = at.client.explain(job_id)

    def text() -> None:
        for line in explanation_lines(found):
            click.echo(clean(line))
        if any(wait.code == RUNNING for wait in found.waits):
            for line in _exchange_lines(at.client.job_ledgers.of(job_id)):
                click.echo(clean(line))

    at.out.result(found, text)


def _exchange_lines(ledger: JobLedger) -> Iterator[str]:
    """Yield for whom the tasks wait that run at this server, while they exchange values."""
    for task in ledger.tasks:
        line = wait_line(task) if task.status == TaskStatus.RUNNING else None
        if line is not None:
            yield f"{line}."


def explanation_lines(found: Explanation) -> Iterator[str]:
    """Yield the lines that explain a job to people; times in the local zone."""
    rerun = f", rerun {found.epoch}" if found.epoch else ""
    yield f"Job {found.job_id} is {found.status}{rerun}."
    if not found.is_initiator:
        where = place(found.initiator)
        yield f"This server knows only its own part; {where} started the job and knows more."
    if found.end is not None:
        yield from _end_lines(found.end)
    for absence in found.absences:
        yield _absence_line(absence)
    for number, wait in enumerate(found.waits, start=1):
        yield ""
        yield from _wait_lines(number, wait)
    if found.end is None and found.deadline_ms is not None:
        yield ""
        yield f"It ends by itself at {moment(found.deadline_ms)} if it has not ended before."


def _absence_line(absence: Absence) -> str:
    why = f": {absence.reason}" if absence.reason else ""
    who = f"{place(absence.site)} was absent"
    if absence.first_round is not None:
        first, last = absence.first_round, absence.last_round
        which = f"in round {first}" if first == last else f"from round {first} to {last}"
        return f"{absence.component}: {who} {which}{why}."
    since = moment(absence.since_ms) if absence.since_ms is not None else "?"
    if absence.until_ms is None:
        return f"{who} from {since} on{why}."
    return f"{who} from {since} to {moment(absence.until_ms)}{why}."


def _wait_lines(number: int, wait: Wait) -> Iterator[str]:
    yield f"{number}. {wait.code}: {wait.message}."
    times = [
        f"{word} {moment(at_ms)}"
        for word, at_ms in (
            ("since", wait.since_ms), ("last contact", wait.heard_ms), ("next try", wait.next_ms),
            ("at the latest until", wait.deadline_ms),
        )
        if at_ms is not None
    ]  # fmt: skip
    if times:
        yield f"   {', '.join(times)}"
    yield f"   What helps: {wait.remedy}."


def _end_lines(end: End) -> Iterator[str]:
    if end.component:
        attempt = f", attempt {end.version}" if end.version else ""
        where = f" at {place(end.site)}" if end.site else ""
        yield f"First failure: {end.component}{attempt}{where}."
    yield f"{end.code or 'Why'}: {end.message.removesuffix('.')}."
    if end.log:
        yield f"Log: {end.log}"
    yield f"What helps: {end.remedy.removesuffix('.')}."


COMMANDS = (events, explain)
