"""Attacks with values into open sessions: the partner's certificate speaks into running tasks."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import msgspec
import pyarrow as pa

from fedflow.domain.records import TaskKey
from fedflow.domain.site import Site
from fedflow.federation.codec import ALIGN, MAGIC, Header, Leaf
from fedflow.federation.keys import WireKey, key_from_wire
from fedflow.federation.messages import Offer, Progress, Put, pack, pack_chunk, split_frames
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.floods import DIGEST, key_of, open_streams
from tests.attack.hostile import Json
from tests.attack.scene import MIB, ONE, PARTNER_ID, conf_of, wait_end
from tests.e2e.servers import GUEST, GUEST_ID, pass_time

EXECUTOR_MIB: Final = 512  #: how much an executor may need at most, whatever it is sent
CHUNK_S: Final = 1.0  #: between two chunks of one byte
ENDS_S: Final = 45.0

PARTNERS: Final = {"guest": [GUEST_ID], "host": [PARTNER_ID]}


@asynccontextmanager
async def running_task(
    attempt: Attempt, dsl: Json, *, component: str, roles: Mapping[str, list[str]] = PARTNERS,
    site: Site = GUEST, **parameters: Any,
) -> AsyncIterator[str]:  # fmt: skip
    """Give the id of a job of 9999 of which a task is at work; the job is stopped at the end."""
    conf = conf_of(
        ("guest", GUEST_ID), dict(roles), job_parameters={"common": {"auto_retries": 0}},
        component_parameters={"common": {component: parameters}},
    )  # fmt: skip
    party = attempt.scene.guest
    job_id = (await asyncio.to_thread(party.client.submit, dsl, conf)).job_id
    attempt.own_jobs.append(job_id)
    try:
        await asyncio.to_thread(
            party.wait_executor, job_id, component=component, site=site, within_s=60.0
        )
        yield job_id
    finally:
        await asyncio.to_thread(party.client.stop, job_id)


def session_of(job_id: str, component: str) -> str:
    """Return the session of the first attempt of a task."""
    return TaskKey(job_id=job_id, component=component, version=0, site=GUEST).session


# --- what is announced, and what is slow ----------------------------------------------------------


async def announced_values(attempt: Attempt) -> Violations:
    """Announce huge values to a running task, more than it may have at once, and send none."""
    async with running_task(attempt, ONE, component="empty_0", sleep_s=60) as job_id:
        session, attacker = session_of(job_id, "empty_0"), attempt.partner
        offers = [
            pack(Offer(key=key_of(session, attacker, name=f"v{n}"), size=40 << 30, digest=DIGEST))
            for n in range(attempt.times(150))
        ]
        return await open_streams(attempt, BULK, offers, attacker=attacker)


async def slow_chunks(attempt: Attempt) -> Violations:
    """Send a running task a byte of a big value now and then, or stop in the middle."""
    going: set[str] = set()
    async with (
        running_task(attempt, ONE, component="empty_0", sleep_s=60) as job_id,
        attempt.partner.channel(attempt.scene.guest) as channel,
    ):
        session = session_of(job_id, "empty_0")
        keys = [key_of(session, attempt.partner, name=f"v{n}") for n in range(attempt.times(40))]
        sending = [
            asyncio.create_task(_dawdle(attempt, channel, key, stops=n % 2 == 0, going=going))
            for n, key in enumerate(keys)
        ]  # fmt: skip
        await attempt.beside()
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    return [] if going else ["no value was let in: nothing was slow"]


async def _dawdle(
    attempt: Attempt, channel: grpc.aio.Channel, key: WireKey, *, stops: bool, going: set[str]
) -> None:
    """Begin a value again and again, and never come to its end."""
    size = 8 * MIB
    key_id = key_from_wire(key).id
    while True:
        async with attempt.partner.stream(channel, BULK) as call:
            await call.write(pack(Offer(key=key, size=size, digest=DIGEST)))
            at = await _granted(call)
            attempt.answers.note("go")
            going.add(key.name)
            if stops:
                await call.write(pack_chunk(key_id, b"x" * MIB, offset=at))
            while not stops and at < size:
                await call.write(pack_chunk(key_id, b"x", offset=at))
                at += 1
                await asyncio.sleep(CHUNK_S)
            while isinstance(await call.read(), bytes):
                pass
        await asyncio.sleep(CHUNK_S)


async def _granted(call: Any) -> int:
    """Return the offset from which on the receiver wants a value.

    Raises: asyncio.InvalidStateError: the stream has ended.
    """
    while isinstance(raw := await call.read(), bytes):
        for message, _ in split_frames(raw):
            if isinstance(message, Progress) and message.status == "go":
                return message.written
    raise asyncio.InvalidStateError


# --- what unpacks to very much --------------------------------------------------------------------


def value_of(arrow: bytes, *, skeleton: bytes = b"null") -> bytes:
    """Return a value of the codec that is one table, whatever its bytes are."""
    pieces, leaves = [skeleton], []
    if arrow:
        pieces, leaves = [skeleton, arrow], [Leaf(kind="table", path=[])]
    header = msgspec.json.encode(Header(buffers=[len(one) for one in pieces], leaves=leaves))
    first = MAGIC + len(header).to_bytes(4, "little") + header
    return b"".join(one + bytes(-len(one) % ALIGN) for one in (first, *pieces))


def _stream(batch: pa.RecordBatch, *, count: int = 1, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(count):
            writer.write(batch)
    return bytes(sink.getvalue())


def _batch(column: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([column], names=["x"])


def _zeros(compression: str) -> bytes:
    """Return a GiB of zeros, as tens of KiB or some MiB."""
    zeros = pa.Array.from_buffers(pa.uint8(), 64 * MIB, [None, pa.py_buffer(bytes(64 * MIB))])
    return _stream(_batch(zeros), count=16, compression=compression)


def _categories() -> bytes:
    """Return a million cells of a MiB each, all the same."""
    indexes = pa.Array.from_buffers(pa.int8(), MIB, [None, pa.py_buffer(bytes(MIB))])
    return _stream(_batch(pa.DictionaryArray.from_arrays(indexes, pa.array(["x" * MIB]))))


def _nulls() -> bytes:
    """Return so many cells without a byte of their own that they are written by hand."""
    few, many = 10_000_019, 1 << 40  # found nowhere else in the stream
    made = _stream(_batch(pa.nulls(few)))
    return made.replace(few.to_bytes(8, "little"), many.to_bytes(8, "little"))


BOMBS: Final[Mapping[str, Callable[[], bytes]]] = {
    "zstd": lambda: value_of(_zeros("zstd")),
    "lz4": lambda: value_of(_zeros("lz4")),
    "categories": lambda: value_of(_categories()),
    "nulls": lambda: value_of(_nulls()),
    "runs": lambda: value_of(
        _stream(_batch(pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1]), pa.array([0]))))
    ),
    "lists": lambda: value_of(b"", skeleton=b"[" + b"[]," * (5 * MIB) + b"0]"),
    "no table": lambda: value_of(b"\xff" * 1_000),
}
"""Values of at most some MiB, each of which would need GiBs or is none."""


async def arrow_values(attempt: Attempt) -> Violations:
    """Answer running tasks with values that unpack to very much, before their partner does."""
    some = attempt.rng.sample(sorted(BOMBS), min(attempt.times(3), len(BOMBS)))
    async with attempt.scene.recorder.holding_values(PARTNER_ID):
        found = await asyncio.gather(*(_answered(attempt, name) for name in some))
    return [text for one in found for text in one]


async def _answered(attempt: Attempt, name: str) -> Violations:
    """Let a task receive a bomb, and return what it did that it may not."""
    scene, body = attempt.scene, await asyncio.to_thread(BOMBS[name])
    dsl = {"components": {"toy_0": {"module": "SecureAddExample"}}}
    async with running_task(attempt, dsl, component="toy_0", data_num=1_000) as job_id:
        watching = asyncio.create_task(asyncio.to_thread(_peak_mib, attempt, job_id))
        key = key_of(session_of(job_id, "toy_0"), attempt.partner, name="host_share")
        await (_put(attempt, key, body) if len(body) < MIB else _upload(attempt, key, body))
        view = await asyncio.to_thread(wait_end, scene.guest.client, job_id, within_s=ENDS_S)
        peak = await watching
    code = view.reason.code if view.reason else ""
    attempt.answers.note(f"{name}: {code}")
    found = [] if code == "CodecError" else [f"{name}: {view.status}, {view.reason}"]
    if not 0 < peak <= EXECUTOR_MIB:
        found.append(f"{name}: an executor had {peak:.0f} MiB")
    return found


def _peak_mib(attempt: Attempt, job_id: str) -> float:
    """Return the most memory that the guest's executor of a job had, in MiB, when it has ended."""
    most = 0.0
    for pid in attempt.scene.guest.executors(job_id):
        status = Path(f"/proc/{pid}/status")
        try:
            while "VmHWM" in (text := status.read_text()):
                most = max(most, int(text.split("VmHWM:")[1].split()[0]) / 1024)
                pass_time(0.01)
        except OSError:
            continue
    return most


