"""Jobs in the format of FATE's first releases between real servers: train, deploy, predict."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.jobs import NAMES, upload_data
from tests.e2e.servers import GUEST, GUEST_ID, HOST_ID, Pair, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

Json = dict[str, Any]

DSL: Json = {
    "components": {
        "dataio_0": {
            "module": "DataIO",
            "input": {"data": {"data": ["args.train_data"]}},
            "output": {"data": ["train"], "model": ["dataio"]},
            "need_deploy": True,
        },
        "intersection_0": {
            "module": "Intersection",
            "input": {"data": {"data": ["dataio_0.train"]}},
            "output": {"data": ["train"]},
        },
        "hetero_lr_0": {
            "module": "HeteroLR",
            "input": {"data": {"train_data": ["intersection_0.train"]}},
            "output": {"data": ["train"], "model": ["hetero_lr"]},
        },
        "evaluation_0": {
            "module": "Evaluation",
            "input": {"data": {"data": ["hetero_lr_0.train"]}},
        },
    }
}
ROLES: Json = {
    "initiator": {"role": "guest", "party_id": int(GUEST_ID)},
    "role": {"guest": [int(GUEST_ID)], "host": [int(HOST_ID)], "arbiter": [int(HOST_ID)]},
}


def data(key: str, party_id: str) -> Json:
    return {"args": {"data": {key: [{"name": NAMES[party_id], "namespace": "experiment"}]}}}


def train_conf() -> Json:
    guest = {"with_label": [True], "label_name": ["y"], "label_type": ["int"]}
    return {
        **ROLES,
        "job_parameters": {"work_mode": 1, "task_cores": 1},
        "role_parameters": {
            "guest": {**data("train_data", GUEST_ID), "dataio_0": guest},
            "host": {**data("train_data", HOST_ID), "dataio_0": {"with_label": [False]}},
        },
        "algorithm_parameters": {
            "hetero_lr_0": {
                "max_iter": 2,
                "batch_size": -1,
                "shuffle": False,
                "encrypt_param": {"method": "Paillier", "key_length": 1024},
            }
        },
    }


def predict_conf(model: Json) -> Json:
    return {
        **ROLES,
        "job_parameters": {"job_type": "predict", "task_cores": 1, **model},
        "role_parameters": {
            "guest": data("eval_data", GUEST_ID),
            "host": data("eval_data", HOST_ID),
        },
    }


def run(pair: Pair, dsl: Json, conf: Json) -> tuple[str, Json]:
    """Submit a job, wait for its good end, and return its id and model."""
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] == 0, answer
    job_id = answer["jobId"]
    assert set(pair.ends(job_id).values()) == {"success"}, pair.guest.client.job(job_id)
    return job_id, answer["data"]["model_info"]


def scores(pair: Pair, job_id: str, folder: Path) -> dict[str, float]:
    """Return the predicted score of each row by its id."""
    files = pair.guest.client.download_output(job_id, "hetero_lr_0", folder, site=GUEST)
    (path,) = [file for file in files if file.suffix == ".csv"]
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    at = header.index("predict_score")
    return {row[0]: float(row[at]) for row in rows}


def test_a_job_of_version_1_trains_and_its_model_predicts(tmp_path: Path) -> None:
    with two_parties(tmp_path / "servers") as pair:
        upload_data(pair)
        job_id, model = run(pair, DSL, train_conf())
        dependency = {"role": "guest", "party_id": GUEST_ID, "job_id": job_id}
        drawn = pair.guest.post("/v1/pipeline/dag/dependency", dependency)["data"]
        assert drawn["component_list"][:2] == ["reader_0", "dataio_0"]
        deployed = pair.guest.post("/v1/model/deploy", model)
        assert deployed["retcode"] == 0, deployed
        version = {key: deployed["data"][key] for key in ("model_id", "model_version")}
        asked = pair.guest.post("/v1/model/get/predict/dsl", version)["data"]
        assert list(asked["components"]) == [
            "reader_0",
            "dataio_0",
            "intersection_0",
            "hetero_lr_0",
        ]
        trained_scores = scores(pair, job_id, tmp_path / "trained")
        assert len(trained_scores) > 500
        for used in (version, model):  # a model of version 1 predicts without being deployed, too
            predicted, _ = run(pair, {}, predict_conf(used))
            folder = tmp_path / f"predicted-{predicted}"
            assert scores(pair, predicted, folder) == pytest.approx(trained_scores, abs=1e-6)
        pair.wait_idle()
