"""Elastic jobs over real servers: hosts whose executors or servers are killed and come back."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import Json
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    Party,
    running,
    wait_for,
)
from tests.e2e.three import SECOND, Three, three_places
from tests.integration.test_provider_processes import folder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ALL = (GUEST, HOST, SECOND, ARBITER)
SETTINGS = {**QUICK, "FEDFLOW__SCHEDULING__LEASE_S": "6"}
ROUNDS = """
import json, time
from pathlib import Path
from fedflow.sdk import Context, Outputs, component

@component("ToyRounds", roles=("guest", "host", "arbiter"), needs_input=False, absence="rounds")
def toy_rounds(ctx: Context, *, folder: str) -> Outputs:
    "Go on until a file says so, whoever else is there."
    elastic = {"min": ctx.elastic.min_parties, "rejoin": ctx.elastic.rejoin}
    Path(folder, f"{ctx.site.key}.{ctx.launch}").write_text(json.dumps(elastic))
    while not Path(folder, "stop").exists():
        time.sleep(0.05)
    return Outputs(summary={"launch": ctx.launch})
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    root = tmp_path_factory.mktemp("elastic")
    provider = folder(root / "toy", ROUNDS, name="toy", components="lab:toy_rounds")
    settings = {**SETTINGS, "FEDFLOW__PROVIDER__ALLOWED_FOLDERS": json.dumps([str(root)])}
    with running(*three_places(root, settings=settings)) as parties:
        for party in parties:
            party.client.providers.register(str(provider))
        yield Three(*parties)


@pytest.fixture
def three(servers: Three) -> Iterator[Three]:
    """All servers, up, connected and idle before and after each test."""
    yield servers
    for party in servers.all:
        if party.process is None:
            party.start().wait_ready()
    servers.wait_connected()
    servers.wait_idle()


def submit(three: Three, files: Path, *, least: int = 2, **more: Any) -> str:
    """Start a job whose rounds last until there is a file `stop`; return its id."""
    dsl: Json = {
        "components": {
            "empty_0": {"module": "Empty"},
            "rounds_0": {"module": "ToyRounds"},
        }
    }
    conf = conf_of(
        {"rounds_0": {"folder": str(files)}},
        elastic={"min_parties": least, "round_deadline_s": 30, **more},
        task_parallelism=2,
    )
    return three.guest.client.submit(dsl, conf).job_id


def conf_of(parameters: Json, **common: Any) -> Json:
    """Return the conf of a job of all, with parameters of components and of the job."""
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {
            "guest": [GUEST_ID], "host": [HOST_ID, SECOND.party_id], "arbiter": [HOST_ID],
        },
        "job_parameters": {"common": {"task_cores": 1, **common}},
        "component_parameters": {"common": parameters},
    }  # fmt: skip


def begun(files: Path, site: Site, launch: int = 0) -> None:
    """Wait until a launch of the rounds is at work at a site."""
    name = f"{site.key}.{launch}"
    wait_for((files / name).is_file, f"{name} to begin", within_s=90)


def go_on(files: Path) -> None:
    (files / "stop").touch()


def shown(party: Party, job_id: str) -> dict[str, str]:
    """Return the status of each site's part of the rounds, as a party shows it."""
    tasks = party.client.job(job_id).tasks
    return {t.site: t.status for t in tasks if t.component == "rounds_0"}


def fate_statuses(three: Three, job_id: str) -> Json:
    """Return what FATE's clients read of the rounds at the second host."""
    asked = {"job_id": job_id, "component_name": "rounds_0", "role": "host", "party_id": 10001}
    (row,) = three.second.post("/v1/job/task/query", asked)["data"]
    return {name: row[name] for name in ("f_status", "f_party_status")}


def ends_well(three: Three, job_id: str, **expected: str) -> None:
    """Check that a job succeeds everywhere, and how each site's rounds ended; else success."""
    assert set(three.ends(job_id).values()) == {"success"}
    for site in ALL:
        status = expected.get(site.key.replace("-", "_"), "success")
        assert shown(three.guest, job_id)[site.key] == status
        assert shown(three.of(site), job_id)[site.key] == status


