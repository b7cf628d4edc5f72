"""The ServerApp: federated averaging with components of Flower's older API."""

from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

from sklearn_app import task


def mean(metrics):
    """Return the mean of each metric, weighted by examples."""
    total = sum(count for count, _ in metrics)
    return {name: sum(n * m[name] for n, m in metrics) / total for name in metrics[0][1]}


def server_fn(context: Context):
    """Return what the server runs with."""
    initial = task.parameters_of(task.new_model(context.run_config))
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters(initial),
        fit_metrics_aggregation_fn=mean,
        evaluate_metrics_aggregation_fn=mean,
    )
    config = ServerConfig(num_rounds=context.run_config["num-server-rounds"])
    return ServerAppComponents(strategy=strategy, config=config)


app = ServerApp(server_fn=server_fn)
