"""Hosts' parts in caches: lives, levels, what a host says of its features, and joining again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import BadServingSetting
from fedflow.serving.caches.caches import open_caches
from fedflow.serving.caches.partner_results import FoundParts, PartnerResults
from fedflow.serving.caches.settings import CacheSettings
from fedflow.serving.caches.sqlite import SqliteCache
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.partners.messages import PartnerResponse, pack_message, read_partner_response
from fedflow.serving.scoring.host_answer import (
    answer_of,
    is_failed_row,
    join_rows,
    read_answer,
    rows_of,
)
from fedflow.serving.settings import parse_serving_settings
from tests.support.caches import SCOPE, TwoClocks, cache_keys

KEYS = cache_keys()
HOST = "10000"
HOUR_S = 3_600.0


def part(*scores: float | None, **given: Any) -> PartnerResponse:
    """Return a host's part; None: a row without features, with another one in its place."""
    errors = {row: (113, "none") for row, one in enumerate(scores) if one is None}
    filler = next((one for one in scores if one is not None), None)
    numbers = np.array([[filler if one is None else one] for one in scores], dtype=np.float64)
    failed = np.zeros(len(scores), np.bool_)
    partial = b"" if filler is None else answer_of(failed, scores=numbers).to_bytes()
    return PartnerResponse(partial=partial, errors=errors, **given)


def scores(response: PartnerResponse) -> list[float | None]:
    found = read_answer(response.partial).scores[:, 0].tolist()
    return [None if row in response.errors else one for row, one in enumerate(found)]


def ids(*names: object) -> list[dict[str, Any]]:
    return [{"id": name} for name in names]


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


class Site:
    """The caches of a process, and what a host would say."""

    def __init__(self, cache: PartnerResults) -> None:
        self.cache = cache

    def ask(self, names: Sequence[object], response: PartnerResponse | None = None) -> FoundParts:
        found = self.cache.find(SCOPE, HOST, ids(*names))
        if response is not None:
            self.cache.store(found, response)
        return found

    def known(self, *names: object, stale_s: float = 0.0) -> list[float | None]:
        found = self.cache.find(SCOPE, HOST, ids(*names), stale_s=stale_s)
        return [
            None if one is None else float(read_answer(one.payload).scores[0, 0])
            for one in found.parts
        ]


@pytest.fixture
def sites(tmp_path: Path, clock: TwoClocks) -> Iterator[Any]:
    """Return a function that opens caches: alone, or with a shared file."""
    opened: list[PartnerResults] = []

    def make(*, shared: bool = False, stale_s: float = 0.0, **partners: Any) -> Site:
        settings = CacheSettings(
            **msgspec_sections(shared=shared, partners={"enabled": True, **partners})
        )
        secret = tmp_path / "caches.key"
        if not secret.exists():
            secret.write_bytes(b"s" * 32)
            secret.chmod(0o600)
        caches = open_caches(
            settings, tmp_path, stale_s=stale_s, metrics=ServingMetrics(), clock=clock
        )
        assert caches.partners is not None
        opened.append(caches.partners)
        return Site(caches.partners)

    yield make
    for one in opened:
        one.close()


def msgspec_sections(*, shared: bool, partners: dict[str, Any]) -> dict[str, Any]:
    kind = {"kind": "sqlite", "timeout_ms": 5_000} if shared else {}
    caches = parse_serving_settings({"caches": {"partners": partners, "shared": kind}}).caches
    return {"partners": caches.partners, "shared": caches.shared}


def test_only_missing_rows_are_asked_for_and_joined_in_their_order(sites: Any) -> None:
    site = sites()
    site.ask(["a", "b"], part(1.0, 2.0))
    found = site.ask(["b", "c", "a", "d", "b"])
    assert found.missing == [1, 3]
    given = part(3.0, None)
    joined = site.cache.join(found, given)
    assert scores(joined) == [2.0, 3.0, 1.0, None, 2.0]
    assert joined.errors == {3: (113, "none")}
    site.cache.store(found, given)
    assert site.known("a", "b", "c", "d") == [1.0, 2.0, 3.0, None]  # errors are not stored
    assert scores(site.cache.join(site.ask(["c", "a"]), None)) == [3.0, 1.0]
    whole = part(9.0)
    assert site.cache.join(site.ask(["e"]), whole) is whole


def test_parts_of_others_are_never_found(sites: Any) -> None:
    site = sites()
    site.ask(["a"], part(1.0))
    assert site.known(1, "1", True) == [None, None, None]
    assert site.cache.find(SCOPE, "10001", ids("a")).parts == [None]