def test_a_host_whose_executor_was_killed_comes_back_in_the_same_attempt(
    three: Three, tmp_path: Path
) -> None:
    job_id = submit(three, tmp_path)
    for site in ALL:
        begun(tmp_path, site)
    os.kill(three.second.wait_executor(job_id, component="rounds_0", site=SECOND), signal.SIGKILL)
    begun(tmp_path, SECOND, launch=1)
    assert json.loads((tmp_path / "host-10001.1").read_text()) == {"min": 2, "rejoin": True}
    go_on(tmp_path)
    ends_well(three, job_id)
    assert three.second.client.summary(job_id, "rounds_0", site=SECOND) == {"launch": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "arbiter-10000.0", "guest-9999.0", "host-10000.0", "host-10001.0", "host-10001.1", "stop",
    ]  # fmt: skip


@pytest.mark.heavy
def test_a_host_whose_server_was_away_past_its_lease_comes_back(
    three: Three, tmp_path: Path
) -> None:
    job_id = submit(three, tmp_path)
    for site in ALL:
        begun(tmp_path, site)
    three.second.kill()
    wait_for(lambda: shown(three.guest, job_id)["host-10001"] == "pass", "the host to be left out")
    three.second.start().wait_ready()
    begun(tmp_path, SECOND, launch=1)
    go_on(tmp_path)
    ends_well(three, job_id)


@pytest.mark.heavy
def test_without_rejoin_an_absent_host_passes_and_its_job_succeeds(
    three: Three, tmp_path: Path
) -> None:
    job_id = submit(three, tmp_path, rejoin=False)
    for site in ALL:
        begun(tmp_path, site)
    os.kill(three.second.wait_executor(job_id, component="rounds_0", site=SECOND), signal.SIGKILL)
    wait_for(lambda: shown(three.guest, job_id)["host-10001"] == "pass", "the host to be left out")
    go_on(tmp_path)
    ends_well(three, job_id, host_10001="pass")
    assert fate_statuses(three, job_id) == {"f_status": "success", "f_party_status": "pass"}
    (away,) = three.guest.client.explain(job_id).absences
    assert (away.site, away.until_ms) == ("host-10001", None)
    three.guest.client.rerun(job_id, components=["rounds_0"], force=True)
    ends_well(three, job_id)


@pytest.mark.heavy
def test_a_rerun_goes_on_without_a_host_that_is_down(three: Three, tmp_path: Path) -> None:
    job_id = submit(three, tmp_path)
    go_on(tmp_path)
    ends_well(three, job_id)
    three.second.stop()
    three.guest.client.rerun(job_id, components=["rounds_0"], force=True)
    wait_for(
        lambda: three.guest.client.job(job_id).status == "success", "the rerun to end", within_s=90
    )
    assert shown(three.guest, job_id)["host-10001"] == "pass"
    three.second.start().wait_ready()
    ends_well(three, job_id, host_10001="pass")


@pytest.mark.heavy
def test_a_host_that_is_down_at_the_submit_comes_later(three: Three, tmp_path: Path) -> None:
    three.second.stop()
    job_id = submit(three, tmp_path)
    begun(tmp_path, GUEST)
    three.second.start().wait_ready()
    begun(tmp_path, SECOND, launch=1)
    go_on(tmp_path)
    ends_well(three, job_id)


@pytest.mark.heavy
def test_an_arbiter_whose_executor_was_killed_is_started_again(
    three: Three, tmp_path: Path
) -> None:
    job_id = submit(three, tmp_path)
    for site in ALL:
        begun(tmp_path, site)
    os.kill(three.host.wait_executor(job_id, component="rounds_0", site=ARBITER), signal.SIGKILL)
    begun(tmp_path, ARBITER, launch=1)
    go_on(tmp_path)
    ends_well(three, job_id)


