"""The group of all commands of `fedflow`.

A group of commands is imported when it is used, so that `fedflow job query` does not pay for
`fedflow demo`. It is `command` in the module of its name, whose first line says what it is for.
"""

from __future__ import annotations

import importlib
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from fedflow import __version__
from fedflow.cli.groups import Nouns, run_program

_HERE: Final = Path(__file__).parent
_FIRST_LINE: Final = re.compile(r'"""`fedflow (\w+)`: (.+?)(?:"""|)\n')


def _summary(name: str) -> str | None:
    """Return what a command is for: the first line of its module; None if there is no such one."""
    try:
        with (_HERE / f"{name}.py").open(encoding="utf-8") as module:
            match = _FIRST_LINE.fullmatch(module.readline())
    except (OSError, ValueError):
        return None
    return match[2] if match is not None and match[1] == name else None


def _commands() -> dict[str, str]:
    """Return every command and what it is for, by name."""
    names = sorted(path.stem for path in _HERE.glob("*.py"))
    return {name: text for name in names if (text := _summary(name)) is not None}


class CommandGroup(Nouns):
    """A group that imports its commands late and turns errors into exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_commands())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if _summary(cmd_name) is None:
            return None
        module = importlib.import_module(f"fedflow.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_commands().items()))

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and end the process with an `ExitCode`."""
        options = {"prog_name": "fedflow", **extra, "standalone_mode": False}
        words = (args[0] if args else extra.get("args")) or sys.argv[1:]
        run = partial(super().main, *args, **options)
        sys.exit(run_program(run, as_json="--json" in words))


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
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
