"""The state file of a serving process: what is remembered, and what a repeat changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fedflow.base.errors.serving_process import (
    LoadNotFound,
    LoadRefused,
    ServingStateNotUsable,
    VersionNotLoaded,
)
from fedflow.serving.load_state import (
    PREPARED_MS,
    LoadState,
    StoredLoad,
    VersionKey,
    sha256_of,
)
from fedflow.serving.state_file import StateFile

MODEL = "guest-9999#host-10000#model"


def a_load(load_id: str, version: str = "v1", share: bytes = b"{}", at_ms: int = 0) -> StoredLoad:
    key = VersionKey(role="guest", party_id="9999", model_id=MODEL, model_version=version)
    return StoredLoad(
        load_id=load_id, state="prepared", key=key, digest="d", share=share,
        share_sha256=sha256_of(share), changed_ms=at_ms,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serving.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[StateFile]:
    with closing(StateFile(path)) as file:
        yield file


@pytest.fixture
def state(file: StateFile) -> LoadState:
    return LoadState(file)


def load(state: LoadState, *versions: str) -> None:
    for version in versions:
        state.prepare(a_load(f"load-{version}", version))
        state.commit(f"load-{version}", 1)


def test_a_load_is_prepared_then_loaded_and_a_repeat_changes_nothing(state: LoadState) -> None:
    state.prepare(a_load("a", share=b'{"x": 1}'))
    assert [one.state for one in state.loads()] == ["prepared"]
    assert state.commit("a", 5)
    assert not state.commit("a", 6)
    (found,) = state.loads()
    assert (found.state, found.share, found.changed_ms) == ("loaded", b'{"x": 1}', 5)
    assert not found.is_damaged


def test_a_second_load_of_a_version_replaces_the_first(state: LoadState) -> None:
    load(state, "v1")
    state.prepare(replace(a_load("b"), digest="e"))
    state.commit("b", 2)
    assert [(one.load_id, one.digest) for one in state.loads()] == [("b", "e")]
    with pytest.raises(LoadNotFound):
        state.commit("load-v1", 3)


def test_an_aborted_load_is_forgotten_and_one_that_comes_late_is_refused(
    state: LoadState,
) -> None:
    state.prepare(a_load("a"))
    for _ in range(2):
        state.abort("a", 1)
    state.abort("late", 1)
    assert state.loads() == []
    with pytest.raises(LoadRefused, match="was used before"):
        state.prepare(a_load("late"))
    with pytest.raises(LoadNotFound):
        state.commit("a", 2)


def test_a_committed_load_is_not_aborted(state: LoadState) -> None:
    load(state, "v1")
    with pytest.raises(LoadRefused, match="is committed"):
        state.abort("load-v1", 2)


def test_an_unload_ends_prepared_loads_as_well(state: LoadState) -> None:
    load(state, "v1")
    state.prepare(a_load("again"))
    state.prepare(a_load("other", "v2"))
    state.unload(MODEL, "v1", 2)
    assert [one.load_id for one in state.loads()] == ["other"]
    with pytest.raises(LoadNotFound):
        state.commit("again", 3)
    state.unload(MODEL, "v2", 2)
    with pytest.raises(VersionNotLoaded):
        state.unload(MODEL, "v2", 2)


def test_an_unload_that_comes_late_undoes_no_newer_load(state: LoadState) -> None:
    first, late, newer = (f"180000000000{n}-x" for n in range(3))
    for load_id in (first, newer):
        state.prepare(a_load(load_id))
        state.commit(load_id, 1)
    with pytest.raises(LoadRefused):
        state.unload(MODEL, "v1", 2, load_id=late)
    assert [one.load_id for one in state.loads()] == [newer]
    state.unload(MODEL, "v1", 2, load_id=f"{newer}y")  # asked for at the same moment
    assert state.loads() == []


def test_prepared_loads_are_forgotten_after_an_hour(state: LoadState) -> None:
    state.prepare(a_load("old", at_ms=0))
    state.prepare(a_load("new", at_ms=10))
    assert state.forget_old(PREPARED_MS + 1) == ["old"]
    assert [one.load_id for one in state.loads()] == ["new"]


def test_a_damaged_share_is_noticed(state: LoadState, path: Path) -> None:
    load(state, "v1")
    with closing(sqlite3.connect(path)) as link, link:
        link.execute("UPDATE load SET share = ?", (b'{"x": 2}',))
    assert state.loads()[0].is_damaged


@pytest.mark.parametrize("content", [b"no database at all, but long enough" * 100, None])
def test_a_file_that_cannot_be_used_is_named(path: Path, content: bytes | None) -> None:
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    with pytest.raises(ServingStateNotUsable, match=r"serving\.sqlite"):
        StateFile(path)


def test_a_file_of_another_version_is_refused(path: Path) -> None:
    StateFile(path).close()
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA user_version = 9")
    with pytest.raises(ServingStateNotUsable, match="version 9"):
        StateFile(path)


def test_a_full_disk_changes_nothing_and_says_so(state: LoadState, file: StateFile) -> None:
    load(state, "v1")
    pages = file._opened().execute("PRAGMA page_count").fetchone()[0]
    file._opened().execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ServingStateNotUsable, match="full"):
        state.prepare(a_load("big", "v2", share=b"x" * 100_000))
    assert [one.load_id for one in state.loads()] == ["load-v1"]
