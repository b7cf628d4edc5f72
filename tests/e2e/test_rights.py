"""What another party may make a site do: no more than it could in a job of its own.

Real servers over TLS; the guest's checks permissions and grants the other party nothing.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.records import JobKey, TaskKey
from fedflow.wire.paths import job_path, task_path
from tests.e2e.jobs import Json, empty_job
from tests.e2e.packets import Send, sending
from tests.e2e.servers import GUEST, GUEST_ID, HOST, HOST_ID, QUICK, Pair, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CHECKED = {
    "FEDFLOW__PERMISSION__SWITCH": "true",
    "FEDFLOW__PERMISSION__COMPONENT": "true",
    "FEDFLOW__PERMISSION__DATASET": "true",
}
AGREED, SECRET = 3, 5  #: rows of the guest's tables


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("rights")
    with two_parties(folder, settings=QUICK, guest_settings=CHECKED) as pair:
        for party, name, rows in (
            (pair.guest, "agreed", AGREED), (pair.guest, "secret", SECRET),
            (pair.host, "agreed", AGREED), (pair.host, "other", SECRET),
        ):  # fmt: skip
            assert party.upload(_table(folder / f"{name}.csv", rows), name, drop=True).succeeded
        yield pair


def _table(path: Path, rows: int) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "x0"), *((f"i{n}", n) for n in range(rows))])
    return path


@pytest.fixture(scope="module")
def send(servers: Pair) -> Iterator[Send]:
    """Send commands to the guest's server."""
    with sending(servers.guest) as call:
        yield call


@pytest.fixture(scope="module")
def job(servers: Pair) -> str:
    """An ended job of the guest, in which each site reads its agreed table."""
    dsl = {
        "components": {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
            "empty_0": {"module": "Empty", "output": {"data": ["data"]}},
        }
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {"role": {r: _reads("agreed") for r in ("guest", "host")}},
    }
    job_id = servers.guest.client.submit(dsl, conf).job_id
    assert set(servers.ends(job_id).values()) == {"success"}
    return job_id


def _reads(name: str, **more: Any) -> Json:
    return {"0": {"reader_0": {"table": {"name": name, "namespace": "experiment", **more}}}}


def rows_read(pair: Pair, job_id: str) -> int:
    """Return how many rows the guest's Reader has given out."""
    body = {"job_id": job_id, "component_name": "reader_0", "role": "guest", "party_id": 9999}
    found = pair.guest.post("/v1/tracking/component/output/data/table", body)["data"]
    table = pair.guest.post(
        "/v1/table/table_info",
        {"name": found[0]["table_name"], "namespace": found[0]["table_namespace"]},
    )
    return int(table["data"]["count"])


def test_the_guest_grants_the_host_nothing(pair: Pair) -> None:
    dsl = {"components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "host", "party_id": 10000},
        "role": {"guest": [9999], "host": [10000]},
        "component_parameters": {"role": {"guest": _reads("secret"), "host": _reads("agreed")}},
    }
    answer = pair.host.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] != 0
    assert "may not use" in answer["retmsg"]


BEYOND: dict[str, Json] = {
    "a table of the initiator": {"component_parameters": {"role": {"guest": _reads("secret")}}},
    "an output of another job": {
        "component_parameters": {"role": {"guest": _reads("secret", job_id="1")}}
    },
    "a table of its own": {"component_parameters": {"role": {"host": _reads("other")}}},
    "a table of all": {"component_parameters": {"common": _reads("secret")["0"]}},
    "what all components do": {"component_parameters": {"common": {"empty_0": {"rows": 9}}}},
    "what the initiator's does": {
        "component_parameters": {"role": {"guest": {"0": {"empty_0": {"rows": 9}}}}}
    },
    "all hosts by another index": {
        "component_parameters": {"role": {"host": {"all": {"empty_0": {"rows": 9}}}}}
    },
    "cores": {"job_parameters": {"common": {"task_cores": 2}}},
    "its own cores": {"job_parameters": {"role": {"host": {"0": {"task_cores": 2}}}}},
}


@pytest.mark.parametrize("route", ["rerun", "parameter/update"])
@pytest.mark.parametrize("body", BEYOND.values(), ids=BEYOND.keys())
def test_another_party_changes_nothing_beyond_its_own_section(
    pair: Pair, send: Send, job: str, route: str, body: Json
) -> None:
    before = pair.guest.client.job(job)
    name = {"rerun": "initiator_rerun", "parameter/update": "initiator_parameters"}[route]
    whole = {"force": True, "component_name": ["pipeline"], **body}
    raw = send(HOST, job_path(name, JobKey(job_id=job, site=HOST)), whole)
    assert (raw.retcode, raw.error) == (108, "ChangeNotAllowed"), raw
    answer = pair.host.post(f"/v1/job/{route}", {"job_id": job, **body})
    assert answer["error"]["name"] == "ChangeNotAllowed", answer
    assert "a person at the initiator" in answer["error"]["hint"]
    assert pair.guest.client.job(job).status == before.status
    assert rows_read(pair, job) == AGREED


