"""What apps use of Flower's older API: clients, strategies of parameters, workflows, SecAgg+."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="run with .flower/bin/python, which bin/flower makes")

import numpy as np

from fedflow.testing.run import outputs_of
from tests.flower.projects import ARBITER, CLIENTS, final_arrays, ran, run, write_project

SERVER = """
from flwr.common import *
from flwr.server import *
from flwr.server import Driver, LegacyContext, Server, ServerApp, ServerConfig
from flwr.server.strategy import *
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
import numpy as np

def mean(metrics):
    total = sum(count for count, _ in metrics)
    return {name: sum(n * m[name] for n, m in metrics) / total for name in metrics[0][1]}
"""
CLIENT = """
from flwr.client import Client, ClientApp, NumPyClient
from flwr.client.mod import *
from flwr.common import *
import numpy as np

class Own(NumPyClient):
    def __init__(self, context):
        self.context = context

    def get_parameters(self, config):
        return [np.full(2, 4.0)]

    def get_properties(self, config):
        return {"cores": 2}

    def fit(self, parameters, config):
        seen = self.context.state.config_records.setdefault("seen", ConfigRecord({"fits": 0}))
        seen["fits"] += 1
        metrics = {"fits": seen["fits"], "lr": float(config.get("lr", 0.0))}
        return [one + 1.0 for one in parameters], 2, metrics

    def evaluate(self, parameters, config):
        return float(parameters[0].sum()), 2, {"accuracy": 0.5}

def client_fn(context: Context):
    return Own(context).to_client()

app = ClientApp(client_fn)
"""
STRATEGY = """
def server_fn(context):
    initial = ndarrays_to_parameters([np.zeros(2)])
    common = dict(
        initial_parameters=initial, fit_metrics_aggregation_fn=mean,
        evaluate_metrics_aggregation_fn=mean,
        on_fit_config_fn=lambda step: {{"lr": 1.0 / step}},
    )
    return ServerAppComponents(strategy={strategy}, config=ServerConfig(num_rounds=2))

app = ServerApp(server_fn=server_fn)
"""


@pytest.fixture(autouse=True)
def _works_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "strategy",
    [
        "FedAvg(**common, fraction_fit=0.5, min_fit_clients=1)",
        "FedProx(**common, proximal_mu=0.1)",
        "FedAdam(**common)",
        "FedYogi(**common)",
        "FedAvgM(**common, server_momentum=0.5)",
        "FedMedian(**common)",
        "FedTrimmedAvg(**common, beta=0.1)",
        "Krum(**common)",
        "DifferentialPrivacyServerSideFixedClipping(FedAvg(**common), 0.0, 10.0, 3)",
    ],
)
def test_each_strategy_has_metrics_of_its_rounds_and_arrays(strategy: str, tmp_path: Path) -> None:
    name = "older_" + strategy.partition("(")[0].lower()
    app = write_project(
        tmp_path / "projects", name,
        server=SERVER + STRATEGY.format(strategy=strategy), client=CLIENT,
    )  # fmt: skip
    results = run(tmp_path / "projects", tmp_path, app=app)
    metrics = results[ARBITER].metrics
    assert metrics["train", "lr"].points == [(1, 1.0), (2, 0.5)]
    assert metrics["validate", "accuracy"].points == [(1, 0.5), (2, 0.5)]
    assert [step for step, _ in metrics["validate", "loss"].points] == [1, 2]
    arrays = final_arrays(outputs_of(results))
    assert [array.shape for array in arrays.values()] == [(2,)]
    assert np.isfinite(arrays["0"]).all()


def test_an_app_without_initial_parameters_asks_a_client_for_them(tmp_path: Path) -> None:
    server = """
def measure(step, parameters, config):
    return float(parameters[0].sum()), {"count": len(parameters)}

