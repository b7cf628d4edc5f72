"""Threads play the sites of a run, which have a process each at a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _threads_change_only_where_they_wait() -> Iterator[None]:
    """Numpy evaluates the headers of arrays, which two threads of CPython 3.11 cannot do at once
    (CPython issue 106905).
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(1.0)
    yield
    sys.setswitchinterval(before)
