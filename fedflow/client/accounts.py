"""Accounts of people who sign in to a server's board: `client.accounts`."""

from __future__ import annotations

import secrets

from fedflow.client.connection import Connection
from fedflow.wire.api.administration import BoardAccount, EndedSessions


class AccountCalls:
    """Who may sign in to the board of a server, and what they may do there."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self) -> list[BoardAccount]:
        """Return the accounts by name."""
        found: list[BoardAccount] = self._connection.look_up(
            "board/account/list", {}, list[BoardAccount]
        )
        return found

    def add(self, name: str, role: str, password: str) -> BoardAccount:
        """Make an account. Raises: BadAccount, AccountExists."""
        body = {"name": name, "role": role, "password": password}
        found: BoardAccount = self._connection.do("board/account/add", body, BoardAccount)
        return found

    def set_role(self, name: str, role: str) -> None:
        """Give an account another role. Raises: BadAccount, AccountNotFound."""
        self._connection.do("board/account/role", {"name": name, "role": role})

    def set_password(self, name: str, password: str) -> None:
        """Set another password; the account's sessions end. Raises: BadAccount, AccountNotFound."""
        self._connection.do("board/account/password", {"name": name, "password": password})

    def sign_out(self, name: str) -> int:
        """End all sessions of an account; return how many. Raises: AccountNotFound."""
        found: EndedSessions = self._connection.do(
            "board/account/sign-out", {"name": name}, EndedSessions
        )
        return found.ended

    def remove(self, name: str) -> None:
        """Remove an account; its sessions end. Raises: AccountNotFound."""
        self._connection.do("board/account/remove", {"name": name})


def random_password() -> str:
    """Return a password that cannot be guessed, 20 characters (120 bits)."""
    return secrets.token_urlsafe(15)
