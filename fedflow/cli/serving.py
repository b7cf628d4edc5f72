"""`fedflow serving`: Run this party's serving process."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.groups import Nouns
from fedflow.cli.server import home_option

if TYPE_CHECKING:
    from fedflow.serving.settings import ServingSettings

_PREFIX: Final = "FEDFLOW_SERVING__"


@click.group(cls=Nouns)
def command() -> None:
    """Run this party's serving process: it answers with scores of trained models."""


_conf = click.option(
    "--conf",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="serving_conf.yaml; variables FEDFLOW_SERVING__... override it.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def _placed(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that say which process it is about."""
    return home_option(_conf(function))


@command.command()
@_placed
def run(home: Path, conf: Path | None) -> None:
    """Run the process in the foreground until Ctrl-C or SIGTERM."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else a line for each failed handshake
    gc.disable()  # modules are no garbage
    from fedflow.serving.run import run as run_process
    from fedflow.serving.settings import serving_home

    settings = _settings(conf)
    run_process(settings, serving_home(settings, home))


@command.command()
@_placed
@_json
def start(home: Path, conf: Path | None, as_json: bool) -> None:
    """Start the process in the background and wait until it answers."""
    from fedflow.cli.output import Output
    from fedflow.cli.server_process import find_server, log_end, log_file, spawn, wait_until_up

    folder, out = _folder(home, conf), Output(as_json=as_json)
    running = find_server(folder)
    if running is not None:
        out.result(running, lambda: out.note(f"It runs already: {running.url}"))
        return
    offset = log_end(folder)
    words = ["--home", str(home), *(["--conf", str(conf)] if conf is not None else [])]
    process = spawn(folder, words, group="serving")
    state = wait_until_up(process, folder, log_offset=offset)
    process.returncode = 0  # it is meant to outlive this process: no warning about that

    def text() -> None:
        who = f"party {state.party_id}" if state.party_id else "all parties"
        out.note(f"The serving process runs ({who}, pid {state.pid}): {state.url}")
        out.note(f"Its log is {log_file(folder)}")

    out.result(state, text)


@command.command()
@_placed
@click.option("--grace", default=20.0, show_default=True, help="Seconds until it is killed.")
@_json
def stop(home: Path, conf: Path | None, grace: float, as_json: bool) -> None:
    """Stop the process; it serves the same models and services when it is started again."""
    from fedflow.cli.output import Output
    from fedflow.cli.server_control import stop_and_tell

    stop_and_tell(Output(as_json=as_json), _folder(home, conf), grace, what="serving process")


@command.command()
@_placed
@click.option(
    "--id",
    "given",
    multiple=True,
    required=True,
    metavar="NAME=VALUE",
    help="An id as guests send it; give all of a row. Numbers without quotes are numbers.",
)
@_json
def audit(home: Path, conf: Path | None, given: tuple[str, ...], as_json: bool) -> None:
    """Show which calls of guests were about somebody, if the setting partners.audit is on."""
    from fedflow.cli.output import Output, moment
    from fedflow.serving.partners.audit import calls_about

    folder, out = _folder(home, conf), Output(as_json=as_json)
    found = list(calls_about(folder, dict(_id_of(one) for one in given)))

    def text() -> None:
        rows = [
            (moment(one["time_ms"]), one["guest"], one["model_version"], *one["requests"][:1])
            for one in found
        ]
        out.table(("time", "guest", "version", "request"), rows)

    out.result({"calls": found}, text)


def _id_of(text: str) -> tuple[str, Any]:
    """Return a name and a value, which JSON reads if it can."""
    import json

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--id")
    try:
        read = json.loads(value)
    except ValueError:
        return name, value
    return name, read if isinstance(read, str | int | float | bool | None) else value


@command.command()
@_placed
@_json
def status(home: Path, conf: Path | None, as_json: bool) -> None:
    """Show whether the process runs; exit code 4 if none answers, 1 if it is not ready."""
    from fedflow.base.errors.start import ServerNotReachable
    from fedflow.cli.connecting import connect
    from fedflow.cli.output import Output, clean
    from fedflow.cli.server_process import find_server

    folder, out = _folder(home, conf), Output(as_json=as_json)
    state = find_server(folder)
    if state is None:
        none = {"running": False, "home": str(folder)}
        out.result(none, lambda: out.note("No serving process runs in this folder."))
        raise click.exceptions.Exit(CliExitCode.NOT_REACHABLE)
    ready: dict[str, Any] = {}
    try:
        with connect(state.url) as client:
            ready = client.readiness()
    except ServerNotReachable:
        pass

    def text() -> None:
        out.facts(
            [
                ("pid", state.pid),
                ("party", state.party_id or "all parties"),
                ("callers", state.http),
                *([("callers, gRPC", state.callers_grpc)] if state.callers_grpc else []),
                ("partners", state.grpc),
                ("admin", state.admin),
                ("ready", "yes" if ready.get("ready") else "no"),
                ("models", ready.get("models")),
            ]
        )
        for one in ready.get("refused", ()):
            out.note(clean(f"refused {one['model_version']}: {one['reason']}"))
        for party, said in ready.get("partners", {}).items():
            out.note(clean(f"partner {party}: {said}"))

    out.result({"running": True, "home": str(folder), **asdict(state), **ready}, text)
    if not ready:
        raise click.exceptions.Exit(CliExitCode.NOT_REACHABLE)
    if not ready.get("ready"):
        raise click.exceptions.Exit(CliExitCode.ERROR)


@command.command()
@click.argument("name")
@_json
def key(name: str, as_json: bool) -> None:
    """Print a new key for a caller, and its entry for the setting `callers.keys`."""
    from fedflow.base.errors.serving_process import BadServingSetting
    from fedflow.cli.output import Output
    from fedflow.serving.doors.caller_keys import new_key
    from fedflow.serving.settings import is_caller_name

    if not is_caller_name(name):
        raise BadServingSetting(path="callers.keys.name", reason=f"{name!r} is no caller's name")
    secret, digest = new_key()
    out, entry = Output(as_json=as_json), {"name": name, "sha256": digest}

    def text() -> None:
        out.note(f"The caller sends it; it is shown this once: {secret}")
        out.note("Add this to callers.keys in serving_conf.yaml, then restart the process:")
        for line in (f"- name: {name}", f'  sha256: "{digest}"', "  services: null"):
            out.note(f"    {line}")
        out.note("      per_second: null")

    out.result({"key": secret, "entry": entry}, text)


@command.command("warm-up")
@_placed
@click.argument(
    "file", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=False
)
@click.option(
    "-t",
    "--table",
    nargs=2,
    metavar="NAMESPACE NAME",
    help="Instead of a file, a table of the party's Flow server; needs --id.",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="ID[=COLUMN]",
    help="An id that callers send, and its column; only these go to hosts.",
)
@click.option("--server", metavar="URL", help="HTTP address of the Flow server.")
@click.option("-s", "--service", required=True, help="Id of the service.")
@click.option(
    "--rate",
    type=click.FloatRange(0.01, 100_000),
    default=50.0,
    show_default=True,
    help="Rows per second, at most.",
)
@click.option(
    "--skip", type=click.IntRange(0), default=0, help="Rows at the beginning that were sent before."
)
@_json
def warm_up(
    home: Path,
    conf: Path | None,
    file: Path | None,
    table: tuple[str, str] | None,
    ids: tuple[str, ...],
    server: str | None,
    service: str,
    rate: float,
    skip: int,
    as_json: bool,
) -> None:
    """Fill the caches of hosts' parts for the ids of a file (.csv or JSON lines), or a table."""
    from fedflow.base.errors.start import ServerNotReachable
    from fedflow.cli.output import Output
    from fedflow.cli.server_process import find_server
    from fedflow.cli.serving_warm_up import (
        WarmUpProgress,
        admin_session,
        columns_of,
        rows_given,
        send,
    )

    if (file is None) == (table is None):
        raise click.UsageError("give either a file or `--table`")
    if table is not None and not ids:
        raise click.UsageError("name the columns that are ids: `--id device_id=id`")
    columns = columns_of(ids)
    settings, folder = _settings(conf), _folder(home, conf)
    state = find_server(folder)
    if state is None or state.admin is None:
        raise ServerNotReachable(address=str(folder), reason="no serving process runs there")
    out, progress = Output(as_json=as_json), WarmUpProgress(skip)
    try:
        with (
            admin_session(settings.admin.token) as session,
            rows_given(file, table, columns, server=server, skip=skip) as rows,
        ):
            send(
                session,
                f"http://{state.admin}",
                service,
                rows,
                rate=rate,
                most=settings.limits.batch_rows,
                progress=progress,
                told=progress.telling(out.note),
            )
    except BaseException:
        out.note(f"It stopped after {progress.rows} rows; go on with --skip {progress.rows}.")
        raise
    out.result(progress.as_json(), lambda: out.note(progress.text))


def _settings(conf: Path | None) -> ServingSettings:
    """Return the settings. Raises: BadSetting, ListenerNotSafe."""
    from fedflow.server.configuration import read_values
    from fedflow.serving.settings import parse_serving_settings

    values = read_values(conf, environment=os.environ, overrides={}, prefix=_PREFIX)
    return parse_serving_settings(values)


def _folder(home: Path, conf: Path | None) -> Path:
    from fedflow.serving.settings import serving_home

    return serving_home(_settings(conf), home)
