"""Accounts, signing in, sessions: the use cases over a store in memory."""

from __future__ import annotations

import logging
import threading

import pytest

from fedflow.app.administration.accounts import (
    ADDRESS_ATTEMPTS,
    ATTEMPT_MS,
    NAME_ATTEMPTS,
    Accounts,
    Attempts,
)
from fedflow.base.errors.requests import (
    AccountExists,
    AccountNotFound,
    BadAccount,
    SignInLater,
    SignInRefused,
)
from fedflow.domain.administration.accounts import MAX_SESSIONS, AccountRole
from tests.memory_store import MemoryStore

HOUR_MS = 3_600_000
GOOD, OTHER = "correct horse", "battery staple"


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.ms = 1_795_168_800_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


class CountedPasswords:
    """Hashes that cost nothing, and how often they were compared."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def hash(self, password: str) -> str:
        return f"hash of {password}"

    def fits(self, hashed: str, password: str) -> bool:
        self.checked.append(hashed)
        return hashed == f"hash of {password}"


class World:
    """One server's accounts."""

    def __init__(self, store: MemoryStore | None = None, clock: Clock | None = None) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or Clock()
        self.passwords = CountedPasswords()
        self.accounts = Accounts(
            store=self.store, passwords=self.passwords, clock=self.clock, idle_ms=4 * HOUR_MS,
            longest_ms=12 * HOUR_MS,
        )  # fmt: skip

    def sign_in(
        self, name: str = "ann", password: str = GOOD, address: str | None = "10.0.0.1"
    ) -> str:
        return self.accounts.sign_in(name, password, address=address).token


@pytest.fixture
def world() -> World:
    made = World()
    made.accounts.add("ann", AccountRole.OPERATOR, GOOD, by="test")
    return made


def test_a_session_tells_who_signed_in(world: World) -> None:
    found = world.accounts.session(world.sign_in())
    assert found is not None
    assert (found.account.name, found.account.role) == ("ann", AccountRole.OPERATOR)
    assert found.session.address == "10.0.0.1"


def test_the_store_has_neither_password_nor_token(world: World) -> None:
    token = world.sign_in()
    with world.store.read() as tx:
        (session,) = tx.accounts.sessions("ann")
    assert token not in session.digest
    assert world.accounts.session(session.digest) is None
    assert "hash" not in repr(world.accounts.session(token))


