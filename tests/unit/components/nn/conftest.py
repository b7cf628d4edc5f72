"""PyTorch is loaded before the first run of a network."""

from __future__ import annotations

import importlib.util

import pytest

from tests.unit.components.homo_parties import load_torch


@pytest.fixture(scope="session", autouse=True)
def _loaded() -> None:
    if importlib.util.find_spec("torch") is not None:
        load_torch()
