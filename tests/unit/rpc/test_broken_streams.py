"""A stream that carries a big value and breaks, or stands still, in the middle of it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from fedflow.base.errors.data_plane import PeerFailed, SessionUnknown
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import ValueKey
from fedflow.federation.messages import Ack, Notice, Progress, pack, pack_chunk, split_frames
from fedflow.federation.plane import DataPlane
from fedflow.federation.settings import FederationSettings
from fedflow.federation.spool import Blob
from fedflow.rpc.data_plane.bulk import Upload
from fedflow.rpc.data_plane.links import Link
from fedflow.rpc.data_plane.service import ACK_MOST, MAX_ACKS, DataPlaneService
from fedflow.rpc.pace import BURST_S, NOTICE_S, SHARE, Pace
from tests.support import quick_loop

KEY = bytes(16)
CHUNK = b"0123456789"
NOTICE = Notice(
    seq=1, kind="ended", session="s", source="host-10000", destination="guest-9999", reason=""
)


class Aborted(Exception):
    """gRPC's own end of an aborted call."""


class BreaksAfterOneChunk:
    """The stream of a value of two chunks, of which the second one never comes."""

    def __init__(self) -> None:
        self._chunks = [pack_chunk(KEY, CHUNK, offset=0)]

    async def read(self) -> bytes | None:
        await asyncio.sleep(0)
        return self._chunks.pop() if self._chunks else None

    async def write(self, _: bytes) -> None:
        return

    async def abort(self, *_: Any) -> None:
        raise Aborted


class SessionEnded:
    """The mailbox of a session that ended meanwhile."""

    async def grow(self, *_: Any) -> None:
        return

    async def write(self, *_: Any) -> None:
        raise SessionUnknown(session="1")


def test_a_write_that_failed_when_its_stream_broke_is_no_unhandled_error() -> None:
    complaints: list[dict[str, Any]] = []
    part = SimpleNamespace(written=0, size=2 * len(CHUNK), close=lambda: None)
    arrival: Any = SimpleNamespace(part=part, key=SimpleNamespace(id=KEY))
    plane: Any = SimpleNamespace(mailbox=SessionEnded(), in_thread=lambda function: function())

    async def receive() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        with suppress(Aborted):
            await service._receive_chunks(BreaksAfterOneChunk(), arrival)
        gc.collect()

    asyncio.run(receive())
    gc.collect()
    assert not complaints


class KeepsToItsWindow:
    """A sender of a value that sends a chunk only when it may, and waits for that without an end.

    The receiver may have less to give for every value, or more, from one moment to the next.
    """

    def __init__(self, chunks: int, shares: Iterator[int]) -> None:
        self.size, self.sent, self._limit = chunks * len(CHUNK), 0, 0
        self._shares = shares
        self._granted = asyncio.Event()

    def share(self) -> int:
        return next(self._shares) * len(CHUNK) // 10

    async def write(self, raw: bytes) -> None:
        for message, _ in split_frames(raw):
            assert isinstance(message, Progress)
            self._limit = message.limit
            self._granted.set()

    async def read(self) -> bytes:
        while self.sent + len(CHUNK) > self._limit:
            self._granted.clear()
            await self._granted.wait()
        self.sent += len(CHUNK)
        return pack_chunk(KEY, CHUNK, offset=self.sent - len(CHUNK))


class WritesAll:
    """A mailbox that writes what arrives, a moment later."""

    async def grow(self, *_: Any) -> None:
        return

    async def write(self, arrival: Any, data: memoryview, _: int) -> None:
        await asyncio.sleep(0.001)
        arrival.part.written += len(data)

    async def finish(self, _: Any) -> None:
        return


@pytest.mark.parametrize("seed", range(20))
def test_a_window_of_any_size_that_changes_never_stops_a_value(seed: int) -> None:
    random = Random(seed)  # tenths of a chunk
    windows = random.choice([[10], [15, 19], [20, 80], [25, 80], [10, 30, 80]])
    stream = KeepsToItsWindow(50, iter(lambda: random.choice(windows), 0))
    part = SimpleNamespace(written=0, size=stream.size, close=lambda: None)
    arrival: Any = SimpleNamespace(part=part, key=SimpleNamespace(id=KEY))
    plane: Any = SimpleNamespace(mailbox=WritesAll(), in_thread=lambda function: function())

    async def receive() -> None:
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        service._share = stream.share  # type: ignore[method-assign]
        await service._receive_chunks(stream, arrival)

    quick_loop.run(receive())
    assert part.written == stream.size


