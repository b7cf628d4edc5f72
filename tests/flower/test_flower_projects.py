"""The example projects and bad ones, run by the component at all their sites in one process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("flwr", reason="run with .flower/bin/python, which bin/flower makes")

import numpy as np

from fedflow.flower import project as projects
from fedflow.flower.arrays import arrays_from_json, arrays_from_table
from fedflow.flower.component import flower_app
from fedflow.sdk import (
    BadParameter,
    ComponentFailed,
    Outputs,
    Site,
    check_params,
    spec_of,
)
from fedflow.testing.run import outputs_of
from tests.flower.projects import ARBITER, CLIENTS, COLUMNS, run, table

EXAMPLES = Path(__file__).parents[2] / "examples" / "flower" / "projects"


@pytest.fixture(autouse=True)
def _works_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps write files where they run, as a worker process does."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("app", "needs", "metric", "arrays"),
    [
        ("numpy_app", "numpy", "validate.eval_acc", 2),
        ("sklearn_app", "sklearn", "validate.accuracy", 2),
        ("secagg_app", "numpy", "validate.loss", 2),
        ("pytorch_app", "torch._dynamo", "validate.eval_acc", 4),
        ("xgboost_app", "xgboost", "validate.auc", 1),
    ],
)
def test_an_example_project_trains(
    app: str, needs: str, metric: str, arrays: int, tmp_path: Path
) -> None:
    pytest.importorskip(needs, reason=f"{needs} is not installed in this environment")
    config = {} if app == "xgboost_app" else {"features": 3}
    results = run(EXAMPLES, tmp_path, app=app, run_config=config)
    outputs = outputs_of(results)
    summary = outputs[ARBITER].summary
    assert summary["errors"] == summary["late"] == 0
    value = summary["metrics"][metric]
    assert value < 0.6 if metric.endswith("loss") else value > 0.8
    model = outputs[ARBITER].model
    assert model is not None
    assert len(arrays_from_json(model.param["arrays"])) == arrays
    namespace, name = metric.split(".")
    rounds = [step for step, _ in results[ARBITER].metrics[namespace, name].points]
    assert rounds == list(range(1, summary["rounds"] + 1))
    assert all(outputs[site].model is None for site in CLIENTS)
    assert all(outputs[site].summary["messages"] > 0 for site in CLIENTS)


def test_federated_averaging_is_the_weighted_mean_of_what_clients_learnt(tmp_path: Path) -> None:
    outputs = outputs_of(
        run(EXAMPLES, tmp_path, app="numpy_app", run_config={"features": 3, "num-server-rounds": 1})
    )
    found = arrays_from_json(model_of(outputs)["arrays"])
    expected = np.zeros(4)
    for number in range(3):
        rows = table(number).read()
        x = np.stack([rows.column(name).to_numpy() for name in COLUMNS], axis=1)
        y = rows.column("y").to_numpy()
        own = np.zeros(4)
        for _ in range(5):
            error = 1 / (1 + np.exp(-(x @ own[:3] + own[3]))) - y
            own -= 0.5 * np.append(x.T @ error, error.sum()) / len(y)
        expected += own / 3
    assert np.allclose(np.append(found["0"], found["1"]), expected, rtol=1e-9)


def model_of(outputs: Mapping[Site, Outputs]) -> Mapping[str, Any]:
    model = outputs[ARBITER].model
    assert model is not None
    return model.param


def test_the_guest_may_run_the_server_app(tmp_path: Path) -> None:
    results = run(
        EXAMPLES, tmp_path, sites=CLIENTS, app="numpy_app", server_role="guest",
        run_config={"features": 3},
    )  # fmt: skip
    outputs = outputs_of(results)
    assert outputs[CLIENTS[0]].summary["replies"] == 12
    assert outputs[CLIENTS[0]].model is not None


PYPROJECT = """
[project]
name = "{name}"
version = "1"
[tool.flwr.app.components]
serverapp = "{name}.apps:server"
clientapp = "{name}.apps:client"
[tool.flwr.app.config]
rate = 0.5
"""
APPS = """
import json
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg, FedProx, FedAdam
from flwr.clientapp import ClientApp
import numpy as np
server, client = ServerApp(), ClientApp()

@server.main()
def main(grid, context):
    {main}

@client.train()
def train(message, context):
    {train}

@client.evaluate()
def evaluate(message, context):
    metrics = MetricRecord({{"acc": 1.0, "num-examples": 1}})
    return Message(RecordDict({{"metrics": metrics}}), reply_to=message)

@client.query()
def query(message, context):
    config = ConfigRecord({{"said": json.dumps(dict(context.node_config))}})
    return Message(RecordDict({{"config": config}}), reply_to=message)
