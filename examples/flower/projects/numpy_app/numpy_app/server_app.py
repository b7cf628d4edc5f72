"""The ServerApp: federated averaging."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from numpy_app import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds and print the result."""
    result = FedAvg().start(
        grid=grid,
        initial_arrays=ArrayRecord(task.new_model(context.run_config["features"])),
        num_rounds=context.run_config["num-server-rounds"],
    )
    print("weights:", result.arrays.to_numpy_ndarrays()[0][:3])
