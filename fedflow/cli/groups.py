"""Groups of commands, and the one place where an error becomes text and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import click

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import StillRunning
from fedflow.base.errors.requests import BadClientConf, BadDocument
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.values import dataclass
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


class WaitInterrupted(click.Abort):
    """Ctrl-C while a command waited for a job, which goes on."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id


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


def run_program(run: Callable[[], Any], *, as_json: bool = False) -> int:
    """Run a command; return its exit code, after printing an error to stderr.

    `as_json`: the error is also printed to stdout, as one JSON object on one line.
    """
    try:
        return _run(run, as_json=as_json)
    except BrokenPipeError:  # the reader, for example `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return CliExitCode.ERROR


def _run(run: Callable[[], Any], *, as_json: bool) -> int:
    try:
        ended = run()
        sys.stdout.flush()
        return ended if isinstance(ended, int) else CliExitCode.OK
    except click.ClickException as exc:
        exc.show()
        failed, code = _Failed(name="WrongUsage", message=exc.format_message()), exc.exit_code
    except (click.Abort, KeyboardInterrupt) as exc:
        click.echo("Interrupted.", err=True)
        failed, code = _interrupted(exc), CliExitCode.INTERRUPTED
    except FedflowError as exc:
        show_error(exc)
        failed, code = _failed(exc), exit_code_of(exc)
    except BrokenPipeError:
        raise
    except OSError as exc:  # a file of this machine
        where = f"{exc.filename}: " if exc.filename else ""
        failed = _Failed(name="FileError", message=clean(f"{where}{exc.strerror or exc}"))
        code = failed.show()
    except Exception as exc:  # noqa: BLE001  the door of the command line
        from fedflow.base.libraries import as_missing  # most processes never need it

        missing = as_missing(exc)
        if missing is not None:
            show_error(missing)
            return exit_code_of(missing)
        if os.environ.get("FEDFLOW_DEBUG"):
            traceback.print_exc()
        failed = _Failed(
            name="InternalError",
            message=f"internal error: {type(exc).__name__}: {exc}",
            hint="this is a defect of fedflow; with FEDFLOW_DEBUG=1 it shows where.",
        )
        code = failed.show()
    if as_json:
        import json  # every server imports this module

        click.echo(json.dumps({"error": asdict(failed)}))
    return code


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failed:
    """An error as programs read it."""

    code: int | None = None  #: number of docs/errors.md; None: an error of the command line alone
    name: str
    message: str
    hint: str = ""
    job_id: str | None = None  #: of the job that it is about, as far as it is known
    problems: tuple[Mapping[str, str], ...] = ()  #: path, message and rule of every mistake

    def show(self) -> CliExitCode:
        """Print it for people; return its exit code."""
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(f"Hint: {self.hint}", err=True)
        return CliExitCode.ERROR


def _interrupted(error: BaseException) -> _Failed:
    if not isinstance(error, WaitInterrupted):
        return _Failed(name="Interrupted", message="Interrupted.")
    return _Failed(
        name="Interrupted", message="Interrupted.", hint=StillRunning.hint, job_id=error.job_id
    )


def _failed(error: FedflowError) -> _Failed:
    problems = error.problems if isinstance(error, InvalidJobSpec) else ()
    return _Failed(
        code=error.code,
        name=error.name,
        message=str(error.message),
        hint=error.hint,
        job_id=error.fields.get("job_id"),
        problems=tuple(
            {"path": p.path, "message": str(p.message), "rule": p.rule} for p in problems
        ),
    )


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
