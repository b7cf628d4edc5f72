"""`fedflow job ledger`: what left this site, and who waited for whom."""

from __future__ import annotations

from pathlib import Path

import click

from fedflow.cli import session
from fedflow.cli.output import clean, duration, moment, place
from fedflow.cli.session import Session, asks_server
from fedflow.wire.api.ledgers import JobLedger, TaskLedger


@click.command()
@session.job_id
@session.one_component("Only what this component exchanged.")
@click.option(
    "--export", "target", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Write it as CSV, and the signature of this party's site key as FILE.sig.",
)  # fmt: skip
@asks_server
def ledger(at: Session, job_id: str, component: str | None, target: Path | None) -> None:
    """Show what a job sent from this site to each party, received and waited for; no contents."""
    if target is not None:
        signed = at.client.job_ledgers.export(job_id, component)
        signature = target.with_name(target.name + ".sig")
        target.write_bytes(signed.csv.encode())
        signature.write_text(signed.signature + "\n", encoding="ascii")
        at.out.done(
            {"csv": str(target), "signature": str(signature)}, f"Wrote {target} and {signature}."
        )
        return
    found = at.client.job_ledgers.of(job_id, component)
    at.out.result(found, lambda: _show(at, found))


def wait_line(task: TaskLedger) -> str | None:
    """Return for which peer a task waited longest, None if it waited for none."""
    peer = task.awaited
    if peer is None or task.seconds <= 0:
        return None
    which = f"{task.component}, attempt {task.version}" if task.version else task.component
    share = f"{task.awaited_percent} % of {duration(task.seconds)}"
    return f"{which}: {share} waiting for {place(peer.site)}"


def _show(at: Session, found: JobLedger) -> None:
    if not found.tasks:
        at.out.note("Nothing is known to have been exchanged with other parties.")
        return
    for line in filter(None, map(wait_line, found.tasks)):
        at.out.note(clean(line))
    at.out.table(
        ("component", "site", "peer", "direction", "message", "content", "calls", "bytes", "first",
         "last"),
        [
            (f"{task.component} {task.version}", task.site, peer.site,
             "sent" if one.is_sent else "arrived", one.name, one.content, one.calls,
             one.size_bytes, moment(one.first_ms), moment(one.last_ms))
            for task, peer, one in found.lines()
        ],
    )  # fmt: skip


COMMANDS = (ledger,)
