"""Signing in, an ended session, roles and accounts, as people meet them in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.administration.accounts import AccountRole
from tests.board.places import NARROW, Place, Visitor, check_fits, serving, shoot

pytestmark = [pytest.mark.timeout(600), pytest.mark.browser]
GOOD, OTHER = "correct horse", "battery staple"
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server at which people sign in."""
    with serving(tmp_path_factory.mktemp("asking"), {"board": {"sign_in": True}}) as place:
        yield place


@pytest.fixture
def ann(asking: Place) -> Iterator[str]:
    """An admin, for one test."""
    accounts = asking.services.administration.accounts
    accounts.add("ann", AccountRole.ADMIN, GOOD, by="test")
    yield "ann"
    accounts.remove("ann", by="test")


@pytest.fixture
def vera(asking: Place) -> Iterator[str]:
    """A viewer, for one test."""
    accounts = asking.services.administration.accounts
    accounts.add("vera", AccountRole.VIEWER, GOOD, by="test")
    yield "vera"
    accounts.remove("vera", by="test")


def enter(page: Page, name: str, password: str = GOOD) -> None:
    """Fill in the sign-in page by keyboard, and send it."""
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Tab")
    page.keyboard.type(password)
    page.keyboard.press("Enter")


def end_sessions(place: Place, name: str) -> None:
    """Let the sessions of an account look unused for five hours."""
    with place.store.transaction() as tx:
        for one in tx.accounts.sessions(name):
            tx.accounts.put_session(replace(one, seen_ms=one.seen_ms - 5 * HOUR_MS))


Visit = Callable[..., Visitor]
Axe = Callable[[Page], None]


def test_without_an_account_the_page_says_how_to_make_one(
    asking: Place, visit: Visit, axe: Axe
) -> None:
    page = visit(asking).open("/board/settings")
    expect(page.get_by_text("fedflow board user add NAME --role admin")).to_be_visible()
    axe(page)


def test_three_wrong_passwords_the_right_one_an_ended_session_and_out(
    asking: Place, visit: Visit, axe: Axe, ann: str
) -> None:
    somebody = visit(asking)
    page = somebody.open("/board/settings")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    expect(page.get_by_role("navigation")).to_have_count(0)
    axe(page)
    shoot(somebody, page, "sign_in")
    for n in range(3):
        enter(page, ann, f"wrong {n}")
        expect(page.get_by_role("alert").filter(has_text="is wrong")).to_be_visible()
        expect(page.get_by_label("Name")).to_have_value(ann)
    axe(page)
    enter(page, ann)
    expect(page).to_have_url(f"{asking.url}/board/settings")
    cookies = {one["name"]: one for one in somebody.context.cookies()}
    (session,) = (one for name, one in cookies.items() if name.startswith("fedflow-session"))
    assert (session["httpOnly"], session["sameSite"], session["expires"]) == (True, "Lax", -1)
    assert session["value"] not in page.evaluate("document.cookie")

    end_sessions(asking, ann)
    alert = page.locator("#ff-alert")
    expect(alert).to_contain_text("Your session has ended.", timeout=60_000)
    alert.get_by_role("link").click()
    enter(page, ann)
    expect(page).to_have_url(f"{asking.url}/board/settings")

    page.get_by_role("button", name="Sign out", exact=True).first.click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto(f"{asking.url}/board/settings")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.go_back()
    expect(page.get_by_text("board.sign_in")).to_have_count(0)


def test_a_form_that_was_sent_too_late_is_sent_again_after_signing_in(
    asking: Place, visit: Visit, axe: Axe, ann: str, vera: str
) -> None:
    page = visit(asking).open("/board/settings")
    enter(page, ann)
    row = page.get_by_role("row", name=re.compile("^vera"))
    row.get_by_text("Role", exact=True).click()
    row.get_by_label(re.compile("operator: ")).check()
    end_sessions(asking, ann)
    row.get_by_role("button", name="Give the role").click()
    expect(page.get_by_role("alert").filter(has_text="nothing was done")).to_be_visible()
    enter(page, ann)
    expect(page.get_by_role("heading", name="Send it again?")).to_be_visible()
    axe(page)
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_role("row", name=re.compile("^vera operator"))).to_be_visible()