def test_another_party_repeats_the_job_and_changes_its_own_parameters(pair: Pair, job: str) -> None:
    own = {"role": {"host": {"0": {"empty_0": {"rows": 2}}}}}
    for more in ({}, {"component_parameters": own}):
        answer = pair.host.post("/v1/job/rerun", {"job_id": job, "force": True, **more})
        assert answer["retcode"] == 0, answer
        assert set(pair.ends(job).values()) == {"success"}
        pair.wait_idle()
    assert rows_read(pair, job) == AGREED


def test_no_job_gets_an_id_that_names_something_else(pair: Pair, send: Send) -> None:
    body = {"initiator_role": "host", "initiator_party_id": "10000", "dsl": {}, "runtime_conf": {}}
    before = sorted(path.name for path in (pair.guest.home / "logs").iterdir())
    for job_id in ("server", "server-logs", "2" * 19, "a" * 24):
        refused = send(HOST, f"/party/{job_id}/guest/9999/create", body)
        assert (refused.retcode, refused.error) == (101, "BadRequest"), refused
        assert "20 to 25 digits" in refused.retmsg
    assert sorted(path.name for path in (pair.guest.home / "logs").iterdir()) == before


def test_no_other_job_has_the_session_of_a_running_task(pair: Pair, send: Send) -> None:
    """Task `empty_0` of a job is named as task `0` of a job whose id ends with `_empty`."""
    grant = {"party_id": HOST_ID, "component": "empty"}
    assert pair.guest.post("/v1/permission/grant", grant)["retcode"] == 0
    dsl, conf = empty_job({"sleep_s": 3.0})
    job_id = pair.guest.client.submit(dsl, conf).job_id
    for site in (GUEST, HOST):
        pair.of(site).wait_executor(job_id, component="empty_0", site=site)
    theirs = f"{job_id}_empty"
    key = TaskKey(job_id=theirs, component="0", version=0, site=GUEST)
    body = {
        "initiator_role": "host",
        "initiator_party_id": HOST_ID,
        "dsl": {"components": {"0": {"module": "Empty", "output": {"data": ["data"]}}}},
        "runtime_conf": {
            "dsl_version": 2,
            "initiator": {"role": "host", "party_id": int(HOST_ID)},
            "role": {"guest": [int(GUEST_ID)], "host": [int(HOST_ID)]},
        },
    }
    answers = [
        send(HOST, job_path("job_create", key.job), body),
        send(HOST, job_path("job_apply", key.job), {"epoch": 0}),
        send(HOST, job_path("job_start", key.job), {"epoch": 0}),
        send(HOST, task_path("task_start", key), {"epoch": 0}),
        send(HOST, task_path("task_stop", key, status="canceled"), {"epoch": 0}),
    ]
    assert pair.guest.post("/v1/permission/delete", grant)["retcode"] == 0
    assert all(answer.retcode for answer in answers[:4]), answers
    assert set(pair.ends(job_id).values()) == {"success"}
    found = pair.guest.post("/v1/job/task/query", {"job_id": job_id})["data"]
    assert {task["f_task_version"] for task in found} == {0}


def test_no_job_takes_the_id_of_a_deployed_model(pair: Pair, send: Send, job: str) -> None:
    """The host takes part in the model, so it knows the id of the version."""
    model_id = f"guest-{GUEST_ID}#host-{HOST_ID}#model"
    asked = {"model_id": model_id, "model_version": job, "cpn_list": ["reader_0", "empty_0"]}
    deployed = pair.guest.post("/v1/model/deploy", asked)
    assert deployed["retcode"] == 0, deployed
    version = deployed["data"]["model_version"]
    one = {"model_id": model_id, "model_version": version, "role": "guest", "party_id": GUEST_ID}
    before = pair.guest.post("/v1/model/query", one)["data"]
    assert before
    grant = {"party_id": HOST_ID, "component": "empty"}
    assert pair.guest.post("/v1/permission/grant", grant)["retcode"] == 0
    dsl, conf = empty_job({})
    conf["initiator"] = {"role": "host", "party_id": int(HOST_ID)}
    key = JobKey(job_id=version, site=GUEST)
    body = {"initiator_role": "host", "initiator_party_id": HOST_ID, "dsl": dsl}
    created = send(HOST, job_path("job_create", key), {**body, "runtime_conf": conf})
    answers = [
        created,
        send(HOST, job_path("job_apply", key), {"epoch": 0}),
        send(HOST, job_path("job_start", key), {"epoch": 0}),
    ]
    send(HOST, job_path("job_stop", key, status="canceled"), {"epoch": 0})
    assert pair.guest.post("/v1/permission/delete", grant)["retcode"] == 0
    assert all(answer.retcode for answer in answers), answers
    assert created.error == "SubmitRefused", created
    assert pair.guest.post("/v1/model/query", one)["data"] == before
