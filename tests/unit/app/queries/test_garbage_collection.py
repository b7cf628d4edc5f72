"""What nothing names is searched for once an hour; what was kept for jobs at every call."""

from __future__ import annotations

from typing import Any

from fedflow.app.queries.cleaning import GarbageCollection
from tests.unit.app.fakes import NOW_MS, FakeClock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Calls:
    """Stands for models, tables and unfinished tables; notes what is asked of them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def sweep(self, unnamed_ms: int = 0, *, older_than_ms: int = 0) -> None:
        self.calls.append(("models", unnamed_ms) if unnamed_ms else ("tables", older_than_ms))

    def drop_kept(self) -> None:
        self.calls.append(("kept", 0))


def test_contents_and_unfinished_tables_are_searched_for_once_an_hour() -> None:
    clock, seen = FakeClock(), Calls()
    anything: Any = seen
    garbage = GarbageCollection(models=anything, tables=anything, unfinished=anything, clock=clock)
    garbage.collect()
    assert seen.calls == [("models", NOW_MS - DAY_MS), ("tables", NOW_MS - 7 * DAY_MS), ("kept", 0)]
    clock.ms += HOUR_MS - 1_000
    garbage.collect()
    assert seen.calls[3:] == [("kept", 0)]
    clock.ms += 2_000
    garbage.collect()
    assert [what for what, _ in seen.calls[4:]] == ["models", "tables", "kept"]
