"""Sessions and the mailbox on a real event loop: what arrives, waits, ends and stays in bounds."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import zlib
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.data_plane import (
    DuplicateValue,
    PeerFailed,
    SessionUnknown,
    SpoolFull,
    ValueTooLate,
)
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.errors.start import BadSetting
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.mailbox import MAX_PARTS, Mailbox
from fedflow.federation.session import Ending, Opening, Session, SessionRegistry
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.federation.spool import FILE_OVERHEAD, Spool

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10001"))
SITES = (GUEST, HOST)
HERE = ("s_0", HOST)


def key(name: str = "n", *, tag: str = "", source: Site = GUEST, session: str = "s_0") -> ValueKey:
    return ValueKey(session=session, name=name, tag=tag, source=source, destination=HOST)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Bench:
    """A mailbox with a spool and two threads."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.pool = ThreadPoolExecutor(2)
        self.book = SessionRegistry()
        self.spool = Spool(folder)
        self.started: list[Session] = []
        self.mailbox = Mailbox(
            FederationSettings(**settings),
            book=self.book,
            spool=self.spool,
            in_thread=lambda f, *a, **k: asyncio.wrap_future(self.pool.submit(f, *a, **k)),
            on_start=self.started.append,
        )

    def open(self) -> Session:
        self.book.open(HERE, token="t", sites=SITES)
        session = self.mailbox.session(HERE)
        assert session is not None
        return session

    def put(self, name: str, data: bytes, **kwargs: Any) -> Coroutine[Any, Any, None]:
        return self.mailbox.put(key(name, **kwargs), data, digest=digest(data))

    def files(self) -> list[Path]:
        return sorted(self.spool.folder.iterdir())


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def start(story: Callable[[Bench], Coroutine[Any, Any, None]], **settings: Any) -> None:
        bench = Bench(tmp_path / "spool", **settings)
        try:
            asyncio.run(asyncio.wait_for(story(bench), 60))
        finally:
            bench.pool.shutdown()

    return start


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_a_value_is_read_once_whether_it_comes_before_or_after_the_question(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        await bench.put("early", b"1")
        assert (await session.take(key("early"), 1)).data == b"1"
        late = asyncio.create_task(session.take(key("late"), 1))
        await asyncio.sleep(0)
        await bench.put("late", b"2")
        assert (await late).data == b"2"
        for name in ("early", "late"):
            with pytest.raises(DuplicateValue):
                await session.take(key(name), 1)

    run(story)


def test_a_repeat_of_the_transport_has_no_effect_but_a_second_value_is_refused(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        await bench.put("n", b"1")
        await bench.put("n", b"1")
        assert bench.mailbox.ledger.memory == 513
        with pytest.raises(DuplicateValue):
            await bench.put("n", b"2")
        bench.mailbox.release(await session.take(key(), 1))
        await bench.put("n", b"1")
        assert not session.values
        assert bench.mailbox.ledger.memory == 0

    run(story)


def test_a_failed_peer_wakes_who_waits_at_once_and_what_arrived_stays_readable(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        await bench.put("there", b"1")
        waiting = [asyncio.create_task(session.take(key("n", tag=str(i)), 60)) for i in range(3)]
        await asyncio.sleep(0)
        session.peer_ended(GUEST, "killed", failed=True)
        for task in waiting:
            with pytest.raises(PeerFailed, match="killed"):
                await task
        with pytest.raises(PeerFailed):
            await session.take(key("later"), 60)
        assert (await session.take(key("there"), 1)).data == b"1"

    run(story)


def test_a_receive_gives_up_at_its_deadline_and_may_be_tried_again(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        with pytest.raises(ValueTooLate):
            await session.take(key(), 0.01)
        await bench.put("n", b"1")
        assert (await session.take(key(), 1)).data == b"1"

    run(story)


def test_a_value_for_a_reader_that_went_away_is_kept(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        reader = asyncio.create_task(session.take(key(), 60))
        await asyncio.sleep(0)
        await bench.put("n", b"1")
        reader.cancel()
        await asyncio.wait((reader,))
        assert (await session.take(key(), 1)).data == b"1"

    run(story)


@pytest.mark.parametrize("memory_bytes", [1, MIB], ids=["file", "memory"])
@pytest.mark.parametrize("ends_first", [True, False])
def test_a_value_whose_reader_goes_away_as_its_session_ends_is_dropped(
    run: Any, memory_bytes: int, ends_first: bool
) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        reader = asyncio.create_task(session.take(key(), 60))
        await until(lambda: bool(session.waiters))
        arrived = asyncio.create_task(bench.put("n", b"1"))
        ((_, waiter),) = session.waiters.values()
        while not waiter.done():
            await asyncio.sleep(0)
        error = SessionUnknown(session="s_0")
        end = partial(bench.mailbox.end, HERE, error, incarnation=0)
        acts = [end, reader.cancel]
        for act in acts if ends_first else reversed(acts):  # before the reader has its turn
            act()
        await asyncio.wait((reader, arrived))
        assert reader.cancelled()
        await until(lambda: not bench.files())
        assert (bench.mailbox.ledger.memory, bench.mailbox.ledger.spool) == (0, 0)

    run(story, memory_bytes=memory_bytes)


def test_a_value_that_comes_before_its_session_waits_for_it(run: Any) -> None:
    async def story(bench: Bench) -> None:
        early = asyncio.create_task(bench.put("n", b"1"))
        await until(lambda: bench.mailbox.held > 0)
        assert bench.book.open(HERE, token="t", sites=SITES)  # somebody waits for it
        bench.mailbox.was_opened(HERE)
        await early
        assert bench.mailbox.held == 0
        session = bench.mailbox.session(HERE)
        assert session is not None
        assert (await session.take(key(), 1)).data == b"1"

    run(story)


def test_values_without_a_session_are_bounded_in_bytes_and_in_time(run: Any) -> None:
    async def story(bench: Bench) -> None:
        first = asyncio.create_task(bench.put("a", b"x" * 600))
        await until(lambda: bench.mailbox.held > 0)
        with pytest.raises(SpoolFull):
            await bench.put("b", b"x" * 600)
        with pytest.raises(TimeoutError):
            await first
        assert bench.mailbox.held == 0

    run(story, held_bytes=10_000, hold_timeout_s=0.5)


def test_a_value_for_an_ended_session_is_refused(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.open()
        early = asyncio.create_task(bench.put("n", b"1", session="other_0"))
        await until(lambda: bench.mailbox.held > 0)
        bench.book.end(HERE, None)
        bench.mailbox.end(HERE, SessionUnknown(session="s_0"), incarnation=0)
        with pytest.raises(SessionUnknown):
            await bench.put("n", b"1")
        with pytest.raises(SessionUnknown):
            await bench.mailbox.begin(key(), size=10, digest="d")
        bench.book.open(("other_0", HOST), token="t", sites=SITES)
        bench.book.end(("other_0", HOST), "gone")
        bench.mailbox.end(("other_0", HOST), SessionUnknown(session="other_0"), incarnation=0)
        with pytest.raises(SessionUnknown):
            await early

    run(story)


def test_a_source_that_is_not_of_the_session_is_refused(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.open()
        with pytest.raises(NotAuthenticated):
            await bench.put("n", b"1", source=ARBITER)

    run(story)


def test_memory_is_bounded_and_the_rest_is_spooled(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        for i in range(20):
            await bench.put("n", b"x" * 1000, tag=str(i))
        ledger = bench.mailbox.ledger
        assert ledger.memory <= 5000
        assert len(bench.files()) == 18  # one party alone has three quarters of the memory
        assert ledger.spool == 18 * (1000 + FILE_OVERHEAD)
        for i in range(20):
            blob = await session.take(key("n", tag=str(i)), 1)
            assert blob.size == 1000
            bench.mailbox.release(blob)
        await until(lambda: not bench.files())
        assert (ledger.memory, ledger.spool) == (0, 0)

    run(story, memory_bytes=5000)


def test_a_full_spool_refuses_and_takes_again_after_a_read(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        await bench.put("n", b"x" * 600, tag="1")
        with pytest.raises(SpoolFull):
            await bench.put("n", b"x" * 600, tag="2")
        bench.mailbox.release(await session.take(key("n", tag="1"), 1))
        await bench.put("n", b"x" * 600, tag="2")

    run(story, memory_bytes=100, spool_bytes=1000 + FILE_OVERHEAD)


def test_the_number_of_values_is_bounded(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.open()
        for i in range(3):
            await bench.put("n", b"", tag=str(i))
        with pytest.raises(BadRequest):
            await bench.put("n", b"", tag="more")

    run(story, values_per_session=3)


def test_the_end_of_a_session_removes_all_it_had(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()
        await bench.put("small", b"x" * 10)
        await bench.put("spooled", b"x" * 2000)
        arrival = await bench.mailbox.begin(key("big"), size=5000, digest="d" * 64)
        assert arrival is not None
        waiting = asyncio.create_task(session.take(key("w"), 60))
        await asyncio.sleep(0)
        assert len(bench.files()) == 2
        bench.mailbox.end(HERE, PeerFailed(site="own", reason="stopped"), incarnation=0)
        with pytest.raises(PeerFailed):
            await waiting
        with pytest.raises(SessionUnknown):
            await bench.mailbox.write(arrival, memoryview(b"x"), 0)
        await until(lambda: not bench.files())
        assert (bench.mailbox.ledger.memory, bench.mailbox.ledger.spool) == (0, 0)
        arrival.part.close()

    run(story, memory_bytes=1000)


def test_a_part_that_cannot_be_finished_goes_with_its_session(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.open()
        arrival = await bench.mailbox.begin(key("big"), size=5, digest="d" * 64)
        assert arrival is not None
        arrival.part.close()  # so that its file cannot be cut to its size
        finishing = asyncio.create_task(bench.mailbox.finish(arrival))
        await asyncio.sleep(0)
        bench.mailbox.end(HERE, SessionUnknown(session="s_0"), incarnation=0)
        with pytest.raises(SpoolFull):
            await finishing
        await until(lambda: not bench.files())
        assert bench.mailbox.ledger.spool == 0

    run(story)


def test_a_part_is_resumed_at_a_whole_chunk_and_an_older_stream_loses_it(run: Any) -> None:
    data = bytes(range(250)) * 10

    async def story(bench: Bench) -> None:
        session = bench.open()
        first = await bench.mailbox.begin(key(), size=2500, digest=digest(data))
        assert first is not None
        chunk = memoryview(data)[:1500]
        await bench.mailbox.grow(first, 1500)
        await bench.mailbox.write(first, chunk, zlib.crc32(chunk))
        second = await bench.mailbox.begin(key(), size=2500, digest=digest(data))
        assert second is not None
        assert second.part.written == 1000
        with pytest.raises(BadRequest):
            await bench.mailbox.write(first, chunk, zlib.crc32(chunk))
        rest = memoryview(data)[1000:]
        with pytest.raises(BadRequest, match="window"):
            await bench.mailbox.write(second, rest, zlib.crc32(rest))
        await bench.mailbox.grow(second, 2500)
        with pytest.raises(BadRequest):
            await bench.mailbox.write(second, rest, 12345)
        await bench.mailbox.write(second, rest, zlib.crc32(rest))
        await bench.mailbox.finish(second)
        first.part.close()
        assert await bench.mailbox.begin(key(), size=2500, digest=digest(data)) is None
        blob = await session.take(key(), 1)
        assert blob.path is not None
        assert blob.path.read_bytes() == data
        bench.mailbox.release(blob)

    run(story, chunk_bytes=1000)


# --- shares of the parties -----------------------------------------------------------------------


OPEN_TO_ALL = (GUEST, HOST, ARBITER)


def test_early_values_of_one_party_leave_room_for_those_of_another(run: Any) -> None:
    async def story(bench: Bench) -> None:
        flood = [asyncio.create_task(bench.put("n", b"x", tag=str(i))) for i in range(100)]
        await asyncio.sleep(0)
        honest = asyncio.create_task(bench.put("n", b"x" * 4000, source=ARBITER))
        await asyncio.sleep(0)
        assert not honest.done()
        assert sum(not task.done() for task in flood) < 40
        bench.book.open(HERE, token="t", sites=OPEN_TO_ALL)
        bench.mailbox.was_opened(HERE)
        await honest
        assert (
            sum(
                isinstance(e, SpoolFull)
                for e in await asyncio.gather(*flood, return_exceptions=True)
            )
            > 60
        )

    run(story, held_bytes=200_000)


def test_small_values_of_one_party_do_not_push_those_of_another_to_the_disk(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.book.open(HERE, token="t", sites=OPEN_TO_ALL)
        for i in range(100):
            await bench.put("n", b"", tag=str(i))
        assert bench.mailbox.put_now(key(source=ARBITER), b"x" * 1000, digest="d")

    run(story, memory_bytes=20_000)


def test_what_is_announced_and_not_sent_takes_no_space_of_others(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.book.open(HERE, token="t", sites=OPEN_TO_ALL)
        for i in range(3):
            hostile = await bench.mailbox.begin(key("n", tag=str(i)), size=99_000, digest="d" * 64)
            assert hostile is not None
            await bench.mailbox.grow(hostile, 1000)  # its window
        honest = await bench.mailbox.begin(key(source=ARBITER), size=70_000, digest="d" * 64)
        assert honest is not None
        await bench.mailbox.grow(honest, 50_000)
        assert bench.mailbox.ledger.spool == 53_000 + 4 * FILE_OVERHEAD

    run(story, spool_bytes=100_000)


def test_values_that_together_do_not_fit_arrive_one_after_the_other(run: Any) -> None:
    async def story(bench: Bench) -> None:
        session = bench.open()

        async def arrive(name: str) -> None:
            while True:
                with contextlib.suppress(SpoolFull, BadRequest):
                    arrival = await bench.mailbox.begin(key(name), size=60_000, digest=name * 64)
                    assert arrival is not None
                    while (part := arrival.part).written < part.size:
                        await bench.mailbox.grow(arrival, part.written + 5000)
                        data = memoryview(bytes(5000))
                        await bench.mailbox.write(arrival, data, zlib.crc32(data))
                    await bench.mailbox.finish(arrival)
                    bench.mailbox.release(await session.take(key(name), 1))
                    return
                await asyncio.sleep(0.01)

        await asyncio.gather(*(arrive(name) for name in "abcd"))
        await until(lambda: not bench.files())
        assert bench.mailbox.ledger.spool == 0

    run(story, spool_bytes=100_000, chunk_bytes=5000)


def test_the_number_of_values_that_have_begun_to_arrive_is_bounded(run: Any) -> None:
    async def story(bench: Bench) -> None:
        bench.open()
        for i in range(MAX_PARTS):
            arrival = await bench.mailbox.begin(key("n", tag=str(i)), size=10, digest="d" * 64)
            assert arrival is not None
            arrival.part.close()
        with pytest.raises(SpoolFull):
            await bench.mailbox.begin(key("more"), size=10, digest="d" * 64)
        again = await bench.mailbox.begin(key("n", tag="0"), size=10, digest="d" * 64)
        assert again is not None
        again.part.close()

    run(story)


def test_a_sweep_keeps_parts_and_removes_the_rest(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for name in ("a.part", "b.value", "out-1", "other"):
        (spool.folder / name).write_bytes(b"x")
    assert [p.name for p in spool.sweep()] == ["a.part"]
    assert sorted(p.name for p in spool.folder.iterdir()) == ["a.part", "other"]


def test_the_book_of_sessions_is_idempotent() -> None:
    book = SessionRegistry()
    assert book.end(HERE, None) == (None, False)
    assert not book.open(HERE, token="1", sites=SITES)
    assert not book.open(HERE, token="2", sites=SITES)
    found = book.find(HERE)
    assert isinstance(found, Opening)
    assert found.admits("2")
    assert not found.admits("1")
    assert not found.admits("")
    ended, tell = book.end(HERE, None)
    assert ended is found
    assert not tell  # nothing happened in it, so the loop need not know
    assert book.end(HERE, "again") == (None, False)
    assert book.find(HERE) == Ending(sites=SITES, reason=None)


@pytest.mark.parametrize(
    "wrong",
    [{"memory_bytes": 0}, {"chunk_bytes": 2**23}, {"window_bytes": 5}, {"inbound_bytes": 5}],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(BadSetting, match=f"federation.{next(iter(wrong))}"):
        FederationSettings(**wrong)  # type: ignore[arg-type]
