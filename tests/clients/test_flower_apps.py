"""Flower projects as jobs of real servers: ServerApp at the arbiter, ClientApps at the others."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.error import FedflowError
from fedflow.flower.arrays import arrays_from_json
from tests.clients.flower import PYTHON
from tests.e2e.jobs import Json
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    QUICK,
    ROOT,
    Pair,
    Party,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FEATURES = 10
ROUNDS = 15
PATIENT = "FedAvg(min_train_nodes=3, min_evaluate_nodes=3, min_available_nodes=3)"

RAISING = """
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    raise RuntimeError("the ServerApp of this test fails")
"""


COUNTING_SERVER = """
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    messages = [Message(RecordDict(), node, "query") for node in grid.get_node_ids()]
    replies = grid.send_and_receive(messages)
    print("asked", len(messages))
    with open("total.txt", "w") as file:
        file.write(str(sum(reply.content["counts"]["rows"] for reply in replies)))
"""
COUNTING_CLIENT = """
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
app = ClientApp()

@app.query()
def query(message, context):
    first, step = (context.node_config[key] for key in ("partition-id", "num-partitions"))
    content = RecordDict({"counts": MetricRecord({"rows": len(range(first, 9, step))})})
    return Message(content, reply_to=message)
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Servers outlive a test here; `Party.close` sees that nothing is left."""
    return


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give two servers with a provider of Flower apps and halves of one table."""
    place = tmp_path_factory.mktemp("p")
    provider = place / "flower"
    shutil.copytree(ROOT / "examples" / "flower", provider, ignore=shutil.ignore_patterns("test*"))
    manifest = (provider / "provider.toml").read_text().replace(".venv/bin/python", str(PYTHON))
    (provider / "provider.toml").write_text(manifest)
    raising = provider / "projects" / "raising_app"
    shutil.copytree(provider / "projects" / "numpy_app", raising)
    (raising / "numpy_app" / "server_app.py").write_text(RAISING)
    patient = provider / "projects" / "patient_app"
    shutil.copytree(provider / "projects" / "numpy_app", patient)
    code = (patient / "numpy_app" / "server_app.py").read_text()
    (patient / "numpy_app" / "server_app.py").write_text(code.replace("FedAvg()", PATIENT))
    counting = provider / "projects" / "counting_app"
    shutil.copytree(provider / "projects" / "numpy_app", counting)
    (counting / "numpy_app" / "server_app.py").write_text(COUNTING_SERVER)
    (counting / "numpy_app" / "client_app.py").write_text(COUNTING_CLIENT)
    settings = {**QUICK, "FEDFLOW__PROVIDER__ALLOWED_FOLDERS": json.dumps([str(place)])}
    with two_parties(tmp_path_factory.mktemp("s"), settings=settings) as pair:
        head, *rows = (DATA / "breast_hetero_guest.csv").read_text().splitlines()
        for number, party in enumerate(pair.all):
            half = place / f"{number}.csv"
            half.write_text("\n".join([head, *rows[number::2]]) + "\n")
            assert party.upload(half, "breast").succeeded
            party.client.providers.register(str(provider))
        yield pair
        pair.wait_idle()


@pytest.fixture
def pair(servers: Pair) -> Pair:
    return servers


def flower_job(**parameters: Any) -> tuple[Json, Json]:
    """Return a job of a Flower project over the parties' tables."""
    steps: Json = {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "flower_0": {
            "module": "FlowerApp",
            "input": {"data": {"train_data": ["data_transform_0.data"]}},
            "output": {"data": ["arrays"], "model": ["model"]},
        },
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID], "host": [HOST_ID], "arbiter": [HOST_ID]},
        "component_parameters": {
            "common": {
                "reader_0": {"table": {"name": "breast", "namespace": "experiment"}},
                "data_transform_0": {"with_label": True, "label_name": "y"},
                "flower_0": {
                    "app": "numpy_app",
                    "run_config": {"features": FEATURES},
                    **parameters,
                },
            }
        },
    }
    return {"components": steps}, conf


def ended(pair: Pair, job_id: str, status: str) -> None:
    assert set(pair.ends(job_id).values()) == {status}, pair.guest.client.job(job_id)


def test_a_flower_project_is_a_job_with_metrics_and_a_model(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*flower_job()).job_id
    ended(pair, job_id, "success")
    server = pair.host.client
    summary = server.summary(job_id, "flower_0", site=ARBITER)
    assert (summary["rounds"], summary["replies"], summary["errors"]) == (3, 12, 0)
    assert summary["metrics"]["validate.eval_acc"] > 0.9
    found = {(m.namespace, m.name): m for m in server.metrics(job_id, "flower_0", site=ARBITER)}
    assert [step for step, _ in found["train", "train_loss"].points] == [1, 2, 3]
    own = {m.name for m in pair.guest.client.metrics(job_id, "flower_0", site=GUEST)}
    assert {"train_loss", "eval_loss", "eval_acc"} <= own
    model = server.model(job_id, "flower_0", site=ARBITER)
    assert model is not None
    weights, bias = arrays_of(model)
    assert weights.shape == (FEATURES,)
    assert abs(weights).max() > 0
    assert bias.shape == (1,)
    (table,) = server.output_data(job_id, "flower_0", site=ARBITER)
    assert (table.name, table.total) == ("arrays", 2)
    assert pair.guest.client.model(job_id, "flower_0", site=GUEST) is None


