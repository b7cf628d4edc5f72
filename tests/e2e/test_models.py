"""Models between real servers: kept when a job ends, exported and imported, loaded, stored away."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.e2e.servers import Pair, Party, free_ports, running, standalone, two_parties
from tests.e2e.servers import Place as ServerPlace

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

Json = dict[str, Any]
MODEL_ID = "guest-9999#host-10000#model"
SITES = (("guest", "9999"), ("host", "10000"))


def conf(**parameters: Json) -> Json:
    """Return a conf of guest and host; each reads `numbers`."""
    table = {"reader_0": {"table": {"namespace": "experiment", "name": "numbers"}}}
    return {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": {"task_cores": 1}},
        "component_parameters": {
            "common": {"data_transform_0": {"with_label": False}, **parameters},
            "role": {"guest": {"0": table}, "host": {"0": table}},
        },
    }


TRANSFORM: Json = {
    "module": "DataTransform",
    "input": {"data": {"data": ["reader_0.data"]}},
    "output": {"data": ["data"], "model": ["model"]},
}
READER: Json = {"module": "Reader", "output": {"data": ["data"]}}
TRAIN: Json = {"components": {"reader_0": READER, "data_transform_0": TRANSFORM}}


@dataclass(frozen=True)
class Trained:
    """Servers that have trained a model."""

    pair: Pair
    version: str

    def share(self, role: str, party_id: str) -> Json:
        return {
            "model_id": MODEL_ID, "model_version": self.version, "role": role,
            "party_id": party_id,
        }  # fmt: skip


def upload(pair: Pair, folder: Path) -> None:
    path = folder / "numbers.csv"
    path.write_text("id,x0,x1\n" + "".join(f"{i},{i / 2},{-i}\n" for i in range(30)))
    for party in pair.all:
        assert party.upload(path, "numbers", drop=True).succeeded


def run(pair: Pair, dsl: Json, conf_: Json) -> str:
    """Run a job to its good end and return its id."""
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf_})
    assert answer["retcode"] == 0, answer
    job_id = str(answer["jobId"])
    assert set(pair.ends(job_id).values()) == {"success"}, pair.views(job_id)
    return job_id


@pytest.fixture(scope="module", params=["federated", "standalone"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp(request.param)
    settings = {
        "FEDFLOW__MODEL_STORE_ADDRESS__STORAGE": "folder",
        "FEDFLOW__MODEL_STORE_ADDRESS__FOLDER": str(folder / "shared"),
    }
    open_servers = two_parties if request.param == "federated" else standalone
    with open_servers(folder, settings=settings) as pair:
        upload(pair, folder)
        yield Trained(pair, run(pair, TRAIN, conf()))


@pytest.fixture(scope="module")
def fresh(trained: Trained, tmp_path_factory: Any) -> Iterator[Party]:
    """A further server that hosts every party and knows nothing."""
    http, grpc = free_ports(2)
    place = ServerPlace(
        home=tmp_path_factory.mktemp("fresh"), party_id=None, http_port=http, grpc_port=grpc,
        settings=trained.pair.guest.place.settings,
    )  # fmt: skip
    with running(place) as (party,):
        yield party


def server_of(trained: Trained, party_id: str) -> Party:
    return trained.pair.guest if party_id == "9999" else trained.pair.host


def test_every_site_keeps_its_share_when_the_job_has_ended(trained: Trained) -> None:
    for role, party_id in SITES:
        party = server_of(trained, party_id)
        [row] = party.post("/v1/model/query", {**trained.share(role, party_id)})["data"]
        assert row["f_train_dsl"] == TRAIN
        assert (row["f_parent"], row["f_imported"], row["f_job_id"]) == (True, 0, trained.version)
        contents = party.post(
            "/v1/model/transfer",
            {"namespace": f"{role}#{party_id}#{MODEL_ID}", "name": trained.version},
        )["data"]
        param = json.loads(base64.b64decode(contents["data_transform_0.model:DataTransformParam"]))
        assert param["header"] == ["x0", "x1"]
    missing = trained.pair.guest.post("/v1/model/query", {"model_version": "1"})
    assert (missing["retcode"], missing["data"]) == (100, [])


def test_an_export_can_be_imported_into_a_fresh_server(trained: Trained, fresh: Party) -> None:
    for role, party_id in SITES:
        share = trained.share(role, party_id)
        exported = requests.get(
            f"{server_of(trained, party_id).url}/v1/model/export", json=share, timeout=30
        )
        assert exported.status_code == 200
        name = exported.headers["Content-Disposition"].partition("filename=")[2]
        assert name == f"{role}#{party_id}#{MODEL_ID}_{trained.version}.zip"
        for status in (200, 409):
            answer = requests.post(
                f"{fresh.url}/v1/model/import", data={**share, "force_update": "0"},
                files={"file": (name, exported.content)}, timeout=30,
            )  # fmt: skip
            assert answer.status_code == status, answer.text
        [mine] = server_of(trained, party_id).post("/v1/model/query", share)["data"]
        [theirs] = fresh.post("/v1/model/query", share)["data"]
        own = ("f_imported", "f_archive_sha256", "f_archive_from_ip", "f_create_time",
               "f_create_date", "f_update_time", "f_update_date")  # fmt: skip
        assert {k: v for k, v in mine.items() if k not in own} == {
            k: v for k, v in theirs.items() if k not in own
        }
    again = requests.get(f"{fresh.url}/v1/model/export", json=share, timeout=30)
    assert again.status_code == 200


def test_a_loaded_model_is_used_by_a_later_job(trained: Trained) -> None:
    loader = {"module": "ModelLoader", "output": {"model": ["model"]}}
    transform = {
        **TRANSFORM,
        "input": {**TRANSFORM["input"], "model": ["model_loader_0.model"]},
    }
    dsl = {
        "components": {
            "reader_0": READER, "model_loader_0": loader, "data_transform_0": transform,
        }
    }  # fmt: skip
    named = {
        "model_id": MODEL_ID, "model_version": trained.version,
        "component_name": "data_transform_0",
    }  # fmt: skip
    run(trained.pair, dsl, conf(model_loader_0=named))
    wrong = conf(model_loader_0={**named, "component_name": "reader_0"})
    refused = trained.pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": wrong})
    assert refused["retcode"] == 103
    assert "has no model of component reader_0" in refused["retmsg"]


def test_a_model_is_stored_away_and_restored_by_local_jobs(trained: Trained, fresh: Party) -> None:
    version = run(trained.pair, TRAIN, conf())
    share = {**trained.share("guest", "9999"), "model_version": version}
    stored = trained.pair.guest.post("/v1/model/store", share)
    assert stored["retcode"] == 0, stored
    assert trained.pair.guest.client.wait(stored["jobId"], timeout_s=120).succeeded
    row = trained.pair.guest.post("/v1/job/query", {"job_id": stored["jobId"]})["data"][0]
    assert (row["f_role"], row["f_party_id"]) == ("local", "0")
    restored = fresh.post("/v1/model/restore", share)
    assert restored["retcode"] == 0, restored
    assert fresh.client.wait(restored["jobId"], timeout_s=120).succeeded
    [found] = fresh.post("/v1/model/query", share)["data"]
    assert found["f_imported"] == 1
    absent = fresh.post("/v1/model/restore", {**share, "model_version": "1"})
    assert absent["retcode"] == 100


def test_nobody_may_submit_the_modules_of_the_store_himself(trained: Trained) -> None:
    dsl = {"components": {"model_store_0": {"module": "ModelStore"}}}
    local = {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": 0},
        "role": {"local": [0]},
        "component_parameters": {
            "role": {"local": {"0": {"model_store_0": trained.share("guest", "9999")}}}
        },
    }
    answer = trained.pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": local})
    assert answer["retcode"] == 103
    assert "/v1/model/store" in json.dumps(answer)


def test_a_model_survives_a_server_that_is_killed(trained: Trained) -> None:
    guest = trained.pair.guest
    guest.restart(after_s=0.0)
    share = trained.share("guest", "9999")
    answer = requests.get(f"{guest.url}/v1/model/export", json=share, timeout=30)
    assert answer.status_code == 200
