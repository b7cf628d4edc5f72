"""The pages of other parties, of this party's servers, and of serving, on one server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.board import seeds
from tests.board.jobs_to_submit import Person
from tests.board.places import NARROW, Place, Visitor, check_fits, serving

pytestmark = pytest.mark.timeout(600)
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Party 9999, whose only neighbour is not there."""
    settings = {"routes": {"10000": "127.0.0.1:1"}}
    with serving(tmp_path_factory.mktemp("alone"), settings) as place:
        yield place


def test_a_standalone_server_says_that_it_knows_nobody(seeded: Place) -> None:
    page = Person(seeded.url).get("/board/parties").text
    assert "No other parties are known" in page
    assert "this one" in page
    assert "Drain" not in page


def test_a_party_that_was_never_called_and_one_that_does_not_answer(alone: Place) -> None:
    person = Person(alone.url)
    assert "not called yet" in person.get("/board/parties").text
    answer = person.session.post(
        f"{alone.url}/board/parties/10000/call",
        data={"csrf": person.opened()["csrf"]},
        timeout=60.0,
    )
    assert answer.url.endswith("/board/parties/10000")
    assert "cannot reach 10000" in answer.text
    listed = person.get("/board/parties").text
    assert "127.0.0.1:1" in listed
    assert "not called yet" not in listed


def test_a_party_that_is_none_is_an_error_page(alone: Place) -> None:
    person = Person(alone.url)
    for name in ("x" * 300, "<script>alert(1)</script>", "no such"):
        page = person.get(f"/board/parties/{name}")
        assert page.status_code in (400, 404)
        assert "<script>alert" not in page.text


def test_the_page_of_a_party_lists_the_jobs_with_exactly_this_party(seeded: Place) -> None:
    seeds.put(
        seeded.store,
        seeds.job(31, roles={"guest": ["9999"], "host": ["10000"]}),
        seeds.job(32, roles={"guest": ["9999"], "host": ["100001"], "arbiter": ["10000"]}),
        seeds.job(33, roles={"guest": ["9999"], "host": ["110000"]}),
    )
    page = Person(seeded.url).get("/board/parties/10000").text
    assert seeds.job_id(31) in page
    assert seeds.job_id(32) in page
    assert seeds.job_id(33) not in page
    assert page.count("<td>guest 9999</td>") == 4  # of both: who this server is, and who began it


def test_serving_says_that_there_is_none_and_offers_no_controls(seeded: Place) -> None:
    page = Person(seeded.url).get("/board/serving").text
    assert "This server knows no serving process." in page
    assert "No version is deployed" in page
    content = page[page.index('id="content"') :]
    assert "<button" not in content
    assert "<form" not in content


@pytest.mark.browser
def test_parties_and_serving_are_accessible_and_fit_a_phone(
    visit: Callable[..., Visitor], alone: Place, axe: Callable[[Page], None]
) -> None:
    visitor = visit(alone)
    for path in ("/board/parties", "/board/parties/10000", "/board/serving"):
        page = visitor.open(path)
        axe(page)
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        check_fits(page)
        axe(page)


@pytest.mark.browser
def test_call_now_says_which_way_is_broken(visit: Callable[..., Visitor], alone: Place) -> None:
    page = visit(alone).open("/board/parties/10000")
    page.get_by_role("button", name="Call now").click()
    expect(page.get_by_role("alert").filter(has_text="cannot reach 10000")).to_be_visible()
    expect(page.locator("#party-facts")).to_contain_text("Last error")