"""
AVERAGE = "FedAvg().start(grid, ArrayRecord([np.zeros(2)]), num_rounds=2)"
LEARN = """arrays = ArrayRecord([message.content["arrays"].to_numpy_ndarrays()[0] + 1])
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)"""


@pytest.fixture
def write(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Return what writes a project whose functions have these bodies, and returns its folder."""

    def made(*, main: str = AVERAGE, train: str = LEARN) -> str:
        name = f"project_{abs(hash(request.node.name))}"
        folder = tmp_path / "projects" / name
        (folder / name).mkdir(parents=True)
        (folder / "pyproject.toml").write_text(PYPROJECT.format(name=name))
        (folder / name / "apps.py").write_text(APPS.format(main=main, train=train))
        return name

    return made


@pytest.mark.parametrize("strategy", ["FedProx(proximal_mu=0.1)", "FedAdam()", "FedAvg()"])
def test_strategies_of_flower_run(strategy: str, write: Any, tmp_path: Path) -> None:
    app = write(main=AVERAGE.replace("FedAvg()", strategy))
    outputs = outputs_of(run(tmp_path / "projects", tmp_path, app=app))
    assert outputs[ARBITER].summary["metrics"] == {"validate.acc": 1.0}
    assert len(model_of(outputs)["arrays"]) == 1


@pytest.mark.parametrize("data_format", ["csv", "parquet", "npz"])
def test_each_client_finds_its_table_as_a_file(
    data_format: str, write: Any, tmp_path: Path
) -> None:
    """The client sends its node config and the sum of its features to this test's ServerApp."""
    main = """messages = [Message(RecordDict({}), node, "query") for node in grid.get_node_ids()]
    replies = grid.send_and_receive(messages)
    said = [json.loads(reply.content["config"]["said"]) for reply in replies]
    with open("said.json", "w") as file:
        json.dump(said, file)"""
    app = write(main=main)
    outputs_of(
        run(
            tmp_path / "projects", tmp_path, app=app, data_format=data_format, port="data",
            by_site={CLIENTS[2]: {"node_config": {"num-partitions": 30, "colour": "red"}}},
        )
    )  # fmt: skip
    import json

    configs = json.loads((tmp_path / "said.json").read_text())
    assert [one["partition-id"] for one in configs] == [0, 1, 2]
    assert [one["num-partitions"] for one in configs] == [3, 3, 30]
    assert configs[2]["colour"] == "red"
    for number, config in enumerate(configs):
        assert (config["id-column"], config["label-column"]) == ("id", "y")
        assert read_file(Path(config["data-path"])) == pytest.approx(features_of(number))


def features_of(number: int) -> list[float]:
    rows = table(number).read()
    return [float(rows.column(name).to_numpy().sum()) for name in COLUMNS]


def read_file(path: Path) -> list[float]:
    """Return the sum of each feature of a file that an app was given."""
    if path.suffix == ".npz":
        with np.load(path) as arrays:
            assert arrays["columns"].tolist() == list(COLUMNS)
            assert arrays["y"].sum() > 0
            assert len(arrays["ids"]) == 120
            return [float(value) for value in arrays["x"].sum(axis=0)]
    from pyarrow import csv, parquet

    rows = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    assert rows.column_names == ["id", "y", *COLUMNS]
    return [float(rows.column(name).to_numpy().sum()) for name in COLUMNS]


def test_an_app_without_a_strategy_has_the_arrays_that_it_sent_last(
    write: Any, tmp_path: Path
) -> None:
    main = """for value in (1.0, 2.0):
        content = RecordDict({"arrays": ArrayRecord([np.full(3, value)])})
        grid.send_and_receive([Message(content, n, "train") for n in grid.get_node_ids()])"""
    outputs = outputs_of(run(tmp_path / "projects", tmp_path, app=write(main=main)))
    assert arrays_from_json(model_of(outputs)["arrays"])["0"].tolist() == [2.0, 2.0, 2.0]


def test_a_server_app_that_raises_fails_with_its_own_error(write: Any, tmp_path: Path) -> None:
    app = write(main='raise RuntimeError("the ServerApp of this test")')
    results = run(tmp_path / "projects", tmp_path, app=app)
    assert isinstance(results[ARBITER].error, RuntimeError)
    assert all("ended" in str(r.error) or r.error for r in results.values())


def test_client_apps_that_all_raise_fail_the_run(write: Any, tmp_path: Path) -> None:
    app = write(train='raise ValueError("no")', main=AVERAGE.replace("FedAvg()", NO_EVALUATION))
    error = run(tmp_path / "projects", tmp_path, app=app)[ARBITER].error
    assert isinstance(error, ComponentFailed)
    assert "none of 6 messages had a reply without an error" in str(error)


NO_EVALUATION = "FedAvg(fraction_evaluate=0.0)"


