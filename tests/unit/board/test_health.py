"""What the settings page shows of a server's health."""

from __future__ import annotations

from typing import Any

from fedflow.board.presenters.health import parts_of


def found(**changes: Any) -> dict[str, Any]:
    return {
        "store": True, "executor": True, "disk": True, "free_bytes": {"home": 5_300_000_000},
        "closed": [], "outbox": 0, "unreachable": [], "reasons": [], "warnings": [], **changes,
    }  # fmt: skip


def kinds(**changes: Any) -> dict[str, str]:
    return {part.name: part.kind for part in parts_of(found(**changes))}


def test_a_server_without_troubles_is_well_in_all_parts() -> None:
    assert set(kinds().values()) == {"ok"}


def test_each_trouble_is_told_where_it_is() -> None:
    assert kinds(store=False)["Store"] == "bad"
    assert kinds(executor=False)["Executor"] == "bad"
    assert kinds(disk=False)["Disk"] == "bad"
    assert kinds(closed=["tables"])["Disk"] == "bad"
    assert kinds(reasons=["threads: scheduler: its thread does not run"])["Server"] == "bad"
    assert kinds(warnings=["descriptors: 900 of 1000 are used"])["Server"] == "wait"
    assert kinds(outbox=3)["Outbox"] == "wait"
    assert kinds(unreachable=["10000"])["Other parties"] == "bad"


def test_the_free_space_of_each_disk_is_shown() -> None:
    (disk,) = (part for part in parts_of(found()) if part.name == "Disk")
    assert disk.text == "Free: home 5 GB"


def test_many_parties_that_do_not_answer_are_cut() -> None:
    last = parts_of(found(unreachable=[str(n) for n in range(500)]))[-1]
    assert last.text.endswith("19, ...")
