"""Accounts of the board and sessions of browsers (`t_account`, `t_account_session`)."""

from __future__ import annotations

from typing import Final

from fedflow.domain.administration.accounts import Account, AccountRole, AccountSession
from fedflow.store.mapper import Mapper, word
from fedflow.store.session import Session
from fedflow.store.tables import ACCOUNT, ACCOUNT_SESSION

_ACCOUNTS: Final = Mapper(
    ACCOUNT,
    Account,
    {
        "name": "f_name",
        "role": word(AccountRole)("f_role"),
        "password": "f_password",
        "created_ms": "f_create_time",
        "updated_ms": "f_update_time",
    },
)
_SESSIONS: Final = Mapper(
    ACCOUNT_SESSION,
    AccountSession,
    {
        "digest": "f_digest",
        "name": "f_name",
        "address": "f_address",
        "created_ms": "f_create_time",
        "seen_ms": "f_seen_time",
    },
)


class SqlAccounts:
    """See `app.ports.administration.AccountStore`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, account: Account) -> bool:
        return self._session.insert(ACCOUNT, _ACCOUNTS.row(account))

    def get(self, name: str) -> Account | None:
        return _ACCOUNTS.one(self._session.row(f"{_ACCOUNTS.select} WHERE f_name = ?", (name,)))

    def all(self) -> list[Account]:
        found = self._session.rows(_ACCOUNTS.select)
        return sorted(_ACCOUNTS.all(found), key=lambda a: a.name)

    def set_role(self, name: str, role: AccountRole, *, now_ms: int) -> bool:
        sql = "UPDATE t_account SET f_role = ?, f_update_time = ? WHERE f_name = ?"
        return self._session.write(sql, (role.value, now_ms, name)) > 0

    def set_password(self, name: str, password: str, *, now_ms: int) -> bool:
        sql = "UPDATE t_account SET f_password = ?, f_update_time = ? WHERE f_name = ?"
        return self._session.write(sql, (password, now_ms, name)) > 0

    def drop(self, name: str) -> bool:
        self.end_sessions(name)
        return self._session.write("DELETE FROM t_account WHERE f_name = ?", (name,)) > 0

    def put_session(self, session: AccountSession) -> None:
        self._session.replace(ACCOUNT_SESSION, _SESSIONS.row(session))

    def session(self, digest: str) -> AccountSession | None:
        return _SESSIONS.one(self._session.row(f"{_SESSIONS.select} WHERE f_digest = ?", (digest,)))

    def sessions(self, name: str) -> list[AccountSession]:
        found = self._session.rows(f"{_SESSIONS.select} WHERE f_name = ?", (name,))
        return sorted(_SESSIONS.all(found), key=lambda s: (s.created_ms, s.digest))

    def seen(self, digest: str, *, now_ms: int) -> None:
        sql = "UPDATE t_account_session SET f_seen_time = ? WHERE f_digest = ?"
        self._session.write(sql, (now_ms, digest))

    def end_session(self, digest: str) -> bool:
        sql = "DELETE FROM t_account_session WHERE f_digest = ?"
        return self._session.write(sql, (digest,)) > 0

    def end_sessions(self, name: str) -> int:
        return self._session.write("DELETE FROM t_account_session WHERE f_name = ?", (name,))

    def prune_sessions(self, *, seen_before_ms: int, created_before_ms: int) -> int:
        return self._session.write(
            "DELETE FROM t_account_session WHERE f_seen_time < ? OR f_create_time < ?",
            (seen_before_ms, created_before_ms),
        )
