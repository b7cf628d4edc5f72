"""What every command that asks a server has: `--server`, `--json`, and the keys to sign with."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Concatenate, ParamSpec

import click

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.cli.files import JsonFile
from fedflow.cli.output import Output
from fedflow.cli.stored import read_stored
from fedflow.client.client import DEFAULT_ADDRESS, Client
from fedflow.client.connection import url_of
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
        default=None,
        metavar="URL",
        help="The server's HTTP address; else FEDFLOW_SERVER, else what `flow init` stored, else "
        f"{DEFAULT_ADDRESS}.",
    )
    @as_json
    @functools.wraps(command)
    def wrapped(server: str | None, as_json: bool, *args: P.args, **kwargs: P.kwargs) -> None:
        with connect(server) as client:
            command(Session(client, Output(as_json=as_json)), *args, **kwargs)

    return wrapped


def connect(server: str | None) -> Client:
    """Return a client of `server`, else of FEDFLOW_SERVER, else of what `flow init` stored.

    It signs with FEDFLOW_APP_KEY and FEDFLOW_SECRET_KEY, or with the stored keys if the server is
    the stored one. Raises: BadSetting, BadClientConf.
    """
    stored = read_stored()
    address = server or os.environ.get("FEDFLOW_SERVER") or stored.address or DEFAULT_ADDRESS
    app_key, secret = os.environ.get("FEDFLOW_APP_KEY"), os.environ.get("FEDFLOW_SECRET_KEY")
    if not (app_key or secret) and stored.address and url_of(address) == url_of(stored.address):
        app_key, secret = stored.app_key, stored.secret_key
    return Client(address, app_key=app_key, secret=secret)


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
job_id = click.option("-j", "--job", "job_id", required=True, metavar="JOB", help="Id of the job.")
party = click.option("-p", "--party", "party_id", required=True, metavar="ID", help="Party id.")
json_file = click.option(
    "-c", "--conf", type=JsonFile(), required=True, help="JSON file, as for FATE."
)
yes = click.option("--yes", is_flag=True, help="Do not ask.")
component = click.option(
    "-c", "--component", required=True, metavar="NAME", help="Component, for example hetero_lr_0."
)


def model_version(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-m` and `-v`, which name a version of a model."""
    for option in (
        click.option(
            "-v", "--version", required=True, metavar="ID", help="Version: the job that trained it,"
            " or what `model deploy` printed.",
        ),
        click.option(
            "-m", "--model", "model_id", required=True, metavar="ID",
            help="Model id, for example guest-9999#host-10000#model.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def one_site(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-r` and `-p`, both required, which become its argument `site`."""

    @site_options
    @functools.wraps(command)
    def wrapped(*args: object, site: Site | None, **kwargs: object) -> None:
        if site is None:
            raise click.UsageError("name the site with `--role` and `--party`")
        command(*args, site=site, **kwargs)

    return wrapped


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


def confirm(at: Session, question: str, *, yes: bool) -> None:
    """Ask before something is lost, unless `--yes` or `--json` is given.

    Raises: click.Abort: the answer is no.
    """
    if not yes and not at.out.as_json:
        click.confirm(question, abort=True)
