"""Boosted trees of a guest and two hosts, each with a server of its own, over TLS."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.site import Site
from tests.e2e.jobs import NAMES, Json
from tests.e2e.pipelines import (
    Step,
    attempts,
    pipeline,
    reader,
    stored_steps,
    submitted,
    transform,
)
from tests.e2e.servers import (
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    make_certificates,
    running,
    wait_for,
)
from tests.e2e.three import IDS, SECOND, Three, three_places

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ONE_HOST_AUC = 0.995448  #: of these trees if one host has all columns of both
TREES: Json = {
    "num_trees": 3,
    "tree_param": {"max_depth": 3},
    "learning_rate": 0.3,
    "bin_num": 32,
    "n_iter_no_change": False,
    "encrypt_param": {"key_length": 1024},
    "callback_param": {"callbacks": ["ModelCheckpoint"]},
}


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    folder = tmp_path_factory.mktemp("three")
    tls = make_certificates(folder / "tls", *IDS)
    places = three_places(folder, settings=QUICK, tls=tls, hosts_meet=False)
    with running(*places) as parties:
        three = Three(*parties)
        upload(three, folder)
        yield three
        three.wait_idle()


def upload(three: Three, folder: Path) -> None:
    """Upload the breast-cancer tables; each host has half of the host's columns."""
    assert three.guest.upload(DATA / f"{NAMES[GUEST_ID]}.csv", NAMES[GUEST_ID]).succeeded
    with (DATA / f"{NAMES[HOST_ID]}.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    half = 1 + (len(rows[0]) - 1) // 2
    for party, columns in ((three.host, slice(1, half)), (three.second, slice(half, None))):
        path = folder / f"{party.place.party_id}.csv"
        path.write_text("\n".join(",".join([row[0], *row[columns]]) for row in rows))
        assert party.upload(path, NAMES[HOST_ID]).succeeded


def submit(three: Three, trees: Json) -> Json:
    steps = {
        "reader_0": reader(),
        "data_transform_0": transform(),
        "intersection_0": Step(
            module="Intersection",
            data={"data": ["data_transform_0.data"]},
            params={"intersect_method": "rsa", "rsa_params": {"key_length": 1024}},
        ),
        "trees_0": Step(
            module="HeteroSecureBoost", data={"train_data": ["intersection_0.data"]}, params=trees
        ),
        "evaluation_0": Step(module="Evaluation", data={"data": ["trees_0.data"]}),
    }
    dsl, conf = pipeline(steps)
    conf["role"]["host"].append(int(SECOND.party_id))
    hosts = conf["component_parameters"]["role"]["host"]
    hosts["1"] = hosts["0"]
    conf["job_parameters"]["common"].update(auto_retries=1, auto_retry_delay=0)
    return submitted(three, dsl, conf)


def trees_of(three: Three, job_id: str, site: Site) -> list[Any]:
    model = three.of(site).client.model(job_id, "trees_0", site=site)
    assert model is not None
    return list(model.param["trees"])


def test_two_hosts_train_trees_over_tls_though_one_of_them_is_killed(three: Three) -> None:
    """The AUC is that of one host with all columns: the same splits win, whoever has the column."""
    job = submit(three, TREES)
    wait_for(lambda: stored_steps(three, job, "trees_0", SECOND), "a whole tree")
    victim = three.second.wait_executor(job["job_id"], component="trees_0", site=SECOND)
    os.kill(victim, signal.SIGKILL)
    job_id = job["job_id"]
    ends = three.ends(job_id)
    assert (len(ends), set(ends.values())) == (3, {"success"}), three.views(job_id)
    assert attempts(three, job_id)["trees_0"] == 1
    measured = three.guest.client.summary(job_id, "evaluation_0", site=GUEST)["trees_0"]["train"]
    assert measured["auc"] == pytest.approx(ONE_HOST_AUC, abs=1e-6)
    assert {len(trees_of(three, job_id, site)) for site in (GUEST, HOST, SECOND)} == {3}


def test_trees_go_on_when_the_server_of_a_host_is_killed_and_started_again(three: Three) -> None:
    """Its executor lives on, and waits for the server as the other parties do."""
    job = submit(three, {**TREES, "num_trees": 6})
    wait_for(lambda: stored_steps(three, job, "trees_0", SECOND), "a whole tree")
    three.second.kill()
    three.second.start().wait_ready()
    ends = three.ends(job["job_id"])
    assert (len(ends), set(ends.values())) == (3, {"success"}), three.views(job["job_id"])
    assert {len(trees_of(three, job["job_id"], site)) for site in (GUEST, HOST, SECOND)} == {6}
