"""What scheduling refuses: each with code and hint, and no row of any party changed by it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire import paths
from tests.e2e.jobs import Json, empty_job
from tests.e2e.packets import Send, sending
from tests.e2e.servers import (
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Pair,
    Party,
    Place,
    free_ports,
    make_certificates,
    running,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

STRANGER = Site(Role.HOST, PartyId("7777"))
OF_HOST: Json = {"role": {"host": {"0": {"empty_0": {"rows": 1}}}}}
TABLES = (
    "t_job", "t_task", "t_schedule_job", "t_schedule_site", "t_schedule_task",
    "t_schedule_party_task", "t_outbox", "t_submit_key",
)  # fmt: skip


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Guest and host, each with a route to the other; the certificates know a third party."""
    folder = tmp_path_factory.mktemp("scheduling")
    tls = make_certificates(folder / "tls", GUEST_ID, HOST_ID, STRANGER.party_id)
    http_g, http_h, grpc_g, grpc_h = free_ports(4)
    places = [
        Place(
            home=folder / name, party_id=own, http_port=http, grpc_port=grpc, tls=tls,
            routes={other: f"127.0.0.1:{port}"},
            settings={**QUICK, "FEDFLOW__PARTNERS": f"[{other}, {STRANGER.party_id}]"},
        )
        for name, own, http, grpc, other, port in (
            ("guest", GUEST_ID, http_g, grpc_g, HOST_ID, grpc_h),
            ("host", HOST_ID, http_h, grpc_h, GUEST_ID, grpc_g),
        )
    ]  # fmt: skip
    with running(*places) as (guest, host):
        yield Pair(guest, host)


@pytest.fixture(scope="module")
def ended(servers: Pair) -> str:
    """A job that has succeeded."""
    job_id = servers.guest.client.submit(*empty_job({})).job_id
    settled(servers, job_id)
    return job_id


@pytest.fixture
def long(pair: Pair) -> Iterator[str]:
    """A job that runs until the test is over."""
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    for site in (GUEST, HOST):
        pair.of(site).wait_executor(job_id, component="empty_0", site=site)
    wait_for(lambda: _running(pair, job_id), "the job to run at both sites")
    yield job_id
    pair.guest.client.stop(job_id)
    assert set(pair.ends(job_id).values()) == {"canceled"}


def _running(pair: Pair, job_id: str) -> bool:
    view = pair.guest.client.job(job_id)
    return {t.status for t in view.tasks} == {"running"}


def rows(pair: Pair) -> dict[str, list[Any]]:
    """Return what is stored about jobs at both parties."""
    found: dict[str, list[Any]] = {}
    for party in pair.all:
        with closing(sqlite3.connect(f"file:{store_of(party)}?mode=ro", uri=True)) as store:
            for table in TABLES:
                key = f"{party.place.party_id}.{table}"
                found[key] = sorted(map(repr, store.execute(f"SELECT * FROM {table}")))
    return found


def settled(pair: Pair, job_id: str) -> None:
    """Wait until a job has succeeded and nothing of it is left to be done."""
    assert set(pair.ends(job_id).values()) == {"success"}
    pair.wait_idle()
    wait_for(lambda: not any(v for k, v in rows(pair).items() if "outbox" in k), "empty outboxes")


def store_of(party: Party) -> Path:
    (path,) = party.home.glob("*.sqlite")
    return path


def refused(answer: Json, *, says: str, retcode: int | None = None) -> None:
    """See that an answer is a refusal that helps."""
    assert answer["retcode"] != 0, answer
    assert retcode in (None, answer["retcode"]), answer
    assert says in answer["retmsg"], answer
    assert answer["error"]["code"] > 1000
    assert answer["error"]["hint"]


# --- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"task_parallelism": 0}, "task_parallelism"),
        ({"timeout": 0}, "timeout"),
        ({"priority": 1_001}, "priority"),
        ({"auto_retries": 101}, "auto_retries"),
        ({"auto_retry_delay": -1}, "auto_retry_delay"),
        ({"task_conf": {"empty_0": {"auto_retry_delay": -1}}}, "auto_retry_delay"),
        ({"task_conf": {"empty_0": {"auto_retries": -1}}}, "auto_retries"),
        ({"task_conf": {"empty_0": {"timeout": 0}}}, "timeout"),
        ({"task_conf": {"empty_0": {"schedule_policy": "sometimes"}}}, "schedule_policy"),
        ({"task_conf": {"empty_0": {"reuse": "maybe"}}}, "reuse"),
        ({"reuse": "maybe"}, "reuse"),
        ({"federated_status_collect_type": "SHOVE"}, "federated_status_collect_type"),
        ({"run_to": "empty_7"}, "empty_7"),
        ({"step": "slowly"}, "step"),
        ({"idempotency_key": "two words"}, "idempotency key"),
        ({"idempotency_key": ["k"]}, "idempotency_key"),
    ],
)
def test_a_parameter_out_of_range_is_refused_before_anything_is_stored(
    pair: Pair, parameters: Json, says: str
) -> None:
    dsl, conf = empty_job({}, **parameters)
    before = rows(pair)
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    refused(answer, says=says, retcode=103)
    after = rows(pair)
    noted = set(after[f"{GUEST_ID}.t_job"]) - set(before[f"{GUEST_ID}.t_job"])
    assert all("submit_failed" in row for row in noted)  # so that its id can be asked for
    after[f"{GUEST_ID}.t_job"] = before[f"{GUEST_ID}.t_job"]
    assert after == before


