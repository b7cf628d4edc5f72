"""Ages and statuses as people write them, and the server's own rounds."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from fedflow.app.queries.retention import Retention
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.retention import read_age, read_statuses
from fedflow.domain.states import JOB_FINAL, JobStatus
from fedflow.store.connect import open_sqlite
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock
from tests.unit.app.queries.test_deleting import JOB, OTHER, World

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [("30d", 30 * DAY_MS), ("1h", DAY_MS // 24), ("2w", 14 * DAY_MS), (" 8W ", 56 * DAY_MS)],
)
def test_an_age_has_a_number_and_a_unit(text: str, age_ms: int) -> None:
    assert read_age(text) == age_ms


@pytest.mark.parametrize(
    "text", ["", "30", "d", "0d", "-3d", "1.5d", "3 d", "3m", "9999999d", "36501d", "５d"]
)
def test_what_is_no_age_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadRequest, match="such as 30d, at most 36500d"):
        read_age(text)


def test_statuses_are_words_of_ended_jobs() -> None:
    assert read_statuses([]) == JOB_FINAL
    assert read_statuses(["success, FAILED"]) == {JobStatus.SUCCESS, JobStatus.FAILED}
    for wrong in ("running", "done", ""):
        with pytest.raises(BadRequest, match="canceled, failed, success, timeout"):
            read_statuses([wrong])


def test_rounds_delete_what_became_old_and_try_again_what_was_refused(tmp_path: Path) -> None:
    clock = FakeClock()
    world = World(MemoryStore(), tmp_path)
    now_ms = clock.now_ms()
    for number in range(45):
        world.job(f"2026112009{number:011}", created_ms=now_ms, ended_ms=now_ms)
    retention = Retention(
        world.deletions, clock=clock, age_ms=DAY_MS, statuses=frozenset({JobStatus.SUCCESS})
    )
    assert retention.look() is False
    clock.ms += DAY_MS + 1
    stays = world.job(OTHER, created_ms=now_ms, ended_ms=now_ms, in_use=True)
    assert [retention.look() for _ in range(3)] == [True, True, False]
    with world.store.transaction() as tx:
        assert [job.key for job in tx.jobs.shares(OTHER)] == [stays.key]
        tx.jobs.return_cores(stays.key, now_ms=now_ms)
    assert retention.look() is False
    assert world.left(OTHER) == []


def test_the_first_round_finishes_what_a_crash_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(MemoryStore(), tmp_path)
    world.ran(JOB)
    monkeypatch.setattr(type(world.deletions), "_remove_rest", lambda *_: None)
    world.deletions.delete(JOB)
    monkeypatch.undo()
    Retention(world.deletions, clock=FakeClock(), age_ms=DAY_MS, statuses=JOB_FINAL).look()
    assert world.left(JOB) == []


def left_by(world: World, file: Path) -> dict[str, int]:
    """Return the rows of each table, the database's pages in use, and the files below the home."""
    with sqlite3.connect(file) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        found = {
            name: database.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0]
            for (name,) in tables
        }
        pages, free = (
            database.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count")
        )
    database.close()
    files = sum(path.is_file() for path in world.folders.home.rglob("*"))
    return {**found, "pages": pages - free, "files": files}


def test_after_many_jobs_nothing_is_more_than_after_the_first(tmp_path: Path) -> None:
    clock, file = FakeClock(), tmp_path / "store.db"
    store = open_sqlite(file)
    world = World(store, tmp_path / "home")
    retention = Retention(world.deletions, clock=clock, age_ms=DAY_MS, statuses=JOB_FINAL)

    def run(first: int, jobs: int) -> dict[str, int]:
        for number in range(first, first + jobs):
            world.ran(f"2026112009{number:011}")
        while retention.look():
            pass
        return left_by(world, file)

    after_few = run(0, 10)
    assert run(10, 50) == after_few
    store.close()
