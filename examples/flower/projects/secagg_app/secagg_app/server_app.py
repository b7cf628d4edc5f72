"""The ServerApp: a workflow whose training rounds aggregate masked updates."""

from flwr.common import Context, ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp

from secagg_app import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    config = context.run_config
    strategy = FedAvg(
        initial_parameters=ndarrays_to_parameters(task.new_model(config["features"])),
        min_fit_clients=3,
        min_available_clients=3,
    )
    legacy = LegacyContext(
        context=context,
        config=ServerConfig(num_rounds=config["num-server-rounds"]),
        strategy=strategy,
    )
    training = SecAggPlusWorkflow(
        num_shares=config["num-shares"],
        reconstruction_threshold=config["reconstruction-threshold"],
        max_weight=1000,
    )
    DefaultWorkflow(fit_workflow=training)(grid, legacy)