async def _put(attempt: Attempt, key: WireKey, body: bytes) -> None:
    digest = hashlib.sha256(body).hexdigest()
    frame = pack(Put(seq=1, key=key, digest=digest, crc32=zlib.crc32(body)), body)
    await attempt.partner.say(attempt.scene.guest, MESSAGES, [frame])


async def _upload(attempt: Attempt, key: WireKey, body: bytes) -> None:
    """Send a big value as the own server would: as far as the receiver lets it."""
    key_id, digest = key_from_wire(key).id, hashlib.sha256(body).hexdigest()
    async with (
        attempt.partner.channel(attempt.scene.guest) as channel,
        attempt.partner.stream(channel, BULK) as call,
    ):
        await call.write(pack(Offer(key=key, size=len(body), digest=digest)))
        for at in range(await _granted(call), len(body), MIB):
            await call.write(pack_chunk(key_id, body[at : at + MIB], offset=at))
        while isinstance(raw := await call.read(), bytes):
            for message, _ in split_frames(raw):
                attempt.answers.note(str(getattr(message, "status", message)))


VALUES: Final = (
    Attack(name="announced-values", who=Who.PARTNER, play=announced_values),
    Attack(name="slow-chunks", who=Who.PARTNER, play=slow_chunks),
    Attack(name="arrow-values", who=Who.PARTNER, play=arrow_values),
)