@pytest.mark.parametrize(("shared", "life_s"), [(False, 600), (True, 86_400)])
def test_parts_have_the_life_of_their_cache(
    sites: Any, clock: TwoClocks, shared: bool, life_s: float
) -> None:
    site = sites(shared=shared)
    site.ask(["a"], part(1.0))
    clock.go(life_s - 1)
    assert site.known("a") == [1.0]
    clock.go(2)
    assert site.known("a") == [None]


def test_another_process_finds_what_is_shared(sites: Any, clock: TwoClocks) -> None:
    one, other = sites(shared=True), sites(shared=True)
    one.ask(["a", "b"], part(1.0, 2.0))
    clock.go(HOUR_S)
    assert other.known("b", "x", "a") == [2.0, None, 1.0]
    clock.step(-2 * HOUR_S)
    assert one.known("a") == [None]  # an hour in the process, and from the future in the file
    assert other.known("a") == [1.0]  # in this process for no time at all
    clock.go(601)
    assert other.known("a") == [None]


@pytest.mark.parametrize("shared", [False, True])
def test_stale_parts_are_found_on_request_up_to_an_age(
    sites: Any, clock: TwoClocks, shared: bool
) -> None:
    site = sites(shared=shared, stale_s=48 * HOUR_S)
    site.ask(["a"], part(1.0))
    clock.go(30 * HOUR_S)
    assert site.known("a") == [None]
    assert site.known("a", "b", stale_s=29 * HOUR_S) == [None, None]
    assert site.known("a", "b", stale_s=30 * HOUR_S) == [1.0, None]
    found = site.cache.find(SCOPE, HOST, ids("a"), stale_s=30 * HOUR_S)
    assert found.oldest_s == 30 * HOUR_S
    clock.go(19 * HOUR_S)
    assert site.known("a", stale_s=1_000 * HOUR_S) == [None]


def test_stale_parts_are_found_while_the_shared_cache_does_not_work(
    sites: Any, clock: TwoClocks, tmp_path: Path
) -> None:
    site = sites(shared=True, stale_s=4 * HOUR_S)
    site.ask(["a"], part(1.0))
    clock.go(HOUR_S)
    site.cache._shared._link.execute("DROP TABLE entry")
    assert site.known("a") == [None]
    assert site.known("a", stale_s=4 * HOUR_S) == [1.0]


# --- what a host says -----------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_a_host_shortens_the_life_of_its_parts(sites: Any, clock: TwoClocks, shared: bool) -> None:
    site = sites(shared=shared, stale_s=48 * HOUR_S)
    site.ask(["a"], part(1.0, valid_s=60.0))
    clock.go(60)
    assert site.known("a") == [1.0]
    clock.go(0.1)
    assert site.known("a") == site.known("a", stale_s=HOUR_S) == [None]


@pytest.mark.parametrize("shared", [False, True])
def test_a_host_that_forbids_caching_is_obeyed_at_once(sites: Any, shared: bool) -> None:
    site, other = sites(shared=shared), sites(shared=shared)
    site.ask(["a"], part(1.0, feature_version="1"))
    site.ask(["b"], part(2.0, feature_version="1", valid_s=0.0))
    assert site.known("a", "b", stale_s=HOUR_S) == [None, None]
    if shared:
        assert other.known("a", "b") == [None, None]
    site.ask(["c"], part(3.0, feature_version="1"))
    assert site.known("b", "c") == [None, 3.0]


@pytest.mark.parametrize("shared", [False, True])
def test_parts_of_an_old_version_of_features_are_not_used(sites: Any, shared: bool) -> None:
    site, other = sites(shared=shared), sites(shared=shared)
    site.ask(["a"], part(1.0, feature_version="1"))
    if shared:
        assert other.known("a") == [1.0]
    site.ask(["b"], part(2.0, feature_version="2"))
    assert site.known("a", "b", stale_s=HOUR_S) == [None, 2.0]
    if shared:
        assert other.known("a", "b") == [1.0, 2.0]  # it learns of it now, from the file
        assert other.known("a", "b") == [None, 2.0]


def test_an_answer_that_was_long_on_its_way_does_not_bring_the_old_version_back(
    sites: Any, clock: TwoClocks
) -> None:
    site = sites()
    slow = site.ask(["a"])
    clock.go(1)
    site.ask(["b"], part(2.0, feature_version="2"))
    site.cache.store(slow, part(1.0, feature_version="1"))
    assert site.known("a", "b") == [None, 2.0]


