"""`fedflow server`: Run this party's server.

This module is in the memory of every server, so it imports nothing of the client.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedflow.base.values import dataclass
from fedflow.cli.groups import Nouns

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


class ServerCommands(Nouns):
    """A group that imports the commands of `server_control` for these only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *_control().list_commands(ctx)])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _control().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        own = self.commands.get(args[0])
        return (args[0], own, args[1:]) if own else super().resolve_command(ctx, args)


def _control() -> click.Group:
    from fedflow.cli.server_control import control

    return control


@click.group(cls=ServerCommands)
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
    """Return the default home of a server: the user's data folder."""
    import platformdirs  # a server that was given its home does without

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
        click.option("--party", metavar="ID", help="This server's party id; without: standalone."),
        click.option("--route", multiple=True, metavar="ID=HOST:PORT", help="Another party."),
        click.option("--conf", type=file, help="service_conf.yaml; options override it."),
        click.option("--insecure", is_flag=True, help="Allow other addresses without TLS."),
        click.option("--tls-ca", type=file, help="PEM file of the parties' authority."),
        click.option("--tls-cert", type=file, help="PEM file of this server's certificate."),
        click.option("--tls-key", type=file, help="PEM file of its private key."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@command.command()
@server_options
def run(**options: Any) -> None:
    """Run a server in the foreground until Ctrl-C or SIGTERM."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else a line for each failed handshake
    gc.disable()  # modules are no garbage: looking for some is a seventh of the start
    from fedflow.server.configuration import load_settings  # the server's libraries take long
    from fedflow.server.run import run as run_server

    given = ServerOptions(**options)

    def read() -> Settings:
        return load_settings(given.conf, environment=os.environ, overrides=given.overrides())

    run_server(read(), given.home, reread=read)


def _route(text: str) -> tuple[str, str]:
    party, equals, address = text.partition("=")
    if not equals or not party or not address:
        raise click.UsageError(f"--route {text!r} is not like 10000=127.0.0.1:9361")
    return party, address
