"""Attacks on what another party may read, write and start."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import PARTY_COMMANDS, job_path, task_path
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.database import stored
from tests.attack.hostile import Hostile, Json
from tests.attack.scene import (
    MIB,
    MODEL_ROLES,
    NEWCOMER_ID,
    ONE,
    OPEN_JOBS,
    PARTNER_ID,
    READER,
    ROWS,
    STRANGER_ID,
    TRANSFORM,
    conf_of,
    reads,
)
from tests.e2e.servers import GUEST, GUEST_ID, HOST_ID, Party, wait_for

PARTNER: Final = Site(Role.HOST, PartyId(PARTNER_ID))
NEWCOMER: Final = Site(Role.HOST, PartyId(NEWCOMER_ID))
ROOM_S: Final = 60.0  #: how long it may take until ended jobs make room for others


def new_id(attempt: Attempt) -> str:
    """Return an id that has the form of ours."""
    return f"2026{attempt.rng.randrange(10**18):018d}0000"[:24]


def create_body(attacker: str, victim: str, *, dsl: Json = ONE, **conf: Any) -> Json:
    """Return the body with which a party creates its job at a victim that is its guest."""
    roles = conf.pop("roles", {"guest": [victim], "host": [attacker]})
    return {
        "epoch": 0,
        "dsl": dsl,
        "runtime_conf": conf_of(("host", attacker), roles, **conf),
        "initiator_role": "host",
        "initiator_party_id": attacker,
        "create_time": 1,
    }


async def create(
    attempt: Attempt, attacker: Hostile, victim: Party, job_id: str, body: Json
) -> bool:
    """Create a job at a victim that is its guest; tell whether that was accepted."""
    attempt.own_jobs.append(job_id)
    site = Site(Role.GUEST, PartyId(str(victim.place.party_id)))
    key = JobKey(job_id=job_id, site=site)
    return (await attacker.ask(victim, job_path("job_create", key), body)).get("retcode") == 0


# --- in the name of others ------------------------------------------------------------------------


async def foreign_names(attempt: Attempt) -> Violations:
    """Send commands in the name of other parties, in the packet and in its headers."""
    attacker, victim, found = attempt.newcomer, attempt.scene.guest, []
    for source in (GUEST_ID, HOST_ID, PARTNER_ID, "0", "", "６６６６", "6666 ", "06666"):
        for headers in ({}, {"SRC-PARTY-ID": source}, {"src_party_id": NEWCOMER_ID}):
            packet = attacker.packet(victim, "/party/info/common", {}, source=source)
            async with attacker.channel(victim) as channel:
                answer = await attacker.call(
                    channel,
                    attacker.packet(
                        victim, "/party/info/common", {}, source=source,
                        headers={**packet.headers, **headers},
                    ),
                )  # fmt: skip
            if answer.get("retcode") == 0:
                found.append(f"spoke as {source!r} with {headers}")
    return found


async def foreign_commands(attempt: Attempt) -> Violations:
    """Send every command about jobs that are none of the attacker's, running and ended."""
    attacker, scene, found = attempt.newcomer, attempt.scene, []
    harmless = {"heartbeat", "info_common", "preflight"}  # and `job_reuse`: see `table_probe`
    for victim, job_id, site in (
        (scene.guest, scene.joint_job, GUEST),
        (scene.host, scene.trained, Site(Role.GUEST, PartyId(HOST_ID))),
        (scene.host, scene.deployed, Site(Role.GUEST, PartyId(HOST_ID))),
    ):
        calls, names = [], []
        for name in PARTY_COMMANDS.keys() - harmless - {"job_reuse"}:
            for here in (site, NEWCOMER):
                names.append(name)
                calls.append((_path(name, job_id, here), _body(name, victim)))
        answers = await attacker.ask_all(victim, calls)
        found += [
            f"{name} was taken: {answer}"[:200]
            for name, answer in zip(names, answers, strict=True)
            if answer.get("retcode") == 0 and answer.get("data")
        ]
    return found