def test_a_failure_of_the_hosts_source_changes_nothing(sites: Any) -> None:
    site = sites()
    site.ask(["a"], part(1.0, feature_version="1"))
    site.ask(["b"], PartnerResponse(errors={0: (116, "the query failed")}))
    assert site.known("a") == [1.0]


def test_no_features_is_remembered_for_a_short_time_if_that_is_set(
    sites: Any, clock: TwoClocks
) -> None:
    site = sites(shared=True, negative_seconds=5)
    site.ask(["a", "b"], part(1.0, None))
    found = site.ask(["b", "a"])
    assert found.missing == []
    joined = site.cache.join(found, None)
    assert (scores(joined), joined.errors) == ([None, 1.0], {0: (113, "none")})
    alone = site.cache.join(site.ask(["b"]), None)
    assert (alone.partial, alone.errors) == (b"", {0: (113, "none")})
    clock.go(5.1)
    assert site.ask(["b"]).missing == [0]
    assert sites(shared=True, negative_seconds=5).ask(["b"]).missing == [0]  # never shared


def test_rows_that_cannot_be_scored_are_joined_as_such_and_not_stored(sites: Any) -> None:
    site = sites()
    site.ask(["a"], part(1.0))
    failed = np.array([False, True])
    given = PartnerResponse(partial=answer_of(failed, scores=np.ones((2, 1))).to_bytes())
    found = site.ask(["b", "a", "c"])
    joined = site.cache.join(found, given)
    assert read_answer(joined.partial).failed.tolist() == [False, False, True]
    site.cache.store(found, given)
    assert site.known("b", "c") == [1.0, None]


def test_parts_that_do_not_fit_together_are_refused_and_forgotten(sites: Any) -> None:
    site = sites(shared=True)
    site.ask(["a"], part(1.0))
    found = site.ask(["a", "b"])
    wide = PartnerResponse(
        partial=answer_of(np.zeros(1, np.bool_), scores=np.ones((1, 2))).to_bytes()
    )
    for bad in (wide, PartnerResponse(partial=b"x"), part(1.0, 2.0), PartnerResponse()):
        with pytest.raises(ValueError):
            site.cache.join(found, bad)
    assert site.ask(["a"]).missing == [0]
    site.cache.store(site.ask(["b"]), PartnerResponse(partial=b"no answer"))
    assert site.ask(["b"]).missing == [0]


# --- purges ---------------------------------------------------------------------------------------


def test_what_was_asked_before_a_purge_is_not_stored_after_it(sites: Any) -> None:
    site = sites(shared=True)
    site.ask(["a", "b"], part(1.0, 2.0))
    slow = site.ask(["c"])
    assert site.cache.purge(KEYS.selection(ids={"id": "a"})) == 2  # in the process, and shared
    site.cache.store(slow, part(3.0))
    assert site.known("a", "b", "c") == [None, 2.0, None]


class PurgesMeanwhile(SqliteCache):
    """Somebody purges while it stores."""

    site: Site

    def put_many(self, entries: Any) -> None:
        self.site.cache.purge(KEYS.selection())
        super().put_many(entries)


def test_a_purge_during_a_store_wins(tmp_path: Path, clock: TwoClocks) -> None:
    metrics = ServingMetrics()
    shared = PurgesMeanwhile(
        tmp_path / "c", KEYS, entries=9, timeout_s=5, clock=clock, metrics=metrics
    )
    settings = CacheSettings().partners
    cache = PartnerResults(
        KEYS, shared, settings, shared_s=60, stale_s=0, metrics=metrics, clock=clock
    )
    with closing(cache):
        site = shared.site = Site(cache)
        site.ask(["a"], part(1.0))
        assert site.known("a") == [None]


# --- bytes and settings ---------------------------------------------------------------------------


@given(rows=st.integers(1, 20), widths=st.tuples(*[st.integers(0, 9)] * 3), seed=st.integers(0, 99))
def test_cut_into_rows_and_joined_again_an_answer_is_the_same(
    rows: int, widths: tuple[int, int, int], seed: int
) -> None:
    random = np.random.default_rng(seed)
    whole = answer_of(
        random.random(rows) < 0.3,
        scores=random.normal(size=(rows, widths[0])),
        goes_left=random.random((rows, widths[1])) < 0.5,
        leaves=random.integers(-9, 9, (rows, widths[2]), dtype=np.int32),
    ).to_bytes()
    cut = rows_of(whole)
    assert join_rows(cut) == whole
    assert [is_failed_row(one) for one in cut] == read_answer(whole).failed.tolist()
    assert [len(read_answer(one).failed) for one in cut] == [1] * rows


