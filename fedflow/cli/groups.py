"""Groups of commands, and the one place where an error becomes text and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, Final

import click

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadClientConf, BadDocument
from fedflow.base.errors.start import ServerNotReachable
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.output import clean

_FATES_WORDS: Final = {
    "connector-query": "connector-show",
    "disable-delete": "delete-disabled",
    "get-model-info": "info",
    "get-predict-conf": "predict-conf",
    "get-predict-dsl": "predict-dsl",
    "get-summary": "summary",
    "metric-all": "metrics",
    "metric-delete": "delete-metrics",
    "output-data": "output",
    "output-data-table": "output",
    "output-model": "model",
    "parameter-update": "update",
    "privilege": "permission",
    "tag-list": "tag",
    "tag-model": "tag",
    "tracking-job": "jobs",
    "tracking-source": "source",
    "upload-history": "history",
}
"""Words of FATE's `flow` -> those of `fedflow`, for people who come from there."""


class Nouns(click.Group):
    """A group that names the command which was probably meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = self.list_commands(ctx)
        if name in known or name.startswith("-"):
            return super().resolve_command(ctx, args)
        import difflib  # every server imports this module

        near = [word for word in (_FATES_WORDS.get(name),) if word in known]
        near = near or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        asked = " or ".join(repr(one) for one in near)
        meant = f" Did you mean {asked}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{meant}", ctx)


def run_program(run: Callable[[], Any]) -> int:
    """Run a command; return its exit code, after printing an error to stderr."""
    try:
        ended = run()
        sys.stdout.flush()
        return ended if isinstance(ended, int) else CliExitCode.OK
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return CliExitCode.INTERRUPTED
    except FedflowError as exc:
        show_error(exc)
        return exit_code_of(exc)
    except BrokenPipeError:  # the reader, for example `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return CliExitCode.ERROR
    except OSError as exc:  # a file of this machine
        where = f"{exc.filename}: " if exc.filename else ""
        click.echo(f"Error: {clean(f'{where}{exc.strerror or exc}')}", err=True)
        return CliExitCode.ERROR
    except Exception as exc:  # noqa: BLE001  the door of the command line
        if os.environ.get("FEDFLOW_DEBUG"):
            traceback.print_exc()
        click.echo(f"Error: internal error: {type(exc).__name__}: {exc}", err=True)
        click.echo(
            "Hint: this is a defect of fedflow; with FEDFLOW_DEBUG=1 it shows where.", err=True
        )
        return CliExitCode.ERROR


def exit_code_of(error: FedflowError) -> CliExitCode:
    """Return the exit code that an error of a call ends a command with."""
    if isinstance(error, ServerNotReachable):
        return CliExitCode.NOT_REACHABLE
    usage = isinstance(error, BadDocument | BadClientConf)
    return CliExitCode.USAGE if usage else CliExitCode.ERROR


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
