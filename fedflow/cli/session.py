"""What every command that asks a server has: `--server`, `--json`, and the keys to sign with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import click

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.cli import suggestions
from fedflow.cli.connecting import connect
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.files import JsonFile
from fedflow.cli.output import Output
from fedflow.client.client import DEFAULT_ADDRESS, Client
from fedflow.domain.site import Role, Site

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., None])


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


as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
job_id = click.option(
    "-j", "--job", "job_id", required=True, metavar="JOB", help="Id of the job.",
    shell_complete=suggestions.jobs,
)  # fmt: skip
party = click.option(
    "-p", "--party", "party_id", required=True, metavar="ID", help="Party id.",
    shell_complete=suggestions.parties,
)  # fmt: skip
namespace = click.option(
    "-n", "--namespace", required=True, metavar="NAME", help="Namespace of the table.",
    shell_complete=suggestions.namespaces,
)  # fmt: skip
table = click.option(
    "-t", "--table", "name", required=True, metavar="NAME", help="Name of the table.",
    shell_complete=suggestions.tables,
)  # fmt: skip
json_file = click.option(
    "-c", "--conf", type=JsonFile(), required=True, help="JSON file, as for FATE."
)
yes = click.option("--yes", is_flag=True, help="Do not ask.")


def _component(
    text: str, *name: str, required: bool = False, multiple: bool = False
) -> Callable[[F], F]:
    return click.option(
        "-c", "--component", *name, required=required, multiple=multiple, metavar="NAME", help=text,
        shell_complete=suggestions.components,
    )  # fmt: skip


component = _component("Component, for example hetero_lr_0.", required=True)


def one_component(text: str) -> Callable[[F], F]:
    """Return the option of a component that may be left out; `text` is its help."""
    return _component(text)


def some_components(text: str) -> Callable[[F], F]:
    """Return the option of components, none or several; `text` is its help."""
    return _component(text, "components", multiple=True)


def model_version(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `-m` and `-v`, which name a version of a model."""
    for option in (
        click.option(
            "-v", "--version", required=True, metavar="ID", help="Version: the job that trained it,"
            " or what `model deploy` printed.", shell_complete=suggestions.versions,
        ),
        click.option(
            "-m", "--model", "model_id", required=True, metavar="ID",
            help="Model id, for example guest-9999#host-10000#model.",
            shell_complete=suggestions.models,
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
    @click.option(
        "-p", "--party", metavar="ID", help="Party id of the site.",
        shell_complete=suggestions.parties,
    )  # fmt: skip
    @functools.wraps(command)
    def wrapped(*args: object, role: str | None, party: str | None, **kwargs: object) -> None:
        if (role is None) != (party is None):
            raise click.UsageError("`--role` and `--party` go together")
        site = Site(Role(role), PartyId(party)) if role and party else None
        command(*args, site=site, **kwargs)

    return wrapped


def confirm(
    at: Session, question: str, *, yes: bool, otherwise: str = "Nothing was deleted."
) -> None:
    """Ask before something is lost, unless `--yes` or `--json` is given.

    `otherwise` is said if the answer is no. Raises: click.exceptions.Exit: it is no.
        click.UsageError: nobody can answer. click.Abort: Ctrl-C.
    """
    if yes or at.out.as_json:
        return
    try:
        agreed = click.confirm(question)
    except click.Abort as exc:
        if isinstance(exc.__context__, EOFError):
            click.echo()
            raise click.UsageError("there is no terminal to answer at: give `--yes`") from None
        raise
    if not agreed:
        at.out.note(otherwise)
        raise click.exceptions.Exit(CliExitCode.ERROR)
