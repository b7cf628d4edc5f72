"""Roles, names and passwords of accounts."""

from __future__ import annotations

import pytest

from fedflow.base.errors.requests import BadAccount
from fedflow.domain.administration.accounts import (
    AccountRole,
    AccountSession,
    check_name,
    check_password,
    role_of,
)

VIEWER, OPERATOR, ADMIN = AccountRole


@pytest.mark.parametrize(
    ("who", "may"),
    [(VIEWER, {VIEWER}), (OPERATOR, {VIEWER, OPERATOR}), (ADMIN, {VIEWER, OPERATOR, ADMIN})],
)
def test_a_role_may_do_what_those_before_it_may(who: AccountRole, may: set[AccountRole]) -> None:
    assert {role for role in AccountRole if who.may(role)} == may


def test_a_word_that_is_no_role_is_refused_with_the_roles() -> None:
    assert role_of("operator") is OPERATOR
    with pytest.raises(BadAccount, match="viewer, operator, admin"):
        role_of("Admin")


@pytest.mark.parametrize("name", ["ann", "a.b-c_d@example.com", "7", "x" * 64])
def test_names_have_letters_digits_and_few_signs(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", " ann", "ann\n", "-ann", "<b>", "\u0430nn", "x" * 65, "a b", "a/b", "a\0"]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(BadAccount):
        check_name(name)


@pytest.mark.parametrize(
    "password",
    ["", "short pass"[:9], "aaaaaaaaaaaa", "abcabcabcabc", "x" * 1001, "Ann.Example"],
)
def test_passwords_that_are_short_long_or_easy_are_refused(password: str) -> None:
    with pytest.raises(BadAccount):
        check_password(password, name="ann.example")


def test_one_password_typed_on_two_keyboards_is_one() -> None:
    composed, decomposed = "caf\u00e9 cr\u00e8me", "cafe\u0301 cre\u0300me"
    assert check_password(composed, name="a") == check_password(decomposed, name="a")


@pytest.mark.parametrize(
    ("now_ms", "ended"), [(1500, False), (1501, True), (3000, True), (1000, False)]
)
def test_a_session_ends_by_idleness(now_ms: int, ended: bool) -> None:
    session = AccountSession(digest="d", name="a", address="", created_ms=0, seen_ms=1000)
    assert session.has_ended(now_ms, idle_ms=500, longest_ms=10_000) is ended


def test_a_session_in_use_ends_by_age() -> None:
    session = AccountSession(digest="d", name="a", address="", created_ms=0, seen_ms=9_900)
    assert not session.has_ended(10_000, idle_ms=500, longest_ms=10_000)
    assert session.has_ended(10_001, idle_ms=500, longest_ms=10_000)
