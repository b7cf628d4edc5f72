"""What all end-to-end tests share: two idle servers, whose logs appear with a failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.jobs import upload_data
from tests.e2e.servers import LIVE, QUICK, Pair, two_parties


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Servers outlive a test here; `Party.close` and `Pair.wait_idle` see that nothing is left."""
    return


@pytest.fixture(scope="session")
def quick_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Return two `QUICK` servers with the example's data, for files that leave them as they were.

    Those are on one line of `longest.txt`, so that one worker starts servers for all of them.
    """
    with two_parties(tmp_path_factory.mktemp("quick"), settings=QUICK) as pair:
        upload_data(pair)
        yield pair


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
