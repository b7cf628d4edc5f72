"""The eight behaviours of a back end of rendezvous, over memory, databases, HTTP and gRPC.

HTTP and gRPC are those of a real server. Source: PyTorch's test of rendezvous back ends.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.administration.rendezvous import RendezvousRuns, RunCaller
from fedflow.app.ports.store import Store
from fedflow.base.clock import SystemClock
from fedflow.base.errors.rendezvous import (
    RendezvousNotAllowed,
    RendezvousStateCorrupt,
    RendezvousUnreachable,
)
from fedflow.client.client import Client
from fedflow.domain.administration.rendezvous import MAX_STATE_BYTES, RunKey
from fedflow.elastic.backend import Backend
from fedflow.elastic.memory import MemoryBackend
from fedflow.elastic.run_backend import RunBackend
from fedflow.rpc.client.rendezvous import GrpcRun
from fedflow.rpc.client.routes import Route
from fedflow.store.connect import open_mysql, open_sqlite
from tests.board.places import Place, serving
from tests.storage_servers import mysql_database

CLOCK = SystemClock()
PARTY = "10000"


@dataclass(frozen=True)
class Case:
    """A back end over an empty run, another over the same run, and how to damage what it has."""

    backend: Backend
    other: Backend
    corrupt: Callable[[], None]


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server whose threads for all this are there."""
    with serving(tmp_path_factory.mktemp("rendezvous") / "home") as place:
        warm(place)
        yield place


def warm(place: Place) -> None:
    """Let a server start all its threads for calls over gRPC: a pool starts them as it needs."""

    def read(number: int) -> None:
        with grpc_run(place, f"warm{number}") as link:
            link.read(None)

    with ThreadPoolExecutor(8) as many:
        for _ in range(100):
            list(many.map(read, range(8)))
            if sum(t.name.startswith("fedflow-rendezvous") for t in threading.enumerate()) >= 4:
                return
    raise AssertionError("the server does not start its threads")


def grpc_run(place: Place, run_id: str) -> GrpcRun:
    assert place.server.place is not None
    route = Route(host="127.0.0.1", port=place.server.place.grpc_port, tls=False)
    return GrpcRun(route, party_id="0", run_id=run_id, server_party="0")


@pytest.fixture(scope="module")
def mysql_store() -> Iterator[Store]:
    with mysql_database() as database:
        store = open_mysql(
            host=database.host, port=database.port, user=database.user,
            password=database.password, database=database.database,
        )  # fmt: skip
        yield store
        store.close()


def damage(store: Store, key: RunKey, text: str) -> None:
    with store.transaction() as tx:
        run = tx.rendezvous.get(key)
        assert run is not None
        assert tx.rendezvous.replace(key, text, seen=run.token, token="0" * 32, now_ms=1)


def of_store(store: Store) -> Case:
    runs = RendezvousRuns(store=store, clock=CLOCK)
    caller = RunCaller(party_id=PARTY, counted=secrets.token_hex(4))
    link = runs.run(secrets.token_hex(4), caller=caller)
    backend, other = (RunBackend("store", link, monotonic_s=CLOCK.monotonic_s) for _ in range(2))
    return Case(backend, other, lambda: damage(store, link.key, "damaged!"))


def of_server(place: Place, kind: str, closing: ExitStack) -> Case:
    run_id = secrets.token_hex(4)

    def backend() -> RunBackend:
        if kind == "http":
            link: Any = Client(place.url, repeats=False).rendezvous.run(run_id)
        else:
            link = closing.enter_context(grpc_run(place, run_id))
        return RunBackend(kind, link, monotonic_s=CLOCK.monotonic_s)

    key = RunKey(scope="party:0", run_id=run_id)
    return Case(backend(), backend(), lambda: damage(place.server._store, key, "damaged!"))


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("mysql", marks=pytest.mark.mysql), "http", "grpc"]
)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    with ExitStack() as closing:
        if request.param == "memory":
            memory = MemoryBackend(CLOCK.now_ms)

            def corrupt() -> None:
                memory.held = ("damaged!", "token")

            yield Case(memory, memory, corrupt)
        elif request.param == "sqlite":
            store = open_sqlite(tmp_path / "store.db")
            closing.callback(store.close)
            yield of_store(store)
        elif request.param == "mysql":
            yield of_store(request.getfixturevalue("mysql_store"))
        else:
            yield of_server(request.getfixturevalue("server"), request.param, closing)