def test_a_job_that_somebody_writes_outlives_the_session(
    asking: Place, visit: Visit, ann: str
) -> None:
    somebody = visit(asking)
    page = somebody.open("/board/submit")
    expect(page.get_by_label("Name")).to_be_focused()
    enter(page, ann)
    written = page.get_by_label("DSL", exact=True)
    written.fill('{"components": {"first": {"module": "Reader"}}}')
    end_sessions(asking, ann)
    written.press("End")
    written.press("Space")
    alert = page.locator("#ff-alert")
    expect(alert).to_contain_text("nothing is lost", timeout=60_000)
    expect(alert.get_by_role("link")).to_have_count(0)
    page.get_by_role("button", name="Check", exact=True).click()
    enter(page, ann)
    expect(page.get_by_text("go back and choose them again")).to_have_count(0)
    page.get_by_role("button", name="Send it").click()
    expect(written).to_have_value(re.compile('"first": '))

    end_sessions(asking, ann)
    other = somebody.open("/board/settings")  # in another window
    enter(other, ann)
    expect(other).to_have_url(f"{asking.url}/board/settings")
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.get_by_text("You have signed in again")).to_be_visible()
    expect(page.locator("textarea[name=dsl]")).to_have_value(re.compile('"first": '))


def test_an_admin_adds_an_account_and_its_owner_changes_the_password(
    asking: Place, visit: Visit, axe: Axe, ann: str
) -> None:
    admin = visit(asking)
    page = admin.open("/board/settings")
    enter(page, ann)
    page.get_by_text("Add an account").click()
    form = page.locator(".add-account")
    form.get_by_label("Name").fill("olga")
    form.get_by_label(re.compile("operator: ")).check()
    form.get_by_label("New password, at least").fill(GOOD)
    form.get_by_label("The new password again").fill(GOOD)
    axe(page)
    form.get_by_role("button", name="Add the account").click()
    expect(page.get_by_text("olga has an account now.")).to_be_visible()

    owner = visit(asking)
    own = owner.open("/board/account")
    enter(own, "olga")
    own.get_by_label("Old password").fill(GOOD)
    own.get_by_label("New password, at least").fill(OTHER)
    own.get_by_label("The new password again").fill(OTHER)
    axe(own)
    shoot(owner, own, "account")
    own.get_by_role("button", name="Change it").click()
    expect(own.get_by_text("Your password was changed.")).to_be_visible()

    row = page.get_by_role("row", name=re.compile("^olga"))
    row.get_by_text("Remove", exact=True).click()
    row.get_by_role("button", name="Remove the account").click()
    expect(page.get_by_text("olga has no account any more.")).to_be_visible()
    own.goto(f"{asking.url}/board/account")
    expect(own.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_viewer_has_no_buttons_and_a_forged_action_is_a_page_that_says_why(
    asking: Place, visit: Visit, axe: Axe, vera: str
) -> None:
    page = visit(asking).open("/board/settings")
    enter(page, vera)
    expect(page.get_by_text("This server can take jobs.")).to_be_visible()
    expect(page.get_by_text("Add an account")).to_have_count(0)
    page.evaluate(
        """() => {
            const form = document.querySelector('form[action="/board/account/sign-out"]');
            form.action = "/board/settings/accounts/remove";
            form.querySelector("button").click();
        }"""
    )
    expect(page.get_by_role("heading", name="Not permitted")).to_be_visible()
    expect(page.get_by_text("This needs the role admin; your role is viewer.")).to_be_visible()
    axe(page)


@pytest.mark.parametrize("size", [NARROW, {"width": 1280, "height": 900}])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_pages_fit_and_are_accessible_in_both_themes(
    asking: Place, visit: Visit, axe: Axe, ann: str, vera: str, size: dict[str, int], theme: str
) -> None:
    somebody = visit(asking, color_scheme=theme)
    page = somebody.open("/board/sign-in")
    page.set_viewport_size(size)  # type: ignore[arg-type]
    check_fits(page)
    enter(page, ann)
    expect(page.get_by_role("link", name="Account: ann")).to_be_visible()
    for path in ("/board/settings", "/board/account"):
        page.goto(asking.url + path)
        check_fits(page)
        axe(page)
        shoot(somebody, page, f"{path.rpartition('/')[2]}_{theme}_{size['width']}")


def test_signing_in_works_without_scripts(asking: Place, visit: Visit, ann: str) -> None:
    page = visit(asking, java_script_enabled=False).open("/board/settings")
    enter(page, ann)
    expect(page.get_by_text("This server can take jobs.")).to_be_visible()


def test_the_pages_are_in_chinese_for_who_reads_chinese(
    asking: Place, visit: Visit, ann: str
) -> None:
    page = visit(asking, locale="zh-CN").open("/board/settings")
    page.get_by_label("名称").fill(ann)
    page.get_by_label("密码").fill(GOOD)
    page.get_by_role("button", name="登录").click()
    expect(page.get_by_role("heading", name="设置与健康状况")).to_be_visible()
