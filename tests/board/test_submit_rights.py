"""Who may submit, return cores and call parties; and a session that ends while somebody writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.records import JobFilter
from tests.board.jobs_to_submit import Person, empty_conf, empty_dsl
from tests.board.places import Place, Visitor, serving

pytestmark = pytest.mark.timeout(600)
expect.set_options(timeout=60_000)
GOOD = "correct horse"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server at which people sign in: olga is an operator, vera a viewer."""
    with serving(tmp_path_factory.mktemp("asking"), {"board": {"sign_in": True}}) as place:
        accounts = place.services.administration.accounts
        for name, role in (("olga", AccountRole.OPERATOR), ("vera", AccountRole.VIEWER)):
            accounts.add(name, role, GOOD, by="test")
        yield place


def signed_in(place: Place, name: str) -> tuple[Person, str]:
    """Return a person who is signed in, and a token for forms."""
    person = Person(place.url)
    token = token_of(person.get("/board/sign-in").text)
    person.session.post(
        f"{place.url}/board/sign-in",
        data={"csrf": token, "name": name, "password": GOOD},
        timeout=60.0,
    )
    return person, token_of(person.get("/board/queue").text)


def token_of(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    return found.group(1) if found else ""


def test_a_viewer_sees_no_form_and_cannot_act(asking: Place) -> None:
    vera, _ = signed_in(asking, "vera")
    page = vera.get("/board/submit?example=hetero_lr").text
    assert "You may read, but not submit" in page
    assert "submit-form" not in page
    assert "breast_hetero_guest" not in page
    token = token_of(vera.get("/board/account").text)
    assert token
    for path in ("submit", "submit/findings", "submit/open", "queue/return/1", "parties/1/call"):
        answer = vera.session.post(
            f"{asking.url}/board/{path}", data={"csrf": token}, timeout=60.0, allow_redirects=False
        )
        assert answer.status_code == 403, path
    assert not asking.services.jobs.find(JobFilter())


def test_an_operator_submits_but_does_not_drain(asking: Place) -> None:
    olga, _ = signed_in(asking, "olga")
    assert olga.send(empty_dsl(), empty_conf(), do="check").status_code == 200
    token = olga.opened()["csrf"]
    drained = olga.session.post(
        f"{asking.url}/board/parties/drain", data={"csrf": token}, timeout=60.0
    )
    assert drained.status_code == 403


@pytest.mark.browser
def test_a_session_that_ends_while_one_writes_is_told_and_the_text_stays(
    visit: Callable[..., Visitor], asking: Place
) -> None:
    visitor = visit(asking)
    page = visitor.open("/board/sign-in?next=/board/submit")
    page.get_by_label("Name").fill("olga")
    page.get_by_label("Password").fill(GOOD)
    page.keyboard.press("Enter")
    field = page.get_by_label("DSL", exact=True)
    field.fill(json.dumps(empty_dsl()))
    expect(page.locator(".verdict")).to_be_visible()
    with asking.store.transaction() as tx:
        for one in tx.accounts.sessions("olga"):
            tx.accounts.put_session(replace(one, seen_ms=one.seen_ms - 13 * HOUR_MS))
    field.press("End")
    field.type(" ")
    expect(page.locator("#ff-alert")).to_contain_text("Your session has ended.")
    assert "components" in field.input_value()
    visitor.troubles.clear()  # htmx tells the console of the request that failed
