"""What tests of the board share: a seeded server, a browser, visitors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.board.places import (
    Place,
    Visitor,
    browser_program,
    check_accessible,
    serving,
    shoot,
    visiting,
)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Server and browser outlive a test here; `serving` sees that nothing of the server is left."""
    return


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server without jobs; tests put into its store what they look at."""
    with serving(tmp_path_factory.mktemp("board")) as place:
        yield place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, or FEDFLOW_TEST_BROWSER, without a window."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=browser_program(),
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        )
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Return a function that makes a new visitor of a place; each is checked at the end."""
    with ExitStack() as stack:
        yield lambda place, **options: stack.enter_context(visiting(browser, place.url, **options))


@pytest.fixture
def visitor(visit: Callable[..., Visitor], seeded: Place) -> Visitor:
    """Return a visitor of the seeded server."""
    return visit(seeded)


@pytest.fixture
def axe() -> Callable[[Page], None]:
    """Return the check for accessibility."""
    return check_accessible


@pytest.fixture
def shot(visitor: Visitor) -> Callable[[Page, str], None]:
    """Return what keeps a picture of a page under a name."""
    return lambda page, name: shoot(visitor, page, name)