def test_a_client_app_that_raises_at_one_site_is_left_out(write: Any, tmp_path: Path) -> None:
    train = f'if context.node_config["partition-id"] == 1:\n        raise ValueError\n    {LEARN}'
    outputs = outputs_of(run(tmp_path / "projects", tmp_path, app=write(train=train)))
    assert outputs[ARBITER].summary["errors"] == 2
    assert outputs[CLIENTS[1]].summary["errors"] == {"ValueError": 2}
    assert arrays_from_json(model_of(outputs)["arrays"])["0"].tolist() == [2.0, 2.0]


def test_arrays_that_are_too_large_for_a_model_are_in_the_output_table(
    write: Any, tmp_path: Path
) -> None:
    main = AVERAGE.replace("np.zeros(2)", "np.zeros((3, 900_000)), np.array(8.0)")
    main = main.replace("num_rounds=2", "num_rounds=1").replace("FedAvg()", NO_EVALUATION)
    learn = LEARN.replace("[0] + 1", "[0] + 1, np.array(8.0)")
    results = run(
        tmp_path / "projects", tmp_path, app=write(main=main, train=learn), output_names=("arrays",)
    )
    outputs = outputs_of(results)
    assert outputs[ARBITER].model is None
    assert [warning.code for warning in results[ARBITER].warnings] == ["ModelTooLarge"]
    (table,) = outputs[ARBITER].data
    assert table is not None
    found = arrays_from_table(table)
    assert found["0"].shape == (3, 900_000)
    assert np.allclose(found["0"], 1.0)
    assert found["1"].shape == ()
    assert np.isclose(found["1"], 8.0)
    assert all(outputs[site].data == () for site in CLIENTS)


def test_an_app_that_is_something_else_says_so(write: Any, tmp_path: Path) -> None:
    app = write()
    file = tmp_path / "projects" / app / "pyproject.toml"
    file.write_text(file.read_text().replace(":server", ":client"))
    error = run(tmp_path / "projects", tmp_path, app=app)[ARBITER].error
    assert "serverapp of the project is a ClientApp, not a ServerApp" in str(error)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"app": "nothing"}, "app: there is no folder 'nothing'"),
        ({"app": "../projects/numpy_app"}, "app: .* is no name of a folder"),
        ({"run_config": {"round": 1}}, "run_config: 'round' is not in .*known are features"),
        ({"run_config": {"features": "3"}}, "run_config: 'features' is a int"),
        ({"data_format": "xlsx"}, "data_format"),
        ({"min_nodes": 0}, "min_nodes"),
        ({"round_timeout_s": 0}, "round_timeout_s"),
        ({"node_config": {"a": [1]}}, "node_config"),
        ({"something": 1}, "unknown field"),
    ],
)
def test_wrong_parameters_are_refused_with_their_reason(params: Any, said: str) -> None:
    kind = spec_of(flower_app(EXAMPLES)).params
    with pytest.raises(BadParameter, match=said.replace(": ", ".*", 1)):
        check_params(kind, {"app": "numpy_app", **params}, path="$")


def test_a_project_without_a_pyproject_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    kind = spec_of(flower_app(tmp_path)).params
    with pytest.raises(BadParameter, match=r"holds no pyproject\.toml"):
        check_params(kind, {"app": "bare"}, path="$")


def test_another_flwr_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = spec_of(flower_app(EXAMPLES)).params
    monkeypatch.setattr(projects, "version", lambda _: "1.37.0")
    said = r"flwr 1\.37\.0 is installed in .*tested is 1\.38 to 1\.42"
    with pytest.raises(BadParameter, match=said):
        check_params(kind, {"app": "numpy_app"}, path="$")
    with pytest.raises(ValueError, match=said):  # when its provider is registered
        flower_app(EXAMPLES)


@pytest.mark.parametrize(
    ("sites", "params", "said"),
    [
        (CLIENTS, {}, "ServerApp runs at the arbiter, and the job has 0"),
        ((*CLIENTS, ARBITER), {"server_role": "guest"}, "the job must have no arbiter"),
        ((ARBITER,), {}, "needs sites that run its ClientApp"),
        ((*CLIENTS, ARBITER), {"min_nodes": 4}, "4 are more than the 3 ClientApps"),
    ],
)
def test_roles_that_do_not_fit_are_refused(
    sites: tuple[Site, ...], params: Any, said: str, tmp_path: Path
) -> None:
    results = run(EXAMPLES, tmp_path, sites=sites, app="numpy_app", **params)
    assert all(said in str(result.error) for result in results.values())


def test_the_examples_are_complete_projects(tmp_path: Path) -> None:
    for folder in EXAMPLES.iterdir():
        if folder.is_dir():
            shutil.copytree(folder, tmp_path / folder.name)
            assert projects.read_project(tmp_path, folder.name).serverapp
