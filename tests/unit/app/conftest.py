"""The servers that the tests of the use cases run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.app import fakes


@pytest.fixture
def host(tmp_path: Path) -> fakes.OneServer:
    """The server of party 10000, a participant."""
    return fakes.participant(tmp_path)


@pytest.fixture
def guest(tmp_path: Path) -> fakes.OneServer:
    """The server of party 9999, the initiator."""
    return fakes.initiator(tmp_path)


@pytest.fixture
def alone(tmp_path: Path) -> fakes.OneServer:
    """A standalone server."""
    return fakes.standalone(tmp_path)
