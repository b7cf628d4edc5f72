"""The board of a guest while its host is there, is killed, and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.board.jobs_to_submit import Person, empty_conf, empty_dsl
from tests.board.places import Visitor
from tests.e2e.jobs import example, upload_data
from tests.e2e.servers import GUEST, GUEST_ID, HOST, HOST_ID, QUICK, Pair, two_parties

pytestmark = [pytest.mark.timeout(600), pytest.mark.browser]
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("pair"), settings=QUICK) as pair:
        pair.wait_connected()
        yield pair


def call(page: Page) -> None:
    page.get_by_role("button", name="Call now").click()
    page.wait_for_load_state()


def test_a_party_that_is_killed_and_comes_back_is_seen_without_loading_the_page_again(
    visit: Callable[..., Visitor], pair: Pair
) -> None:
    visitor = visit(pair.guest)
    live = visitor.open("/board/parties")
    row = live.locator(f"#party-{HOST_ID}")
    expect(row).to_contain_text("reachable")
    expect(row).to_contain_text("fedflow")
    expect(row).to_contain_text("ms")
    asking = visitor.open(f"/board/parties/{HOST_ID}")
    call(asking)
    expect(asking.get_by_text("and its call back arrived")).to_be_visible()

    pair.host.kill()
    call(asking)
    expect(asking.locator(".message.bad")).to_contain_text(f"cannot reach {HOST_ID}")
    expect(row).to_contain_text("not reachable")
    expect(asking.locator("#party-facts")).to_contain_text("not reachable")

    pair.host.start().wait_ready()
    pair.wait_connected()
    expect(row).not_to_contain_text("not reachable")
    expect(asking.locator("#party-facts")).not_to_contain_text("not reachable")


def test_how_a_party_stands_is_seen_though_nobody_calls_it(
    visit: Callable[..., Visitor], pair: Pair
) -> None:
    row = visit(pair.guest).open("/board/parties").locator(f"#party-{HOST_ID}")
    pair.host.kill()
    expect(row).to_contain_text("not reachable")
    pair.host.start()
    expect(row).not_to_contain_text("not reachable")
    pair.host.wait_ready()
    pair.wait_connected()


def test_the_parties_are_asked_before_a_job_is_submitted(
    visit: Callable[..., Visitor], pair: Pair
) -> None:
    person = Person(pair.guest.url)
    well = person.send(empty_dsl(), empty_conf(), do="ask").text
    assert "can be reached, can call back, and would accept the job" in well
    pair.host.kill()
    page = visit(pair.guest).open("/board/submit")
    page.get_by_label("DSL", exact=True).fill(json.dumps(empty_dsl()))
    page.get_by_label("Runtime conf").fill(json.dumps(empty_conf()))
    page.get_by_role("button", name="Check with the parties").click()
    expect(page.locator(".hops")).to_contain_text(f"cannot reach {HOST_ID}")
    lost = person.send(empty_dsl(), empty_conf())
    assert lost.status_code != 303
    assert "PartiesNotReady" in lost.text
    assert f"cannot reach {HOST_ID}" in lost.text
    pair.host.start().wait_ready()
    pair.wait_connected()
    page.get_by_role("button", name="Check with the parties").click()
    expect(page.locator(".hops")).to_contain_text("can be reached")


@pytest.mark.parametrize("here", ["guest", "host"])
def test_what_the_parties_would_refuse_is_said_before_a_job_is_sent(pair: Pair, here: str) -> None:
    asked = pair.guest if here == "guest" else pair.host
    other, ids = ("host", "guest")[here == "host"], {"guest": GUEST_ID, "host": HOST_ID}
    table = Path(asked.home) / "rows.csv"
    table.write_text("id,x\n1,2\n")
    for party in (pair.guest, pair.host):
        assert party.upload(table, "rows", drop=True).status == "success"
    dsl = {"components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}}
    person = Person(asked.url)

    def conf(name: str, **job_parameters: Any) -> dict[str, Any]:
        made = empty_conf(**job_parameters)
        made["initiator"] = {"role": here, "party_id": int(ids[here])}
        tables = {here: "rows", other: name}
        made["component_parameters"]["role"] = {
            role: {"0": {"reader_0": {"table": {"name": told, "namespace": "experiment"}}}}
            for role, told in tables.items()
        }
        return made

    def said(conf: dict[str, Any]) -> str:
        page = person.send(dsl, conf, do="ask").text
        return page[page.index('class="plain hops"') :].partition("</ul>")[0]

    before = asked.client.jobs(limit=1)
    assert "would accept the job" in said(conf("rows"))
    gone = said(conf("nowhere"))
    assert f"party {ids[other]}" in gone
    assert "No table" in gone
    assert "would accept" not in gone
    many = conf("rows")
    many["job_parameters"]["role"] = {other: {"0": {"task_cores": 1000}}}
    assert f"{other} {ids[other]}" in said(many)
    assert "cores" in said(many)
    assert asked.client.jobs(limit=1) == before
    sent = person.send(dsl, conf("nowhere"))
    assert "No table" in sent.text
    job_id = person.send(dsl, conf("rows")).headers["Location"].split("/")[3]
    assert set(pair.ends(job_id).values()) == {"success"}


def test_a_job_of_another_party_cannot_be_copied_at_the_host(pair: Pair) -> None:
    guest, host = Person(pair.guest.url), Person(pair.host.url)
    sent = guest.send(empty_dsl(("only",)), empty_conf())
    assert sent.status_code == 303, sent.text
    job_id = sent.headers["Location"].split("/")[3]
    pair.ends(job_id)
    assert "at another server" in host.get(f"/board/submit?from={job_id}").text
    assert "This is a copy of job" in guest.get(f"/board/submit?from={job_id}").text
    assert job_id in host.get("/board/parties/9999").text
    foreign = host.send(empty_dsl(), empty_conf(), do="check").text
    assert "this server does not host the initiator" in foreign


def test_a_party_that_is_silent_is_seen_wherever_its_job_is(
    visit: Callable[..., Visitor], pair: Pair
) -> None:
    visitor, guest = visit(pair.guest), Person(pair.guest.url)
    conf = empty_conf({"first": {"sleep_s": 90}})
    job_id = guest.send(empty_dsl(("first",)), conf).headers["Location"].split("/")[3]
    pair.host.wait_executor(job_id, component="first", site=HOST)
    pages = {path: visitor.open(f"/board/{path}") for path in ("", "jobs", "parties")}
    at = f"/board/jobs/{job_id}/guest/{GUEST_ID}"
    job, events = visitor.open(at), visitor.open(f"{at}/events")
    said = f"no answer from {HOST_ID}"
    expect(pages["parties"].locator(f"#party-{HOST_ID}")).to_contain_text("reachable")
    assert said not in pages["jobs"].content()

    with pair.host.frozen():
        row = pages["parties"].locator(f"#party-{HOST_ID}")
        expect(row.locator(".status.wait")).to_contain_text("does not answer since")
        expect(pages["jobs"].locator(f"#job-{job_id}-guest-{GUEST_ID}")).to_contain_text(said)
        expect(pages[""].locator(".home-jobs").first).to_contain_text(said)
        expect(pages[""].locator("#home-silent + ul")).to_contain_text(HOST_ID)
        expect(job.locator("g.held, .held").first).to_be_attached()
        expect(events.locator("#content")).to_contain_text("it does not answer")
    expect(events.locator("#content")).to_contain_text("it answers again")
    expect(pages["jobs"].locator(f"#job-{job_id}-guest-{GUEST_ID}")).not_to_contain_text(said)
    notes = [e.message for e in pair.guest.client.history(job_id) if "answer" in e.message]
    assert notes == ["it does not answer", "it answers again"]
    pair.guest.client.stop(job_id)


def test_a_guest_reads_where_the_loss_is_while_the_job_trains_and_after(
    visit: Callable[..., Visitor], pair: Pair
) -> None:
    upload_data(pair)
    job_id = pair.guest.client.submit(*example(iterations=40)).job_id
    guest, arbiter = visit(pair.guest), visit(pair.host)
    at = f"/board/jobs/{job_id}/guest/{GUEST_ID}"
    pair.guest.wait_executor(job_id, component="hetero_lr_0", site=GUEST)
    metrics = guest.open(f"{at}/components/hetero_lr_0/metrics").locator("#pace")
    job = guest.open(at).locator("#job-live .pace")
    loss = arbiter.open(f"/board/jobs/{job_id}/arbiter/{HOST_ID}").locator(".loss-line")
    expect(loss).to_be_visible(timeout=60_000)
    expect(metrics).to_contain_text(f"The loss is at arbiter {HOST_ID}. Here: iteration")
    expect(metrics).to_contain_text("of at most 40")
    expect(job).to_contain_text("of at most 40")
    assert set(pair.ends(job_id).values()) == {"success"}
    expect(metrics).to_contain_text(f"The loss is at arbiter {HOST_ID}. Here: 40 iterations")