def put(backend: Backend, state: bytes, token: str | None = None) -> str:
    """Write; return the token."""
    written = backend.set_state(state, token)
    assert written is not None
    assert written.was_set
    assert written.stored.state == state
    return written.stored.token


def test_what_was_set_is_read_with_a_token(case: Case) -> None:
    token = put(case.backend, b"\x00one\xff")
    for backend in (case.backend, case.other, case.other):
        found = backend.get_state()
        assert found is not None
        assert (found.state, found.token) == (b"\x00one\xff", token)
        assert abs(found.now_ms - CLOCK.now_ms()) < 600_000


def test_nothing_is_read_before_anything_was_set(case: Case) -> None:
    assert case.backend.get_state() is None
    assert abs(case.backend.now_ms() - CLOCK.now_ms()) < 600_000


def test_a_damaged_state_is_an_error_and_no_value(case: Case) -> None:
    put(case.backend, b"one")
    case.corrupt()
    with pytest.raises(RendezvousStateCorrupt):
        case.other.get_state()
    with pytest.raises(RendezvousStateCorrupt):
        case.backend.get_state()


def test_the_first_write_needs_no_token(case: Case) -> None:
    assert put(case.backend, b"")


def test_a_write_with_the_token_counts_and_gives_another_one(case: Case) -> None:
    first = put(case.backend, b"one")
    second = put(case.other, b"two", first)
    third = put(case.backend, b"two", second)
    assert len({first, second, third}) == 3
    found = case.backend.get_state()
    assert found is not None
    assert found.token == third


@pytest.mark.parametrize("token", ["old", "none", "no token", "empty"])
def test_a_write_with_another_token_changes_nothing_and_answers_with_what_is_stored(
    case: Case, token: str
) -> None:
    old = put(case.backend, b"one")
    new = put(case.other, b"two", old)
    given = {"old": old, "none": None, "no token": "x'; DROP TABLE", "empty": ""}[token]
    written = case.backend.set_state(b"three", given)
    assert written is not None
    assert (written.was_set, written.stored.state, written.stored.token) == (False, b"two", new)
    found = case.other.get_state()
    assert found is not None
    assert (found.state, found.token) == (b"two", new)


def test_a_token_of_nothing_writes_nothing(case: Case) -> None:
    assert case.backend.set_state(b"one", "0" * 32) is None
    assert case.other.get_state() is None


def test_the_largest_state_fits_and_a_larger_one_is_refused(case: Case) -> None:
    token = put(case.backend, bytes(range(256)) * (MAX_STATE_BYTES // 256))
    with pytest.raises(RendezvousNotAllowed):
        case.backend.set_state(bytes(MAX_STATE_BYTES + 1), token)


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_a_server_that_is_not_there_is_unreachable(kind: str) -> None:
    link: Any = Client("127.0.0.1:1", repeats=False).rendezvous.run("r")
    if kind == "grpc":
        link = GrpcRun(
            Route(host="127.0.0.1", port=1, tls=False), party_id="0", run_id="r", server_party="0"
        )
    backend = RunBackend(kind, link, monotonic_s=CLOCK.monotonic_s)
    with pytest.raises(RendezvousUnreachable):
        backend.get_state()
    with pytest.raises(RendezvousUnreachable):
        backend.set_state(b"", None)
    if kind == "grpc":
        link.close()