class OfSomebody:
    """A stream of a caller without a certificate."""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


class WritesSlowly(OfSomebody):
    """A stream that its sender ended while an answer is being written."""

    def __init__(self) -> None:
        self._notice = [pack(NOTICE)]
        self._writes = asyncio.Event()
        self.written = False

    async def read(self) -> bytes | None:
        if self._notice:
            return self._notice.pop()
        await self._writes.wait()
        return None

    async def write(self, _: bytes) -> None:
        self._writes.set()
        for _turn in range(5):
            await asyncio.sleep(0)
        self.written = True


def test_a_stream_ends_only_after_the_answer_that_is_being_written() -> None:
    plane: Any = SimpleNamespace(on_notice=lambda notice: None, settings=FederationSettings())

    async def serve() -> bool:
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        stream = WritesSlowly()
        await service._messages(None, stream)
        return stream.written

    assert asyncio.run(serve())


class IsRefused(WritesSlowly):
    """A stream that brings nonsense while an answer is being written."""

    def __init__(self) -> None:
        super().__init__()
        self.written_first: list[bool] = []

    async def read(self) -> bytes:
        return await super().read() or b"nonsense"

    async def abort(self, *_: Any) -> None:
        self.written_first.append(self.written)
        raise Aborted


def test_a_stream_is_refused_only_after_the_answer_that_is_being_written() -> None:
    plane: Any = SimpleNamespace(on_notice=lambda notice: None, settings=FederationSettings())

    async def serve() -> list[bool]:
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        stream = IsRefused()
        with suppress(Aborted):
            await service._messages(None, stream)
        return stream.written_first

    assert asyncio.run(serve()) == [True]


class ReadsNoAnswer(OfSomebody):
    """A stream that brings more and more, and whose answers find no room."""

    def __init__(self) -> None:
        self.brought = 0

    async def read(self) -> bytes:
        self.brought += 1
        await asyncio.sleep(0)
        return pack(NOTICE) * 100

    async def write(self, _: bytes) -> None:
        await asyncio.Event().wait()


def test_nothing_more_is_taken_from_a_sender_that_reads_no_answers() -> None:
    plane: Any = SimpleNamespace(on_notice=lambda notice: None, settings=FederationSettings())

    async def serve() -> int:
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        stream = ReadsNoAnswer()
        served = asyncio.create_task(service._messages(None, stream))
        for _turn in range(10_000):
            await asyncio.sleep(0)
        served.cancel()
        with suppress(asyncio.CancelledError):
            await served
        return stream.brought

    assert asyncio.run(serve()) <= (MAX_ACKS + ACK_MOST) // 100 + 2


class SendsNotices(OfSomebody):
    """A stream that brings ever more notices, and reads all answers."""

    def __init__(self) -> None:
        self.brought = 0

    async def read(self) -> bytes:
        self.brought += 1
        await asyncio.sleep(0)
        return pack(NOTICE) * 100

    async def write(self, _: bytes) -> None:
        await asyncio.sleep(0)


def test_notices_are_taken_in_at_a_pace() -> None:
    plane: Any = SimpleNamespace(on_notice=lambda notice: None, settings=FederationSettings())

    async def serve() -> tuple[int, float]:
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        stream = SendsNotices()
        served = asyncio.create_task(service._messages(None, stream))
        for _turn in range(10_000):
            await asyncio.sleep(0)
        served.cancel()
        with suppress(asyncio.CancelledError):
            await served
        return stream.brought, asyncio.get_running_loop().time()

    brought, passed_s = quick_loop.run(serve())
    assert 0 < 100 * NOTICE_S * brought < BURST_S + SHARE * passed_s + 1


