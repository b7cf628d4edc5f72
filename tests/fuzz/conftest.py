"""The server lives as long as the module's tests; they see for themselves that nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """`running` checks that its server left nothing behind."""
    return
