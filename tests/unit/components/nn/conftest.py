"""Loads what PyTorch imports at its first step, so that no run's time limit counts it."""

from __future__ import annotations

import importlib.util

import pytest


@pytest.fixture(scope="session", autouse=True)
def _first_step() -> None:
    if importlib.util.find_spec("torch") is not None:
        import torch

        torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).step()