@pytest.mark.parametrize(
    "bad", [{"valid_s": -1.0}, {"valid_s": float("nan")}, {"valid_s": float("inf")},
            {"feature_version": "x" * 201}],
)  # fmt: skip
def test_a_statement_that_is_none_is_a_bad_answer(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        read_partner_response(pack_message(part(1.0, **bad)), 1)


def test_an_answer_of_an_older_process_says_nothing_of_its_features() -> None:
    read = read_partner_response(b"\x82\xa7retcode\x00\xa7partial\xc4\x01x", 1)
    assert (read.feature_version, read.valid_s) == ("", None)


@pytest.mark.parametrize(
    ("caches", "path", "reason"),
    [
        ({"shared": {"kind": "sqlite"}}, "shared.kind", "caches.partners.enabled"),
        ({"key_file": "key"}, "key_file", "absolute"),
        ({"shared": {"path": "c"}}, "shared.path", "absolute"),
        ({"results": {"seconds": 0}}, "results.seconds", "> 0"),
        ({"shared": {"kind": "memcached"}}, "shared.kind", "sqlite"),
        *(
            ({"shared": {"kind": "redis", "url": url}}, "shared.url", reason)
            for url, reason in [
                (None, "redis://"), ("http://h", "redis://"), ("redis://", "a place"),
                ("redis://localhost:6379/0?socket_timeout=9", "no option"),
                ("redis://localhost:99999", "redis://"), ("unix://", "a place"),
                ("redis://:secret@far:6379", "rediss://"),
            ]
        ),
    ],
)  # fmt: skip
def test_settings_that_do_not_fit_are_refused(caches: Any, path: str, reason: str) -> None:
    if "url" in caches.get("shared", {}):
        caches = {**caches, "partners": {"enabled": True}}
    with pytest.raises(BadServingSetting, match=reason) as caught:
        parse_serving_settings({"caches": caches})
    assert caught.value.fields["path"] == f"caches.{path}"
    assert "secret" not in str(caught.value.message)


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1", "redis://u:p@localhost:1/3", "rediss://far:6380/0",
            "unix:///run/redis?db=2"],
)  # fmt: skip
def test_addresses_of_redis(url: str) -> None:
    shared = {"kind": "redis", "url": url}
    given = {"caches": {"shared": shared, "partners": {"enabled": True}}}
    assert parse_serving_settings(given).caches.shared.url == url


def test_without_settings_results_alone_are_kept(tmp_path: Path, clock: TwoClocks) -> None:
    caches = open_caches(
        CacheSettings(), tmp_path, stale_s=0, metrics=ServingMetrics(), clock=clock
    )
    with closing(caches):
        assert caches.partners is None
        assert caches.results is not None
        assert caches.purge() == 0
    assert list(tmp_path.iterdir()) == []  # the secret is for the process alone


def test_what_is_shared_has_a_secret_in_the_home_or_in_a_file(
    tmp_path: Path, clock: TwoClocks
) -> None:
    given = {"partners": {"enabled": True}, "shared": {"kind": "sqlite", "timeout_ms": 5_000}}
    home, other = tmp_path / "home", tmp_path / "other"
    key, path = tmp_path / "key", str(tmp_path / "shared")
    home.mkdir()
    other.mkdir()
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    told = {**given, "shared": {**given["shared"], "path": path}, "key_file": str(key)}
    found = []
    for where, caches in ((home, given), (home, told), (other, told)):
        opened = open_caches(
            parse_serving_settings({"caches": caches}).caches, where, stale_s=0,
            metrics=ServingMetrics(), clock=clock,
        )  # fmt: skip
        assert opened.partners is not None
        with closing(opened):
            site = Site(opened.partners)
            found.append(site.known("a"))
            site.ask(["a"], part(1.0))
    assert found == [[None], [None], [1.0]]
    assert (home / "caches.key").stat().st_mode & 0o777 == 0o600
    assert list(other.iterdir()) == []


def test_in_the_process_nothing_is_held_longer_than_it_can_be_used(
    sites: Any, clock: TwoClocks
) -> None:
    one, other = sites(shared=True), sites(shared=True)
    one.ask(["a"], part(1.0))
    assert other.known("a") == [1.0]
    clock.go(601)
    for site in (one, other):
        keys = KEYS.parts(SCOPE, HOST, ids("a"))
        assert site.cache._memory.get_many(keys) == [None]
        assert site.known("a") == [1.0]  # from the shared one
