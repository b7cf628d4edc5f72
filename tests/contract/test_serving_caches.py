"""Caches of a serving process: in memory, in a SQLite file, and in a real Redis."""

from __future__ import annotations

import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedflow.base.errors.serving_process import CacheNotPurged, ServingStateNotUsable
from fedflow.serving.caches.entries import NewEntry
from fedflow.serving.caches.keys import CacheKey, CacheScope
from fedflow.serving.caches.memory import MemoryCache
from fedflow.serving.caches.outage import PAUSE_S
from fedflow.serving.caches.redis import RedisCache
from fedflow.serving.caches.sqlite import SqliteCache
from fedflow.serving.metrics import ServingMetrics
from tests.storage_servers import RedisServer
from tests.support.caches import TwoClocks, cache_keys
from tests.support.certificates import make_ca, make_certificate

KEYS = cache_keys()
LONG_S = 5.0  #: time limit of a cache that must answer, on a busy machine


@pytest.fixture(scope="session")
def redis_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("redis")


@pytest.fixture
def redis_server(redis_folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(redis_folder)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def clock() -> TwoClocks:
    return TwoClocks()


@pytest.fixture
def metrics() -> ServingMetrics:
    return ServingMetrics()


Open = Callable[..., Any]


@pytest.fixture(params=["memory", "sqlite", "redis"])
def cache(
    request: pytest.FixtureRequest, tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> Iterator[Any]:
    given: dict[str, Any] = {"clock": clock}
    if request.param == "memory":
        opened: Any = MemoryCache(entries=1_000, size_bytes=1 << 22, size_of=len, **given)
    else:
        given |= {"timeout_s": LONG_S, "metrics": metrics}
        if request.param == "sqlite":
            opened = SqliteCache(tmp_path / "caches.sqlite", KEYS, entries=1_000, **given)
        else:
            opened = RedisCache(request.getfixturevalue("redis_server").url, KEYS, **given)
    with closing(opened):
        yield opened


def key(user: object = "u1", service: str = "credit", version: str = "v1") -> CacheKey:
    scope = CacheScope(service_id=service, model_version=version, digest=f"d-{version}")
    return KEYS.parts(scope, "10000", [{"device_id": user}])[0]  # type: ignore[dict-item]


def put(
    cache: Any, *keys: CacheKey, value: bytes = b"x", life_s: float = 60, age_s: float = 0
) -> None:
    cache.put_many([NewEntry(one, value, life_s, age_s) for one in keys])


def values(cache: Any, *keys: CacheKey) -> list[bytes | None]:
    return [None if one is None else one.value for one in cache.get_many(keys)]


def test_many_values_are_stored_and_found_in_the_order_of_their_keys(cache: Any) -> None:
    keys = [key(number) for number in range(600)]
    cache.put_many([NewEntry(one, b"%d" % n, 60.0) for n, one in enumerate(keys)])
    assert values(cache, *reversed(keys)) == [b"%d" % n for n in reversed(range(600))]
    assert values(cache, key("other"), keys[3], keys[3]) == [None, b"3", b"3"]
    assert values(cache) == []
    cache.put_many([])


def test_a_newer_value_replaces_an_older_one(cache: Any) -> None:
    put(cache, key(), value=b"old")
    put(cache, key(), value=b"\x00\xff" * 1_000)
    assert values(cache, key()) == [b"\x00\xff" * 1_000]
    cache.remove_many([key(), key("never")])
    assert values(cache, key()) == [None]


def test_a_value_has_its_age_and_goes_after_its_life(cache: Any, clock: TwoClocks) -> None:
    put(cache, key("a"), life_s=60)
    put(cache, key("b"), life_s=60, age_s=50)
    clock.go(10)
    assert [one.age_s for one in cache.get_many([key("a"), key("b")])] == [10.0, 60.0]
    clock.go(0.002)
    assert values(cache, key("a"), key("b")) == [b"x", None]
    clock.go(50)
    assert values(cache, key("a")) == [None]


@pytest.mark.parametrize("step_s", [-3_600, 3_600])
def test_a_step_of_the_clock_never_prolongs_a_life(
    cache: Any, clock: TwoClocks, step_s: float
) -> None:
    put(cache, key(), life_s=60)
    clock.step(step_s)
    if isinstance(cache, MemoryCache):
        assert values(cache, key()) == [b"x"]  # it does not look at the wall clock
        clock.go(61)
    assert values(cache, key()) == [None]  # from the future, or too old
    put(cache, key(), value=b"new")
    assert values(cache, key()) == [b"new"]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"service_id": "credit"}, ["fraud v1 u1", "fraud v2 u1"]),
        ({"model_version": "v2"}, ["credit v1 u1", "credit v1 u2", "fraud v1 u1"]),
        ({"ids": {"device_id": "u1"}}, ["credit v1 u2"]),
        (
            {"service_id": "fraud", "model_version": "v1"},
            ["credit v1 u1", "credit v1 u2", "fraud v2 u1"],
        ),
        ({"service_id": "none"}, ["credit v1 u1", "credit v1 u2", "fraud v1 u1", "fraud v2 u1"]),
        ({}, []),
    ],
)
def test_a_purge_removes_what_is_selected_and_nothing_else(
    cache: Any, chosen: dict[str, Any], left: list[str]
) -> None:
    names = ["credit v1 u1", "credit v1 u2", "fraud v1 u1", "fraud v2 u1"]
    keys = {}
    for name in names:
        service, version, user = name.split()
        keys[name] = key(user, service, version)
    put(cache, *keys.values())
    assert cache.purge(KEYS.selection(**chosen)) == len(names) - len(left)
    assert [name for name in names if values(cache, keys[name]) == [b"x"]] == left
    assert cache.purge(KEYS.selection(**chosen)) == 0