def _path(name: str, job_id: str, site: Site) -> str:
    if "<component>" in PARTY_COMMANDS[name] and "<task_id>" in PARTY_COMMANDS[name]:
        key = TaskKey(job_id=job_id, component="reader_0", version=0, site=site)
        return task_path(name, key, status="failed")
    path = job_path(name, JobKey(job_id=job_id, site=site), status="canceled")
    return path.replace("<component>", "reader_0")


def _body(name: str, victim: Party) -> Json:
    """Return a body that a command may have."""
    more: dict[str, Json] = {
        "job_create": create_body(NEWCOMER_ID, str(victim.place.party_id)),
        "job_check": create_body(NEWCOMER_ID, str(victim.place.party_id)),
        "job_rerun": {"tasks": {"reader_0": 1}},
        "initiator_report": {"party_status": "failed"},
        "initiator_control": {"action": "pause"},
    }  # fmt: skip
    return {"epoch": 0, **more.get(name, {})}


async def table_probe(attempt: Attempt) -> Violations:
    """Ask which tables there are, and whether they have changed."""
    attacker, found = attempt.stranger, []
    tables = {name: {"namespace": "experiment", "name": name} for name in (*ROWS, "nosuch", "exp")}
    for victim in attempt.scene.honest:
        site = Site(Role.GUEST, PartyId(str(victim.place.party_id)))
        for job_id in ("x", new_id(attempt), attempt.scene.trained):
            path = job_path("job_reuse", JobKey(job_id=job_id, site=site))
            body = {
                "initiator_role": "host", "initiator_party_id": STRANGER_ID, "tables": tables,
            }  # fmt: skip
            data = (await attacker.ask(victim, path, body)).get("data") or {}
            if any((data.get("tables") or {}).values()):
                found.append(f"{site} told which tables there are: {data}")
    return found


async def stranger_job(attempt: Attempt) -> Violations:
    """Start a job at a server that knows no way to the attacker."""
    attacker, victim = attempt.stranger, attempt.scene.host
    common = {"federated_status_collect_type": "PULL"}
    body = create_body(STRANGER_ID, HOST_ID, job_parameters={"common": common})
    taken = await create(attempt, attacker, victim, new_id(attempt), body)
    return ["a job of a party without a route was taken"] if taken else []


# --- of a partner ---------------------------------------------------------------------------------


async def rerun_with_tables(attempt: Attempt) -> Violations:
    """Let the initiator of an ended job read another of its tables."""
    scene, attacker = attempt.scene, attempt.partner
    job_id, victim = scene.joint_job, scene.guest
    attempt.own_jobs.append(job_id)
    other_job = reads("patients")
    other_job["0"]["reader_0"]["table"] = {"job_id": scene.trained, "component": "reader_0"}
    changes: list[Json] = [
        {"role": {"guest": reads("patients")}},
        {"role": {"guest": {"all": reads("patients")["0"]}}},
        {"common": reads("patients")["0"]},
        {"role": {"guest": other_job}},
        {"role": {"host": reads("patients"), "guest": reads("patients")}},
    ]
    for name in ("initiator_rerun", "initiator_parameters"):
        path = job_path(name, JobKey(job_id=job_id, site=PARTNER))
        for change in changes:
            body = {"component_parameters": change}
            if name == "initiator_rerun":
                body |= {"force": True, "component_name": ["pipeline"]}
            await attacker.ask(victim, path, body)
    view = wait_for(lambda: _ended(victim, job_id), f"the end of job {job_id}", within_s=60)
    rows = stored(
        victim, "SELECT f_count FROM t_storage_table_meta WHERE f_namespace LIKE ?",
        f"%{job_id}%",
    )  # fmt: skip
    found = [f"a Reader gave out {n} rows" for (n,) in rows if n != ROWS["agreed"]]
    conf = stored(victim, "SELECT f_runtime_conf FROM t_job WHERE f_job_id = ?", job_id)
    if any("patients" in text for (text,) in conf):
        found.append(f"the conf of job {view} names another table")
    return found


