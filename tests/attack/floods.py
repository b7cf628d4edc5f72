"""Attacks on what all parties share: connections, calls, streams, memory, disk.

Numbers are those with which one attacker would take all of it on a server without shares.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import zlib
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

import grpc

from fedflow.app.participant.early_ends import KEPT
from fedflow.app.protocol.commands import REPLIES
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import Notice, Offer, Put, pack
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.database import count_rows
from tests.attack.hostile import PACKETS, Hostile
from tests.attack.scene import MIB
from tests.e2e.servers import GUEST_ID, Party

SEND_S: Final = 3.0  #: how long an attack goes on sending
CALLING_S: Final = 10.0  #: how long one goes on calling that is made to wait
DIGEST: Final = "0" * 64


# --- before the handshake -------------------------------------------------------------------------


async def _silent(
    attempt: Attempt, port: int, first: Sequence[bytes] = (b"",), *, count: int
) -> Violations:
    """Open connections, send one of `first` on each, and nothing more while honest work goes on."""
    opened: list[socket.socket] = []
    loop = asyncio.get_running_loop()
    try:
        for number in range(attempt.times(count)):
            one = socket.socket()
            one.setblocking(False)
            opened.append(one)
            try:
                await asyncio.wait_for(loop.sock_connect(one, ("127.0.0.1", port)), 1.0)
                await loop.sock_sendall(one, first[number % len(first)])
            except (TimeoutError, OSError):
                opened.pop().close()
                break
        await attempt.beside()
    finally:
        for one in opened:
            one.close()
    attempt.answers.counts["opened"] += len(opened)
    return []


async def idle_connections(attempt: Attempt) -> Violations:
    """Open more connections than a server has descriptors, without a certificate."""
    return await _silent(attempt, attempt.scene.guest.place.grpc_port, count=1_500)


def _client_hello() -> bytes:
    """Return the first message of a TLS handshake."""
    out = ssl.MemoryBIO()
    context = ssl.create_default_context()
    shown = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="party-9999")
    with suppress(ssl.SSLWantReadError):
        shown.do_handshake()
    return out.read()


async def half_open_handshakes(attempt: Attempt) -> Violations:
    """Begin with TLS, entirely or by half, and never go on."""
    hello = _client_hello()
    first = (hello, hello[: len(hello) // 2], hello[:1])
    return await _silent(attempt, attempt.scene.guest.place.grpc_port, first, count=600)


async def slow_requests(attempt: Attempt) -> Violations:
    """Begin requests to the REST port, and never go on."""
    head = b"POST /v1/job/list/job HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n{"
    first = (head, head[:20], head[:1])
    return await _silent(attempt, attempt.scene.guest.place.http_port, first, count=60)


# --- calls ----------------------------------------------------------------------------------------


async def _call_for_a_while(
    attempt: Attempt, victim: Party, calls: Sequence[tuple[str, Any]], *, at_once: int
) -> None:
    """Send commands until all are answered, or those that are made to wait take too long."""
    with suppress(TimeoutError):
        async with asyncio.timeout(CALLING_S):
            await attempt.newcomer.ask_all(victim, calls, at_once=at_once)


async def many_calls(attempt: Attempt) -> Violations:
    """Send more calls at once than all parties may have."""
    calls: list[tuple[str, Any]] = [("/party/heartbeat", {"jobs": {}})] * attempt.times(1_200)
    await _call_for_a_while(attempt, attempt.scene.guest, calls, at_once=len(calls))
    return []


async def big_calls(attempt: Attempt) -> Violations:
    """Send calls with bodies as large as are taken, and larger, all at once."""
    body = b'"' + b"x" * (60 * MIB) + b'"'
    for size, count in ((len(body), 4), (31 * MIB, 6), (7 * MIB, 24)):
        calls = [("/party/heartbeat", body[: size - 1] + b'"')] * attempt.times(count)
        await attempt.newcomer.ask_all(attempt.scene.guest, calls, at_once=len(calls))
    return []


async def compressed_calls(attempt: Attempt) -> Violations:
    """Send calls that inflate to many times of what they are."""
    attacker, victim = attempt.newcomer, attempt.scene.guest
    bomb = attacker.packet(victim, "/party/heartbeat", b'"' + b"x" * (48 * MIB) + b'"')
    async with attacker.channel(victim) as channel:
        for _ in range(attempt.times(2)):
            await attacker.send(channel, PACKETS.encode(bomb), compression=grpc.Compression.Gzip)
    return []


async def json_values(attempt: Attempt) -> Violations:
    """Send JSON of which each byte would become an object of sixty."""
    for text in (b"[],", b"{},", b"0,", b'"",'):
        bodies = [b'{"jobs":{"1":[' + text * (n * MIB // len(text)) + b"0]}}" for n in (3, 7, 31)]
        create = f"/party/{10**23}/guest/{GUEST_ID}/create"
        calls = [(path, body) for path in ("/party/heartbeat", create) for body in bodies]
        answers = await attempt.newcomer.ask_all(attempt.scene.guest, calls * attempt.times(1))
        if any(answer.get("retcode") == 0 for answer in answers):
            return ["a body of millions of values was taken"]
    return []


async def request_records(attempt: Attempt) -> Violations:
    """Let the server remember an answer for each of very many calls."""
    calls = [
        (f"/party/{20_260_101_000_000_000_000_000 + n}/host/10000/stop/canceled", {"epoch": 0})
        for n in range(attempt.times(2_200))
    ]
    victim = attempt.scene.host
    before = count_rows(victim, "t_received_request")
    await _call_for_a_while(attempt, victim, calls, at_once=16)
    kept = count_rows(victim, "t_received_request") - before
    return [f"{kept} answers were kept for a stranger"] if kept > KEPT + REPLIES else []


# --- streams of the data plane --------------------------------------------------------------------


async def silent_streams(attempt: Attempt) -> Violations:
    """Open streams for values and say nothing on them."""
    return await open_streams(attempt, MESSAGES, [b""] * attempt.times(1_100))


async def bulk_offers(attempt: Attempt) -> Violations:
    """Offer big values for tasks that there are not, each on a stream of its own."""
    offers = [
        pack(Offer(key=key_of(f"{n}", attempt.newcomer), size=8 * MIB, digest=DIGEST))
        for n in range(attempt.times(300))
    ]
    return await open_streams(attempt, BULK, offers)


async def open_streams(
    attempt: Attempt, method: str, first: Sequence[bytes], *, attacker: Hostile | None = None
) -> Violations:
    """Open a stream for each of `first`, and hold them while honest work goes on."""
    per_connection = 200
    attacker = attacker or attempt.newcomer
    async with AsyncExitStack() as stack:
        calls, sending = [], []
        for number, message in enumerate(first):
            if number % per_connection == 0:
                channel = await stack.enter_async_context(attacker.channel(attempt.scene.guest))
            call = channel.stream_stream(method, bytes, bytes)()
            stack.callback(call.cancel)
            calls.append(call)
            if message:
                sending.append(asyncio.create_task(call.write(message)))
        await attempt.beside()
        for call in calls:
            attacker.answers.note((await call.code()).name if call.done() else "open")
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    return []


def key_of(session: str, attacker: Hostile, *, name: str = "v") -> WireKey:
    """Return the key of a value that an attacker sends to the guest, as a host."""
    return WireKey(session, name, "", f"host-{attacker.name}", "guest-9999")


async def early_notices(attempt: Attempt) -> Violations:
    """Send long notices about tasks that there are not."""
    attacker = attempt.newcomer
    reason = "x" * 240_000
    notices = [
        pack(
            Notice(
                seq=n, kind="failed", session=f"s{n}", source=f"host-{attacker.name}",
                destination="guest-9999", reason=reason,
            )
        )
        for n in range(attempt.times(800))
    ]  # fmt: skip
    await attacker.say(attempt.scene.guest, MESSAGES, notices, within_s=10.0)
    return []


async def early_values(attempt: Attempt) -> Violations:
    """Send small values for tasks that never begin, and wait for them."""
    attacker, body = attempt.newcomer, b"x" * 100_000
    async with (
        attacker.channel(attempt.scene.guest) as channel,
        attacker.stream(channel, MESSAGES) as call,
    ):
        for n in range(attempt.times(300)):
            await call.write(put(n, body, session=f"s{n}", attacker=attacker))
        await attempt.beside()
        attacker.answers.note("waited")
    return []


def put(seq: int, body: bytes, *, session: str, attacker: Hostile) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    key = key_of(session, attacker, name=f"v{seq}")
    return pack(Put(seq=seq, key=key, digest=digest, crc32=zlib.crc32(body)), body)


async def tiny_frames(attempt: Attempt) -> Violations:
    """Fill messages with as many frames as fit."""
    attacker = attempt.newcomer
    frame = pack(
        Notice(seq=1, kind="watch", session="s", source=f"host-{attacker.name}",
               destination="guest-9999", reason="")
    )  # fmt: skip
    message = frame * (60 * MIB // len(frame))
    for _ in range(attempt.times(2)):
        await attacker.say(attempt.scene.guest, MESSAGES, [message], within_s=10.0)
    return []


async def unread_answers(attempt: Attempt) -> Violations:
    """Ask for very many answers and read none of them."""
    attacker, victim = attempt.newcomer, attempt.scene.guest
    frame = pack(
        Notice(seq=1, kind="watch", session="s", source=f"host-{attacker.name}",
               destination="guest-9999", reason="")
    )  # fmt: skip
    async with attacker.channel(victim) as channel:
        call = channel.stream_stream(MESSAGES, bytes, bytes)()
        with suppress(asyncio.TimeoutError, grpc.RpcError, asyncio.InvalidStateError):
            async with asyncio.timeout(SEND_S):
                for _ in range(attempt.times(2_000)):
                    await call.write(frame * 100)
        attacker.answers.note("not read")
        call.cancel()
    return []


FLOODS: Final = (
    Attack(name="idle-connections", who=Who.OUTSIDER, play=idle_connections),
    Attack(name="half-open-handshakes", who=Who.OUTSIDER, play=half_open_handshakes),
    Attack(name="slow-requests", who=Who.OUTSIDER, play=slow_requests),
    Attack(name="many-calls", who=Who.NEWCOMER, play=many_calls),
    Attack(name="big-calls", who=Who.NEWCOMER, play=big_calls),
    Attack(name="compressed-calls", who=Who.NEWCOMER, play=compressed_calls),
    Attack(name="json-values", who=Who.NEWCOMER, play=json_values),
    Attack(name="request-records", who=Who.NEWCOMER, play=request_records),
    Attack(name="silent-streams", who=Who.NEWCOMER, play=silent_streams),
    Attack(name="bulk-offers", who=Who.NEWCOMER, play=bulk_offers),
    Attack(name="early-notices", who=Who.NEWCOMER, play=early_notices),
    Attack(name="early-values", who=Who.NEWCOMER, play=early_values),
    Attack(name="tiny-frames", who=Who.NEWCOMER, play=tiny_frames),
    Attack(name="unread-answers", who=Who.NEWCOMER, play=unread_answers),
)
