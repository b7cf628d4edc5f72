"""The pages of serving, over real serving processes of a guest and a host, and one that is away."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from fedflow.domain.models.model import ModelKey
from tests.board.places import NARROW, WIDE, Place, Visitor, check_fits, serving, shoot
from tests.board.seeds import GUEST
from tests.board.version_seeds import put_version, version
from tests.support.linear_model import MODEL_ID, expected_score, share_of
from tests.support.serving_processes import ROWS, ServingPlace, serving_pair

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]
expect.set_options(timeout=60_000)

RNG = np.random.default_rng(3)
NORMAL = {"edges": [-0.6745, 0.0, 0.6745], "counts": [250, 250, 250, 250]}
REFERENCE = {"source": "job 7: validation", "features": {"x0": NORMAL, "x1": NORMAL}}


@dataclass(frozen=True)
class Served:
    """A Flow server of the guest, its serving process, that of the host, and one that is away."""

    place: Place
    guest: ServingPlace
    host: ServingPlace
    away: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ExitStack() as stack:
        folder = tmp_path_factory.mktemp("served")
        guest, host = serving_pair(folder, partner_ids=["device_id"])
        stack.callback(host.stop)
        stack.callback(guest.stop)
        host.load("load-v2", share_of("host", "v2"))
        guest.load("load-v2", share_of("guest", "v2", reference=REFERENCE))
        closed = stack.enter_context(socket.socket())
        closed.bind(("127.0.0.1", 0))
        away = f"127.0.0.1:{closed.getsockname()[1]}"
        own = f"127.0.0.1:{guest.settings['admin']['port']}"
        settings = {"servings": {"hosts": [own, away]}}
        place = stack.enter_context(serving(folder / "flow", settings))
        for number, name in enumerate(("v1", "v2")):
            key = ModelKey(site=GUEST, model_id=MODEL_ID, model_version=name)
            put_version(place, version(number, key=key, parent=False))
        yield Served(place, guest, host, away)


def ask(guest: ServingPlace, rows: int, service: str = "credit") -> None:
    items = [
        {
            "index": n,
            "featureData": {"x0": float(RNG.normal()), "x1": float(RNG.normal()) + 2},
            "sendToRemoteFeatureData": {"device_id": "nobody" if n == 0 else "u1"},
        }
        for n in range(rows)
    ]
    assert guest.batch(items, service)["retcode"] == 0


def confirm(page: Page, summary: str, button: str) -> None:
    page.locator("details.confirm summary", has_text=summary).first.click()
    page.get_by_role("button", name=button, exact=True).first.click()


def test_processes_services_partners_and_drift_are_shown(
    served: Served, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    served.guest.bind("v2")
    for _ in range(30):
        ask(served.guest, 20)
    visitor = visit(served.place)
    page = visitor.open("/board/serving")
    processes = page.locator("#processes tbody tr")
    expect(processes).to_have_count(2)
    expect(processes.nth(0)).to_contain_text("ready")
    expect(processes.nth(1)).to_contain_text("does not answer")
    service = page.locator("#service-1")
    expect(service.get_by_role("heading", name="credit")).to_be_visible()
    expect(service).to_contain_text("2113: 30")
    expect(service.locator("tbody tr")).to_contain_text("100.0 %")
    expect(page.locator("#partners")).to_contain_text("10000")
    expect(page.locator("#partners")).to_contain_text("answers")
    drift = page.locator("#drift tbody tr")
    expect(drift.first).to_contain_text("x1")
    expect(drift.first).to_contain_text("shifted")
    expect(drift.first).to_contain_text("job 7: validation")
    expect(drift.first.locator("svg rect")).to_have_count(10)
    axe(page)
    shoot(visitor, page, "serving")
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


def test_numbers_change_while_one_looks(served: Served, visit: Callable[..., Visitor]) -> None:
    page = visit(served.place).open("/board/serving")
    per_minute = page.locator("#service-1 dd").first
    expect(per_minute).to_have_text(re.compile(r"^\d"))
    ask(served.guest, 3)
    expect(per_minute).to_have_text(re.compile(r"^[1-9]"))


def test_versions_are_switched_rolled_back_bound_and_unbound(
    served: Served, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    served.guest.bind("v2")
    page = visit(served.place).open("/board/serving")
    page.locator("details.confirm summary", has_text="Switch version...").click()
    axe(page)
    page.get_by_label("Version", exact=True).first.select_option(
        label="v1 (guest-9999#host-10000#model)"
    )
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="it does not answer")).to_be_visible()
    expect(page.locator("#service-1 tbody tr")).to_contain_text("v1")
    confirm(page, "Roll back...", "Roll back")
    expect(page.locator("#service-1 tbody tr")).to_contain_text("v2")
    page.locator("details.confirm summary", has_text="Bind a new service...").click()
    page.get_by_label("Service", exact=True).fill("another")
    page.locator("#new-version").select_option(label="v1 (guest-9999#host-10000#model)")
    page.get_by_role("button", name="Bind", exact=True).click()
    expect(page.get_by_role("heading", name="another")).to_be_visible()
    confirm(page, "Unbind...", "Unbind")
    expect(page.get_by_role("heading", name="another")).to_have_count(0)


def test_a_part_of_the_users_and_a_shadow_are_compared(
    served: Served, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    served.guest.bind("v2")
    visitor = visit(served.place)
    page = visitor.open("/board/serving")
    page.locator("details.confirm summary", has_text="Switch version...").click()
    page.get_by_label("Version", exact=True).first.select_option(label=f"v1 ({MODEL_ID})")
    page.get_by_label("As a shadow").check()
    page.get_by_role("button", name="Switch", exact=True).click()
    rows = page.locator("#service-1 tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="v1")).to_contain_text("shadow")
    for _ in range(15):
        ask(served.guest, 20)
    expect(rows.filter(has_text="v1").locator("td").nth(7)).to_have_text(re.compile(r"^0\.\d"))
    axe(page)
    shoot(visitor, page, "serving-shadow")
    visitor.sized(NARROW)
    check_fits(page)
    visitor.sized(WIDE)
    page.locator("details.confirm summary", has_text="Switch version...").click()
    page.get_by_label("Version", exact=True).first.select_option(label=f"v1 ({MODEL_ID})")
    page.get_by_label("Percent of the users").fill("25")
    page.get_by_role("button", name="Switch", exact=True).click()
    expect(rows.filter(has_text="v1")).to_contain_text("25.0 %")
    expect(rows.filter(has_text="v2")).to_contain_text("75.0 %")


def test_a_request_is_tried(
    served: Served, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    served.guest.bind("v2")
    visitor = visit(served.place)
    page = visitor.open("/board/serving")
    page.get_by_role("link", name="Try a request").first.click()
    page.get_by_label("x0", exact=True).fill("1")
    page.get_by_label("x1", exact=True).fill("2")
    page.get_by_label("device_id", exact=True).fill("u1")
    page.get_by_role("button", name="Ask for the score").click()
    score = expected_score({"x0": 1, "x1": 2, **ROWS["u1"]}, version="v2")
    expect(page.locator("#score")).to_have_text(f"{score:.8g}")
    expect(page.locator("#answer")).to_contain_text("the only version of the service")
    expect(page.get_by_label("x1", exact=True)).to_have_value("2")
    axe(page)
    shoot(visitor, page, "serving-try")
    page.get_by_text("Give the features as JSON").click()
    page.get_by_label("A JSON object").fill(json.dumps({"x0": "<b>"}))
    page.get_by_role("button", name="Ask for the score").click()
    expect(page.locator("#answer")).to_contain_text("102")
    visitor.sized(NARROW)
    check_fits(page)


def test_a_partner_that_went_away_is_said_to_be_left_out(
    served: Served, visit: Callable[..., Visitor]
) -> None:
    served.guest.bind("v2")
    served.host.kill()
    try:
        for _ in range(6):
            ask(served.guest, 2)
        page = visit(served.place).open("/board/serving")
        partners = page.locator("#partners")
        expect(partners).to_contain_text("left out for now")
        expect(partners).to_contain_text("failed")
        expect(page.locator("#service-1")).to_contain_text("2105")
    finally:
        served.host.start()


def test_the_pages_are_read_in_chinese_and_without_scripts(
    served: Served, visit: Callable[..., Visitor], axe: Callable[[Page], None]
) -> None:
    visitor = visit(served.place, locale="zh-CN", color_scheme="dark")
    page = visitor.open("/board/serving")
    expect(page.get_by_role("heading", name="漂移")).to_be_visible()
    axe(page)
    plain = visit(served.place, java_script_enabled=False).open("/board/serving")
    expect(plain.locator("#processes tbody tr")).to_have_count(2)
