"""What every page has: headers, errors, language, theme, static files, accessibility."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import requests
from playwright.sync_api import Page, expect

from tests.board.places import NARROW, Place, Visitor, check_fits

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0


def test_an_unknown_address_is_a_page_with_its_error(seeded: Place) -> None:
    answer = requests.get(f"{seeded.url}/board/nowhere", timeout=CALL_S)
    assert answer.status_code == 404
    assert "RouteNotFound" in answer.text
    assert "<h1>" in answer.text


def test_every_answer_has_the_headers_that_keep_it_safe(seeded: Place) -> None:
    for path in ("/board/", "/board/nowhere", "/board/jobs/none"):
        given = requests.get(seeded.url + path, timeout=CALL_S).headers
        assert "script-src 'self'" in given["Content-Security-Policy"], path
        assert "unsafe" not in given["Content-Security-Policy"]
        assert given["X-Content-Type-Options"] == "nosniff"
        assert given["X-Frame-Options"] == "DENY"


def test_static_files_are_packed_and_kept(seeded: Place) -> None:
    page = requests.get(f"{seeded.url}/board/", timeout=CALL_S).text
    found = re.findall(r'(?:src|href)="(/board/static/[^"]+)"', page)
    assert found
    for url in found:
        answer = requests.get(seeded.url + url, timeout=CALL_S)
        assert answer.status_code == 200, url
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "immutable" in answer.headers["Cache-Control"]


def test_an_unknown_static_file_is_404(seeded: Place) -> None:
    url = f"{seeded.url}/board/static/0/../../secrets.txt"
    assert requests.get(url, timeout=CALL_S).status_code == 404


@pytest.mark.browser
def test_a_page_is_accessible_and_fits_a_phone(
    visitor: Visitor, axe: Callable[[Page], None]
) -> None:
    page = visitor.open("/board/")
    axe(page)
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


@pytest.mark.browser
def test_the_language_is_chosen_by_the_browser_and_by_the_visitor(
    visit: Callable[..., Visitor], seeded: Place
) -> None:
    page = visit(seeded, locale="zh-CN").open("/board/")
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")


@pytest.mark.browser
def test_the_theme_is_kept(visitor: Visitor) -> None:
    page = visitor.open("/board/")
    page.get_by_role("button", name="Theme: auto").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
