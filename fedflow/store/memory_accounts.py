"""Accounts of the board and sessions of browsers, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedflow.domain.accounts import Account, AccountRole, AccountSession
from fedflow.store.journal import Journal


class MemoryAccounts:
    """See `app.ports.Accounts`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._accounts: dict[str, Account] = {}
        self._sessions: dict[str, AccountSession] = {}

    def add(self, account: Account) -> bool:
        if account.name in self._accounts:
            return False
        self._journal.put(self._accounts, account.name, account)
        return True

    def get(self, name: str) -> Account | None:
        return self._accounts.get(name)

    def all(self) -> list[Account]:
        return sorted(self._accounts.values(), key=lambda a: a.name)

    def set_role(self, name: str, role: AccountRole, *, now_ms: int) -> bool:
        return self._change(name, lambda a: replace(a, role=role, updated_ms=now_ms))

    def set_password(self, name: str, password: str, *, now_ms: int) -> bool:
        return self._change(name, lambda a: replace(a, password=password, updated_ms=now_ms))

    def drop(self, name: str) -> bool:
        known = name in self._accounts
        self.end_sessions(name)
        self._journal.drop(self._accounts, name)
        return known

    def put_session(self, session: AccountSession) -> None:
        self._journal.put(self._sessions, session.digest, session)

    def session(self, digest: str) -> AccountSession | None:
        return self._sessions.get(digest)

    def sessions(self, name: str) -> list[AccountSession]:
        found = [s for s in self._sessions.values() if s.name == name]
        return sorted(found, key=lambda s: (s.created_ms, s.digest))

    def seen(self, digest: str, *, now_ms: int) -> None:
        known = self._sessions.get(digest)
        if known is not None:
            self._journal.put(self._sessions, digest, replace(known, seen_ms=now_ms))

    def end_session(self, digest: str) -> bool:
        known = digest in self._sessions
        self._journal.drop(self._sessions, digest)
        return known

    def end_sessions(self, name: str) -> int:
        return self._end(lambda s: s.name == name)

    def prune_sessions(self, *, seen_before_ms: int, created_before_ms: int) -> int:
        return self._end(lambda s: s.seen_ms < seen_before_ms or s.created_ms < created_before_ms)

    def _change(self, name: str, change: Callable[[Account], Account]) -> bool:
        known = self._accounts.get(name)
        if known is None:
            return False
        self._journal.put(self._accounts, name, change(known))
        return True

    def _end(self, which: Callable[[AccountSession], bool]) -> int:
        ended = [digest for digest, session in self._sessions.items() if which(session)]
        for digest in ended:
            self._journal.drop(self._sessions, digest)
        return len(ended)
