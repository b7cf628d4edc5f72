"""`fedflow server`: starts, stops and asks servers, which are other processes."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from fedflow.base.errors.start import ServerNotReachable
from fedflow.cli import session
from fedflow.cli.connecting import connect
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.output import Output, clean, duration, moment
from fedflow.cli.server import ServerOptions, home_option, server_options
from fedflow.cli.server_process import (
    STOP_GRACE_S,
    find_server,
    log_end,
    log_file,
    spawn,
    stop_server,
    wait_for,
    wait_until_started,
    wait_until_up,
)
from fedflow.cli.session import Session
from fedflow.wire.api.administration import PartyServer


@click.group()
def control() -> None:
    """Commands of `fedflow server`."""


@control.command()
@server_options
@session.as_json
def start(as_json: bool, **options: Any) -> None:
    """Start a server in the background and wait until it answers."""
    from fedflow.server.configuration import load_settings

    given, out = ServerOptions(**options), Output(as_json=as_json)
    running = find_server(given.home)
    if running is not None:
        out.result(running, lambda: out.note(f"A server runs already: {running.url}"))
        return
    load_settings(given.conf, environment=os.environ, overrides=given.overrides())
    log, offset = log_file(given.home), log_end(given.home)
    process = spawn(given.home, given.arguments())
    state = wait_until_up(process, given.home, log_offset=offset)
    reasons = wait_until_started(state)
    process.returncode = 0  # it is meant to outlive this process: no warning about that

    def text() -> None:
        who = f"party {state.party_id}" if state.party_id else "standalone"
        out.note(f"The server runs ({who}, pid {state.pid}): {state.url}")
        out.note(f"Its log is {log}")
        for reason in reasons:
            out.note(f"It is not ready: {clean(reason)}")

    out.result(state, text)


@control.command()
@home_option
@click.option(
    "--grace", default=STOP_GRACE_S, show_default=True, help="Seconds until it is killed."
)
@session.as_json
def stop(home: Path, grace: float, as_json: bool) -> None:
    """Stop the server of a home folder; its running jobs go on when it is started again."""
    stop_and_tell(Output(as_json=as_json), home, grace, what="server")


def stop_and_tell(out: Output, folder: Path, grace_s: float, *, what: str) -> None:
    """Stop the `what` that runs in a folder, if one does, and say so."""
    state = find_server(folder)
    if state is None:
        out.result({"stopped": False}, lambda: out.note(f"No {what} runs in this folder."))
        return
    gentle = stop_server(state, grace_s=grace_s)
    how = "stopped" if gentle else f"did not stop within {grace_s:g} seconds and was killed"
    out.result(
        {"stopped": True, "killed": not gentle, "pid": state.pid},
        lambda: out.note(f"The {what} (pid {state.pid}) {how}."),
    )


@control.command()
@home_option
@session.as_json
def status(home: Path, as_json: bool) -> None:
    """Show whether a server runs in a home folder; exit code 4 if none answers, 1 if not ready."""
    out = Output(as_json=as_json)
    state = find_server(home)
    if state is None:
        out.result(
            {"running": False, "home": str(home)},
            lambda: out.note("No server runs in this folder."),
        )
        raise click.exceptions.Exit(CliExitCode.NOT_REACHABLE)
    try:
        with connect(state.url) as client:
            ready = client.readiness()
    except ServerNotReachable:
        ready = {}
    is_ready = bool(ready.get("ready"))

    def text() -> None:
        out.note(f"pid      {state.pid}")
        out.note(f"party    {state.party_id or 'standalone, hosts every party'}")
        out.note(f"REST     {state.url}")
        out.note(f"parties  {state.grpc}")
        out.note(f"ready    {'yes' if is_ready else 'no'}")
        for reason in ready.get("reasons", ()) if ready else ("it does not answer",):
            out.note(f"         {clean(str(reason))}")
        for warning in ready.get("warnings", ()):
            out.note(f"look at  {clean(str(warning))}")
        for line in ready.get("dial_in", ()):
            if line["connected"]:
                since = moment(line["since"])
                out.note(f"dial-in  over the exchange {line['exchange']} since {since}")
        if ready.get("draining"):
            out.note("drained  yes: it starts no tasks until it is restarted")
        for key, where in (("cores", ""), ("spark_cores", " on Spark")):
            if (cores := ready.get(key)) is not None:
                out.note(f"cores    {cores['free']} of {cores['total']} free{where}")

    found = {"running": True, "home": str(home), **asdict(state), "ready": False, **ready}
    out.result(found, text)
    if not is_ready:
        raise click.exceptions.Exit(CliExitCode.ERROR if ready else CliExitCode.NOT_REACHABLE)


@control.command()
@session.asks_server
def reload(at: Session) -> None:
    """Let a running server read its conf again: routes, permissions and servers change."""
    at.client.servers.reload()
    at.out.done({"reloaded": True}, "The conf was read again.")


@control.command("list")
@session.asks_server
def list_(at: Session) -> None:
    """List the servers of this party that share its database."""
    found = at.client.servers.party_servers()
    at.out.result(found, lambda: _show_servers(at, found))


@control.command()
@click.option(
    "--timeout", type=click.FloatRange(0), default=3600.0, show_default=True,
    help="Seconds to wait for its tasks.",
)  # fmt: skip
@session.asks_server
def drain(at: Session, timeout: float) -> None:
    """Prepare a server for its stop: another one leads, and its running tasks may end.

    From then on it starts no tasks; its doors stay open until it is stopped. A restart ends this.
    """
    own = _own(at.client.servers.drain())

    def is_idle() -> bool:
        nonlocal own
        own = _own(at.client.servers.party_servers())
        return own.executors == 0

    idle = wait_for(is_idle, timeout_s=timeout)
    text = (
        "The server is drained: it can be stopped."
        if idle
        else f"{own.executors} tasks still run at the server; it starts no others."
    )
    at.out.done({"drained": idle, "executors": own.executors}, text)
    if not idle:
        raise click.exceptions.Exit(CliExitCode.ERROR)


def _own(servers: list[PartyServer]) -> PartyServer:
    return next(one for one in servers if one.is_this)


def _show_servers(at: Session, servers: list[PartyServer]) -> None:
    columns = (
        "id",
        "REST",
        "parties",
        "state",
        "leads",
        "last contact",
        "tasks",
        "version",
        "machine",
    )
    rows = [
        (
            one.instance_id,
            one.http,
            one.grpc,
            one.state,
            "yes" if one.leads else "",
            f"{duration(one.beat_age / 1000)} ago",
            one.executors,
            one.version,
            one.host,
        )
        for one in servers
    ]
    at.out.table(columns, rows)


@control.command("job-defaults")
@session.asks_server
def job_defaults(at: Session) -> None:
    """Show the defaults of job parameters."""
    found = at.client.servers.job_defaults()
    at.out.result(found, lambda: at.out.facts(found.items()))