def test_more_cores_than_there_are_is_refused_and_runs_nowhere(pair: Pair) -> None:
    dsl, conf = empty_job({}, task_cores=9_999)
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    refused(answer, says="9999", retcode=103)
    assert set(pair.shares(answer["jobId"]).values()) <= {"failed"}


def test_a_key_of_another_job_is_refused(pair: Pair) -> None:
    dsl, conf = empty_job({})
    body = {"job_dsl": dsl, "job_runtime_conf": conf, "idempotency_key": "bad-input"}
    first = pair.guest.post("/v1/job/submit", body)
    assert first["retcode"] == 0, first
    assert pair.guest.post("/v1/job/submit", body) == first
    settled(pair, first["jobId"])
    before = rows(pair)
    other = {**body, "job_runtime_conf": empty_job({"rows": 3})[1]}
    refused(pair.guest.post("/v1/job/submit", other), says=first["jobId"], retcode=103)
    assert rows(pair) == before


# --- what is asked of a job -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("route", "more", "says"),
    [
        ("rerun", {"component_name": "empty_7"}, "no component 'empty_7'"),
        ("rerun", {}, "has succeeded"),
        ("rerun", {"failed_only": True}, "none of these components has failed"),
        ("rerun", {"failed_only": True, "force": True}, "give one"),
        ("rerun", {"force": True, "job_parameters": {"common": {"timeout": 0}}}, "timeout"),
        (
            "rerun",
            {"force": True, "component_parameters": {"common": {"empty_0": {"rows": "many"}}}},
            "rows",
        ),
        (
            "rerun",
            {"force": True, "job_parameters": {"common": {"task_cores": 9_999}}},
            "task_cores",
        ),
        ("parameter/update", {"job_parameters": {"common": {"timeout": -1}}}, "timeout"),
        ("parameter/update", {}, "give job_parameters or component_parameters"),
        ("continue", {}, ""),
        ("pause", {}, ""),
        ("stop", {"stop_status": "success"}, "cannot be stopped as 'success'"),
    ],
)
@pytest.mark.parametrize("asked", ["guest", "host"])
def test_what_an_ended_job_does_not_do_is_refused_at_either_party(
    pair: Pair, ended: str, asked: str, route: str, more: Json, says: str
) -> None:
    before = rows(pair)
    party: Party = getattr(pair, asked)
    refused(party.post(f"/v1/job/{route}", {"job_id": ended, **more}), says=says)
    assert rows(pair) == before


@pytest.mark.parametrize(
    ("route", "more", "says"),
    [
        ("rerun", {}, "it is running; stop it first"),
        ("rerun", {"force": True, "component_name": "empty_0"}, "it is running"),
        ("parameter/update", {"component_parameters": OF_HOST}, "it is running"),
        ("continue", {}, ""),
        ("clean", {}, "it is running"),
    ],
)
@pytest.mark.parametrize("asked", ["guest", "host"])
def test_what_a_running_job_does_not_do_is_refused_at_either_party(
    pair: Pair, long: str, asked: str, route: str, more: Json, says: str
) -> None:
    before = steady(rows(pair))
    party: Party = getattr(pair, asked)
    refused(party.post(f"/v1/job/{route}", {"job_id": long, **more}), says=says)
    assert steady(rows(pair)) == before


