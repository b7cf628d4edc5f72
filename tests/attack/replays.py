"""Attacks that send again what was recorded of an honest job: in any order, from any source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from fedflow.base.ids import new_request_id
from fedflow.rpc.pb import proxy_pb2
from fedflow.wire.packet import METHOD
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.hostile import Hostile
from tests.attack.recorder import Recorded
from tests.attack.scene import PARTNER_ID, Scene
from tests.e2e.servers import GUEST_ID, Party

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


def renamed(one: Recorded, *, source: str, destination: str, fresh: bool) -> bytes:
    """Return a call as another party would send it to another one.

    `fresh`: with a request id of its own, so that no kept answer is given in place of a new one.
    """
    packet = proxy_pb2.Packet.FromString(one.raw)
    header = packet.header
    names = {one.source: source, one.destination: destination}
    text = header.task.model.dataKey
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    if fresh:
        text = _REQUEST_ID.sub(rf'\g<1>{new_request_id()}"', text)
    header.task.model.dataKey = text
    header.src.partyId, header.dst.partyId = source, destination
    packet.body.key = packet.body.key.replace(f"/{one.destination}/", f"/{destination}/")
    return packet.SerializeToString()


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
    """Send the values of an ended job again, in any order, by the partner and by a stranger."""
    scene = attempt.scene
    streams = streams_of(scene, to=GUEST_ID)
    for attacker in (attempt.partner, attempt.newcomer, attempt.stranger):
        for method, messages in streams.items():
            for _ in range(attempt.times(3)):
                some = attempt.rng.sample(messages, attempt.rng.randint(1, len(messages)))
                await attacker.say(scene.guest, method, some, within_s=0.5)
    return [] if len(streams) == 2 else [f"recorded were only {list(streams)}"]


REPLAYS: Final = (
    Attack(name="replayed-calls", who=Who.PARTNER, play=replayed_calls),
    Attack(name="replayed-values", who=Who.PARTNER, play=replayed_values),
)
