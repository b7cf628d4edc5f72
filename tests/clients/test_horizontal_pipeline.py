"""Horizontal components, driven by the unmodified `pipeline` SDK of fate-client 1.11.3."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from tests.clients.conftest import Deployment
from tests.clients.horizontal_pipelines import PREPARED, ROWS, homo_nn_job, homo_tables

Json = dict[str, Any]

MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"


@pytest.fixture(scope="module")
def homo(deployment: Deployment) -> Deployment:
    """Give servers on which each party has rows with the same columns."""
    parties = (deployment.pair.guest, deployment.pair.host)
    for party, name, text in zip(parties, ("guest", "host"), homo_tables(), strict=True):
        client = deployment.client.at(party.url)
        path = client.cwd / f"homo_{name}.csv"
        path.write_text(text, encoding="utf-8")
        conf = {
            "file": str(path), "head": 1, "partition": 4, "work_mode": 0,
            "namespace": "experiment", "table_name": path.stem,
        }  # fmt: skip
        words = ("data", "upload", "-c", client.file("upload.json", conf), "--drop")
        answer = client.flow(*words)
        assert answer["retcode"] == 0, answer
        assert deployment.wait(client, answer["jobId"], role="local")["f_status"] == "success"
    return deployment


def pooled(column: int) -> Any:
    """Return a column of all parties' rows; the first is the id."""
    rows = [line.split(",") for text in homo_tables() for line in text.splitlines()[1:]]
    return np.array([float(row[column]) for row in rows])


def test_rows_of_two_parties_are_split_cut_and_coded_in_one_job(homo: Deployment) -> None:
    seen = homo.guest.python(PREPARED, timeout_s=150.0)
    found, tables = seen["found"], seen["tables"]

    counts = found["homo_data_split_0"]["data_split_count_info"]
    assert counts["original"] == ROWS
    assert sorted(table["rows"] for table in tables["homo_data_split_0"]) == sorted(
        counts[part] for part in ("train", "validate", "test")
    )

    binned = found["homo_feature_binning_0"]
    assert binned["colour"] == [1.0, 2.0, 3.0, 4.0]
    for column, name in enumerate(("x0", "x1", "x2"), start=2):
        values = np.sort(pooled(column))
        exact = values[-(-np.arange(1, 6) * len(values) // 5) - 1]
        step = (values[-1] - values[0]) / 1000
        assert binned[name] == pytest.approx(exact.tolist(), abs=step)
        ranks = values.searchsorted(found["homo_feature_binning_1"][name], "right")
        assert ranks.tolist() == (-(-np.arange(1, 6) * len(values) // 5)).tolist()
    assert seen["binned"]["binningResult"]["binningResult"]["x0"]["splitPoints"] == binned["x0"]
    assert tables["homo_feature_binning_2"] == tables["homo_feature_binning_0"]

    coded = tables["homo_one_hot_0"][0]["columns"]
    assert coded[:2] == ["id", "y"]
    assert {f"x0_{n}" for n in range(5)} <= set(coded)
    assert tables["homo_one_hot_1"][0]["columns"][5:] == [f"colour_{n}" for n in (1, 2, 3, 4)]
    assert tables["homo_one_hot_2"][0]["columns"][5:] == [f"colour_{n}" for n in (1, 2, 3)]


@pytest.mark.heavy
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the extra nn")
def test_a_network_is_trained_as_the_sdk_sends_it_and_predicts(homo: Deployment) -> None:
    job_id = homo.trained(*homo_nn_job(epochs=20))
    client = homo.guest
    about = ("-j", job_id, "-r", "guest", "-p", 9999)
    measured = client.ok("component", "get-summary", *about, "-cpn", "evaluation_0")
    assert measured["homo_nn_0"]["train"]["auc"] > 0.97
    learnt = client.ok("component", "get-summary", *about, "-cpn", "homo_nn_0")
    assert len(learnt["loss_history"]) == 20
    assert set(learnt["metrics_summary"]) == {"train", "validate"}
    model = client.flow("component", "output-model", *about, "-cpn", "homo_nn_0")
    assert model["data"]["epochIdx"] == 20
    loss = client.ok("tracking", "metric-all", *about, "-cpn", "homo_nn_0")["train"]["loss"]["data"]
    assert [loss[0][1], loss[-1][1]] == [learnt["loss_history"][0], learnt["loss_history"][-1]]

    which = ("--model-id", MODEL_ID, "--model-version", job_id)
    listed = "reader_0,data_transform_0,homo_nn_0"
    version = client.ok("model", "deploy", *which, "--cpn-list", listed)["model_version"]
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "job_parameters": {
            "common": {"job_type": "predict", "model_id": MODEL_ID, "model_version": version}
        },
        "component_parameters": {
            "role": {
                role: {"0": {"reader_0": {"table": {"name": name, "namespace": "experiment"}}}}
                for role, name in (("guest", "homo_guest"), ("host", "homo_host"))
            }
        },
    }
    answer = client.flow("job", "submit", "-c", client.file("predict.json", conf))
    assert answer["retcode"] == 0, answer
    assert homo.wait(client, answer["jobId"])["f_status"] == "success"


pytestmark = pytest.mark.timeout(600)
