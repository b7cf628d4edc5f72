"""Attacks on what errors say: failures at honest sites, and all that a partner is told of them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import job_path, task_path
from tests.attack.attacks import Attack, Attempt, Violations, Who
from tests.attack.database import all_rows
from tests.attack.hostile import Json
from tests.attack.scene import CANARIES, PARTNER_ID, READER, conf_of, reads, wait_end
from tests.e2e.servers import GUEST_ID, HOST_ID, Party

ENDS_S: Final = 60.0
_VICTIM: Final = Site(Role.HOST, PartyId(HOST_ID))

FAILING: Final[tuple[tuple[str, Json], ...]] = (
    ("DataTransform", {"missing_fill": False}),
    ("DataTransform", {"with_label": True, "label_name": "y", "label_type": "int"}),
    ("DataTransform", {"outlier_replace": True, "outlier_impute": ["canary"]}),
    ("OneHotEncoder", {"transform_col_indexes": [9]}),
    ("OneHotEncoder", {"transform_col_names": ["x9"]}),
    ("FeatureScale", {"method": "min_max_scale"}),
    ("DataStatistics", {"column_indexes": [7]}),
    ("LabelTransform", {"label_encoder": {"1": 2}}),
    ("SampleWeight", {"class_weight": "balanced"}),
    ("Scorecard", {"method": "credit"}),
)
"""Modules and parameters with which they fail on a table whose cells are words."""


async def error_sentences(attempt: Attempt) -> Violations:
    """Let components fail on the data of honest sites, and ask for all that may be asked."""
    scene, told = attempt.scene, attempt.answers
    told.canaries = (*CANARIES, *(re.escape(str(one.home)) for one in scene.honest))
    first, *others = FAILING
    some = attempt.rng.sample(others, min(attempt.times(3), len(others)))
    with scene.recorder.hearing(lambda to, raw: _hear(attempt, to, raw)):
        by_guest, *by_partner = await asyncio.gather(
            _failed(attempt, scene.desk, ("guest", GUEST_ID), {"host": [PARTNER_ID]}, first),
            *(
                _failed(attempt, scene.partner, ("guest", PARTNER_ID), {"host": [HOST_ID]}, one)
                for one in (first, *some)
            ),
        )
        for job_id in by_partner:
            await _ask_all(attempt, job_id)
        await _ask_initiator(attempt, by_guest)
    for text in _known(scene.partner, [by_guest, *by_partner]):
        told.note("known to the partner", text)
    at_home = [scene.desk.client.job(by_guest), scene.host.client.job(by_partner[0])]
    return [
        f"its own party is not told either: {view.reason}"
        for view in at_home
        if "canary_column" not in str(view.reason)
    ]


def _hear(attempt: Attempt, to: str, raw: bytes) -> None:
    if to == PARTNER_ID:
        attempt.answers.note("told", raw)


async def _failed(
    attempt: Attempt, party: Party, initiator: tuple[str, str], others: Json,
    failing: tuple[str, Json],
) -> str:  # fmt: skip
    """Run a job of which a component fails at an honest site, and return its id."""
    (module, parameters), (role, own) = failing, initiator
    honest = role if own != PARTNER_ID else "host"
    dsl = {
        "components": {
            "reader_0": READER,
            "fails_0": {
                "module": module,
                "input": {"data": {"data": ["reader_0.data"]}},
                "output": {"data": ["data"], "model": ["model"]},
            },
        }
    }
    tables = {one: reads("patients" if one == honest else "agreed") for one in ("guest", "host")}
    tables[honest]["0"]["fails_0"] = parameters
    conf = conf_of(
        initiator, {role: [own], **others}, job_parameters={"common": {"auto_retries": 0}},
        component_parameters={"role": tables},
    )  # fmt: skip
    job_id = (await asyncio.to_thread(party.client.submit, dsl, conf)).job_id
    attempt.own_jobs.append(job_id)
    view = await asyncio.to_thread(wait_end, party.client, job_id, within_s=ENDS_S)
    attempt.answers.note(f"{module}: {view.reason.code if view.reason else view.status}")
    return job_id


async def _ask_all(attempt: Attempt, job_id: str) -> None:
    """Ask the victim for all that a party of the job, and its initiator, may ask."""
    attacker, job = attempt.partner, JobKey(job_id=job_id, site=_VICTIM)
    asked: list[tuple[str, Json]] = [
        ("/party/heartbeat", {"jobs": {job_id: {"epoch": 0, "sites": {_VICTIM.key: 1}}}}),
        ("/party/info/common", {}),
        (job_path("job_status", job, status="failed"), {"epoch": 0}),
        (job_path("job_rerun", job), {"epoch": 1, "tasks": {"nosuch": 1}}),
        (job_path("job_parameters", job), {"epoch": 0, "runtime_conf": {}, "runs": ["fails_0"]}),
        (
            job_path("job_reuse", job),
            {
                "initiator_role": "guest", "initiator_party_id": PARTNER_ID,
                "tables": {"p": {"namespace": "experiment", "name": "patients"}},
                "earlier_job": job_id, "components": ["reader_0", "fails_0"],
            },
        ),
    ]  # fmt: skip
    for component in ("reader_0", "fails_0", "nosuch"):
        task = TaskKey(job_id=job_id, component=component, version=0, site=_VICTIM)
        asked += [
            (task_path("task_collect", task), {}),
            (task_path("task_start", task), {"epoch": 0}),
            (job_path("output_table", job).replace("<component>", component), {}),
        ]
    await attacker.ask_all(attempt.scene.host, asked)


async def _ask_initiator(attempt: Attempt, job_id: str) -> None:
    """Ask an honest initiator for what a site of its job may ask, and for more: every path names
    the attacker, as if the initiator spoke with its own party.
    """
    own = Site(Role.HOST, PartyId(PARTNER_ID))
    key = JobKey(job_id=job_id, site=own)
    changes = [
        {"role": {role: {"0": {"fails_0": {"missing_fill": "no such word"}}}}}
        for role in ("guest", "host")
    ]
    asked: list[tuple[str, Json]] = [
        (job_path("initiator_rerun", key), {"component_name": "nosuch"}),
        (job_path("initiator_control", key), {"action": "pause"}),
        (job_path("initiator_control", key), {"action": "continue", "steps": -1}),
        (job_path("initiator_stop", key, status="failed"), {"epoch": 0}),
        (job_path("job_create", key), {"epoch": 0, "initiator_role": "host"}),
        (job_path("job_stop", key, status="failed"), {"epoch": 9}),
        (job_path("job_rerun", key), {"epoch": 1, "tasks": {"nosuch": 1}}),
        (job_path("output_table", key).replace("<component>", "reader_0"), {}),
    ]  # fmt: skip
    asked += [
        (job_path(name, key), {"component_parameters": one})
        for name in ("initiator_rerun", "initiator_parameters")
        for one in changes
    ]
    for component in ("reader_0", "fails_0", "nosuch"):
        task = TaskKey(job_id=job_id, component=component, version=0, site=own)
        asked += [
            (task_path("initiator_report", task), {"party_status": "failed"}),
            (task_path("task_collect", task), {}),
            (task_path("task_start", task), {"epoch": 0}),
        ]
    await attempt.partner.ask_all(attempt.scene.desk, asked)


def _known(party: Party, job_ids: list[str]) -> Iterator[str]:
    """Yield all that a party shows of jobs, keeps of them and logs."""
    for job_id in job_ids:
        for path in ("query", "status", "events", "explain", "report", "task/query"):
            yield json.dumps(party.post(f"/v1/job/{path}", {"job_id": job_id}))
        with suppress(FedflowError):
            yield repr(party.client.explain(job_id))
    yield from (text for _, text in all_rows(party).values())
    for name in ("logs", "jobs"):
        files = (one for one in (party.home / name).rglob("*") if one.is_file())
        yield from (one.read_text(errors="replace") for one in files)
    yield party.log.read_text(errors="replace")


SENTENCES: Final = (Attack(name="error-sentences", who=Who.PARTNER, play=error_sentences),)
