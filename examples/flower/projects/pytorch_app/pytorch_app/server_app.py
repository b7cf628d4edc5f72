"""The ServerApp: FedAdam; the final network is saved as PyTorch does it."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAdam

from pytorch_app import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Train for some rounds."""
    initial = ArrayRecord(task.new_model(context.run_config).state_dict())
    result = FedAdam(eta=0.05).start(
        grid=grid,
        initial_arrays=initial,
        num_rounds=context.run_config["num-server-rounds"],
    )
    torch.save(result.arrays.to_torch_state_dict(), "final_model.pt")
