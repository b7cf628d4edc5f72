"""The state file of a serving process: what is remembered, and what a repeat changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fedflow.base.errors.serving_process import (
    BindingRefused,
    LoadNotFound,
    LoadRefused,
    ServiceNotBound,
    ServingStateNotUsable,
    VersionNotLoaded,
)
from fedflow.serving.state import (
    PREPARED_MS,
    ServiceBinding,
    ServingState,
    StoredLoad,
    VersionKey,
    sha256_of,
)

MODEL = "guest-9999#host-10000#model"


def a_load(load_id: str, version: str = "v1", share: bytes = b"{}", at_ms: int = 0) -> StoredLoad:
    key = VersionKey(role="guest", party_id="9999", model_id=MODEL, model_version=version)
    return StoredLoad(
        load_id=load_id, state="prepared", key=key, digest="d", share=share,
        share_sha256=sha256_of(share), changed_ms=at_ms,
    )  # fmt: skip


def a_binding(version: str = "v1", service: str = "credit") -> ServiceBinding:
    return ServiceBinding(
        service_id=service, model_id=MODEL, model_version=version, weight=100, bound_ms=1
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serving.sqlite"


@pytest.fixture
def state(path: Path) -> Iterator[ServingState]:
    with closing(ServingState(path)) as state:
        yield state


def load(state: ServingState, *versions: str) -> None:
    for version in versions:
        state.prepare(a_load(f"load-{version}", version))
        state.commit(f"load-{version}", 1)


def test_a_load_is_prepared_then_loaded_and_a_repeat_changes_nothing(state: ServingState) -> None:
    state.prepare(a_load("a", share=b'{"x": 1}'))
    assert [one.state for one in state.loads()] == ["prepared"]
    assert state.commit("a", 5)
    assert not state.commit("a", 6)
    (found,) = state.loads()
    assert (found.state, found.share, found.changed_ms) == ("loaded", b'{"x": 1}', 5)
    assert not found.is_damaged


def test_a_second_load_of_a_version_replaces_the_first(state: ServingState) -> None:
    load(state, "v1")
    state.prepare(replace(a_load("b"), digest="e"))
    state.commit("b", 2)
    assert [(one.load_id, one.digest) for one in state.loads()] == [("b", "e")]
    with pytest.raises(LoadNotFound):
        state.commit("load-v1", 3)


def test_an_aborted_load_is_forgotten_and_one_that_comes_late_is_refused(
    state: ServingState,
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


def test_a_committed_load_is_not_aborted(state: ServingState) -> None:
    load(state, "v1")
    with pytest.raises(LoadRefused, match="is committed"):
        state.abort("load-v1", 2)


def test_prepared_loads_are_forgotten_after_an_hour(state: ServingState) -> None:
    state.prepare(a_load("old", at_ms=0))
    state.prepare(a_load("new", at_ms=10))
    assert state.forget_old(PREPARED_MS + 1) == ["old"]
    assert [one.load_id for one in state.loads()] == ["new"]


def test_a_binding_needs_a_loaded_version(state: ServingState) -> None:
    state.prepare(a_load("a"))
    with pytest.raises(VersionNotLoaded):
        state.bind(a_binding())


def test_binding_again_is_the_switch_and_rollback_goes_back_step_by_step(
    state: ServingState,
) -> None:
    load(state, "v1", "v2", "v3")
    assert state.bind(a_binding("v1")) is None
    before = state.bind(a_binding("v2"))
    assert before is not None
    assert before.model_version == "v1"
    state.bind(a_binding("v2"))  # a repeat adds nothing to the history
    state.bind(a_binding("v3"))
    assert [one.model_version for one in state.history("credit")] == ["v3", "v2", "v1"]
    assert [state.roll_back("credit")[1].model_version for _ in range(2)] == ["v2", "v1"]
    with pytest.raises(BindingRefused, match="no version was bound before"):
        state.roll_back("credit")
    assert [one.model_version for one in state.bindings()] == ["v1"]


def test_a_rollback_to_what_is_not_loaded_is_refused(state: ServingState) -> None:
    load(state, "v1", "v2")
    state.bind(a_binding("v1"))
    state.bind(a_binding("v2"))
    state.unload(MODEL, "v1", 3)
    with pytest.raises(BindingRefused, match="not loaded any more"):
        state.roll_back("credit")
    assert [one.model_version for one in state.bindings()] == ["v2"]


def test_unloading_unbinds(state: ServingState) -> None:
    load(state, "v1")
    state.bind(a_binding(service="a"))
    state.bind(a_binding(service="b"))
    assert state.unload(MODEL, "v1", 3) == ["a", "b"]
    assert (state.bindings(), state.loads()) == ([], [])
    with pytest.raises(VersionNotLoaded):
        state.unload(MODEL, "v1", 3)
    with pytest.raises(ServiceNotBound):
        state.unbind("a")


def test_everything_is_there_after_a_restart(path: Path) -> None:
    with closing(ServingState(path)) as state:
        load(state, "v1", "v2")
        state.bind(a_binding("v1"))
        state.bind(a_binding("v2"))
        state.prepare(a_load("half", "v3"))
    with closing(ServingState(path)) as state:
        assert [one.state for one in state.loads()] == ["prepared", "loaded", "loaded"]
        assert state.roll_back("credit")[1].model_version == "v1"


def test_a_damaged_share_is_noticed(state: ServingState, path: Path) -> None:
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
        ServingState(path)


def test_a_file_of_another_version_is_refused(path: Path) -> None:
    ServingState(path).close()
    with closing(sqlite3.connect(path)) as link:
        link.execute("PRAGMA user_version = 9")
    with pytest.raises(ServingStateNotUsable, match="version 9"):
        ServingState(path)


def test_a_full_disk_changes_nothing_and_says_so(state: ServingState, path: Path) -> None:
    load(state, "v1")
    pages = state._opened().execute("PRAGMA page_count").fetchone()[0]
    state._opened().execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ServingStateNotUsable, match="full"):
        state.prepare(a_load("big", "v2", share=b"x" * 100_000))
    assert [one.load_id for one in state.loads()] == ["load-v1"]
