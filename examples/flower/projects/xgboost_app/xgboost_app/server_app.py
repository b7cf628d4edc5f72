"""The ServerApp: bagging of trees."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedXgbBagging

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds, from no trees."""
    FedXgbBagging().start(
        grid=grid,
        initial_arrays=ArrayRecord([np.array([])]),
        num_rounds=context.run_config["num-server-rounds"],
    )
