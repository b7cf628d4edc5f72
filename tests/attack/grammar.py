"""Attacks with bytes that have nearly the right form: packets, streams, frames, DSL and confs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec

from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import PREFIX, Ack, Notice, Offer, Put, pack, pack_chunk
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from fedflow.wire.paths import PARTY_COMMANDS, job_path
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.hostile import PACKETS, Json
from tests.attack.rights import create_body, new_id
from tests.attack.scene import NEWCOMER_ID, ONE, PARTNER_ID
from tests.e2e.servers import HOST_ID

STRANGE: Final[tuple[Any, ...]] = (
    None, True, -1, 10**30, 1.5e308, "", "\x00", "\ud7ff\u202e", "../../etc/passwd", "%s%n",
    "' OR 1=1 --", "{{7*7}}", "<script>alert(1)</script>", "x" * 5_000, [], {}, [[]], {"": {}},
    {"__class__": "x"}, ["a"] * 100,
)  # fmt: skip


def mutated(rng: Random, raw: bytes) -> bytes:
    """Return bytes with one to eight changes: bits, cuts, repeats, strange numbers."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                del data[at : at + rng.randint(1, 20)]
            case 2:
                data[at:at] = data[at : at + rng.randint(1, 40)]
            case 3:
                data[at:at] = rng.randbytes(rng.randint(1, 8))
            case _:
                data[at : at + 4] = struct.pack("<I", rng.choice((0, 1, 2**31 - 1, 2**32 - 1)))
    return bytes(data)


def twisted(rng: Random, value: Any, *, depth: int = 0) -> Any:
    """Return a JSON value of which some members are strange, missing or more."""
    if rng.random() < 0.008 * (1 + depth):
        return rng.choice(STRANGE)
    if isinstance(value, dict):
        found = {k: twisted(rng, v, depth=depth + 1) for k, v in value.items()}
        if found and rng.random() < 0.03:
            found.pop(rng.choice(list(found)))
        if rng.random() < 0.03:
            found[str(rng.choice(STRANGE))[:50]] = rng.choice(STRANGE)
        return found
    if isinstance(value, list):
        return [twisted(rng, one, depth=depth + 1) for one in value] * (1 + (rng.random() < 0.03))
    return value


# --- calls ----------------------------------------------------------------------------------------


async def packets(attempt: Attempt) -> Violations:
    """Send packets with changed bytes, changed JSON, deep JSON, and strange paths."""
    attacker, victim, rng = attempt.newcomer, attempt.scene.guest, attempt.rng
    site = Site(Role.GUEST, PartyId(str(victim.place.party_id)))
    key = JobKey(job_id=attempt.scene.joint_job, site=site)
    bodies = [{"epoch": 0, "jobs": {"1": {"sites": {"guest-9999": 1}}}}, {"reason": {"code": 1}}]
    deep = [b"[" * n + b"]" * n for n in (99, 101, 100_000)] + [b'{"a":' * 5_000, b"\xff", b"1e999"]
    async with attacker.channel(victim) as channel:
        for name in attempt.rng.sample(sorted(PARTY_COMMANDS), 12):
            path = job_path(name, key, status=rng.choice(("failed", "x", "success")))
            strange = rng.choice((path + "/..", path.replace("/party", "//party"), path * 2))
            for body in (twisted(rng, rng.choice(bodies)), rng.choice(deep)):
                raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
                sent = [attacker.packet(victim, one, raw) for one in (path, strange)]
                sent += [
                    attacker.packet(victim, path, mutated(rng, raw))
                    for _ in range(attempt.times(4))
                ]
                whole = PACKETS.encode(sent[0])
                calls = [PACKETS.encode(one) for one in sent]
                calls += [mutated(rng, whole) for _ in range(attempt.times(4))]
                for call in calls:
                    await attacker.send(channel, call)
    return []


async def jobs(attempt: Attempt) -> Violations:
    """Create jobs of twisted DSLs and confs, and let those that are taken run."""
    attacker, victim, rng = attempt.partner, attempt.scene.host, attempt.rng
    site = Site(Role.GUEST, PartyId(HOST_ID))
    async with attacker.channel(victim) as channel:
        for _ in range(attempt.times(40)):
            job_id = new_id(attempt)
            attempt.own_jobs.append(job_id)
            body = twisted(rng, create_body(PARTNER_ID, HOST_ID, dsl=_some_dsl(rng)))
            for name, content in (
                ("job_create", body),
                ("job_apply", {"epoch": 0}),
                ("job_start", {"epoch": 0}),
            ):
                path = job_path(name, JobKey(job_id=job_id, site=site))
                answer = await attacker.call(channel, attacker.packet(victim, path, content))
                if answer.get("retcode") != 0:
                    break
            else:
                path = job_path("job_stop", JobKey(job_id=job_id, site=site), status="canceled")
                await attacker.call(channel, attacker.packet(victim, path, {"epoch": 0}))
    return []


