"""`fedflow exchange`: Pass calls on between parties that cannot reach each other."""

from __future__ import annotations

import gc
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.groups import Nouns
from fedflow.cli.server import home_option
from fedflow.cli.session import as_json as json_option
from fedflow.exchange.parties import DIAL_IN

_PREFIX: Final = "FEDFLOW_EXCHANGE__"
_FOLDER: Final = "exchange"  #: in fedflow's home


@click.group(cls=Nouns)
def command() -> None:
    """Pass calls on between parties that cannot reach each other; it can open none of them."""


@command.command()
@home_option
@click.option(
    "--conf",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    help="exchange_conf.yaml; variables FEDFLOW_EXCHANGE__... override it.",
)
def run(home: Path, conf: Path) -> None:
    """Run the exchange in the foreground until Ctrl-C or SIGTERM."""
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # else a line for each failed handshake
    gc.disable()  # modules are no garbage
    from fedflow.exchange.run import run as run_exchange
    from fedflow.exchange.settings import parse_exchange_settings
    from fedflow.server.configuration import read_values

    values = read_values(conf, environment=os.environ, overrides={}, prefix=_PREFIX)
    run_exchange(parse_exchange_settings(values), home / _FOLDER)


@command.command()
@home_option
@json_option
def status(home: Path, as_json: bool) -> None:
    """Show whether the exchange runs, who dialled in, what was sent; exit code 4 if none runs."""
    from fedflow.base.errors.start import ServerNotReachable
    from fedflow.cli.output import Output
    from fedflow.cli.server_process import find_server

    folder, out = home / _FOLDER, Output(as_json=as_json)
    state = find_server(folder)
    if state is None:
        none = {"running": False, "home": str(folder)}
        out.result(none, lambda: out.note("No exchange runs in this folder."))
        raise click.exceptions.Exit(CliExitCode.NOT_REACHABLE)
    traffic, parties = (_read(f"{state.url}/{what}") for what in ("traffic", "parties"))
    if traffic is None or parties is None:
        raise ServerNotReachable(address=state.url, reason="the exchange does not answer")

    def text() -> None:
        out.facts([("pid", state.pid), ("parties call", state.grpc), ("status", state.http)])
        out.table(("party", "address", "dialled in from"), [_party_row(row) for row in parties])
        names = ("source", "destination", "calls", "open", "failed", "bytes_up", "bytes_down")
        out.table(names, [tuple(row[name] for name in names) for row in traffic])

    out.result({"running": True, **asdict(state), "parties": parties, "traffic": traffic}, text)


def _party_row(row: dict[str, Any]) -> tuple[str, str, str]:
    found = ", ".join(server["from"] for server in row["dialled_in"])
    return row["party_id"], row["address"], found or ("-" if row["address"] == DIAL_IN else "")


def _read(url: str) -> list[dict[str, Any]] | None:
    """Return what the status port says, None if it does not answer."""
    import requests

    try:
        with requests.Session() as session:
            session.trust_env = False
            found: list[dict[str, Any]] = session.get(url, timeout=5).json()
            return found
    except (requests.RequestException, ValueError):
        return None