app = ServerApp(config=ServerConfig(num_rounds=2), strategy=FedAvg(evaluate_fn=measure))
"""
    app = write_project(tmp_path / "projects", "asks", server=SERVER + server, client=CLIENT)
    results = run(tmp_path / "projects", tmp_path, app=app)
    assert results[ARBITER].metrics["server", "loss"].points == [(0, 8.0), (1, 10.0), (2, 12.0)]
    assert final_arrays(outputs_of(results))["0"].tolist() == [6.0, 6.0]
    own = results[CLIENTS[0]].metrics
    assert [value for _, value in own["train", "fits"].points] == [1, 2]


def test_a_strategy_over_texts_and_a_server_of_the_app_itself(tmp_path: Path) -> None:
    """It samples with a client manager, asks for properties, and returns texts as parameters."""
    server = """
class Histogram(Strategy):
    def initialize_parameters(self, client_manager):
        return None

    def configure_fit(self, server_round, parameters, client_manager):
        clients = client_manager.sample(num_clients=3, min_num_clients=3)
        ins = GetPropertiesIns({})
        self.cores = [c.get_properties(ins, 30.0, server_round).properties for c in clients]
        return [(client, FitIns(parameters, {})) for client in clients]

    def aggregate_fit(self, server_round, results, failures):
        sums = sum(parameters_to_ndarrays(one.parameters)[0] for _, one in results)
        return ndarrays_to_parameters(np.array(["sums:", *map(str, sums)])), {}

    def evaluate(self, server_round, parameters):
        texts = [str(one) for one in parameters_to_ndarrays(parameters)]
        if server_round == 0:
            return None
        return float(len(texts)), {"texts": texts, "cores": sum(c["cores"] for c in self.cores)}

    def configure_evaluate(self, server_round, parameters, client_manager):
        return []

    def aggregate_evaluate(self, server_round, results, failures):
        return None, {}

class Waiting(Server):
    def fit(self, num_rounds, timeout):
        self.client_manager().wait_for(3)
        return super().fit(num_rounds, timeout)

def server_fn(context):
    strategy = Histogram()
    manager = SimpleClientManager()
    return ServerAppComponents(
        server=Waiting(client_manager=manager, strategy=strategy),
        config=ServerConfig(num_rounds=1),
    )

app = ServerApp(server_fn=server_fn)
"""
    client = CLIENT.replace("[one + 1.0 for one in parameters]", "[np.arange(3)]")
    app = write_project(tmp_path / "projects", "texts", server=SERVER + server, client=client)
    results = run(tmp_path / "projects", tmp_path, app=app, port=None)
    arrays = final_arrays(outputs_of(results))
    assert [str(one) for one in arrays.values()] == ["sums:", "0", "3", "6"]
    assert results[ARBITER].metrics["server", "cores"].points == [(1, 6.0)]


WORKFLOW = """
class Watched(SecAggPlusWorkflow):
    def on_stage_complete(self, success, state):
        super().on_stage_complete(success, state)
        print(success, state.current_stage)

app = ServerApp()

@app.main()
def main(driver: Driver, context: Context):
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters([np.zeros(3)]), fit_metrics_aggregation_fn=mean,
        min_available_clients=3,
    )
    {wrap}
    legacy = LegacyContext(
        context=context, config=ServerConfig(num_rounds=2), strategy=strategy
    )
    training = {workflow}(
        num_shares=3, reconstruction_threshold=2, max_weight=10, clipping_range=8.0, timeout=10.0
    )
    DefaultWorkflow(fit_workflow=training)(driver, legacy)
