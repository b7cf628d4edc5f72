"""The page of the API in a real browser: it shows every operation, and asks no other server.

The browser is FEDFLOW_TEST_BROWSER, or Chromium from the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from fedflow.http.server import HttpServer, HttpSettings
from fedflow.web.openapi import Operation, operations
from fedflow.web.settings import WebSettings
from tests.unit.web.applications import whole_app

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
HEIGHT = 14_000  #: pixels; the page draws only the operations that fit into its window
NOTHING: Any = None  #: the page calls no use case


@dataclass(frozen=True, kw_only=True)
class Visit:
    """What a browser made of the page."""

    url: str
    dom: str
    console: str
    asked: frozenset[str]  #: URLs that the page (not the browser itself) requested


@pytest.fixture(scope="module")
def described() -> list[Operation]:
    return list(operations(whole_app(NOTHING, WebSettings())))


@pytest.fixture(scope="module")
def visit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visit]:
    app = whole_app(NOTHING, WebSettings())
    server = HttpServer(app, HttpSettings(threads=4), name="fedflow-http")
    server.listen_tcp("127.0.0.1", 0)
    try:
        yield browse(f"http://127.0.0.1:{server.port}", tmp_path_factory.mktemp("browser"))
    finally:
        server.stop()


def browser() -> str:
    """Return the browser's program. Raises: AssertionError: there is none."""
    named = os.environ.get("FEDFLOW_TEST_BROWSER")
    found = named or next(filter(None, map(shutil.which, NAMES)), None)
    assert found, "install chromium, or name a browser with FEDFLOW_TEST_BROWSER"
    return found


def browse(url: str, folder: Path) -> Visit:
    """Load the page, let its scripts run, and return what became of it."""
    net_log = folder / "net.json"
    done = subprocess.run(
        [
            browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--user-data-dir={folder / 'profile'}", f"--log-net-log={net_log}",
            "--enable-logging=stderr", "--virtual-time-budget=20000", "--dump-dom",
            f"--window-size=1400,{HEIGHT}",
            f"{url}/v1/docs",
        ],
        env={"HOME": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=150, check=True,
    )  # fmt: skip
    events = json.loads(net_log.read_text(encoding="utf-8"))["events"]
    started = [event["params"] for event in events if "initiator" in event.get("params", {})]
    return Visit(
        url=url,
        dom=done.stdout,
        console=done.stderr,
        asked=frozenset(one["url"] for one in started if one["initiator"].startswith(url)),
    )


def test_the_browser_shows_every_operation(visit: Visit, described: list[Operation]) -> None:
    missing = [
        one.operation_id
        for one in described
        if f'id="operations-{one.tag}-{one.operation_id}"' not in visit.dom
    ]
    assert missing == []


def test_the_page_asks_this_server_only(visit: Visit) -> None:
    asked = {urlsplit(url) for url in visit.asked}
    assert {"/v1/openapi.json", "/v1/docs/swagger-ui.css"} <= {url.path for url in asked}
    assert {f"{url.scheme}://{url.netloc}" for url in asked} == {visit.url}


def test_the_page_works_within_its_content_security_policy(visit: Visit) -> None:
    assert "Content Security Policy" not in visit.console
    assert "Uncaught" not in visit.console