def _ended(party: Party, job_id: str) -> str | None:
    view = party.client.job(job_id)
    return view.job_id if view.is_final else None


async def model_takeover(attempt: Attempt) -> Violations:
    """Create a job whose id is that of a model, and let it run and end."""
    scene, attacker, victim = attempt.scene, attempt.partner, attempt.scene.host
    found = []
    models = "SELECT * FROM t_machine_learning_model_info WHERE f_model_version = ?"
    for version in (scene.deployed, scene.trained):
        before = stored(victim, models, version)
        site = Site(Role.GUEST, PartyId(HOST_ID))
        key = JobKey(job_id=version, site=site)
        dsl = {"components": {"reader_0": READER, "data_transform_0": TRANSFORM}}
        common = {"reader_0": reads("agreed")["0"]["reader_0"]}
        body = create_body(
            PARTNER_ID, HOST_ID, dsl=dsl, roles=MODEL_ROLES,
            component_parameters={"common": common},
        )  # fmt: skip
        for name, status, content in (
            ("job_create", "", body),
            ("job_apply", "", {"epoch": 0}),
            ("job_start", "", {"epoch": 0}),
            ("job_stop", "canceled", {"epoch": 0}),
            ("job_status", "success", {"epoch": 0}),
        ):
            await attacker.ask(victim, job_path(name, key, status=status), content)
        if stored(victim, models, version) != before:
            found.append(f"model version {version} is another one")
    return found


async def reserved_ids(attempt: Attempt) -> Violations:
    """Create jobs under ids that name something else."""
    attacker, victim, found = attempt.partner, attempt.scene.host, []
    for job_id in ("server", "run", "tables", "a", "1" * 64, "x" * 21, "%2e%2e", "٣" * 24):
        body = create_body(PARTNER_ID, HOST_ID)
        if await create(attempt, attacker, victim, job_id, body):
            found.append(f"a job {job_id!r} was taken")
    return found


async def session_names(attempt: Attempt) -> Violations:
    """Create jobs whose tasks have the names of tasks of an honest job, as it runs."""
    scene, attacker = attempt.scene, attempt.partner
    found = []
    dsl: Json = {"components": {"int_0": {"module": "SecureAddExample"}}}
    conf = conf_of(
        ("guest", GUEST_ID), {"guest": [GUEST_ID], "host": [HOST_ID]},
        job_parameters={"common": {"auto_retries": 0}},
        component_parameters={"common": {"int_0": {"data_num": 2_000_000}}},
    )  # fmt: skip
    job_id = scene.guest.client.submit(dsl, conf).job_id
    attempt.own_jobs.append(job_id)
    for theirs, component in ((f"{job_id}_int", "0"), (job_id, "int_0"), (f"{job_id}_int_0", "_")):
        one: Json = {"components": {component: {"module": "SecureAddExample"}}}
        body = create_body(PARTNER_ID, HOST_ID, dsl=one)
        taken = await create(attempt, attacker, scene.host, theirs, body)
        site = Site(Role.GUEST, PartyId(HOST_ID))
        for name, status in (("job_apply", ""), ("job_start", ""), ("job_stop", "canceled")):
            path = job_path(name, JobKey(job_id=theirs, site=site), status=status)
            await attacker.ask(scene.host, path, {"epoch": 0})
        if taken:
            found.append(f"job {theirs} with component {component} was taken")
    view = scene.guest.client.wait(job_id, timeout_s=120)
    return found if view.succeeded else [*found, f"the honest job ended with {view.status}"]


# --- what a job may cost --------------------------------------------------------------------------


async def job_documents(attempt: Attempt) -> Violations:
    """Create jobs whose confs are large and full of what nobody reads."""
    attacker, victim = attempt.partner, attempt.scene.host
    junk = {f"x{n}": "y" * 99_000 for n in range(70)}
    for _ in range(attempt.times(4)):
        body = create_body(PARTNER_ID, HOST_ID, **junk)
        await create(attempt, attacker, victim, new_id(attempt), body)
    names = "SELECT LENGTH(f_dsl) + LENGTH(f_runtime_conf) FROM t_job WHERE f_job_id = ?"
    sizes = [row[0] for job in attempt.own_jobs for row in stored(victim, names, job)]
    return [f"conf and DSL of {n / MIB:.0f} MiB were stored" for n in sizes if n > 2 * MIB]