def steady(stored: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return how many rows there are, and those that do not tell how far a running task is."""
    moving = ("t_task", "t_schedule_party_task", "t_job")
    return {
        name: [len(found)] if name.split(".")[1] in moving else found
        for name, found in stored.items()
    }


def test_a_stop_of_an_ended_job_says_so_and_changes_no_field(pair: Pair, ended: str) -> None:
    before = rows(pair)
    for party in pair.all:
        answer = party.post("/v1/job/stop", {"job_id": ended})
        assert answer == {"retcode": 0, "retmsg": "nothing to stop: the job had ended, success"}
        stopped = party.client.stop(ended)
        assert (stopped.status, stopped.had_ended) == ("success", True)
    assert rows(pair) == before


def test_two_stops_at_once_end_a_job_once(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 600.0})).job_id
    pair.host.wait_executor(job_id, component="empty_0", site=HOST)
    answers: list[Json] = []

    def stop(party: Party) -> None:
        answers.append(party.post("/v1/job/stop", {"job_id": job_id}))

    threads = [threading.Thread(target=stop, args=(p,)) for p in (*pair.all, *pair.all)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer["retcode"] for answer in answers} == {0}
    assert set(pair.ends(job_id).values()) == {"canceled"}
    pair.wait_idle()
    stored = rows(pair)
    assert not stored[f"{HOST_ID}.t_outbox"]


def test_an_unknown_job_is_said_to_be_unknown(pair: Pair) -> None:
    before = rows(pair)
    for party in pair.all:
        for route in ("stop", "rerun", "continue", "pause", "clean"):
            refused(party.post(f"/v1/job/{route}", {"job_id": "20260101"}), says="20260101")
    assert rows(pair) == before


# --- packets of parties ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def send(servers: Pair) -> Iterator[Send]:
    """Return a function that sends the host's server a command as a party with its certificate."""
    with sending(servers.host) as call:
        yield call


def job_command(name: str, job_id: str, site: Site = HOST, status: str = "") -> str:
    return paths.job_path(name, JobKey(job_id=job_id, site=site), status=status)


def task_command(name: str, job_id: str, status: str = "") -> str:
    key = TaskKey(job_id=job_id, component="empty_0", version=0, site=HOST)
    return paths.task_path(name, key, status=status)


COMMANDS: list[tuple[str, Callable[[str], str]]] = [
    ("start", lambda job_id: job_command("job_start", job_id)),
    ("apply", lambda job_id: job_command("job_apply", job_id)),
    ("stop", lambda job_id: job_command("job_stop", job_id, status="canceled")),
    ("task start", lambda job_id: task_command("task_start", job_id)),
    ("task stop", lambda job_id: task_command("task_stop", job_id, status="canceled")),
]


@pytest.mark.parametrize(("name", "path"), COMMANDS[:4], ids=lambda v: v if v is str else None)
def test_a_packet_of_a_wrong_epoch_has_no_effect(
    pair: Pair, long: str, send: Send, name: str, path: Callable[[str], str]
) -> None:
    before = steady(rows(pair))
    wrong = -1 if name == "stop" else 7  # a later epoch's end is news; an impossible one is not
    reply = send(GUEST, path(long), {"epoch": wrong})
    assert reply.retcode != 0, reply
    assert "epoch" in reply.retmsg
    assert reply.error in ("StaleCommand", "BadRequest")
    assert steady(rows(pair)) == before


@pytest.mark.parametrize(("name", "path"), COMMANDS, ids=lambda v: v if v is str else None)
def test_a_packet_from_a_party_that_is_not_in_the_job_has_no_effect(
    pair: Pair, long: str, send: Send, name: str, path: Callable[[str], str]
) -> None:
    before = steady(rows(pair))
    reply = send(STRANGER, path(long), {"epoch": 0})
    assert (reply.retcode, reply.error) == (108, "WrongSite"), reply
    assert steady(rows(pair)) == before


def test_a_packet_for_a_job_of_another_initiator_has_no_effect(pair: Pair, send: Send) -> None:
    """The host's own job, of which the guest is a party: it commands the guest, nobody else."""
    dsl, conf = empty_job({})
    conf["initiator"] = {"role": "host", "party_id": int(HOST_ID)}
    made = pair.host.client.submit(dsl, conf)
    settled(pair, made.job_id)
    before = rows(pair)
    for _, path in COMMANDS:
        reply = send(GUEST, path(made.job_id), {"epoch": 0})
        assert (reply.retcode, reply.error) == (108, "WrongSite"), reply
    report = job_command("initiator_stop", made.job_id, STRANGER, status="canceled")
    assert send(STRANGER, report, {}).error == "WrongSite"
    assert rows(pair) == before


def test_a_packet_for_an_unknown_job_has_no_effect(pair: Pair, send: Send) -> None:
    before = rows(pair)
    for name, path in COMMANDS:
        reply = send(GUEST, path("202601010000000000000000"), {"epoch": 0})
        if name == "stop":
            assert reply.retcode == 0  # there is nothing to end
        else:
            assert reply.error in ("JobNotFound", "TaskNotFound"), reply
    assert rows(pair) == before