"""
CLIPPED = "strategy = DifferentialPrivacyClientSideFixedClipping(strategy, 0.0, 1.0, 3)"


def secagg(workflow: str = "SecAggPlusWorkflow", wrap: str = "") -> str:
    return SERVER + WORKFLOW.format(workflow=workflow, wrap=wrap)


def masked(client: str, mods: str = "secaggplus_mod") -> str:
    return client.replace("ClientApp(client_fn)", f"ClientApp(client_fn=client_fn, mods=[{mods}])")


def test_secure_aggregation_is_the_mean_of_what_clients_learnt(tmp_path: Path) -> None:
    app = write_project(tmp_path / "projects", "secagg_all", server=secagg(), client=masked(CLIENT))
    outputs = ran(tmp_path, app)
    assert outputs[ARBITER].summary["errors"] == 0
    assert final_arrays(outputs)["0"] == pytest.approx(2.0, abs=1e-4)


def test_a_client_that_is_lost_in_a_secure_round_is_left_out_of_the_mean(tmp_path: Path) -> None:
    """It fails after its keys were shared, and before its masked vector is there."""
    failing = """
        if self.context.node_config["partition-id"] == 1 and seen["fits"] == 1:
            raise RuntimeError("lost")
        metrics ="""
    client = masked(CLIENT.replace("\n        metrics =", failing)).replace(
        "one + 1.0", 'one + 1.0 + self.context.node_config["partition-id"]'
    )
    app = write_project(
        tmp_path / "projects", "secagg_lost", server=secagg("Watched"), client=client
    )
    outputs = ran(tmp_path, app)
    assert outputs[CLIENTS[1]].summary["errors"] == {"RuntimeError": 1}
    first, second = (1 + 3) / 2, (1 + 2 + 3) / 3
    assert final_arrays(outputs)["0"] == pytest.approx(first + second, abs=1e-4)


def test_secure_aggregation_goes_with_clipping_at_the_clients(tmp_path: Path) -> None:
    app = write_project(
        tmp_path / "projects", "secagg_dp", server=secagg(wrap=CLIPPED),
        client=masked(CLIENT, "secaggplus_mod, fixedclipping_mod"),
    )  # fmt: skip
    outputs = ran(tmp_path, app)
    clipped = 2 / np.sqrt(3)  # two updates of norm 1
    assert final_arrays(outputs)["0"] == pytest.approx(clipped, abs=1e-4)


TREES = """
import xgboost as xgb
from flwr.client import Client, ClientApp
from flwr.common import *

class Trees(Client):
    def __init__(self, seed):
        draw = np.random.default_rng(seed)
        x = draw.normal(size=(200, 3))
        self.data = xgb.DMatrix(x, label=(x[:, 0] > 0).astype(int))
        self.params = {"objective": "binary:logistic", "eval_metric": "auc", "nthread": 1}

    def loaded(self, parameters):
        booster = xgb.Booster(params=self.params)
        booster.load_model(bytearray(parameters.tensors[0]))
        return booster

    def fit(self, ins):
        if not ins.parameters.tensors or not ins.parameters.tensors[0]:
            booster = xgb.train(self.params, self.data, num_boost_round=1)
        else:
            whole = self.loaded(ins.parameters)
            whole.update(self.data, whole.num_boosted_rounds())
            booster = whole[whole.num_boosted_rounds() - 1:]
        parameters = Parameters(tensor_type="", tensors=[bytes(booster.save_raw("json"))])
        return FitRes(Status(Code.OK, "OK"), parameters, self.data.num_row(), {})

    def evaluate(self, ins):
        text = self.loaded(ins.parameters).eval_set([(self.data, "own")])
        auc = float(text.rpartition(":")[2])
        return EvaluateRes(Status(Code.OK, "OK"), 0.0, self.data.num_row(), {"AUC": auc})

def client_fn(context: Context):
    return Trees(context.node_config["partition-id"])

app = ClientApp(client_fn=client_fn)
"""


@pytest.mark.skipif(importlib.util.find_spec("xgboost") is None, reason="xgboost is not installed")
def test_bagging_of_trees_sends_bytes_that_only_the_app_understands(tmp_path: Path) -> None:
    import xgboost

    server = """
def server_fn(context):
    strategy = FedXgbBagging(
        fraction_fit=1.0, evaluate_metrics_aggregation_fn=mean,
        initial_parameters=Parameters(tensor_type="", tensors=[b""]),
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=2))

app = ServerApp(server_fn=server_fn)
"""
    client = "import numpy as np\n" + TREES
    app = write_project(tmp_path / "projects", "older_trees", server=SERVER + server, client=client)
    results = run(tmp_path / "projects", tmp_path, app=app, port=None)
    assert results[ARBITER].metrics["validate", "AUC"].points[-1][1] > 0.95
    (model,) = final_arrays(outputs_of(results)).values()
    booster = xgboost.Booster()
    booster.load_model(bytearray(model.tobytes()))
    assert booster.num_boosted_rounds() == 6
