"""Attacks on one of two servers of a party, while honest work goes on at the other one."""

from __future__ import annotations

import asyncio
from typing import Final

import grpc
import grpc.aio

from fedflow.federation.messages import Offer, pack
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from fedflow.wire import servers as door
from fedflow.wire.headers import SOURCE_PARTY
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.floods import (
    DIGEST,
    big_calls,
    bulk_offers,
    early_notices,
    early_values,
    key_of,
    many_calls,
    put,
)
from tests.attack.hostile import CALL_S, Hostile
from tests.attack.scene import MIB
from tests.e2e.servers import GUEST_ID, HOST_ID

_SECRETS: Final = ("", "x", "0" * 64, "x" * 4_000)


# --- floods ---------------------------------------------------------------------------------------


async def command_flood(attempt: Attempt) -> Violations:
    """Send one server more commands than all parties may, large ones, and ones to pass on."""
    calls = [  # about jobs that nobody has: the server that leads answers them
        (
            f"/party/{20_260_101_000_000_000_000_000 + n}/guest/{GUEST_ID}/stop/canceled",
            {"epoch": 0},
        )
        for n in range(attempt.times(400))
    ]
    passed_on = attempt.partner.ask_all(attempt.scene.guest, calls, at_once=32)
    await asyncio.gather(many_calls(attempt), big_calls(attempt), passed_on)
    return []


async def value_flood(attempt: Attempt) -> Violations:
    """Send one server values, offers and notices for tasks that neither of the two has."""
    floods = (early_values, bulk_offers, early_notices)
    await asyncio.gather(*(flood(attempt) for flood in floods))
    return []


# --- the door between the servers -----------------------------------------------------------------


async def server_door(attempt: Attempt) -> Violations:
    """Call a server as if one were the other server of its party, without their secret."""
    found: list[str] = []
    for attacker in (attempt.partner, attempt.newcomer):
        for secret in (None, *_SECRETS):
            for message in _messages():
                found += await _call(attempt, attacker, message, secret)
    for secret in _SECRETS:
        found += await _speak(attempt, attempt.partner, secret)
    found += await _call(attempt, attempt.stranger, b"x" * (60 * MIB), "x")
    return found


def _messages() -> list[bytes]:
    """Return what servers tell each other, and what they do not."""
    beat = door.PartyCommand(
        path="/v1/party/heartbeat", headers={SOURCE_PARTY: HOST_ID}, body=b'{"jobs":{}}'
    )
    return [
        door.pack(beat), door.pack(door.Wake(queue=True)), door.pack(door.ScanNow()),
        b"", b"\xc1", b"\xdf\xff\xff\xff\xff",
    ]  # fmt: skip


def _metadata(secret: str | None) -> tuple[tuple[str, str], ...]:
    return () if secret is None else ((door.SECRET, secret),)


async def _call(
    attempt: Attempt, attacker: Hostile, message: bytes, secret: str | None
) -> Violations:
    """Call the door once. A good answer, or one that a secret would have had, is a violation."""
    async with attacker.channel(attempt.scene.guest) as channel:
        call = channel.unary_unary(door.METHOD, bytes, bytes)
        try:
            answer = await call(message, metadata=_metadata(secret), timeout=CALL_S)
        except grpc.aio.AioRpcError as exc:
            attempt.answers.note(exc.code().name, exc.details() or "")
            refused = exc.code() is not grpc.StatusCode.INVALID_ARGUMENT
            return [] if refused else [f"a message was read with the secret {secret!r:.20}"]
    attempt.answers.note("answered", answer)
    return [f"the secret {secret!r:.20} was taken"]


async def _speak(attempt: Attempt, attacker: Hostile, secret: str) -> Violations:
    """Send values in the name of 10000, as only another server of the party passes them on."""
    honest = Hostile(HOST_ID, tls=attempt.scene.tls, answers=attempt.answers)
    value = put(1, b"x" * 1_000, session="s", attacker=honest)
    offer = pack(Offer(key=key_of("s", honest), size=8 * MIB, digest=DIGEST))
    found = []
    for method, message in ((MESSAGES, value), (BULK, offer)):
        answers = await attacker.say(
            attempt.scene.guest, method, [message], within_s=1.0, metadata=_metadata(secret)
        )
        if any(b'"refused"' not in one for one in answers):
            found.append(f"a value of {HOST_ID} was taken with the secret {secret!r:.20}")
    return found


SERVERS: Final = (
    Attack(name="command-flood", who=Who.NEWCOMER, play=command_flood, servers=2),
    Attack(name="value-flood", who=Who.NEWCOMER, play=value_flood, servers=2),
    Attack(name="server-door", who=Who.NEWCOMER, play=server_door, servers=2),
)
