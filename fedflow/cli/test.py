"""`fedflow test`: Test whether two parties can work together."""

from __future__ import annotations

import click

from fedflow.cli import suggestions
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.flow.toy import run_toy
from fedflow.cli.groups import Nouns
from fedflow.cli.session import Session, asks_server


@click.group(cls=Nouns)
def command() -> None:
    """Test whether two parties can work together."""


@command.command()
@click.option(
    "--guest",
    required=True,
    metavar="ID",
    help="Party id of the guest.",
    shell_complete=suggestions.parties,
)
@click.option(
    "--host",
    required=True,
    metavar="ID",
    help="Party id of the host.",
    shell_complete=suggestions.parties,
)
@click.option("--timeout", default=300.0, show_default=True, help="Longest wait, seconds.")
@click.option("--cores", default=2, show_default=True, type=click.IntRange(1))
@asks_server
def toy(at: Session, guest: str, host: str, timeout: float, cores: int) -> None:
    """Add two secret numbers between two parties; exit code 3 if that fails."""
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        at.out.note(line)

    done = run_toy(at.client, guest, host, timeout_s=timeout, cores=cores, say=say)
    at.out.result({"success": done, "lines": said}, lambda: None)
    if not done:
        raise click.exceptions.Exit(CliExitCode.JOB_FAILED)
