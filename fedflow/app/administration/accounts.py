"""Who may use the board: accounts, signing in, sessions.

A session is a row in the store, so all servers of a party know it, and what is changed about an
account holds with the next request. The browser has a random token, the store its sha256: who can
read the store can use no session. Attempts to sign in are counted in this process.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Final, Protocol

from fedflow.app.ports.store import Store
from fedflow.base.clock import Clock
from fedflow.base.errors.requests import (
    AccountExists,
    AccountNotFound,
    BadAccount,
    SignInLater,
    SignInRefused,
)
from fedflow.base.ids import new_session_token
from fedflow.base.values import dataclass
from fedflow.domain.administration.accounts import (
    LONGEST_PASSWORD,
    MAX_SESSIONS,
    RENEW_AFTER_MS,
    Account,
    AccountRole,
    AccountSession,
    check_name,
    check_password,
    plain_password,
)

logger = logging.getLogger(__name__)

NAME_ATTEMPTS: Final = 10  #: wrong passwords of one name before it has to wait
ADDRESS_ATTEMPTS: Final = 30  #: the same from one address
ATTEMPT_MS: Final = 30_000  #: after each such time one more attempt is allowed
_KEPT_COUNTS: Final = 10_000
_CHECKS_AT_ONCE: Final = 2  #: each takes 32 MiB and some 0.1 s of a core
_CHECK_WAIT_S: Final = 2.0


class Passwords(Protocol):
    """Hashing of passwords, slow on purpose."""

    def hash(self, password: str) -> str:
        """Return a salted hash that says how it was made."""

    def fits(self, hashed: str, password: str) -> bool:
        """Tell whether a hash was made from a password."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignedIn:
    """Somebody who is signed in."""

    account: Account
    session: AccountSession


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSession:
    """A session that just began; nobody but the browser may keep the token."""

    token: str = field(repr=False)
    signed_in: SignedIn