def test_a_purge_finds_thousands(cache: Any) -> None:
    keys = [key(number) for number in range(900)]
    put(cache, *keys)
    assert cache.purge(KEYS.selection(service_id="credit")) == 900
    assert values(cache, *keys) == [None] * 900


def test_threads_do_not_disturb_each_other(cache: Any) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        for turn in range(30):
            own = key(f"{number}-{turn % 5}")
            put(cache, own, value=b"%d" % number)
            found = values(cache, own)
            if found not in ([b"%d" % number], [None]):  # None: others hold the file
                wrong.append(found)
            cache.purge(KEYS.selection(ids={"device_id": f"{number}-9"}))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@given(data=st.dictionaries(st.text(max_size=8), st.binary(max_size=50), max_size=20))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_found_is_what_was_stored(cache: Any, data: dict[str, bytes]) -> None:
    keys = {name: key(name) for name in data}
    cache.put_many([NewEntry(keys[name], value, 60.0) for name, value in data.items()])
    assert values(cache, *keys.values()) == list(data.values())


# --- what is shared -------------------------------------------------------------------------------


def errors_of(metrics: ServingMetrics) -> dict[tuple[str, ...], int]:
    return dict(metrics.cache_errors._values)


def test_two_processes_share_a_file(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    given: dict[str, Any] = {"clock": clock, "metrics": metrics, "timeout_s": LONG_S}
    path = tmp_path / "caches.sqlite"
    with (
        closing(SqliteCache(path, KEYS, entries=10, **given)) as one,
        closing(SqliteCache(path, KEYS, entries=10, **given)) as other,
        closing(SqliteCache(path, cache_keys(b"o" * 32), entries=10, **given)) as stranger,
    ):
        put(one, key())
        assert values(other, key()) == [b"x"]
        assert values(stranger, key()) == [None]  # sealed with another secret
        assert errors_of(metrics) == {("sqlite", "entry"): 1}
    with closing(SqliteCache(path, KEYS, entries=10, **given)) as again:
        assert values(again, key()) == [b"x"]


def test_the_oldest_values_of_a_full_file_go(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    cache = SqliteCache(
        tmp_path / "c", KEYS, entries=3, timeout_s=LONG_S, clock=clock, metrics=metrics
    )
    with closing(cache):
        for number in range(5):
            put(cache, key(number))
        assert values(cache, *map(key, range(5))) == [None, None, b"x", b"x", b"x"]
        clock.go(61)
        put(cache, key(9))
        rows = cache._link.execute("SELECT count(*) FROM entry").fetchone()
    assert rows == (1,)


def test_entries_that_were_changed_or_moved_are_misses(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    path = tmp_path / "caches.sqlite"
    cache = SqliteCache(path, KEYS, entries=9, timeout_s=LONG_S, clock=clock, metrics=metrics)
    with closing(cache), closing(sqlite3.connect(path)) as link:
        put(cache, key("a"), value=b"of a")
        put(cache, key("b"), value=b"of b")
        with link:
            link.execute(
                "UPDATE entry SET sealed = (SELECT sealed FROM entry WHERE key = ?) WHERE key = ?",
                (key("b").whole, key("a").whole),
            )
            link.execute("UPDATE entry SET sealed = x'00' WHERE key = ?", (key("b").whole,))
        assert values(cache, key("a"), key("b")) == [None, None]
        assert errors_of(metrics) == {("sqlite", "entry"): 2}
        put(cache, key("a"), value=b"again")
        assert values(cache, key("a")) == [b"again"]


def test_a_file_that_another_process_holds_is_a_miss_and_is_left_alone_a_while(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    path = tmp_path / "caches.sqlite"
    cache = SqliteCache(path, KEYS, entries=9, timeout_s=0.05, clock=clock, metrics=metrics)
    with closing(cache), closing(sqlite3.connect(path, isolation_level=None)) as link:
        link.execute("BEGIN EXCLUSIVE")
        began_s = time.monotonic()
        for _ in range(50):
            put(cache, key())
        assert time.monotonic() - began_s < 2
        assert errors_of(metrics) == {("sqlite", "write"): 1}
        link.execute("ROLLBACK")
        put(cache, key())
        assert values(cache, key()) == [None]  # the pause
        clock.go(PAUSE_S + 1)
        put(cache, key())
        assert values(cache, key()) == [b"x"]


def test_a_damaged_file_is_a_miss(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    path = tmp_path / "caches.sqlite"
    cache = SqliteCache(path, KEYS, entries=9, timeout_s=LONG_S, clock=clock, metrics=metrics)
    with closing(cache):
        put(cache, *map(key, range(9)))
        cache._link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        cache._link.execute("PRAGMA cache_size = 0")
        path.write_bytes(b"\xff" * path.stat().st_size)
        assert values(cache, key(1), key(20)) == [None, None]
        put(cache, key(1))
        with pytest.raises(CacheNotPurged):
            cache.purge(KEYS.selection())
    assert errors_of(metrics).keys() == {("sqlite", "read"), ("sqlite", "write")}
    with pytest.raises(ServingStateNotUsable, match=r"caches\.sqlite"):
        SqliteCache(path, KEYS, entries=9, timeout_s=1, clock=clock, metrics=metrics)


def test_a_file_of_another_program_is_refused_and_stays(
    tmp_path: Path, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    path = tmp_path / "features.sqlite"
    with closing(sqlite3.connect(path)) as link:
        link.execute("CREATE TABLE f (id)")
    with pytest.raises(ServingStateNotUsable, match="another program"):
        SqliteCache(path, KEYS, entries=9, timeout_s=1, clock=clock, metrics=metrics)
    with closing(sqlite3.connect(path)) as link:
        assert link.execute("SELECT name FROM sqlite_schema").fetchall() == [("f",)]


# --- a Redis that does not work -------------------------------------------------------------------


def test_a_redis_that_goes_and_comes_back_fails_no_call(
    redis_server: RedisServer, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    cache = RedisCache(redis_server.url, KEYS, timeout_s=LONG_S, clock=clock, metrics=metrics)
    with closing(cache):
        put(cache, key())
        redis_server.kill()
        for _ in range(20):
            assert values(cache, key()) == [None]
            put(cache, key())
        with pytest.raises(CacheNotPurged):
            cache.purge(KEYS.selection())
        assert errors_of(metrics) == {("redis", "read"): 1, ("redis", "write"): 1}
        redis_server.start()
        assert values(cache, key()) == [None]  # the pause
        clock.go(PAUSE_S + 1)
        put(cache, key())
        assert values(cache, key()) == [b"x"]


def test_a_redis_that_hangs_holds_nobody_up(
    redis_server: RedisServer, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    cache = RedisCache(redis_server.url, KEYS, timeout_s=0.1, clock=clock, metrics=metrics)
    with closing(cache):
        redis_server.run("CLIENT", "PAUSE", "3000")
        began_s = time.monotonic()
        for _ in range(20):
            assert values(cache, key()) == [None]
        assert time.monotonic() - began_s < 2
        assert errors_of(metrics) == {("redis", "read"): 1}


def test_a_full_redis_is_read_still(
    redis_server: RedisServer, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    cache = RedisCache(redis_server.url, KEYS, timeout_s=LONG_S, clock=clock, metrics=metrics)
    with closing(cache):
        put(cache, key())
        redis_server.run("CONFIG", "SET", "maxmemory", "1")
        put(cache, key("other"))
        assert values(cache, key(), key("other")) == [b"x", None]
        assert errors_of(metrics) == {("redis", "write"): 1}


def test_others_in_the_same_redis_are_left_alone(
    redis_server: RedisServer, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    given: dict[str, Any] = {"timeout_s": LONG_S, "clock": clock, "metrics": metrics}
    with (
        closing(RedisCache(redis_server.url, KEYS, **given)) as cache,
        closing(RedisCache(redis_server.url, cache_keys(b"o" * 32), **given)) as stranger,
    ):
        redis_server.run("SET", "theirs", "1")
        put(cache, key())
        put(stranger, key())
        assert cache.purge(KEYS.selection()) == 1
        assert (values(cache, key()), values(stranger, key())) == ([None], [b"x"])
        assert redis_server.run("GET", "theirs") == b"1"
        names = redis_server.run("KEYS", "fedflow:*")
    assert all(b"u1" not in name and b"credit" not in name for name in names)
    assert 0 < redis_server.run("PTTL", names[0]) <= 60_000


def test_keys_of_another_kind_are_misses(
    redis_server: RedisServer, clock: TwoClocks, metrics: ServingMetrics
) -> None:
    cache = RedisCache(redis_server.url, KEYS, timeout_s=LONG_S, clock=clock, metrics=metrics)
    with closing(cache):
        redis_server.run("LPUSH", cache._name(key("list")), "1")
        redis_server.run("SET", cache._name(key("text")), "garbage")
        assert values(cache, key("list"), key("text")) == [None, None]
        assert errors_of(metrics) == {("redis", "entry"): 1}


@contextmanager
def tcp_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Run a server that is no Redis; return its URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[threading.Thread] = []

    def serve(link: socket.socket) -> None:
        with link:
            try:
                answer(link)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                link, _ = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=serve, args=(link,))
            taken.append(thread)
            thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in (accepting, *taken):
            thread.join(30)


def says(*answers: bytes) -> Callable[[socket.socket], None]:
    def answer(link: socket.socket) -> None:
        while link.recv(65_536):
            for one in answers:
                link.sendall(one)

    return answer


def drips(link: socket.socket) -> None:
    """Never end an answer: each byte comes before a socket's time is over."""
    link.recv(65_536)
    link.sendall(b"*1\r\n$100000\r\n")
    while True:
        link.sendall(b"x")
        time.sleep(0.02)


@pytest.mark.parametrize(
    "answer",
    [
        says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), says(b"\xff" * 1_000), says(b":1\r\n"),
        says(b"*2\r\n+OK\r\n"), says(b"*99999999999\r\n"), says(b"*1\r\n" * 5_000 + b"+x\r\n"),
        says(b"-ERR no\r\n"), says(b"-NOAUTH Authentication required.\r\n"), says(b"*-1\r\n"),
        says(b"$-5\r\n"), says(), drips, lambda link: None,
    ],
    ids=["http", "bytes", "number", "short", "endless", "nested", "error", "no user", "nil",
         "bad length", "silence", "drips", "hangs up"],
)  # fmt: skip
def test_a_server_that_talks_nonsense_is_a_miss_in_time(
    clock: TwoClocks,
    metrics: ServingMetrics,
    answer: Callable[[socket.socket], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fedflow.serving.caches.redis._PURGE_S", 0.5)
    with tcp_server(answer) as url:
        cache = RedisCache(url, KEYS, timeout_s=0.2, clock=clock, metrics=metrics)
        with closing(cache):
            began_s = time.monotonic()
            for _ in range(3):
                assert values(cache, key("a"), key("b")) == [None, None]
                put(cache, key("a"))
                clock.go(PAUSE_S + 1)
            with pytest.raises(CacheNotPurged):
                cache.purge(KEYS.selection())
            assert time.monotonic() - began_s < 60
        assert errors_of(metrics)["redis", "read"] >= 1


def test_certificate_and_host_name_of_a_redis_are_verified(
    redis_folder: Path,
    tmp_path: Path,
    clock: TwoClocks,
    metrics: ServingMetrics,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = make_ca()
    pair = make_certificate("9999", authority=authority, hosts=["127.0.0.1"])
    files = {"ca": authority.certificate, "certificate": pair.certificate, "key": pair.key}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = RedisServer(redis_folder)
    server.start(
        bind="127.0.0.1 127.0.0.2", tls_port=str(port), tls_cert_file=str(tmp_path / "certificate"),
        tls_key_file=str(tmp_path / "key"), tls_ca_cert_file=str(tmp_path / "ca"),
        tls_auth_clients="no",
    )  # fmt: skip

    def found(host: str) -> list[bytes | None]:
        url = f"rediss://{host}:{port}/0"
        cache = RedisCache(url, KEYS, timeout_s=LONG_S, clock=clock, metrics=metrics)
        with closing(cache):
            put(cache, key())
            return values(cache, key())

    try:
        assert found("127.0.0.1") == [None]  # an authority that nobody knows
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca"))
        assert found("127.0.0.1") == [b"x"]
        assert found("127.0.0.2") == [None]  # another host's certificate
    finally:
        server.kill()


def test_a_host_without_a_name_is_a_miss(clock: TwoClocks, metrics: ServingMetrics) -> None:
    cache = RedisCache(
        "redis://nowhere.invalid:1", KEYS, timeout_s=0.2, clock=clock, metrics=metrics
    )
    with closing(cache):
        assert values(cache, key()) == [None]
    assert errors_of(metrics) == {("redis", "read"): 1}
