"""Keys of caches: what they tell apart, what they do not tell, and where their secret lies."""

from __future__ import annotations

import math
import os
import threading
from copy import copy
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import BadServingSetting, ServingStateNotUsable
from fedflow.serving.caches.keys import CacheScope, own_secret, read_secret
from tests.support.caches import SCOPE, cache_keys

KEYS = cache_keys()
OTHERS = [
    CacheScope(service_id="fraud", model_version="v1", digest="d1"),
    CacheScope(service_id="credit", model_version="v2", digest="d2"),
]
id_values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
id_maps = st.dictionaries(st.text(max_size=5), id_values, max_size=4)


def of(ids: dict[str, Any], scope: CacheScope = SCOPE, party: str = "10000") -> bytes:
    return KEYS.parts(scope, party, [ids])[0].entry


def exact(values: dict[str, Any]) -> list[tuple[str, str, str]]:
    return sorted((name, type(one).__name__, repr(one)) for name, one in values.items())


@given(one=id_maps, other=id_maps)
def test_two_maps_have_one_key_only_if_names_values_and_types_are_equal(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    assert (of(one) == of(other)) == (exact(one) == exact(other))


@given(ids=id_maps)
def test_the_order_of_members_does_not_matter(ids: dict[str, Any]) -> None:
    assert of(ids) == of(dict(reversed(ids.items())))


def test_values_that_a_source_could_tell_apart_have_their_own_keys() -> None:
    values = [1, "1", 1.0, True, None, "", 0, 0.0, -0.0, False, 2**64, str(2**64), -(2**70), "None"]
    assert len({of({"id": value}) for value in values}) == len(values)
    assert of({"a": "b"}) != of({"b": "a"}) != of({"a": "b", "": ""})


def test_services_digests_and_parties_have_their_own_keys() -> None:
    ids = {"id": 1}
    keys = [of(ids), of(ids, OTHERS[0]), of(ids, OTHERS[1]), of(ids, party="10001")]
    keys.append(cache_keys(b"o" * 32).parts(SCOPE, "10000", [ids])[0].entry)
    keys.append(KEYS.results(SCOPE, [("10000", {}, ids)])[0].entry)
    assert len(set(keys)) == len(keys)


def test_a_request_id_with_other_contents_has_another_key() -> None:
    row = ("case", {"x0": 1.0, "x1": None}, {"id": 1})
    same = ("case", {"x1": None, "x0": 1.0}, {"id": 1})
    others = [
        ("other", row[1], row[2]), ("case", {"x0": 1, "x1": None}, row[2]),
        ("case", {"x0": 1.0}, row[2]), ("case", row[1], {"id": "1"}), ("case", row[2], row[1]),
    ]  # fmt: skip
    first, again, *rest = (key.entry for key in KEYS.results(SCOPE, [row, same, *others]))
    assert first == again
    assert len({first, *rest}) == 1 + len(others)


def test_what_a_hook_sets_is_told_apart_or_never_found() -> None:
    def key(value: Any) -> bytes:
        return KEYS.results(SCOPE, [("case", {"x": value}, {"id": "1"})])[0].entry

    scalars = [1.5, np.float64(1.5), np.float32(1.5), np.int64(1), 1, np.bool_(True), True]
    scalars += [np.str_("1"), "1", math.nan]
    assert [key(one) for one in scalars] == [key(copy(one)) for one in scalars]
    assert len({key(one) for one in scalars}) == len(scalars)
    for strange in (
        object(),
        Decimal,
        np.array([1.0]),
        "\ud800",
        np.datetime64(2**60, "s"),
        1j,
        np.longdouble(1),
    ):
        assert key(strange) != key(strange)
    KEYS.results(SCOPE, [("case", {}, {"id": "\ud800"})])


@pytest.mark.parametrize("value", ["8", 8, 8.0])
def test_a_selection_finds_ids_however_they_were_sent(value: object) -> None:
    (key,) = KEYS.parts(SCOPE, "10000", [{"id": value, "b": "x"}])  # type: ignore[dict-item]
    assert KEYS.selection(ids={"b": "x", "id": 8}).matches(key)
    assert KEYS.selection(service_id="credit", model_version="v1").matches(key)
    assert KEYS.selection().matches(key)
    assert not KEYS.selection(ids={"id": 8}).matches(key)
    assert not KEYS.selection(service_id="credit", model_version="v2").matches(key)


def test_a_key_shows_nothing_of_what_it_is_of() -> None:
    (key,) = KEYS.parts(SCOPE, "10000", [{"device_id": "somebody"}])
    assert [len(part) for part in key] == [8, 8, 8, 32]
    for word in (b"somebody", b"device", b"credit", b"10000", b"s" * 8):
        assert word not in key.whole


# --- the secret -----------------------------------------------------------------------------------


def test_the_own_secret_is_made_once_and_is_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "caches.key"
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(own_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {own_secret(path)} == {read_secret(path)}
    assert path.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["caches.key"]


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [(b"short", 0o600, "32 bytes"), (b"x" * 32, 0o604, "may read"), (None, 0, "No such file")],
)
def test_a_secret_that_cannot_be_one_is_refused(
    tmp_path: Path, content: bytes | None, mode: int, reason: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
        with pytest.raises(ServingStateNotUsable, match=reason):
            own_secret(path)
    with pytest.raises(BadServingSetting, match=reason) as caught:
        read_secret(path)
    assert caught.value.fields["path"] == "caches.key_file"
