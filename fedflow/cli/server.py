"""`fedflow server`: this party's server, in the foreground or detached."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import platformdirs

from fedflow.base.errors import ServerNotReachable
from fedflow.base.values import dataclass
from fedflow.cli import session
from fedflow.cli.exit_codes import ExitCode
from fedflow.cli.groups import Nouns
from fedflow.cli.output import Output, duration
from fedflow.cli.server_process import (
    STOP_GRACE_S,
    find_server,
    log_file,
    spawn,
    stop_server,
    wait_for,
    wait_until_up,
)
from fedflow.cli.session import Session
from fedflow.client.site_results import PartyServer

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z.-]+):(?P<port>\d{1,5})")


if TYPE_CHECKING:
    from fedflow.base.settings import Settings

    _Type = click.ParamType[tuple[str, int]]
else:
    _Type = click.ParamType  # not generic before click 8.4


class Address(_Type):
    """HOST:PORT as (host, port)."""

    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = _ADDRESS.fullmatch(value)
        if found is None or int(found["port"]) > 65535:
            self.fail(f"{value!r} is not like 127.0.0.1:9380", param, ctx)
        return found["host"].strip("[]"), int(found["port"])


@click.group(cls=Nouns)
def command() -> None:
    """Run this party's server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """What the command line says about a server; None leaves it to the conf file."""

    home: Path
    http: tuple[str, int] | None = None
    grpc: tuple[str, int] | None = None
    party: str | None = None
    route: tuple[str, ...] = ()
    conf: Path | None = None
    insecure: bool = False
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def overrides(self) -> dict[str, Any]:
        """Return the settings that win over the conf file. Raises: click.UsageError."""
        given: dict[str, Any] = {}
        listen: dict[str, Any] = {}
        if self.http is not None:
            listen.update(host=self.http[0], http_port=self.http[1])
        if self.grpc is not None:
            listen.update(grpc_host=self.grpc[0], grpc_port=self.grpc[1])
        if listen:
            given["fateflow"] = listen
        if self.party is not None:
            given["party_id"] = self.party
        if self.route:
            given["routes"] = dict(_route(text) for text in self.route)
        if self.insecure:
            given["insecure"] = True
        tls = {"ca": self.tls_ca, "certificate": self.tls_cert, "key": self.tls_key}
        files = {name: str(path) for name, path in tls.items() if path is not None}
        if files:
            given["tls"] = files
        return given

    def arguments(self) -> list[str]:
        """Return the options as `server run` takes them."""
        words = ["--home", str(self.home)]
        for name, address in (("--http", self.http), ("--grpc", self.grpc)):
            if address is not None:
                host, port = address
                words += [name, f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
        paths = (
            ("--conf", self.conf),
            ("--tls-ca", self.tls_ca),
            ("--tls-cert", self.tls_cert),
            ("--tls-key", self.tls_key),
        )
        for name, path in paths:
            words += [name, str(path)] if path is not None else []
        words += ["--party", self.party] if self.party is not None else []
        for route in self.route:
            words += ["--route", route]
        return [*words, "--insecure"] if self.insecure else words


def default_home() -> Path:
    """Return where a server keeps everything unless it is told: the user's data folder."""
    return platformdirs.user_data_path("fedflow", appauthor=False)


home_option = click.option(
    "--home",
    envvar="FEDFLOW_HOME",
    type=click.Path(path_type=Path, file_okay=False),
    default=default_home,
    show_default="the user's data folder",
    help="Folder with the server's data; also FEDFLOW_HOME.",
)


def server_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a server."""
    file = click.Path(path_type=Path, dir_okay=False, exists=True)
    options = (
        home_option,
        click.option("--http", type=Address(), help="REST API [127.0.0.1:9380]."),
        click.option("--grpc", type=Address(), help="For other parties [127.0.0.1:9360]."),
        click.option("--party", metavar="ID", help="Own party id; without: standalone."),
        click.option("--route", multiple=True, metavar="ID=HOST:PORT", help="Another party."),
        click.option("--conf", type=file, help="service_conf.yaml; options override it."),
        click.option("--insecure", is_flag=True, help="Allow other addresses without TLS."),
        click.option("--tls-ca", type=file, help="PEM file of the parties' authority."),
        click.option("--tls-cert", type=file, help="PEM file of the own certificate."),
        click.option("--tls-key", type=file, help="PEM file of its private key."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command()
@server_options
def run(**options: Any) -> None:
    """Run a server in the foreground until Ctrl-C or SIGTERM."""
    from fedflow.server.configuration import load_settings  # the server's libraries take long
    from fedflow.server.run import run as run_server

    given = ServerOptions(**options)

    def read() -> Settings:
        return load_settings(given.conf, environment=os.environ, overrides=given.overrides())

    run_server(read(), given.home, reread=read)


@command.command()
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
    log = log_file(given.home)
    offset = log.stat().st_size if log.exists() else 0
    process = spawn(given.home, given.arguments())
    state = wait_until_up(process, given.home, log_offset=offset)
    process.returncode = 0  # it is meant to outlive this process: no warning about that

    def text() -> None:
        who = f"party {state.party_id}" if state.party_id else "standalone"
        out.note(f"The server runs ({who}, pid {state.pid}): {state.url}")
        out.note(f"Its log is {log}")

    out.result(state, text)


@command.command()
@home_option
@click.option("--grace", default=STOP_GRACE_S, show_default=True, help="Seconds before force.")
@session.as_json
def stop(home: Path, grace: float, as_json: bool) -> None:
    """Stop the server of a home folder; its running jobs go on when it is started again."""
    out = Output(as_json=as_json)
    state = find_server(home)
    if state is None:
        out.result({"stopped": False}, lambda: out.note("No server runs here."))
        return
    gentle = stop_server(state, grace_s=grace)
    how = "stopped" if gentle else f"did not stop within {grace:g} seconds and was killed"
    out.result(
        {"stopped": True, "killed": not gentle, "pid": state.pid},
        lambda: out.note(f"The server (pid {state.pid}) {how}."),
    )


@command.command()
@home_option
@session.as_json
def status(home: Path, as_json: bool) -> None:
    """Show whether a server runs in a home folder; exit code 4 if none does."""
    out = Output(as_json=as_json)
    state = find_server(home)
    if state is None:
        out.result({"running": False, "home": str(home)}, lambda: out.note("No server runs here."))
        raise click.exceptions.Exit(ExitCode.NOT_REACHABLE)
    try:
        with session.connect(state.url) as client:
            ready = client.readiness()
    except ServerNotReachable:
        ready = {"ready": False}

    def text() -> None:
        out.note(f"pid      {state.pid}")
        out.note(f"party    {state.party_id or 'standalone, hosts every party'}")
        out.note(f"REST     {state.url}")
        out.note(f"parties  {state.grpc}")
        out.note(f"ready    {'yes' if ready.get('ready') else f'no: {ready}'}")
        for key, where in (("cores", ""), ("spark_cores", " on Spark")):
            if (cores := ready.get(key)) is not None:
                out.note(f"cores    {cores['free']} of {cores['total']} free{where}")

    out.result({"running": True, "home": str(home), **asdict(state), **ready}, text)


@command.command()
@session.asks_server
def reload(at: Session) -> None:
    """Let a running server read its conf again: routes, permissions and servers change."""
    at.client.servers.reload()
    at.out.done({"reloaded": True}, "The conf was read again.")


@command.command("list")
@session.asks_server
def list_(at: Session) -> None:
    """List the servers of this party that share its database."""
    found = at.client.servers.party_servers()
    at.out.result(found, lambda: _show_servers(at, found))


@command.command()
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
        raise click.exceptions.Exit(ExitCode.ERROR)


def _own(servers: list[PartyServer]) -> PartyServer:
    return next(one for one in servers if one.is_this)


def _show_servers(at: Session, servers: list[PartyServer]) -> None:
    columns = ("id", "REST", "parties", "state", "leads", "heard", "tasks", "version", "machine")
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


@command.command("job-defaults")
@session.asks_server
def job_defaults(at: Session) -> None:
    """Show the defaults of job parameters."""
    found = at.client.servers.job_defaults()
    at.out.result(found, lambda: at.out.facts(found.items()))


def _route(text: str) -> tuple[str, str]:
    party, equals, address = text.partition("=")
    if not equals or not party or not address:
        raise click.UsageError(f"--route {text!r} is not like 10000=127.0.0.1:9361")
    return party, address
