"""The group of all commands of `fedflow`.

A group of commands is imported when it is used, so that `fedflow job query` does not pay for
`fedflow demo`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

import click

from fedflow import __version__
from fedflow.cli.groups import Nouns, run_program

_COMMANDS: Final[dict[str, str]] = {
    "board": "Accounts of the board, the server's web pages.",
    "checkpoint": "States of models while they were trained.",
    "completion": "Let the shell complete commands and options.",
    "component": "Component modules that a server can run.",
    "connector": "Hosts and credentials for tables of other storages.",
    "data": "Upload this party's data to its own server.",
    "demo": "Run a federated job between two parties on this machine.",
    "job": "Submit jobs, watch and stop them.",
    "key": "Public keys of other parties.",
    "model": "Models: deploy, predict, export and import, tag.",
    "openapi": "The OpenAPI document of a server's REST API.",
    "party": "Other parties: can they be reached?",
    "permission": "What jobs of other parties may use here.",
    "provider": "Packages of components.",
    "queue": "Jobs that wait for cores.",
    "resource": "The cores of a server.",
    "server": "Run this party's server.",
    "service": "Servers and services that are registered here.",
    "table": "Tables of this party.",
    "tag": "Tags, and the models that have them.",
    "task": "Tasks: the components of jobs at each site.",
    "template": "Examples of jobs and of conf files.",
    "test": "Trials of whether two parties can work together.",
    "tls": "Certificates for trials.",
    "tracking": "What jobs produced: metrics, tables, models.",
    "version": "Versions of this command and of a server.",
}
"""Name of a command -> what it is for; the command is `command` in the module of its name."""


class Commands(Nouns):
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
        sys.exit(run_program(lambda: super(Commands, self).main(*args, **options)))


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