def test_every_sign_in_has_a_token_of_its_own(world: World) -> None:
    assert len({world.sign_in() for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("name", "password"), [("ann", "wrong"), ("bob", GOOD), ("", ""), ("Ann", GOOD)]
)
def test_a_wrong_name_is_refused_like_a_wrong_password(
    world: World, name: str, password: str
) -> None:
    with pytest.raises(SignInRefused) as caught:
        world.sign_in(name, password)
    assert caught.value.message == "The name or the password is wrong."
    assert len(world.passwords.checked) == 1


def test_a_session_ends_by_itself_when_it_is_not_used(world: World) -> None:
    token = world.sign_in()
    world.clock.ms += 4 * HOUR_MS
    assert world.accounts.session(token) is not None
    world.clock.ms += 4 * HOUR_MS + 1
    assert world.accounts.session(token) is None


def test_a_session_in_use_ends_after_half_a_day(world: World) -> None:
    token = world.sign_in()
    for _ in range(12):
        world.clock.ms += HOUR_MS
        assert world.accounts.session(token) is not None
    world.clock.ms += 1
    assert world.accounts.session(token) is None


def test_a_session_in_use_is_written_once_a_minute_at_most(world: World) -> None:
    token = world.sign_in()
    before = world.store.writes
    for _ in range(20):
        world.clock.ms += 3_000
        world.accounts.session(token)
    assert world.store.writes == before
    world.clock.ms += 1_000
    world.accounts.session(token)
    assert world.store.writes == before + 1


def test_another_server_of_the_party_knows_a_session(world: World) -> None:
    other = World(world.store, world.clock)
    token = world.sign_in()
    assert other.accounts.session(token) is not None
    world.accounts.sign_out(token)
    assert other.accounts.session(token) is None


def test_another_role_holds_in_open_sessions(world: World) -> None:
    token = world.sign_in()
    world.accounts.set_role("ann", AccountRole.VIEWER, by="test")
    found = world.accounts.session(token)
    assert found is not None
    assert found.account.role is AccountRole.VIEWER


def test_a_new_password_ends_all_sessions(world: World) -> None:
    tokens = [world.sign_in() for _ in range(3)]
    world.accounts.set_password("ann", OTHER, by="test")
    assert [world.accounts.session(token) for token in tokens] == [None] * 3
    with pytest.raises(SignInRefused):
        world.sign_in()
    assert world.accounts.session(world.sign_in(password=OTHER)) is not None


def test_a_removed_account_has_no_session_and_its_name_may_be_used_again(world: World) -> None:
    token = world.sign_in()
    world.accounts.remove("ann", by="test")
    assert world.accounts.session(token) is None
    world.accounts.add("ann", AccountRole.VIEWER, OTHER, by="test")
    assert world.accounts.session(token) is None


def test_signing_out_everywhere_ends_all_sessions_of_one_account(world: World) -> None:
    world.accounts.add("bob", AccountRole.VIEWER, OTHER, by="test")
    of_bob = world.sign_in("bob", OTHER)
    tokens = [world.sign_in() for _ in range(3)]
    assert world.accounts.sign_out_all("ann", by="test") == 3
    assert [world.accounts.session(token) for token in tokens] == [None] * 3
    assert world.accounts.session(of_bob) is not None


def test_changing_the_own_password_needs_the_old_one_and_begins_a_new_session(
    world: World,
) -> None:
    old = world.sign_in()
    with pytest.raises(SignInRefused):
        world.accounts.change_password("ann", "wrong", OTHER, address=None)
    with pytest.raises(BadAccount, match="old one"):
        world.accounts.change_password("ann", GOOD, GOOD, address=None)
    with pytest.raises(BadAccount, match="fewer"):
        world.accounts.change_password("ann", GOOD, "short", address=None)
    assert world.accounts.session(old) is not None
    new = world.accounts.change_password("ann", GOOD, OTHER, address=None)
    assert world.accounts.session(old) is None
    assert world.accounts.session(new.token) is not None


def test_a_password_that_is_changed_while_somebody_signs_in_lets_nobody_in(world: World) -> None:
    changed = threading.Event()

    class Slow(CountedPasswords):
        def fits(self, hashed: str, password: str) -> bool:
            answer = super().fits(hashed, password)
            if not changed.is_set():
                changed.set()
                world.accounts.set_password("ann", OTHER, by="test")
            return answer

    slow = Accounts(
        store=world.store, passwords=Slow(), clock=world.clock, idle_ms=HOUR_MS,
        longest_ms=HOUR_MS,
    )  # fmt: skip
    with pytest.raises(SignInRefused):
        slow.sign_in("ann", GOOD, address=None)
    assert world.accounts.sessions("ann") == []


def test_the_oldest_session_of_an_account_gives_way(world: World) -> None:
    first = world.sign_in()
    for _ in range(MAX_SESSIONS - 1):
        world.clock.ms += 1
        world.sign_in()
    assert world.accounts.session(first) is not None
    world.clock.ms += 1
    last = world.sign_in()
    assert world.accounts.session(first) is None
    assert world.accounts.session(last) is not None
    assert len(world.accounts.sessions("ann")) == MAX_SESSIONS


def test_ended_sessions_are_deleted_when_somebody_signs_in(world: World) -> None:
    world.accounts.add("bob", AccountRole.VIEWER, OTHER, by="test")
    world.sign_in("bob", OTHER)
    world.clock.ms += 13 * HOUR_MS
    world.sign_in()
    with world.store.read() as tx:
        assert tx.accounts.sessions("bob") == []


# --- limits ---------------------------------------------------------------------------------------


def test_a_name_waits_after_many_wrong_passwords_wherever_they_come_from(world: World) -> None:
    for n in range(NAME_ATTEMPTS):
        with pytest.raises(SignInRefused):
            world.sign_in(password="wrong", address=f"10.0.0.{n}")
    with pytest.raises(SignInLater):
        world.sign_in(address="10.0.1.1")
    world.clock.ms += ATTEMPT_MS
    assert world.sign_in(address="10.0.1.1")


def test_an_address_waits_after_many_names(world: World) -> None:
    for n in range(ADDRESS_ATTEMPTS):
        with pytest.raises(SignInRefused):
            world.sign_in(f"name{n}", "wrong")
    with pytest.raises(SignInLater):
        world.sign_in()
    assert world.sign_in(address="10.0.0.2")


def test_an_unknown_name_is_limited_like_a_known_one(world: World) -> None:
    for _ in range(NAME_ATTEMPTS):
        with pytest.raises(SignInRefused):
            world.sign_in("nobody", address=None)
    with pytest.raises(SignInLater):
        world.sign_in("nobody", address=None)


def test_many_good_sign_ins_are_not_limited(world: World) -> None:
    for _ in range(3 * ADDRESS_ATTEMPTS):
        world.sign_in()


def test_a_refused_attempt_checks_no_password(world: World) -> None:
    for _ in range(NAME_ATTEMPTS + 5):
        with pytest.raises((SignInRefused, SignInLater)):
            world.sign_in(password="wrong")
    assert len(world.passwords.checked) == NAME_ATTEMPTS


def test_a_new_password_lets_a_limited_name_in(world: World) -> None:
    for _ in range(NAME_ATTEMPTS):
        with pytest.raises(SignInRefused):
            world.sign_in(password="wrong", address=None)
    world.accounts.set_password("ann", OTHER, by="admin")
    assert world.sign_in(password=OTHER, address=None)


def test_counts_of_attempts_stay_bounded() -> None:
    counts = Attempts()
    for n in range(12_000):
        counts.take(("name", str(n)), limit=1, now_ms=0)
    assert len(counts._free_ms) == 10_000
    with pytest.raises(SignInLater):
        counts.take(("name", "11999"), limit=1, now_ms=0)


# --- accounts -------------------------------------------------------------------------------------


def test_a_name_has_one_account(world: World) -> None:
    with pytest.raises(AccountExists):
        world.accounts.add("ann", AccountRole.ADMIN, OTHER, by="test")
    assert world.sign_in()


def test_what_concerns_an_unknown_account_is_refused(world: World) -> None:
    accounts = world.accounts
    for change in (
        lambda: accounts.remove("bob", by="t"),
        lambda: accounts.set_role("bob", AccountRole.ADMIN, by="t"),
        lambda: accounts.set_password("bob", OTHER, by="t"),
        lambda: accounts.sign_out_all("bob", by="t"),
    ):
        with pytest.raises(AccountNotFound):
            change()


def test_logs_tell_names_and_addresses_and_no_password(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        world.sign_in()
        with pytest.raises(SignInRefused):
            world.sign_in(password="my real password")
        world.accounts.set_password("ann", OTHER, by="root")
        token = world.sign_in(password=OTHER)
    assert "ann signed in from 10.0.0.1" in caplog.text
    assert "set by root" in caplog.text
    for secret in ("my real password", OTHER, GOOD, token):
        assert secret not in caplog.text
