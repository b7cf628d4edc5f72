"""The group of all commands, and the one place where an error becomes text and an exit code.

A group of commands is imported when it is used, so that `fedflow job query` does not pay for
`fedflow demo`.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import click

from fedflow import __version__
from fedflow.base.errors import FedflowError, InvalidJobSpec, ServerNotReachable
from fedflow.cli.exit_codes import ExitCode
from fedflow.cli.output import clean

_COMMANDS: Final[dict[str, str]] = {
    "component": "Component modules that a server can run.",
    "data": "Upload this party's data to its own server.",
    "demo": "Run a federated job between two parties on this machine.",
    "job": "Submit jobs, watch and stop them.",
    "server": "Run this party's server.",
    "table": "Tables of this party.",
    "tls": "Certificates for trials.",
    "tracking": "What jobs produced: metrics, tables, models.",
    "version": "Versions of this command and of a server.",
}
"""Name of a command -> what it is for; the command is `command` in the module of its name."""


class Commands(click.Group):
    """A group that imports its commands late and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"fedflow.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and end the process with an `ExitCode`."""
        options = {"prog_name": "fedflow", **extra, "standalone_mode": False}
        sys.exit(_exit_code(lambda: super(Commands, self).main(*args, **options)))


def _exit_code(run: Callable[[], Any]) -> int:
    """Run a command; return its exit code after telling on stderr what went wrong."""
    try:
        ended = run()
        sys.stdout.flush()
        return ended if isinstance(ended, int) else ExitCode.OK
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except FedflowError as exc:
        show_error(exc)
        unreachable = isinstance(exc, ServerNotReachable)
        return ExitCode.NOT_REACHABLE if unreachable else ExitCode.ERROR
    except BrokenPipeError:  # the reader, for example `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return ExitCode.ERROR
    except Exception as exc:  # noqa: BLE001  the door of the command line
        if os.environ.get("FEDFLOW_DEBUG"):
            traceback.print_exc()
        click.echo(f"Error: internal error: {type(exc).__name__}: {exc}", err=True)
        click.echo(
            "Hint: this is a defect of fedflow; with FEDFLOW_DEBUG=1 it shows where.", err=True
        )
        return ExitCode.ERROR


def show_error(error: FedflowError) -> None:
    """Print an error and what to do about it on stderr."""
    if isinstance(error, InvalidJobSpec) and len(error.problems) > 1:
        click.echo("Error: The job is not valid:", err=True)
        for problem in error.problems:
            click.echo(f"  {clean(str(problem))}", err=True)
    else:
        click.echo(f"Error: {clean(error.message)}", err=True)
    if error.hint:
        click.echo(f"Hint: {error.hint}", err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fedflow")
def cli() -> None:
    """Machine learning across organisations whose data stay where they are.

    Exit codes: 0 success, 1 error, 2 wrong usage, 3 the job did not succeed, 4 no server answers.
    """


def main() -> None:
    """Run the command line; the console script and `python -m fedflow.cli.main` call it."""
    cli.main()


if __name__ == "__main__":
    main()
