"""Attacks of an arbiter: a hostile party in a running job of two honest ones."""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.federation.keys import WireKey
from fedflow.federation.messages import Notice, Offer, Put, pack
from fedflow.rpc.data_plane.bulk import BULK
from fedflow.rpc.data_plane.links import MESSAGES
from fedflow.wire.paths import PARTY_COMMANDS, job_path, task_path
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.floods import DIGEST
from tests.attack.hostile import Json
from tests.attack.replays import calls_of, renamed, retold
from tests.attack.scene import MIB, PARTNER_ID, conf_of, wait_end
from tests.attack.values import session_of
from tests.e2e.servers import GUEST, GUEST_ID, HOST, HOST_ID, Party

ARBITER: Final = Site(Role.ARBITER, PartyId(PARTNER_ID))
SOURCES: Final = (GUEST.key, HOST.key, ARBITER.key, f"host-{PARTNER_ID}")
SLEEP_S: Final = 4.0
ENDS_S: Final = 60.0
_OWN: Final = frozenset({"heartbeat", "info_common", "preflight"})  #: anybody may say these


@asynccontextmanager
async def running_job(attempt: Attempt, found: list[str]) -> AsyncIterator[str]:
    """Give the id of an honest job with the attacker as arbiter; it must end well.

    One task sleeps, so that the job runs while the block does; with the other guest and host
    exchange values. How it ended goes to `found`, if that is not well.
    """
    dsl: Json = {
        "components": {
            "empty_0": {"module": "Empty"}, "toy_0": {"module": "SecureAddExample"},
        }
    }  # fmt: skip
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [HOST_ID], "arbiter": [PARTNER_ID]},
        job_parameters={"common": {"auto_retries": 0, "task_parallelism": 2}},
        component_parameters={
            "common": {"empty_0": {"sleep_s": SLEEP_S}, "toy_0": {"data_num": 3_000_000}}
        },
    )  # fmt: skip
    client = attempt.scene.desk.client
    job_id = (await asyncio.to_thread(client.submit, dsl, conf)).job_id
    attempt.own_jobs.append(job_id)
    await asyncio.to_thread(
        attempt.scene.guest.wait_executor, job_id, component="empty_0", site=GUEST, within_s=60.0
    )
    yield job_id
    view = await asyncio.to_thread(wait_end, client, job_id, within_s=ENDS_S)
    if not view.succeeded:
        found.append(f"the job ended with {view.status}: {view.reason}")


def _victims(attempt: Attempt) -> tuple[tuple[Party, Site], ...]:
    return (attempt.scene.guest, GUEST), (attempt.scene.host, HOST)


async def arbiter(attempt: Attempt) -> Violations:
    """Command a running job as its initiator does, report and send values for its other sites."""
    found: list[str] = []
    async with running_job(attempt, found) as job_id:
        for victim, site in _victims(attempt):
            found += await _command(attempt, victim, job_id)
            found += await _speak(attempt, victim, job_id, site)
    return found


async def _command(attempt: Attempt, victim: Party, job_id: str) -> Violations:
    """Send each command about the sites of others, in any order."""
    calls = [
        call
        for site in (GUEST, HOST)
        for name in sorted(PARTY_COMMANDS.keys() - _OWN)
        for call in _commands(name, job_id, site)
    ]
    attempt.rng.shuffle(calls)
    answers = await attempt.partner.ask_all(victim, calls)
    return [
        f"{path} was taken: {answer}"[:200]
        for (path, _), answer in zip(calls, answers, strict=True)
        if answer.get("retcode") == 0 and answer.get("data")
    ]


def _commands(name: str, job_id: str, site: Site) -> Iterator[tuple[str, Json]]:
    """Yield a command about each task, or about the job."""
    bodies: dict[str, Json] = {
        "job_rerun": {"tasks": {"empty_0": 1}},
        "initiator_report": {"party_status": "failed"},
        "initiator_control": {"action": "pause"},
        "job_reuse": {
            "initiator_role": "guest", "initiator_party_id": GUEST_ID, "tables": {},
            "earlier_job": job_id, "components": ["empty_0"],
        },
    }  # fmt: skip
    body = {"epoch": 0, **bodies.get(name, {})}
    status = "failed" if name.startswith(("task", "job_status")) else "canceled"
    for component in ("empty_0", "toy_0"):
        if "<task_id>" in PARTY_COMMANDS[name]:
            key = TaskKey(job_id=job_id, component=component, version=0, site=site)
            yield task_path(name, key, status=status), body
        else:
            path = job_path(name, JobKey(job_id=job_id, site=site), status=status)
            yield path.replace("<component>", component), body


async def _speak(attempt: Attempt, victim: Party, job_id: str, destination: Site) -> Violations:
    """Send values and notices in the name of other sites."""

    async def one(method: str, message: bytes) -> str:
        answers = await attempt.partner.say(victim, method, [message], within_s=2.0)
        refused = any(b'"refused"' in answer for answer in answers)
        return "" if refused else f"taken at {destination}: {message[:200]!r}"

    said = [await one(*spoken) for spoken in _spoken(job_id, destination)]
    return [text for text in said if text]


def _spoken(job_id: str, destination: Site) -> Iterator[tuple[str, bytes]]:
    """Yield messages of the job's other sites, each with the method of its stream."""
    body = b"x" * 1_000
    digest = hashlib.sha256(body).hexdigest()
    for source in (GUEST.key, HOST.key, f"guest-{PARTNER_ID}x", f"host-0{PARTNER_ID}"):
        for component in ("empty_0", "toy_0"):
            session = session_of(job_id, component)
            for name in ("guest_share", "host_share"):
                key = WireKey(session, name, "", source, destination.key)
                yield (
                    MESSAGES,
                    pack(Put(seq=1, key=key, digest=digest, crc32=zlib.crc32(body)), body),
                )
                yield BULK, pack(Offer(key=key, size=8 * MIB, digest=DIGEST))
            yield MESSAGES, pack(
                Notice(
                    seq=1, kind="failed", session=session, source=source,
                    destination=destination.key, reason="x",
                )
            )  # fmt: skip


# --- all that was recorded ------------------------------------------------------------------------


async def replayed_into_job(attempt: Attempt) -> Violations:
    """Send all that an ended job has said into a running one, in any order, from any source."""
    scene = attempt.scene
    found: list[str] = []
    async with running_job(attempt, found) as job_id:
        recorded = [one for to in (GUEST_ID, PARTNER_ID) for one in calls_of(scene, to=to)]
        for victim, site in _victims(attempt):
            name = str(victim.place.party_id)
            calls = [
                renamed(
                    one,
                    source=PARTNER_ID,
                    destination=name,
                    fresh=True,
                    job=(scene.joint_job, job_id),
                )
                for one in attempt.rng.sample(recorded, min(attempt.times(40), len(recorded)))
            ]
            async with attempt.partner.channel(victim) as channel:
                for raw in calls:
                    await attempt.partner.send(channel, raw)
            values = retold(
                scene,
                attempt.rng,
                sources=SOURCES,
                to=site.key,
                session=session_of(job_id, "toy_0"),
            )
            for method, messages in values.items():
                await attempt.partner.say(victim, method, messages, within_s=1.0)
    return found


ARBITERS: Final = (
    Attack(name="arbiter-as-initiator", who=Who.ARBITER, play=arbiter),
    Attack(name="replayed-by-arbiter", who=Who.ARBITER, play=replayed_into_job),
)