async def large_jobs(attempt: Attempt) -> Violations:
    """Create jobs of very many components at very many sites."""
    attacker, victim, found = attempt.partner, attempt.scene.host, []
    for components, hosts in ((5_000, 1_000), (2_000, 100), (300, 30_000)):
        dsl = {"components": {f"c_{n}": ONE["components"]["empty_0"] for n in range(components)}}
        ids = [PARTNER_ID, *(str(100_000 + n) for n in range(hosts - 1))]
        roles = {"guest": [HOST_ID], "host": ids}
        body = create_body(PARTNER_ID, HOST_ID, dsl=dsl, roles=roles)
        if await create(attempt, attacker, victim, new_id(attempt), body):
            found.append(f"a job of {components} components at {hosts} hosts was taken")
    return found


async def open_jobs(attempt: Attempt) -> Violations:
    """Create small jobs until no more are taken; when they have ended there must be room again."""
    attacker, victim, body = attempt.partner, attempt.scene.host, create_body(PARTNER_ID, HOST_ID)
    made: list[JobKey] = []

    async def ask(name: str, keys: Sequence[JobKey], content: Json) -> list[Json]:
        status = "canceled" if name == "job_stop" else ""
        calls = [(job_path(name, key, status=status), content) for key in keys]
        return await attacker.ask_all(victim, calls)

    async def is_refused(number: int) -> bool:
        site = Site(Role.GUEST, PartyId(HOST_ID))
        keys = [JobKey(job_id=new_id(attempt), site=site) for _ in range(number)]
        made.extend(keys)
        attempt.own_jobs += [key.job_id for key in keys]
        answers = await ask("job_create", keys, body)
        return any((one.get("error") or {}).get("name") == "QuotaReached" for one in answers)

    found = []
    for _ in range(4):  # some end meanwhile, as nobody says that their initiator lives
        if await is_refused(OPEN_JOBS // 2 + 1):
            break
    else:
        found.append(f"{len(made)} jobs were taken, and {OPEN_JOBS} may be open")
    names = "SELECT COUNT(*) FROM t_job WHERE f_initiator_party_id = ? AND f_status = 'waiting'"
    ((waiting,),) = stored(victim, names, PARTNER_ID)
    if waiting > OPEN_JOBS:
        found.append(f"{waiting} jobs are open")
    await ask("job_stop", made, {"epoch": 0})
    with suppress(TimeoutError):
        async with asyncio.timeout(ROOM_S):
            while await is_refused(1):  # they are counted anew each second
                await asyncio.sleep(0.5)
            await ask("job_stop", made[-1:], {"epoch": 0})
            return found
    return [*found, f"no job was taken within {ROOM_S:g} s after all had ended"]


RIGHTS: Final = (
    Attack(name="foreign-names", who=Who.NEWCOMER, play=foreign_names),
    Attack(name="foreign-commands", who=Who.NEWCOMER, play=foreign_commands),
    Attack(name="table-probe", who=Who.STRANGER, play=table_probe),
    Attack(name="stranger-job", who=Who.STRANGER, play=stranger_job),
    Attack(name="rerun-with-tables", who=Who.PARTNER, play=rerun_with_tables),
    Attack(name="model-takeover", who=Who.PARTNER, play=model_takeover),
    Attack(name="reserved-ids", who=Who.PARTNER, play=reserved_ids),
    Attack(name="session-names", who=Who.PARTNER, play=session_names),
    Attack(name="job-documents", who=Who.PARTNER, play=job_documents),
    Attack(name="large-jobs", who=Who.PARTNER, play=large_jobs),
    Attack(name="open-jobs", who=Who.PARTNER, play=open_jobs),
)