class Accounts:
    """The use cases of accounts; `by` is who asked for a change, for the log."""

    def __init__(
        self, *, store: Store, passwords: Passwords, clock: Clock, idle_ms: int, longest_ms: int
    ) -> None:
        """A session ends `idle_ms` after its last use and `longest_ms` after it began."""
        self._store = store
        self._passwords = passwords
        self._clock = clock
        self._idle_ms = idle_ms
        self._longest_ms = longest_ms
        self._attempts = Attempts()
        self._checks = threading.BoundedSemaphore(_CHECKS_AT_ONCE)
        self._nobody: str | None = (
            None  #: the hash that attempts for unknown names are checked with
        )

    # --- accounts ---------------------------------------------------------------------------------

    def all(self) -> list[Account]:
        """Return all accounts by name."""
        with self._store.read() as tx:
            return tx.accounts.all()

    def exist(self) -> bool:
        """Tell whether anybody can sign in."""
        return bool(self.all())

    def add(self, name: str, role: AccountRole, password: str, *, by: str) -> Account:
        """Make an account. Raises: BadAccount, AccountExists."""
        check_name(name)
        hashed = self._hash(check_password(password, name=name))
        now_ms = self._clock.now_ms()
        account = Account(
            name=name, role=role, password=hashed, created_ms=now_ms, updated_ms=now_ms
        )
        with self._store.transaction() as tx:
            if not tx.accounts.add(account):
                raise AccountExists(name=name)
        _log("Account %s was added as %s by %s", name, role.value, by, action="account_added")
        return account

    def remove(self, name: str, *, by: str) -> None:
        """Forget an account; its sessions end. Raises: AccountNotFound."""
        with self._store.transaction() as tx:
            if not tx.accounts.drop(name):
                raise AccountNotFound(name=name[:100])
        _log("Account %s was removed by %s", name, by, action="account_removed")

    def set_role(self, name: str, role: AccountRole, *, by: str) -> None:
        """Give an account another role, its sessions too. Raises: AccountNotFound."""
        with self._store.transaction() as tx:
            if not tx.accounts.set_role(name, role, now_ms=self._clock.now_ms()):
                raise AccountNotFound(name=name[:100])
        _log("Account %s was made %s by %s", name, role.value, by, action="account_role")

    def set_password(self, name: str, password: str, *, by: str) -> None:
        """Set another password; all sessions of the account end.

        Raises: BadAccount, AccountNotFound.
        """
        self._store_password(name, self._hash(check_password(password, name=name)), by=by)

    # --- sessions ---------------------------------------------------------------------------------

    def sign_in(self, name: str, password: str, *, address: str | None) -> NewSession:
        """Begin a session. `address` None: it tells nothing, as all come through a proxy.

        Raises: SignInRefused: the same, and as late, for an unknown name as for a wrong password.
        SignInLater: there were too many attempts.
        """
        account = self._proven(name, password, address=address)
        new = self._begin(account.name, account.password, address)
        _log("%s signed in from %s", account.name, address or "?", action="signed_in")
        return new

    def change_password(self, name: str, old: str, new: str, *, address: str | None) -> NewSession:
        """Set another password, who knows the old one; all sessions end, a new one begins.

        Raises: BadAccount, SignInRefused, SignInLater.
        """
        check_password(new, name=name)
        account = self._proven(name, old, address=address)
        if plain_password(old) == plain_password(new):
            raise BadAccount(what="The new password", reason="it is the old one")
        hashed = self._hash(check_password(new, name=name))
        self._store_password(account.name, hashed, by=account.name)
        return self._begin(account.name, hashed, address)

    def session(self, token: str) -> SignedIn | None:
        """Return who a token belongs to, as the account is now; None: nobody any more."""
        digest = _digest(token)
        now_ms = self._clock.now_ms()
        with self._store.read() as tx:
            session = tx.accounts.session(digest)
            account = tx.accounts.get(session.name) if session is not None else None
        if session is None or account is None:
            return None
        if session.has_ended(now_ms, idle_ms=self._idle_ms, longest_ms=self._longest_ms):
            return None
        if now_ms - session.seen_ms > min(RENEW_AFTER_MS, self._idle_ms // 4):
            with self._store.transaction() as tx:
                tx.accounts.seen(digest, now_ms=now_ms)
        return SignedIn(account=account, session=session)

    def sessions(self, name: str) -> list[AccountSession]:
        """Return the sessions of an account that have not ended, newest first."""
        now_ms = self._clock.now_ms()
        with self._store.read() as tx:
            found = tx.accounts.sessions(name)
        return [
            session
            for session in reversed(found)
            if not session.has_ended(now_ms, idle_ms=self._idle_ms, longest_ms=self._longest_ms)
        ]

    def sign_out(self, token: str) -> bool:
        """End a session; False if it had ended."""
        with self._store.transaction() as tx:
            return tx.accounts.end_session(_digest(token))

    def sign_out_all(self, name: str, *, by: str) -> int:
        """End all sessions of an account; return how many there were. Raises: AccountNotFound."""
        with self._store.transaction() as tx:
            if tx.accounts.get(name) is None:
                raise AccountNotFound(name=name[:100])
            ended = tx.accounts.end_sessions(name)
        _log("Account %s was signed out everywhere by %s", name, by, action="signed_out")
        return ended

    # --- within -----------------------------------------------------------------------------------

    def _proven(self, name: str, password: str, *, address: str | None) -> Account:
        """Return the account whose password it is. Raises: SignInRefused, SignInLater."""
        name = name[:100]
        now_ms = self._clock.now_ms()
        of_name, of_address = ("name", name), ("address", address or "")
        if address is not None:
            self._attempts.take(of_address, limit=ADDRESS_ATTEMPTS, now_ms=now_ms)
        self._attempts.take(of_name, limit=NAME_ATTEMPTS, now_ms=now_ms)
        with self._store.read() as tx:
            account = tx.accounts.get(name)
        with self._one_check():
            nobody = self._of_nobody()
            expected = account.password if account is not None else nobody
            fits = self._passwords.fits(expected, plain_password(password[: LONGEST_PASSWORD + 1]))
        if account is None or not fits:
            _log("Sign-in refused from %s", address or "?", action="sign_in_refused")
            raise SignInRefused
        self._attempts.forget(of_name)
        self._attempts.give_back(of_address)
        return account

    def _store_password(self, name: str, hashed: str, *, by: str) -> None:
        with self._store.transaction() as tx:
            if not tx.accounts.set_password(name, hashed, now_ms=self._clock.now_ms()):
                raise AccountNotFound(name=name[:100])
            tx.accounts.end_sessions(name)
        self._attempts.forget(("name", name))
        _log("The password of account %s was set by %s", name, by, action="account_password")

    def _begin(self, name: str, hashed: str, address: str | None) -> NewSession:
        """Begin a session, unless the password is another one by now. Raises: SignInRefused."""
        token = new_session_token()
        now_ms = self._clock.now_ms()
        session = AccountSession(
            digest=_digest(token),
            name=name,
            address=(address or "")[:64],
            created_ms=now_ms,
            seen_ms=now_ms,
        )
        with self._store.transaction() as tx:
            account = tx.accounts.get(name)
            if account is None or account.password != hashed:
                raise SignInRefused
            tx.accounts.prune_sessions(
                seen_before_ms=now_ms - self._idle_ms, created_before_ms=now_ms - self._longest_ms
            )
            for old in tx.accounts.sessions(name)[: -(MAX_SESSIONS - 1)]:
                tx.accounts.end_session(old.digest)
            tx.accounts.put_session(session)
        return NewSession(token=token, signed_in=SignedIn(account=account, session=session))

    def _of_nobody(self) -> str:
        if self._nobody is None:
            self._nobody = self._passwords.hash(new_session_token())
        return self._nobody

    def _hash(self, password: str) -> str:
        with self._one_check():
            return self._passwords.hash(password)

    @contextmanager
    def _one_check(self) -> Iterator[None]:
        """Hold others up while passwords are hashed. Raises: SignInLater: too many wait."""
        if not self._checks.acquire(timeout=_CHECK_WAIT_S):
            raise SignInLater
        try:
            yield
        finally:
            self._checks.release()


class Attempts:
    """Counts attempts per key: `limit` at once, then one each `ATTEMPT_MS`.

    Keys that were not used for longest are forgotten when there are too many.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_ms: OrderedDict[tuple[str, str], int] = OrderedDict()  #: when all are free again

    def take(self, key: tuple[str, str], *, limit: int, now_ms: int) -> None:
        """Count one attempt. Raises: SignInLater: too many of late; this one is not counted."""
        with self._lock:
            free_ms = max(self._free_ms.get(key, 0), now_ms) + ATTEMPT_MS
            if free_ms - now_ms > limit * ATTEMPT_MS:
                raise SignInLater
            self._free_ms[key] = free_ms
            self._free_ms.move_to_end(key)
            while len(self._free_ms) > _KEPT_COUNTS:
                self._free_ms.popitem(last=False)

    def give_back(self, key: tuple[str, str]) -> None:
        """Take back one counted attempt."""
        with self._lock:
            if key in self._free_ms:
                self._free_ms[key] -= ATTEMPT_MS

    def forget(self, key: tuple[str, str]) -> None:
        """Allow all attempts again."""
        with self._lock:
            self._free_ms.pop(key, None)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def _log(sentence: str, *values: str, action: str) -> None:
    logger.info(sentence, *values, extra={"action": action})
