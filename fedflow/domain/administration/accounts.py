"""People who use the board: accounts, their roles, and sessions of browsers.

All `_ms` are milliseconds since the epoch.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import field
from enum import StrEnum
from typing import Final

from fedflow.base.errors.requests import BadAccount
from fedflow.base.messages import Message
from fedflow.base.values import dataclass

SHORTEST_PASSWORD: Final = 10  #: characters
LONGEST_PASSWORD: Final = 1000
MAX_SESSIONS: Final = 50  #: of one account; a further one ends the oldest
RENEW_AFTER_MS: Final = 60_000  #: a session in use is written at most this often

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class AccountRole(StrEnum):
    """What somebody may do on the board. Each role may do what the ones before it may."""

    VIEWER = "viewer"  #: look at everything of this party
    OPERATOR = "operator"  #: submit, stop, delete: all that changes jobs, models and tables
    ADMIN = "admin"  #: settings and accounts

    def may(self, needed: AccountRole) -> bool:
        """Tell whether this role may do what needs the role `needed`."""
        roles = list(AccountRole)
        return roles.index(self) >= roles.index(needed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """Somebody who may sign in."""

    name: str
    role: AccountRole
    password: str = field(repr=False)  #: its hash, with the salt and what it was made with
    created_ms: int
    updated_ms: int  #: when the role or the password was last set


@dataclass(frozen=True, kw_only=True, slots=True)
class AccountSession:
    """A browser that somebody signed in with. Its token is known to the browser alone."""

    digest: str  #: sha256 of the token, hexadecimal
    name: str  #: of the account
    address: str  #: where the browser was, as far as this server saw
    created_ms: int
    seen_ms: int  #: a request came at this time, or up to `RENEW_AFTER_MS` later

    def has_ended(self, now_ms: int, *, idle_ms: int, longest_ms: int) -> bool:
        """Tell whether it was not used for too long, or is too old."""
        return now_ms - self.seen_ms > idle_ms or now_ms - self.created_ms > longest_ms


def role_of(word: str) -> AccountRole:
    """Return the role that a word names. Raises: BadAccount."""
    try:
        return AccountRole(word)
    except ValueError as exc:
        roles = ", ".join(AccountRole)
        raise BadAccount(what="The role", reason=Message("it is none of {roles}", roles)) from exc


def check_name(name: str) -> str:
    """Return the name of a new account. Raises: BadAccount."""
    if not _NAME.fullmatch(name):
        reason = "use 1 to 64 letters, digits and . _ @ -, a letter or digit first"
        raise BadAccount(what="The name", reason=reason)
    return name


def plain_password(password: str) -> str:
    """Return a password in the form in which it is compared: keyboards write one text in several.

    Source: NIST SP 800-63B section 3.1.1.2 (NFKC).
    """
    return unicodedata.normalize("NFKC", password)


def check_password(password: str, *, name: str) -> str:
    """Return a new password in the form in which it is hashed. Raises: BadAccount."""
    plain = plain_password(password[: LONGEST_PASSWORD + 1])
    if len(plain) < SHORTEST_PASSWORD:
        reason = Message("it has fewer than {limit} characters", SHORTEST_PASSWORD)
        raise BadAccount(what="The password", reason=reason)
    if len(password) > LONGEST_PASSWORD or len(plain) > LONGEST_PASSWORD:
        reason = Message("it has more than {limit} characters", LONGEST_PASSWORD)
        raise BadAccount(what="The password", reason=reason)
    if len(set(plain)) < 4 or name.casefold() == plain.casefold():
        raise BadAccount(what="The password", reason="it is easy to guess")
    return plain
