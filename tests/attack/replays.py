"""Attacks that send again what was recorded of an honest job: in any order, from any source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import new_request_id
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import Notice, Offer, PeerMessage, Put, pack, split_frames
from fedflow.rpc.pb import proxy_pb2
from fedflow.wire.packet import METHOD
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.hostile import Hostile
from tests.attack.recorder import Recorded
from tests.attack.scene import PARTNER_ID, Scene
from tests.e2e.servers import GUEST, GUEST_ID, Party

_REQUEST_ID = re.compile(r'("X-FEDFLOW-REQUEST-ID":")[^"]*"')


def calls_of(scene: Scene, *, to: str) -> list[Recorded]:
    """Return the calls that were recorded on their way to a party."""
    found = scene.recorder.found
    return [one for one in found if one.method == METHOD and one.destination == to]


def streams_of(scene: Scene, *, to: str) -> dict[str, list[bytes]]:
    """Return the messages that were recorded on their way to a party, by method."""
    found: dict[str, list[bytes]] = {}
    for one in scene.recorder.found:
        if one.method != METHOD and one.destination == to:
            found.setdefault(one.method, []).append(one.raw)
    return found


def renamed(
    one: Recorded, *, source: str, destination: str, fresh: bool, job: tuple[str, str] = ("", "")
) -> bytes:
    """Return a call as another party would send it to another one.

    `fresh`: with a request id of its own, so that no kept answer is given in place of a new one.
    `job`: the id of the job that it is about, and another one that it shall be about.
    """
    packet = proxy_pb2.Packet.FromString(one.raw)
    header = packet.header
    names = {f'"{one.source}"': f'"{source}"', f'"{one.destination}"': f'"{destination}"'}
    text = re.sub("|".join(names), lambda found: names[found[0]], header.task.model.dataKey)
    if fresh:
        text = _REQUEST_ID.sub(rf'\g<1>{new_request_id()}"', text)
    header.task.model.dataKey = text.replace(*job)
    header.task.taskId = header.task.taskId.replace(*job)
    header.src.partyId, header.dst.partyId = source, destination
    path = packet.body.key.replace(f"/{one.destination}/", f"/{destination}/").replace(*job)
    header.command.name, packet.body.key = path, path
    packet.body.value = packet.body.value.replace(job[0].encode(), job[1].encode())
    return packet.SerializeToString()


def retold(
    scene: Scene, rng: Random, *, sources: Sequence[str], to: str, session: str | None = None
) -> dict[str, list[bytes]]:
    """Return the recorded frames as ones of other sites to a site, in any order, by method.

    `session`: another one than that of their own job.
    """
    found: dict[str, list[bytes]] = {}
    for party in (GUEST_ID, PARTNER_ID):
        for method, messages in streams_of(scene, to=party).items():
            for message, body in _frames(messages):
                said = _as_of(message, session, source=rng.choice(sources), destination=to)
                found.setdefault(method, []).append(pack(said, body))
    for frames in found.values():
        rng.shuffle(frames)
    return found


def _frames(messages: Sequence[bytes]) -> Iterator[tuple[PeerMessage, bytes]]:
    """Yield what messages hold; chunks of big values are no frames."""
    for raw in messages:
        with suppress(BadRequest):
            yield from list(split_frames(raw))


def _as_of(message: PeerMessage, session: str | None, *, source: str, destination: str) -> Any:
    if isinstance(message, (Put, Offer)):
        old = message.key
        key = WireKey(session or old.session, old.name, old.tag, source, destination)
        return replace(message, key=key)
    if isinstance(message, Notice):
        named = session or message.session
        return replace(message, session=named, source=source, destination=destination)
    return message


async def _send_all(
    attempt: Attempt, attacker: Hostile, victim: Party, calls: Sequence[bytes]
) -> None:
    """Send calls in another order, about a third of them more than once."""
    order = [raw for raw in calls for _ in range(1 + (attempt.rng.random() < 1 / 3))]
    attempt.rng.shuffle(order)
    async with attacker.channel(victim) as channel:
        for raw in order:
            await attacker.send(channel, raw)


async def replayed_calls(attempt: Attempt) -> Violations:
    """Send the calls of an ended job again: as they were, by strangers, and to other parties."""
    scene = attempt.scene
    attempt.own_jobs.append(scene.joint_job)
    to_guest, to_partner = (calls_of(scene, to=one) for one in (GUEST_ID, PARTNER_ID))
    for attacker in (attempt.partner, attempt.newcomer, attempt.stranger):
        for victim in scene.honest:
            name = str(victim.place.party_id)
            calls = [one.raw for one in to_guest]
            for fresh in (False, True):
                calls += [
                    renamed(one, source=attacker.name, destination=name, fresh=fresh)
                    for one in (*to_guest, *to_partner)
                ]
            await _send_all(attempt, attacker, victim, calls)
    if not to_guest or not to_partner:
        return ["nothing was recorded"]
    view = scene.guest.client.job(scene.joint_job)
    return [] if view.succeeded else [f"the ended job is {view.status} now"]


async def replayed_values(attempt: Attempt) -> Violations:
    """Send the values of an ended job again, in any order, as the partner and as others."""
    scene = attempt.scene
    streams = streams_of(scene, to=GUEST_ID)
    for attacker in (attempt.partner, attempt.newcomer, attempt.stranger):
        for method, messages in streams.items():
            for _ in range(attempt.times(3)):
                some = attempt.rng.sample(messages, attempt.rng.randint(1, len(messages)))
                await attacker.say(scene.guest, method, some, within_s=0.5)
        told = retold(scene, attempt.rng, sources=(f"host-{attacker.name}",), to=GUEST.key)
        for method, messages in told.items():
            await attacker.say(scene.guest, method, messages, within_s=0.5)
    return [] if len(streams) == 2 else [f"recorded were only {list(streams)}"]


REPLAYS: Final = (
    Attack(name="replayed-calls", who=Who.PARTNER, play=replayed_calls),
    Attack(name="replayed-values", who=Who.PARTNER, play=replayed_values),
)
