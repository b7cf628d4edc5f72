"""Services: which versions answer whom, what a change keeps, and what a rollback goes back to."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import (
    BindingRefused,
    ServiceNotBound,
    VersionNotLoaded,
)
from fedflow.serving.load_state import LoadState, StoredLoad, VersionKey, sha256_of
from fedflow.serving.services.releases import (
    HeaderRule,
    Release,
    ReleasedVersion,
    check_release,
    whole_release,
    with_version,
    without_version,
)
from fedflow.serving.services.selection import choose, user_of
from fedflow.serving.services.service_options import ServiceOptions
from fedflow.serving.services.service_state import ServiceState
from fedflow.serving.state_file import StateFile

MODEL = "guest-9999#host-10000#model"
SALT = bytes(16)


def no_header(_: str) -> str:
    return ""


def weights(release: Release | None) -> dict[str, float]:
    assert release is not None
    return {one.model_version: round(one.weight, 6) for one in release.versions}


def version(name: str, weight: float = 0.0, *, shadow: bool = False) -> ReleasedVersion:
    return ReleasedVersion(model_id=MODEL, model_version=name, weight=weight, shadow=shadow)


def rule(name: str, *values: str) -> HeaderRule:
    return HeaderRule(header="X-Channel", values=values, model_id=MODEL, model_version=name)


# --- releases -------------------------------------------------------------------------------------


def test_a_grey_release_takes_its_percent_from_the_others_in_their_ratio() -> None:
    whole = whole_release(MODEL, "v1")
    grey = with_version(whole, MODEL, "v2", weight=40, shadow=False)
    assert weights(grey) == {"v1": 60, "v2": 40}
    third = with_version(grey, MODEL, "v3", weight=20, shadow=False)
    assert weights(third) == {"v1": 48, "v2": 32, "v3": 20}
    assert weights(with_version(third, MODEL, "v3", weight=100, shadow=False)) == {"v3": 100}


def test_a_shadow_answers_nobody_and_stays_when_another_version_takes_all() -> None:
    release = with_version(whole_release(MODEL, "v1"), MODEL, "v2", weight=100, shadow=True)
    assert weights(release) == {"v1": 100, "v2": 0}
    assert release.main.model_version == "v1"
    whole = with_version(release, MODEL, "v3", weight=100, shadow=False)
    assert weights(whole) == {"v2": 0, "v3": 100}


def test_without_a_version_the_others_answer_its_users() -> None:
    release = Release(versions=(version("v1", 60), version("v2", 40)), rules=(rule("v1", "a"),))
    rest = without_version(release, (MODEL, "v1"))
    assert weights(rest) == {"v2": 100}
    assert rest is not None
    assert rest.rules == ()
    assert without_version(rest, (MODEL, "v2")) is None


@pytest.mark.parametrize(
    ("release", "why"),
    [
        (Release(versions=()), "sum up to 0"),
        (Release(versions=(version("v1", 60), version("v2", 30))), "sum up to 90"),
        (Release(versions=(version("v1", 60), version("v1", 40))), "there twice"),
        (Release(versions=(version("v1", 60), version("v2", 40, shadow=True))), "a shadow"),
        (Release(versions=(version("v1", 100),), rules=(rule("v2", "a"),)), "does not answer"),
        (Release(versions=tuple(version(f"v{n}", 5) for n in range(20))), "more than 10"),
    ],
)
def test_a_release_that_cannot_be_is_refused(release: Release, why: str) -> None:
    with pytest.raises(BindingRefused, match=why):
        check_release("credit", release)


# --- selection ------------------------------------------------------------------------------------


def test_users_keep_their_version_and_weights_are_what_they_get() -> None:
    release = Release(versions=(version("v1", 90), version("v2", 10)))
    users = [user_of({"device_id": n}, "", sticky_by="") for n in range(20_000)]
    first = [choose(release, SALT, user, no_header)[0] for user in users]
    assert first == [choose(release, SALT, user, no_header)[0] for user in users]
    share = Counter(one[1] for one in first)["v2"] / len(users)
    assert share == pytest.approx(0.1, abs=0.01)


def test_more_weight_moves_users_to_the_new_version_and_nobody_back() -> None:
    users = [user_of({"device_id": n}, "", sticky_by="") for n in range(5_000)]
    chosen = []
    for weight in (5, 20, 50, 90):
        release = Release(versions=(version("v1", 100 - weight), version("v2", weight)))
        found = (choose(release, SALT, user, no_header)[0] for user in users)
        chosen.append({n for n, one in enumerate(found) if one[1] == "v2"})
    for few, more in itertools.pairwise(chosen):
        assert few < more


def test_another_salt_gives_other_users_the_new_version() -> None:
    release = Release(versions=(version("v1", 50), version("v2", 50)))
    users = [str(n).encode() for n in range(200)]
    one, other = (
        [choose(release, salt, user, no_header)[0] for user in users]
        for salt in (bytes(16), bytes(15) + b"\1")
    )
    assert one != other


def test_a_rule_decides_before_weights_and_says_so() -> None:
    release = Release(versions=(version("v1", 100), version("v2")), rules=(rule("v2", "beta"),))
    header = {"X-Channel": "beta"}.get
    assert choose(release, SALT, b"u", lambda name: header(name, "")) == ((MODEL, "v2"), "rule")
    assert choose(release, SALT, b"u", no_header) == ((MODEL, "v1"), "service")


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=5), st.integers(-9, 9))))
def test_a_user_does_not_depend_on_the_order_of_ids(ids: dict[str, str | int]) -> None:
    turned = dict(reversed(ids.items()))
    assert user_of(ids, "r", sticky_by="") == user_of(turned, "r", sticky_by="")


def test_one_id_may_name_the_user_and_without_ids_each_request_is_one() -> None:
    ids = {"user": "u1", "session": 5}
    assert user_of(ids, "r1", sticky_by="user") == user_of({"user": "u1"}, "r2", sticky_by="user")
    assert user_of({}, "r1", sticky_by="user") == b"r1"


# --- what is stored -------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "serving.sqlite"


@pytest.fixture
def file(path: Path) -> Iterator[StateFile]:
    with closing(StateFile(path)) as file:
        load(file, "v1", "v2", "v3")
        yield file


@pytest.fixture
def state(file: StateFile) -> ServiceState:
    return ServiceState(file)


def load(file: StateFile, *versions: str) -> None:
    loads = LoadState(file)
    for name in versions:
        key = VersionKey(role="guest", party_id="9999", model_id=MODEL, model_version=name)
        loads.prepare(
            StoredLoad(
                load_id=f"load-{name}", state="prepared", key=key, digest="d", share=b"{}",
                share_sha256=sha256_of(b"{}"), changed_ms=0,
            )
        )  # fmt: skip
        loads.commit(f"load-{name}", 1)


def bind(state: ServiceState, name: str, service: str = "credit", weight: float = 100) -> None:
    state.change(
        service,
        lambda before: with_version(before, MODEL, name, weight=weight, shadow=False),
        now_ms=1,
    )


def test_a_service_needs_loaded_versions(state: ServiceState) -> None:
    with pytest.raises(VersionNotLoaded):
        bind(state, "v9")
    assert state.services() == []


def test_binding_again_is_the_switch_and_rollback_goes_back_step_by_step(
    state: ServiceState,
) -> None:
    for name in ("v1", "v2", "v2", "v3"):  # a repeat adds nothing to the history
        bind(state, name)
    assert [one.release.main.model_version for one in state.history("credit")] == ["v3", "v2", "v1"]
    assert [weights(state.roll_back("credit").now) for _ in range(2)] == [{"v2": 100}, {"v1": 100}]
    with pytest.raises(BindingRefused, match="no version was bound before"):
        state.roll_back("credit")


def test_a_rollback_never_goes_to_what_was_rolled_back(state: ServiceState) -> None:
    bind(state, "v1")
    bind(state, "v2")
    state.roll_back("credit")
    bind(state, "v3")
    assert weights(state.roll_back("credit").now) == {"v1": 100}


def test_a_rollback_undoes_a_split(state: ServiceState) -> None:
    bind(state, "v1")
    bind(state, "v2", weight=10)
    assert weights(state.roll_back("credit").now) == {"v1": 100}


def test_a_rollback_to_what_is_not_loaded_is_refused(state: ServiceState, file: StateFile) -> None:
    bind(state, "v1")
    bind(state, "v2")
    LoadState(file).unload(MODEL, "v1", 3)
    with pytest.raises(BindingRefused, match="not loaded any more"):
        state.roll_back("credit")
    assert weights(state.services()[0].release) == {"v2": 100}


def test_unloading_takes_a_version_out_and_unbinds_what_is_left_without(
    state: ServiceState, file: StateFile
) -> None:
    bind(state, "v1", "a")
    bind(state, "v1", "b")
    bind(state, "v2", "b", weight=25)
    assert LoadState(file).unload(MODEL, "v1", 3) == ["a", "b"]
    assert {one.service_id: weights(one.release) for one in state.services()} == {"b": {"v2": 100}}
    with pytest.raises(ServiceNotBound):
        state.unbind("a")


def test_options_and_salt_stay_when_versions_change(state: ServiceState) -> None:
    bind(state, "v1")
    salt = state.services()[0].salt
    state.change(
        "credit",
        lambda before: before or whole_release(MODEL, "v1"),
        options=ServiceOptions(on_fault="default_score", default_score=0.5),
        now_ms=1,
    )
    bind(state, "v2")
    (found,) = state.services()
    assert (found.options.on_fault, found.salt) == ("default_score", salt)


def test_everything_is_there_after_a_restart(path: Path) -> None:
    with closing(StateFile(path)) as file:
        load(file, "v1", "v2")
        bind(ServiceState(file), "v1")
        bind(ServiceState(file), "v2", weight=30)
        salt = ServiceState(file).services()[0].salt
    with closing(StateFile(path)) as file:
        (found,) = ServiceState(file).services()
        assert (weights(found.release), found.salt) == ({"v1": 70, "v2": 30}, salt)
        assert weights(ServiceState(file).roll_back("credit").now) == {"v1": 100}


def test_a_file_of_version_1_is_read(path: Path) -> None:
    with closing(StateFile(path)) as file:
        load(file, "v1", "v2")
    with closing(sqlite3.connect(path)) as link:
        link.executescript(
            "DROP TABLE release; DROP TABLE service; PRAGMA user_version = 1;"
            "CREATE TABLE binding (number INTEGER PRIMARY KEY AUTOINCREMENT, service_id TEXT,"
            " model_id TEXT, model_version TEXT, weight INTEGER, bound_ms INTEGER,"
            " current INTEGER);"
            f"INSERT INTO binding VALUES (1, 'credit', '{MODEL}', 'v1', 100, 1, 0),"
            f" (2, 'credit', '{MODEL}', 'v2', 100, 2, 1);"
        )
    with closing(StateFile(path)) as file:
        state = ServiceState(file)
        assert weights(state.services()[0].release) == {"v2": 100}
        assert weights(state.roll_back("credit").now) == {"v1": 100}
