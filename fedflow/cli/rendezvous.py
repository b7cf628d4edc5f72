"""`fedflow rendezvous`: Runs of rendezvous that the server stores."""

from __future__ import annotations

import click

from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Runs of rendezvous that the server stores."""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the runs, the last written first."""
    found = at.client.rendezvous.all()
    rows = [(r.run_id, r.scope, r.caller, moment(r.updated_ms)) for r in found]
    at.out.listing(found, ("run", "of", "begun by", "written"), rows, none="No runs.")


@command.command()
@click.argument("run_id")
@click.option("--scope", required=True, metavar="SCOPE", help="Whose run it is, as listed.")
@session.yes
@asks_server
def delete(at: Session, run_id: str, scope: str, yes: bool) -> None:
    """Delete a run; its members begin anew."""
    session.confirm(at, f"Delete the run {run_id}?", yes=yes)
    gone = at.client.rendezvous.remove(scope, run_id)
    text = f"The run {run_id} was deleted." if gone else f"There was no run {run_id}."
    at.out.done({"run_id": run_id, "deleted": gone}, text)