class BreaksAtTheAnswer(WritesSlowly):
    """A stream whose connection is gone when the answer is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes, self.breaks = self._writes, asyncio.Event()

    async def write(self, _: bytes) -> None:
        self.writes.set()
        await self.breaks.wait()
        raise RuntimeError("the batch failed")


def test_an_answer_that_fails_after_its_stream_was_canceled_is_no_unhandled_error() -> None:
    complaints: list[dict[str, Any]] = []
    plane: Any = SimpleNamespace(on_notice=lambda notice: None, settings=FederationSettings())

    async def serve() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        service = DataPlaneService(
            plane, authenticate=lambda _: None, settings=FederationSettings(), pace=Pace()
        )
        stream = BreaksAtTheAnswer()
        served = asyncio.create_task(service._messages(None, stream))
        await stream.writes.wait()
        await asyncio.sleep(0.01)
        served.cancel()
        with suppress(asyncio.CancelledError):
            await served
        stream.breaks.set()
        await asyncio.sleep(0.01)
        gc.collect()

    asyncio.run(serve())
    gc.collect()
    assert not complaints


class NoWay:
    """No other party."""

    async def close(self) -> None:
        return


def test_what_a_stream_still_wants_when_the_server_has_stopped_is_canceled(tmp_path: Path) -> None:
    plane = DataPlane(
        FederationSettings(),
        spool_dir=tmp_path / "spool",
        socket_path=tmp_path / "federation.sock",
        port=NoWay(),  # type: ignore[arg-type]
    )

    async def ask() -> None:
        await plane.start()
        await plane.stop()
        with pytest.raises(asyncio.CancelledError):
            await plane.in_thread(print)

    asyncio.run(ask())


class DropsItsCancellation:
    """A call that is canceled while it is prepared, and ends with its connection at that moment."""

    def __init__(self) -> None:
        self.is_read = asyncio.Event()

    async def read(self) -> bytes:
        self.is_read.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("no connection") from None
        raise AssertionError("nothing comes")

    async def write(self, _: bytes) -> None:
        return

    def cancel(self) -> None:
        return


def test_a_link_closes_although_its_call_dropped_the_cancellation() -> None:
    async def close() -> None:
        call = DropsItsCancellation()

        async def close_channel(_: None) -> None:
            return

        channel = SimpleNamespace(stream_stream=lambda _: lambda **_: call, close=close_channel)
        link = Link(
            PartyId("9999"),
            open_channel=lambda _: channel,  # type: ignore[arg-type, return-value]
            settings=FederationSettings(),
        )
        sending = asyncio.create_task(link.send(lambda _: NOTICE))
        await call.is_read.wait()
        await asyncio.wait_for(link.close(), 60)
        with pytest.raises(PeerFailed, match="the own server stops"):
            await sending

    asyncio.run(close())


def test_a_message_that_was_put_off_when_its_stream_broke_is_sent_once() -> None:
    async def put_off() -> None:
        link = Link(
            PartyId("9999"),
            open_channel=lambda _: pytest.fail("no stream is opened here"),
            settings=FederationSettings(),
        )
        link._task.cancel()
        sending = asyncio.create_task(link.send(lambda seq: replace(NOTICE, seq=seq)))
        await asyncio.sleep(0)
        once = link._take_batch()
        link._on_ack(Ack(seq=1, status="later"))
        link._requeue_all()
        while len(link._queue) < 2:  # its time has come
            await asyncio.sleep(0.01)
        assert link._take_batch() == once
        assert link._take_batch() == b""
        link._on_ack(Ack(seq=1, status="stored"))
        await sending
        assert not link._owed()

    quick_loop.run(put_off())


class TakesNoByte:
    """A call whose peer grants a window and then reads nothing; canceling it frees no write."""

    def __init__(self, *, from_offer: bool) -> None:
        self._answers = [pack(Progress(status="go", written=0, limit=len(CHUNK)))]
        self._from_offer = from_offer

    async def read(self) -> bytes:
        if not self._answers:
            await asyncio.Event().wait()
        return self._answers.pop()

    async def write(self, data: bytes) -> None:
        if self._from_offer or CHUNK in data:
            await asyncio.Event().wait()

    def cancel(self) -> None:
        return


@pytest.mark.parametrize("from_offer", [True, False], ids=["offer", "chunk"])
def test_a_peer_that_takes_no_byte_is_noticed(tmp_path: Path, from_offer: bool) -> None:
    file = tmp_path / "value"
    file.write_bytes(CHUNK)
    key = ValueKey(
        session="1", name="n", tag="", source=Site(Role.GUEST, PartyId("9999")),
        destination=Site(Role.HOST, PartyId("10000")),
    )  # fmt: skip

    async def upload() -> bool:
        async def read(function: Callable[[int], bytes], offset: int) -> bytes:
            return function(offset)

        with file.open("rb") as opened:
            one = Upload(
                TakesNoByte(from_offer=from_offer), key=key,
                settings=FederationSettings(progress_timeout_s=0.05),
                blob=Blob(size=len(CHUNK), digest="", fd=opened.fileno()),
                in_thread=lambda *work: asyncio.ensure_future(read(*work)),
            )  # fmt: skip
            with pytest.raises(ConnectionError, match="does not answer"):
                await asyncio.wait_for(one.run(), 60)
        return one.stalled

    assert asyncio.run(upload())
