"""What apps use of Flower's message API: strategies, mods, lifespans, and the Grid itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="run with .flower/bin/python, which bin/flower makes")

import numpy as np

from fedflow.testing.run import outputs_of
from tests.flower.projects import ARBITER, CLIENTS, final_arrays, ran, run, write_project

SERVER = """
import json
import logging
import time

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.common import log
from flwr.common.logger import update_console_handler
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import *
from flwr.serverapp.strategy import FedAvg, Result

app = ServerApp()
"""
CLIENT = """
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import *

app = ClientApp()

@app.evaluate()
def evaluate(message, context):
    metrics = MetricRecord({"acc": 1.0, "each": [0.5, 0.25], "num-examples": 2})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
"""
TRAIN = """
@app.train()
def train(message, context):
    arrays = [one + 1 for one in message.content["arrays"].to_numpy_ndarrays()]
    metrics = MetricRecord({"loss": 0.5, "num-examples": 2})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
"""
START = """
@app.main()
def main(grid, context):
    strategy = {strategy}
    strategy.start(grid, ArrayRecord([np.zeros(2), np.zeros((2, 2))]), num_rounds=2)
"""


@pytest.fixture(autouse=True)
def _works_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "strategy",
    [
        "FedAvg(fraction_train=0.5, min_train_nodes=1, min_evaluate_nodes=1)",
        "FedAvgM(server_momentum=0.9)",
        "FedProx(proximal_mu=0.1)",
        "FedAdagrad()",
        "FedAdam()",
        "FedYogi()",
        "FedMedian()",
        "FedTrimmedAvg(beta=0.1)",
        "Krum()",
        "MultiKrum(num_nodes_to_select=2)",
        "QFedAvg(client_learning_rate=0.1, train_loss_key='loss')",
    ],
)
def test_each_strategy_has_metrics_of_its_rounds_and_arrays(strategy: str, tmp_path: Path) -> None:
    name = "strategy_" + strategy.partition("(")[0].lower()
    app = write_project(
        tmp_path / "projects", name,
        server=SERVER + START.format(strategy=strategy), client=CLIENT + TRAIN,
    )  # fmt: skip
    outputs = ran(tmp_path, app)
    summary = outputs[ARBITER].summary
    assert (summary["rounds"], summary["errors"]) == (2, 0)
    assert {"train.loss", "validate.acc"} <= summary["metrics"].keys()
    arrays = final_arrays(outputs)
    assert [array.shape for array in arrays.values()] == [(2,), (2, 2)]
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_bulyan_has_as_many_nodes_as_it_needs(tmp_path: Path) -> None:
    app = write_project(
        tmp_path / "projects", "bulyan",
        server=SERVER + START.format(strategy="Bulyan(num_malicious_nodes=0)"),
        client=CLIENT + TRAIN,
    )  # fmt: skip
    assert np.allclose(final_arrays(ran(tmp_path, app))["0"], 2.0)


@pytest.mark.parametrize(
    ("strategy", "mod"),
    [
        ("ServerSideFixedClipping(FedAvg(), 0.0, 10.0, 3)", ""),
        ("ServerSideAdaptiveClipping(FedAvg(), 0.1, 3)", ""),
        ("ClientSideFixedClipping(FedAvg(), 0.0, 10.0, 3)", "fixedclipping_mod"),
        ("ClientSideAdaptiveClipping(FedAvg(), 0.1, 3)", "adaptiveclipping_mod"),
    ],
)
def test_differential_privacy_of_flower_goes_with_its_mods(
    strategy: str, mod: str, tmp_path: Path
) -> None:
    app = write_project(
        tmp_path / "projects", f"dp_{strategy.partition('(')[0].lower()}",
        server=SERVER + START.format(strategy=f"DifferentialPrivacy{strategy}"),
        client=(CLIENT + TRAIN).replace("@app.train()", f"@app.train(mods=[{mod}])"),
    )  # fmt: skip
    outputs = ran(tmp_path, app)
    assert outputs[ARBITER].summary["errors"] == 0
    assert final_arrays(outputs)["1"].shape == (2, 2)


def test_a_strategy_of_the_app_itself_evaluates_at_the_server_and_writes_files(
    tmp_path: Path,
) -> None:
    """It makes its own `Result`, as apps do that keep the best model."""
    server = """
