"""The SQLite file is deleted under a running server, and a server starts over an empty one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fedflow.base.errors.error import FedflowError
from tests.e2e.jobs import empty_job
from tests.e2e.servers import QUICK, Pair, refusal_of, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("database"), settings=QUICK) as pair:
        yield pair


def move(source: Path, target: Path) -> None:
    """Move the database: the file and its log."""
    target.mkdir(exist_ok=True)
    for path in source.glob("fedflow.sqlite*"):
        path.rename(target / path.name)


def test_a_deleted_database_is_said_at_once_and_after_the_restart(pair: Pair) -> None:
    guest = pair.guest
    job_id = guest.client.submit(*empty_job({})).job_id
    pair.ends(job_id)
    kept = guest.home / "kept"
    move(guest.home, kept)
    ready = wait_for(lambda: (found := guest.readiness()) and not found["ready"] and found, "it")
    assert "the database file was removed, or replaced" in ready["reasons"][0]
    refused = refusal_of(lambda: guest.client.submit(*empty_job({})))
    assert isinstance(refused, FedflowError)
    assert refused.name in ("StoreUnavailable", "DatabaseFileLost")
    assert not (guest.home / "fedflow.sqlite").exists()

    guest.kill()
    guest.start().wait_ready()  # over an empty database
    warnings = guest.readiness()["warnings"]
    assert "does not know 1 of the 1 newest jobs" in str(warnings)
    assert "whose files lie in" in guest.log.read_text()

    guest.kill()
    move(guest.home, guest.home / "empty")
    move(kept, guest.home)
    guest.start().wait_ready()
    assert guest.readiness()["warnings"] == []
