"""Hooks with faults, and where they are offered as entry points."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.serving.hooks.hook import HookAnswer, HookRow, RowFault

RELEASE = threading.Event()
"""Lets every hook that hangs go on."""

Change = Callable[[Any], Any]


class Changes:
    """Gives what a function makes of each row or answer."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def before(self, rows: Sequence[HookRow]) -> Any:
        return [self.change(row) for row in rows]

    def after(self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]) -> Any:
        return [self.change(one) for one in answers]


class MayChangeIds(Changes):
    may_change_ids = True


class Gives(Changes):
    """Gives the same for all rows together."""

    def before(self, rows: Sequence[HookRow]) -> Any:
        return self.change(rows)

    def after(self, rows: Sequence[HookRow], answers: Sequence[HookAnswer]) -> Any:
        return self.change(answers)


CHANGE: dict[str, Change] = {}
"""What the hooks of a test do, by name."""


def _hang(row: Any) -> Any:
    value = row.features.get("hang") if isinstance(row, HookRow) else row.score
    if value:
        RELEASE.wait(20)
    return row


def _leak(row: Any) -> Any:
    """Keep what was given, and change it after it was returned."""
    kept = row.features if isinstance(row, HookRow) else row.more
    CHANGE["leaked"] = lambda value: kept.update(leaked=value)
    return row


def _raise(row: Any) -> Any:
    value = row.features.get("bad") if isinstance(row, HookRow) else row.score
    if value:
        raise ValueError(f"secret {row}")
    return row


def changes(options: Mapping[str, Any]) -> Changes:
    return Changes(CHANGE[options["do"]])


def gives(options: Mapping[str, Any]) -> Gives:
    return Gives(CHANGE[options["do"]])


def may_change_ids(options: Mapping[str, Any]) -> MayChangeIds:
    return MayChangeIds(CHANGE[options["do"]])


def hangs(options: Mapping[str, Any]) -> Changes:
    return Changes(_hang)


def leaks(options: Mapping[str, Any]) -> Changes:
    return Changes(_leak)


def raises(options: Mapping[str, Any]) -> Changes:
    return Changes(_raise)


def refuses(options: Mapping[str, Any]) -> Changes:
    return Changes(lambda row: RowFault(reason=options.get("reason", "too young")))


def adds(options: Mapping[str, Any]) -> Changes:
    def add(row: Any) -> Any:
        if isinstance(row, HookRow):
            return replace(row, features={**row.features, **options})
        return replace(row, more={**row.more, **options})

    return Changes(add)


class Closes(Changes):
    def close(self) -> None:
        CHANGE["closed"]("closed")
        raise RuntimeError


def closes(options: Mapping[str, Any]) -> Closes:
    return Closes(lambda row: row)


def nothing(options: Mapping[str, Any]) -> Any:
    return object()


NAMES = ("changes", "gives", "may_change_ids", "hangs", "leaks", "raises", "refuses", "adds",
         "closes", "nothing")  # fmt: skip


def offer_hooks(folder: Path) -> None:
    """Write a distribution whose entry points are these hooks, in both groups."""
    info = folder / "hooks-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hooks\nVersion: 1.0\n")
    points = "\n".join(f"{name} = tests.support.hooks:{name}" for name in NAMES)
    points += "\ngone = tests.support.hooks:gone"
    groups = "\n".join(f"[fedflow.serving.{one}]\n{points}" for one in ("before", "after"))
    (info / "entry_points.txt").write_text(groups)


@contextmanager
def offered(folder: Path) -> Iterator[None]:
    """Offer the hooks to this process, and release those that hang in the end."""
    offer_hooks(folder)
    RELEASE.clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            yield
    finally:
        RELEASE.set()
        CHANGE.clear()
