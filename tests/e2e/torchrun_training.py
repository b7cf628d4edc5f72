"""A tiny data-parallel training for torchrun; what each worker does goes to a file as JSON lines.

`python torchrun_training.py FOLDER`: it saves a checkpoint after each step, goes on from it in the
next round, and ends when FOLDER/stop is there, at all workers after the same step.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main(folder: Path) -> None:
    """Train until told to stop."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    checkpoint, step = folder / "checkpoint.pt", 0
    if checkpoint.exists():
        held = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(held["model"])
        step = held["step"]
    truth = torch.tensor([[1.0], [-2.0], [3.0], [0.5]])
    draws = torch.Generator().manual_seed(1_000 * step + rank)
    stop = torch.zeros(1)
    while not stop.item():
        rows = torch.randn(32, 4, generator=draws)
        loss = torch.nn.functional.mse_loss(model(rows), rows @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0:
            torch.save({"model": model.state_dict(), "step": step}, folder / "part")
            (folder / "part").rename(checkpoint)
            stop[0] = float((folder / "stop").exists())
        dist.broadcast(stop, 0)
        told = {"pid": os.getpid(), "rank": rank, "size": size, "step": step, "loss": loss.item()}
        told["name"] = os.environ["MEMBER"]
        with (folder / "told").open("a") as file:
            file.write(json.dumps(told) + "\n")
        time.sleep(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