def test_a_server_app_that_raises_fails_the_job_and_its_party_has_the_traceback(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*flower_job(app="raising_app")).job_id
    ended(pair, job_id, "failed")
    found = list((pair.host.home / "logs" / job_id).rglob("*"))
    text = "".join(path.read_text(errors="replace") for path in found if path.is_file())
    assert "RuntimeError: the ServerApp of this test fails" in text
    own = [path for path in (pair.guest.home / "logs" / job_id).rglob("*") if path.is_file()]
    assert not any("of this test fails" in path.read_text(errors="replace") for path in own)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"run_config": {"epochs": 1}}, "'epochs' is not in [tool.flwr.app.config]"),
        ({"app": "../numpy_app"}, "is no name of a folder"),
        ({"app": "absent_app"}, "there is no folder 'absent_app'"),
        ({"server_role": "guest"}, "the job must have no arbiter"),
    ],
)
def test_what_a_project_has_not_is_refused_at_the_submit(
    pair: Pair, parameters: Json, said: str
) -> None:
    with pytest.raises(FedflowError) as raised:
        pair.guest.client.submit(*flower_job(**parameters))
    assert said in str(raised.value)


def test_an_app_without_a_table_writes_files_that_its_summary_names(pair: Pair) -> None:
    dsl, conf = flower_job()
    dsl["components"] = {"flower_0": {"module": "FlowerApp"}}
    conf["component_parameters"] = {"common": {"flower_0": {"app": "counting_app"}}}
    job_id = pair.guest.client.submit(dsl, conf).job_id
    ended(pair, job_id, "success")
    summary = pair.host.client.summary(job_id, "flower_0", site=ARBITER)
    assert summary["files"] == {"total.txt": 1}
    assert Path(summary["folder"], "total.txt").read_text() == "9"
    assert "files" not in pair.guest.client.summary(job_id, "flower_0", site=GUEST)
    assert printed(pair.host, job_id) == ["asked 2"]


def printed(party: Party, job_id: str) -> list[str]:
    """Return what the ServerApp printed."""
    (file,) = (party.home / "logs" / job_id / "arbiter").rglob("flower_0/*/stdout.log")
    return file.read_text().splitlines()


def killed_in_mid_run(pair: Pair, *, rejoin: bool, **parameters: Any) -> str:
    """Return an elastic job with three ClientApps, whose host's was killed after a round."""
    slow = {"features": FEATURES, "local-epochs": 10_000, "num-server-rounds": ROUNDS}
    dsl, conf = flower_job(run_config=slow, **parameters)
    conf["role"]["host"] = [HOST_ID, GUEST_ID]  # the guest's server has a ClientApp more
    elastic = {"min_parties": 2, "rejoin": rejoin}
    conf["job_parameters"] = {"common": {"elastic": elastic, "task_cores": 1}}
    job_id = pair.guest.client.submit(dsl, conf).job_id
    pid = pair.host.wait_executor(job_id, component="flower_0", site=HOST)
    wait_for(lambda: pair.host.client.metrics(job_id, "flower_0", site=ARBITER), "a first round")
    os.kill(pid, signal.SIGKILL)
    ended(pair, job_id, "success")
    return job_id


def test_a_client_that_is_killed_is_left_out_of_an_elastic_job(pair: Pair) -> None:
    job_id = killed_in_mid_run(pair, rejoin=False)
    summary = pair.host.client.summary(job_id, "flower_0", site=ARBITER)
    assert list(summary["left"]) == [HOST.key]
    assert summary["rounds"] == ROUNDS


def test_a_client_that_is_killed_is_launched_again_and_takes_part(pair: Pair) -> None:
    """The strategy of this app waits until it has three nodes."""
    job_id = killed_in_mid_run(pair, rejoin=True, app="patient_app")
    summary = pair.host.client.summary(job_id, "flower_0", site=ARBITER)
    assert list(summary["left"]) == [HOST.key]
    own = pair.host.client.metrics(job_id, "flower_0", site=HOST)
    steps = [step for metric in own if metric.name == "train_loss" for step, _ in metric.points]
    assert max(steps) == ROUNDS


def arrays_of(model: Any) -> list[Any]:
    """Return the arrays of a stored model."""
    return list(arrays_from_json(model.param["arrays"]).values())
