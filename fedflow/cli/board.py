"""`fedflow board`: Accounts of the board, the server's web pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from fedflow.base.errors.requests import BadDocument
from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server
from fedflow.client.accounts import random_password

_LONGEST = 4_000  #: characters of a password file

name_argument = click.argument("name")
password_file = click.option(
    "--password-file", metavar="FILE", help="File whose first line is the password; `-`: the"
    " standard input. Without it a random password is created, and printed only now.",
)  # fmt: skip


def role_option(*, required: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option that names a role."""
    return click.option(
        "--role",
        type=click.Choice(["viewer", "operator", "admin"]),
        required=required,
        default=None if required else "viewer",
        show_default=not required,
        help="viewer: reads; operator: also runs jobs; admin: also settings and accounts.",
    )


@click.group(cls=Nouns)
def command() -> None:
    """Who may sign in to the board, the server's web pages at /board."""


@command.group(cls=Nouns)
def user() -> None:
    """Accounts of the board.

    People sign in if `board.sign_in` is on; by default it is as `authentication.client.switch`.
    """


@user.command()
@name_argument
@role_option(required=False)
@password_file
@asks_server
def add(at: Session, name: str, role: str, password_file: str | None) -> None:
    """Create an account."""
    given = _password(password_file)
    chosen = given or random_password()
    at.client.accounts.add(name, role, chosen)
    done: dict[str, Any] = {"name": name, "role": role, "added": True}
    _tell(at, done, f"{name} may sign in as {role}.", None if given else chosen)


@user.command("list")
@asks_server
def list_(at: Session) -> None:
    """List the accounts."""
    found = at.client.accounts.all()
    rows = [(one.name, one.role, moment(one.create_time), one.sessions) for one in found]
    at.out.listing(
        found, ("name", "role", "made", "sessions"), rows, none="There is no account."
    )  # fmt: skip


@user.command()
@name_argument
@role_option(required=True)
@asks_server
def role(at: Session, name: str, role: str) -> None:
    """Give an account another role; open sessions have it at once."""
    at.client.accounts.set_role(name, role)
    at.out.done({"name": name, "role": role}, f"{name} has the role {role} now.")


@user.command()
@name_argument
@password_file
@asks_server
def password(at: Session, name: str, password_file: str | None) -> None:
    """Set another password; all sessions of the account end."""
    given = _password(password_file)
    chosen = given or random_password()
    at.client.accounts.set_password(name, chosen)
    done: dict[str, Any] = {"name": name, "changed": True}
    _tell(at, done, f"The password of {name} was set.", None if given else chosen)


@user.command("sign-out")
@name_argument
@asks_server
def sign_out(at: Session, name: str) -> None:
    """End all sessions of an account."""
    ended = at.client.accounts.sign_out(name)
    at.out.done({"name": name, "ended": ended}, f"{ended} sessions of {name} ended.")


@user.command()
@name_argument
@session.yes
@asks_server
def remove(at: Session, name: str, yes: bool) -> None:
    """Remove an account; its sessions end."""
    question, otherwise = f"Remove the account {name}?", "Nothing was removed."
    session.confirm(at, question, yes=yes, otherwise=otherwise)
    at.client.accounts.remove(name)
    at.out.done({"name": name, "removed": True}, f"{name} has no account any more.")


def _password(file: str | None) -> str | None:
    """Return the first line of a file, None if none is named. Raises: BadDocument."""
    if file is None:
        return None
    shown = "standard input" if file == "-" else file
    try:
        with click.open_file(file, encoding="utf-8-sig") as opened:
            line = str(opened.readline(_LONGEST)).rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as exc:
        raise BadDocument(where=shown, reason="it cannot be read as text") from exc
    if not line:
        raise BadDocument(where=shown, reason="its first line is empty")
    return line


def _tell(at: Session, done: dict[str, Any], sentence: str, made: str | None) -> None:
    """Say what was done, and the password if it was made here."""
    if made is not None:
        done["password"] = made
        sentence += f" Password, shown only now: {made}"
    at.out.done(done, sentence)
