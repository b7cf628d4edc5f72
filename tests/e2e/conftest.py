"""What all end-to-end tests share: two idle servers, whose logs appear with a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.servers import LIVE, Pair


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Servers outlive a test here; `Party.close` and `Pair.wait_idle` see that nothing is left."""
    return


@pytest.fixture
def pair(servers: Pair) -> Iterator[Pair]:
    """The two servers of a module's fixture `servers`; each test leaves them idle."""
    yield servers
    servers.wait_idle()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the end of every server's log to the report of a failed test."""
    report = yield
    if report.failed:
        for party in list(LIVE):
            report.sections.append((f"log of {party.home.name}", party.tail()))
            if party.process is None and report.when == "setup":
                LIVE.remove(party)
    return report
