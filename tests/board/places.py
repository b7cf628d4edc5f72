"""A real server of this process for tests of the board, and the browser that looks at it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psutil
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, Request

from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.app.services import Services
from fedflow.server.build import FedflowServer
from fedflow.server.configuration import parse_settings
from fedflow.web.context import built_of
from tests.support.executors import wait_until

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
"""The first is Debian's Chromium without its windows' own pages: half the work."""
WIDE = {"width": 1280, "height": 900}
NARROW = {"width": 390, "height": 844}
END_S = 60.0
AXE = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "resultTypes": ["violations"],
    "preload": False,  # it would copy sheets of shadow roots into inline ones: the policy refuses
}

_QUIET = re.compile(r"[Ss]tatus (?:of|Error Code) (401|403|404|409|5\d\d)|net::ERR_CONNECTION")


# --- the server -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Place:
    """A running server: where, and what is in it."""

    url: str
    home: Path
    server: FedflowServer

    @property
    def store(self) -> Store:
        """Return the store, to put records into it."""
        return self.server._store

    @property
    def services(self) -> Services:
        """Return the use cases."""
        app = self.server._http._app  # type: ignore[attr-defined]
        return built_of(app).services


@contextmanager
def serving(home: Path, settings: dict[str, Any] | None = None) -> Iterator[Place]:
    """Run a standalone server with the embedded database on ports that the kernel gives."""
    own = psutil.Process()
    before = {child.pid for child in own.children(recursive=True)}
    for folder in Folders(home).all():
        folder.mkdir(parents=True, exist_ok=True)
    given = dict(settings or {})
    given["fateflow"] = {"http_port": 0, "grpc_port": 0, **given.get("fateflow", {})}
    server = FedflowServer(parse_settings(given), home)
    try:
        server.open()
        assert server.place is not None
        url = f"http://127.0.0.1:{server.place.http_port}"
        yield Place(url=url, home=home, server=server)
    finally:
        server.close()
    wait_until(lambda: not (_pids(own, "fedflow") - before), END_S)


def _pids(own: psutil.Process, part: str) -> set[int]:
    found = set()
    for child in own.children(recursive=True):
        try:
            if part in " ".join(child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
                found.add(child.pid)
        except psutil.Error:
            continue
    return found


# --- the browser ----------------------------------------------------------------------------------


def browser_program() -> str:
    """Return the browser's program. Raises: AssertionError: there is none."""
    named = os.environ.get("FEDFLOW_TEST_BROWSER")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "install chromium, or name a browser with FEDFLOW_TEST_BROWSER"
    return found


@dataclass
class Visitor:
    """A person in front of a browser: pages, and what went wrong in them.

    `check` fails for a script's error, a refused resource, and a request to any other server.
    """

    context: BrowserContext
    url: str
    shots: Path | None
    troubles: list[str] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Return a new page that shows `path`."""
        page = self.page()
        page.goto(self.url + path)
        return page

    def page(self) -> Page:
        """Return a new page, watched."""
        page = self.context.new_page()
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        page.on("console", self._heard)
        page.on("request", self._requested)
        return page

    def sized(self, size: dict[str, int]) -> Self:
        """Give all pages of this visitor another size."""
        for page in self.context.pages:
            page.set_viewport_size(size)  # type: ignore[arg-type]
        return self

    def check(self) -> None:
        """Raises: AssertionError: something went wrong in a page."""
        assert not self.troubles, "\n".join(self.troubles)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning") and not _QUIET.search(message.text):
            self.troubles.append(f"console: {message.text}")

    def _requested(self, request: Request) -> None:
        self.asked.append(request)
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.troubles.append(f"asked another server: {request.url}")


def shoot(visitor: Visitor, page: Page, name: str) -> None:
    """Keep a picture of a page if somebody wants pictures (`bin/test-board`)."""
    if visitor.shots is not None:
        visitor.shots.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=visitor.shots / f"{name}.png", full_page=True)


def check_accessible(page: Page) -> None:
    """Raises: AssertionError: axe-core found violations."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    found = page.evaluate("options => axe.run(options).then((found) => found.violations)", AXE)
    told = [
        f"{v['id']}: {v['help']}: {n['html'][:200]} {n.get('failureSummary', '')[:300]}"
        for v in found
        for n in v["nodes"][:5]
    ]
    assert not told, "\n".join(told)


def check_fits(page: Page) -> None:
    """Raises: AssertionError: the page scrolls sideways."""
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"the page is {wide} pixels too wide"


Visit = Callable[[Place], Visitor]


@contextmanager
def visiting(browser: Browser, place_url: str, **options: Any) -> Iterator[Visitor]:
    """Be a new visitor of a server, with no cookies; `options` are those of a browser context."""
    context = browser.new_context(viewport=WIDE, **options)  # type: ignore[arg-type]
    shots = os.environ.get("FEDFLOW_BOARD_SHOTS")
    visitor = Visitor(context=context, url=place_url, shots=Path(shots) if shots else None)
    try:
        yield visitor
        visitor.check()
    finally:
        context.close()
