"""docs/security.md names a test for each threat, and every attack of `bin/attack`."""

from __future__ import annotations

from tests.attack.attacks import Who
from tests.attack.every import ALL
from tests.unit.docs.threats import names_in, rows


def test_every_kind_of_attacker_has_threats() -> None:
    assert {row.who for row in rows()} == {who.value for who in Who}


def test_every_threat_is_stopped_by_something_that_a_test_shows() -> None:
    for row in rows():
        assert row.wants, row
        assert row.stops, row
        assert row.tests or row.attacks, row


def test_every_test_that_is_named_is_there() -> None:
    named = [one for row in rows() for one in row.tests]
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


def test_every_attack_is_named_under_who_plays_it() -> None:
    named = {(row.who, name) for row in rows() for name in row.attacks}
    assert named == {(attack.who.value, attack.name) for attack in ALL}
