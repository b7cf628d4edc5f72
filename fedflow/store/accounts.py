"""Accounts of the board and sessions of browsers (`t_account`, `t_account_session`)."""

from __future__ import annotations

from fedflow.domain.accounts import Account, AccountRole, AccountSession
from fedflow.store.session import Found, Session
from fedflow.store.tables import ACCOUNT, ACCOUNT_SESSION

_ACCOUNT = "SELECT f_name, f_role, f_password, f_create_time, f_update_time FROM t_account"
_SESSION = "SELECT f_digest, f_name, f_address, f_create_time, f_seen_time FROM t_account_session"


class SqlAccounts:
    """See `app.ports.Accounts`."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, account: Account) -> bool:
        return self._session.insert(
            ACCOUNT,
            {
                "f_name": account.name,
                "f_role": account.role.value,
                "f_password": account.password,
                "f_create_time": account.created_ms,
                "f_update_time": account.updated_ms,
            },
        )

    def get(self, name: str) -> Account | None:
        found = self._session.row(f"{_ACCOUNT} WHERE f_name = ?", (name,))
        return _account(found) if found is not None else None

    def all(self) -> list[Account]:
        return sorted((_account(row) for row in self._session.rows(_ACCOUNT)), key=lambda a: a.name)

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
        self._session.replace(
            ACCOUNT_SESSION,
            {
                "f_digest": session.digest,
                "f_name": session.name,
                "f_address": session.address,
                "f_create_time": session.created_ms,
                "f_seen_time": session.seen_ms,
            },
        )

    def session(self, digest: str) -> AccountSession | None:
        found = self._session.row(f"{_SESSION} WHERE f_digest = ?", (digest,))
        return _of_browser(found) if found is not None else None

    def sessions(self, name: str) -> list[AccountSession]:
        found = self._session.rows(f"{_SESSION} WHERE f_name = ?", (name,))
        return sorted((_of_browser(row) for row in found), key=lambda s: (s.created_ms, s.digest))

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


def _account(row: Found) -> Account:
    name, role, password, created_ms, updated_ms = row
    return Account(
        name=name,
        role=AccountRole(role),
        password=password,
        created_ms=created_ms,
        updated_ms=updated_ms,
    )


def _of_browser(row: Found) -> AccountSession:
    digest, name, address, created_ms, seen_ms = row
    return AccountSession(
        digest=digest, name=name, address=address, created_ms=created_ms, seen_ms=seen_ms
    )