@pytest.mark.heavy
def test_rounds_wait_for_an_arbiter_whose_server_was_away_past_its_lease(
    three: Three, tmp_path: Path
) -> None:
    """A host of the same party comes back with it, and `explain` says afterwards who was away."""
    job_id = submit(three, tmp_path)
    for site in ALL:
        begun(tmp_path, site)
    three.host.kill()
    for site in (HOST, ARBITER):
        wait_for(
            lambda site=site: shown(three.guest, job_id)[site.key] == "pass", f"{site} to be absent"
        )
    three.host.start().wait_ready()
    for site in (HOST, ARBITER):
        begun(tmp_path, site, launch=1)
    go_on(tmp_path)
    ends_well(three, job_id)
    absences = three.guest.client.explain(job_id).absences
    assert {one.site for one in absences} == {HOST.key, ARBITER.key}
    assert all(one.until_ms is not None and one.reason for one in absences)


@pytest.mark.heavy
def test_too_few_parties_end_the_job_with_the_reason(three: Three, tmp_path: Path) -> None:
    job_id = submit(three, tmp_path, least=3)
    for site in ALL:
        begun(tmp_path, site)
    os.kill(three.second.wait_executor(job_id, component="rounds_0", site=SECOND), signal.SIGKILL)
    assert set(three.ends(job_id).values()) == {"failed"}
    reason = three.guest.client.job(job_id).reason
    assert reason is not None
    assert reason.code == "TooFewParties"
    assert reason.message.startswith("2 of 3 parties needed are left: host 10001 is lost")


# --- a real training ------------------------------------------------------------------------------


def training(rounds: int) -> tuple[Json, Json]:
    """Return a job that trains HomoLR on the rows of all parties."""
    out = {"data": ["data"]}
    dsl: Json = {
        "components": {
            "reader_0": {"module": "Reader", "output": out},
            "data_transform_0": {
                "module": "DataTransform",
                "input": {"data": {"data": ["reader_0.data"]}},
                "output": {**out, "model": ["model"]},
            },
            "homo_lr_0": {
                "module": "HomoLR",
                "input": {"data": {"train_data": ["data_transform_0.data"]}},
                "output": {**out, "model": ["model"]},
            },
        }
    }
    conf = conf_of(
        {
            "reader_0": {"table": {"namespace": "experiment", "name": "rows"}},
            "data_transform_0": {"with_label": True, "label_name": "y"},
            "homo_lr_0": {"max_iter": rounds, "early_stop": "diff", "tol": 0.0},
        },
        elastic={"min_parties": 2, "round_deadline_s": 10, "last_call_s": 1},
    )
    return dsl, conf


@pytest.mark.heavy
@pytest.mark.parametrize("victim", [SECOND, ARBITER], ids=str)
def test_a_training_outlives_an_executor_and_takes_its_next_one(
    three: Three, tmp_path: Path, victim: Site
) -> None:
    """It is killed in the middle of the rounds."""
    header, *rows = (DATA / "breast_hetero_guest.csv").read_text().splitlines()
    for part, party in enumerate(three.all):
        path = tmp_path / f"{part}.csv"
        path.write_text("\n".join([header, *rows[part::3]]))
        assert party.upload(path, "rows", drop=True).succeeded
    job_id = three.guest.client.submit(*training(150)).job_id
    pid = three.of(victim).wait_executor(job_id, component="homo_lr_0", site=victim)
    wait_for(lambda: progress(three, job_id) > 0.1, "some rounds", within_s=90)
    os.kill(pid, signal.SIGKILL)
    ends = three.ends(job_id, within_s=200)
    assert set(ends.values()) == {"success"}, three.guest.client.job(job_id)
    tasks = {t.site: t.status for t in three.guest.client.job(job_id).tasks
             if t.component == "homo_lr_0"}  # fmt: skip
    assert tasks == dict.fromkeys((s.key for s in ALL), "success")


def progress(three: Three, job_id: str) -> float:
    tasks = three.guest.client.job(job_id).tasks
    return max((t.progress or 0 for t in tasks if t.component == "homo_lr_0"), default=0)


@pytest.mark.heavy
def test_a_frozen_host_is_left_out_once_the_others_have_ended(three: Three, tmp_path: Path) -> None:
    job_id = submit(three, tmp_path, round_deadline_s=3)
    for site in ALL:
        begun(tmp_path, site)
    frozen = three.second.wait_executor(job_id, component="rounds_0", site=SECOND)
    os.kill(frozen, signal.SIGSTOP)
    go_on(tmp_path)
    ends_well(three, job_id, host_10001="pass")