def _some_dsl(rng: Random) -> Json:
    """Return a DSL that is right, or has a circle, or names what there is not."""
    names = ["a", "b", "c"]
    components: Json = {}
    for name in names:
        components[name] = {
            "module": rng.choice(("Empty", "Empty", "Reader", "NoSuch", "Upload", "../Empty")),
            "input": {"data": {"data": [f"{rng.choice([*names, 'd'])}.data"]}},
            "output": {"data": ["data"]},
        }
    return rng.choice((ONE, {"components": components}))


# --- streams --------------------------------------------------------------------------------------


def _frames(attempt: Attempt) -> list[bytes]:
    """Return frames of each kind, most of them with something wrong."""
    rng = attempt.rng
    names = ("s", "", "x" * 600, f"{attempt.scene.joint_job}_toy_0_0", "\x00")
    sites = (f"host-{NEWCOMER_ID}", "guest-9999", "host-10000", "nobody", "", "host-" + "9" * 300)

    def key() -> WireKey:
        return WireKey(rng.choice(names), "v", rng.choice(names), *rng.choices(sites, k=2))

    digest = "0" * 64
    made: list[Callable[[], bytes]] = [
        lambda: pack(Put(seq=rng.choice((0, -1, 2**60)), key=key(), digest=digest, crc32=0), b"x"),
        lambda: pack(
            Notice(
                seq=1, kind=rng.choice(("failed", "ended", "watch")), session=rng.choice(names),
                source=rng.choice(sites), destination=rng.choice(sites), reason="x" * 2_000,
            )
        ),
        lambda: pack(Offer(key=key(), size=rng.choice((0, -1, 1, 2**62)), digest=digest)),
        lambda: pack(Ack(seq=1, status="stored")),
        lambda: pack_chunk(b"k" * 32, b"data", offset=rng.choice((0, 1, 2**40))),
        lambda: PREFIX.pack(rng.choice((0, 2**32 - 1, 300_000)), rng.choice((0, 2**32 - 1))),
        lambda: b"",
    ]  # fmt: skip
    return [rng.choice(made)() for _ in range(rng.randint(1, 6))]


async def streams(attempt: Attempt) -> Violations:
    """Say what nobody says on streams of values, in any order."""
    rng = attempt.rng
    for attacker in (attempt.newcomer, attempt.partner):
        for _ in range(attempt.times(12)):
            said = [mutated(rng, one) if rng.random() < 0.5 else one for one in _frames(attempt)]
            await attacker.say(
                attempt.scene.guest, rng.choice((MESSAGES, BULK)), said, within_s=0.4
            )
    return []


def _http2(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return an HTTP/2 frame. Source: RFC 9113, section 4.1."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(
        ">I", stream
    ) + payload  # fmt: skip


_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _http2(4, 0, 0)
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _CONTINUATION = 0, 1, 3, 4, 6, 9


def _conversations(rng: Random, count: int) -> list[list[bytes]]:
    """Return what is written on each connection, after TLS has been agreed on."""
    headers = b"\x83\x86" + b"\x44\x01/" + b"\x41\x01x"  # POST, http, path, authority
    return [
        [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
        [rng.randbytes(2_000)],
        [_PREFACE, *[_http2(_PING, 0, 0, b"12345678")] * count],
        [_PREFACE, *[_http2(_SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff" * 50)] * (count // 10)],
        [_PREFACE, *(_http2(_HEADERS, 4, n, headers) + _http2(_RESET, 0, n, bytes(4))
                     for n in range(1, 2 * count, 2))],
        [_PREFACE, _http2(_HEADERS, 0, 1, headers),
         *[_http2(_CONTINUATION, 0, 1, b"\x40\x01a\x7f" + b"b" * 100)] * count],
        [_PREFACE, _http2(_HEADERS, 4, 1, headers), *[_http2(_DATA, 0, 1)] * count],
        [_PREFACE, _http2(_HEADERS, 4, 1, headers), *[_http2(_DATA, 0, 1, b"\x00")] * count],
        [_PREFACE, *(_http2(rng.randrange(256), rng.randrange(256), rng.randrange(5),
                            rng.randbytes(rng.randrange(50))) for _ in range(20))],
    ]  # fmt: skip


async def http2_frames(attempt: Attempt) -> Violations:
    """Write frames of HTTP/2 that no client of gRPC writes, or not so many of them."""
    attacker = attempt.newcomer
    for frames in _conversations(attempt.rng, attempt.times(3_000)):
        with suppress(OSError, asyncio.TimeoutError):
            async with (
                asyncio.timeout(3.0),
                attacker.http2(attempt.scene.guest) as (reader, writer),
            ):
                writer.write(b"".join(frames))
                await writer.drain()
                answer = await asyncio.wait_for(reader.read(10_000), 0.3)
                attacker.answers.note("closed" if not answer else "frames", answer)
                continue
        attacker.answers.note("nothing")
    return []


GRAMMAR: Final = (
    Attack(name="packet-grammar", who=Who.NEWCOMER, play=packets),
    Attack(name="stream-grammar", who=Who.NEWCOMER, play=streams),
    Attack(name="http2-frames", who=Who.NEWCOMER, play=http2_frames),
    Attack(name="job-grammar", who=Who.PARTNER, play=jobs),
)
