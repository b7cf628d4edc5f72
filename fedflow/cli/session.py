"""What every command that asks a server has: `--server`, `--json`, and the keys to sign with."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

import click

from fedflow.base.ids import PartyId
from fedflow.cli.output import Output
from fedflow.client.client import DEFAULT_ADDRESS, Client
from fedflow.domain.site import Role, Site

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Session:
    """The server that a command asks, and how it prints."""

    client: Client
    out: Output


def asks_server(command: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    """Give a command the options of a server; its first argument becomes the session."""

    @click.option(
        "--server",
        envvar="FEDFLOW_SERVER",
        default=DEFAULT_ADDRESS,
        show_default=True,
        metavar="URL",
        help="The server's HTTP address; also FEDFLOW_SERVER.",
    )
    @as_json
    @functools.wraps(command)
    def wrapped(server: str, as_json: bool, *args: P.args, **kwargs: P.kwargs) -> None:
        with connect(server) as client:
            command(Session(client, Output(as_json=as_json)), *args, **kwargs)

    return wrapped


def connect(server: str) -> Client:
    """Return a client that signs if FEDFLOW_APP_KEY and FEDFLOW_SECRET_KEY are set."""
    return Client(
        server,
        app_key=os.environ.get("FEDFLOW_APP_KEY"),
        secret=os.environ.get("FEDFLOW_SECRET_KEY"),
    )


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
job_id = click.option("-j", "--job", "job_id", required=True, metavar="JOB", help="Id of the job.")
component = click.option(
    "-c", "--component", required=True, metavar="NAME", help="Component, for example hetero_lr_0."
)


def site_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-r` and `-p`, which together become its argument `site`."""

    @click.option(
        "-r",
        "--role",
        type=click.Choice([role.value for role in Role]),
        help="Role of the site; default: the initiator's, or an own one.",
    )
    @click.option("-p", "--party", metavar="ID", help="Party id of the site.")
    @functools.wraps(command)
    def wrapped(*args: object, role: str | None, party: str | None, **kwargs: object) -> None:
        if (role is None) != (party is None):
            raise click.UsageError("`--role` and `--party` go together")
        site = Site(Role(role), PartyId(party)) if role and party else None
        command(*args, site=site, **kwargs)

    return wrapped