class Own(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        config["lr"] = config["lr"] * 0.5
        return super().configure_train(server_round, arrays, config, grid)

    def start(self, grid, arrays, num_rounds, config):
        result = Result()
        for step in range(1, num_rounds + 1):
            messages = self.configure_train(step, arrays, config, grid)
            replies = grid.send_and_receive(messages=messages, timeout=30)
            arrays, metrics = self.aggregate_train(step, replies)
            result.arrays, result.train_metrics_clientapp[step] = arrays, metrics
            measured = MetricRecord({"norm": float(np.abs(arrays["0"].numpy()).sum())})
            result.evaluate_metrics_serverapp[step] = measured
        with open("results.json", "w") as file:
            json.dump({n: dict(m) for n, m in result.train_metrics_clientapp.items()}, file)
        return result

@app.main()
def main(grid, context):
    Own(weighted_by_key="rows").start(
        grid, ArrayRecord([np.zeros(2)]), context.run_config["rounds"], ConfigRecord({"lr": 1.0})
    )
"""
    client = """
@app.train()
def train(message, context):
    rate = message.content["config"]["lr"]
    arrays = [message.content["arrays"]["0"].numpy() + rate]
    metrics = MetricRecord({"rate": rate, "rows": 1})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    return Message(content, reply_to=message)
"""
    app = write_project(
        tmp_path / "projects", "own_strategy", server=SERVER + server, client=CLIENT + client
    )
    results = run(tmp_path / "projects", tmp_path, app=app, run_config={"rounds": 3})
    metrics = results[ARBITER].metrics
    assert metrics["train", "rate"].points == [(1, 0.5), (2, 0.25), (3, 0.125)]
    norms = [value for _, value in metrics["server", "norm"].points]
    assert norms == pytest.approx([1.0, 1.5, 1.75])
    assert final_arrays(outputs_of(results))["0"] == pytest.approx([0.875, 0.875])
    assert (tmp_path / "results.json").exists()


def test_an_evaluation_at_the_server_begins_with_round_0(tmp_path: Path) -> None:
    server = """
def measure(server_round, arrays):
    return MetricRecord({"sum": float(arrays["0"].numpy().sum())})

@app.main()
def main(grid, context):
    FedAvg().start(
        grid=grid, initial_arrays=ArrayRecord([np.zeros(2)]), num_rounds=2, timeout=60,
        train_config=ConfigRecord({"lr": 0.1}), evaluate_config=ConfigRecord({"batch": 8}),
        evaluate_fn=measure,
    )
"""
    app = write_project(
        tmp_path / "projects", "server_evaluation", server=SERVER + server, client=CLIENT + TRAIN
    )
    found = run(tmp_path / "projects", tmp_path, app=app)[ARBITER].metrics
    assert found["server", "sum"].points == [(0, 0.0), (1, 2.0), (2, 4.0)]


def test_an_app_over_the_bare_grid_asks_nodes_without_a_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It pushes and pulls, counts in its state, and prints; its clients bring their own data."""
    server = """
@app.lifespan()
def lifespan(context):
    log(logging.INFO, "opened")
    yield
    log(logging.INFO, "closed")

@app.main()
def main(grid, context):
    update_console_handler(logging.DEBUG, True, True)
    log(logging.INFO, "run %s of %s", context.run_id, grid.run.run_id)
    assert [node.node_id for node in grid.get_nodes()] == list(grid.get_node_ids())
    found = []
    for step in range(2):
        content = RecordDict({"ask": ConfigRecord({"columns": ["a", "b"], "raw": b"bytes"})})
        messages = [
            Message(content, message_type=MessageType.QUERY, dst_node_id=node, group_id=str(step))
            for node in grid.get_node_ids()
        ]
        ids = set(grid.push_messages(messages))
        while ids:
            for reply in grid.pull_messages(ids):
                ids.remove(reply.metadata.reply_to_message_id)
                found.append((reply.metadata.src_node_id, dict(reply.content["said"])))
            time.sleep(0.01)
    old = grid.create_message(RecordDict(), "query.other", list(grid.get_node_ids())[0], "2")
    (reply,) = grid.send_and_receive([old])
    assert reply.has_error()
    with open("found.json", "w") as file:
        json.dump(found, file)
"""
    client = """
@app.lifespan()
def lifespan(context):
    yield

def counted(message, context, call):
    seen = context.state.config_records.setdefault("seen", ConfigRecord({"calls": 0}))
    seen["calls"] += 1
    return call(message, context)

@app.query(mods=[counted, message_size_mod, arrays_size_mod])
def query(message, context):
    own = np.random.default_rng(context.node_config["partition-id"]).normal(size=9)
    said = ConfigRecord({
        "calls": context.state["seen"]["calls"],
        "asked": list(message.content["ask"]["columns"]),
        "raw": message.content["ask"]["raw"].decode(),
        "node": context.node_id == message.metadata.dst_node_id,
        "run": context.run_id == message.metadata.run_id,
        "path": "data-path" in context.node_config,
        "of": context.node_config["num-partitions"],
        "mean": float(own.mean()),
    })
    return Message(RecordDict({"said": said}), reply_to=message)
"""
    app = write_project(
        tmp_path / "projects", "bare_grid", server=SERVER + server, client=CLIENT + client
    )
    with caplog.at_level(logging.INFO):
        outputs = ran(tmp_path, app, port=None)
    assert outputs[ARBITER].model is None
    assert outputs[ARBITER].summary["replies"] == 6
    found = (tmp_path / "found.json").read_text()
    assert found.count('"node": true, "run": true, "path": false, "of": 3') == 6
    assert [found.count(f'"calls": {n}') for n in (1, 2, 3)] == [3, 3, 0]
    lines = [record.getMessage() for record in caplog.records if record.name == "flwr"]
    assert lines.index("opened") < lines.index("closed")
    assert all(outputs[site].summary["messages"] in (2, 3) for site in CLIENTS)


def test_metrics_that_are_lists_are_aggregated_and_no_curve(tmp_path: Path) -> None:
    app = write_project(
        tmp_path / "projects", "listed",
        server=SERVER + START.format(strategy="FedAvg()"), client=CLIENT + TRAIN,
    )  # fmt: skip
    found = run(tmp_path / "projects", tmp_path, app=app)[ARBITER].metrics
    assert set(found) == {("train", "loss"), ("validate", "acc")}
