"""The pages of a job as HTML: what each site sees of it, in every state."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import requests

from fedflow.board.page import STOP_POLLING
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobEvent, JobStatus, TaskStatus
from tests.board import seeds
from tests.board.job_seeds import CONF, large, put_job, submit, wait_for_end, wait_for_rest
from tests.board.places import Place
from tests.board.seeds import CHAIN, GUEST, HOST, HOSTILE
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
TABS = ("", "/timeline", "/timeline?by=site", "/events", "/definition")


@pytest.fixture
def visit() -> Iterator[requests.Session]:
    """One browser's requests."""
    with requests.Session() as session:
        yield session


def address(job_id: str, site: Site = GUEST, tab: str = "") -> str:
    return f"/board/jobs/{job_id}/{site.role.value}/{site.party_id}{tab}"


def get(
    place: Place, path: str, visit: requests.Session | None = None, **headers: str
) -> requests.Response:
    """Ask for a page; a `visit` keeps its cookies, as one browser does."""
    ask = requests.get if visit is None else visit.get
    return ask(place.url + path, timeout=CALL_S, headers=headers)


def page_of(place: Place, path: str) -> str:
    answer = get(place, path)
    assert answer.status_code == 200, answer.text[:2000]
    return answer.text


def states_of(text: str) -> dict[str, Any]:
    found = re.search(r'states="([^"]*)"', text)
    assert found
    read: dict[str, Any] = json.loads(unescape(found[1]))
    return read


def test_an_ended_job_shows_its_components_sites_and_what_may_be_done(seeded: Place) -> None:
    job_id = put_job(seeded, 1, CHAIN)
    text = page_of(seeded, address(job_id))
    for part in ("You are guest 9999", "reader_0", "dataio_0", "guest 9999", "host 10000"):
        assert part in text
    assert f"/board/jobs/{job_id}/rerun" in text
    assert f"/board/submit?from={job_id}" in text
    assert f"/board/jobs/{job_id}/stop" not in text
    assert "data-live" not in text, "nothing of an ended job changes"
    states = states_of(text)
    assert states["sites"] == ["guest 9999", "host 10000"]
    assert states["of"]["reader_0"]["parts"] == [[0, "success", 1.0], [1, "success", 0.0]]


def test_the_address_of_a_job_leads_to_the_initiators_share(seeded: Place) -> None:
    job_id = put_job(seeded, 2, CHAIN)
    answer = get(seeded, f"/board/jobs/{job_id}")
    assert answer.url == seeded.url + address(job_id)
    assert get(seeded, "/board/jobs/none").status_code == 404


@pytest.mark.parametrize("tab", ["", "/live", "/graph.json", *TABS[1:], "/definition/dsl.json"])
def test_a_share_that_is_not_here_is_404_on_every_page(seeded: Place, tab: str) -> None:
    job_id = put_job(seeded, 3, CHAIN)
    for site in (HOST, Site(Role.ARBITER, GUEST.party_id)):
        assert get(seeded, address(job_id, site, tab)).status_code == 404
    assert get(seeded, f"/board/jobs/{job_id}/boss/9999{tab}").status_code == 404
    assert get(seeded, address("none", GUEST, tab)).status_code == 404


def test_an_unchanged_job_costs_a_304_and_a_change_a_new_answer(
    seeded: Place, visit: requests.Session
) -> None:
    job_id = submit(seeded, {}, {}, step=True)
    wait_for_rest(seeded, job_id)
    live = address(job_id, tab="/live")
    text = page_of(seeded, address(job_id))
    assert f'hx-get="{live}"' in text
    assert "One step" in text

    def has_settled() -> bool:
        answer = get(seeded, live, visit)
        again = get(seeded, live, visit, **{"If-None-Match": answer.headers["ETag"]})
        return (again.status_code, again.content) == (304, b"")

    wait_until(has_settled, CALL_S)
    before = get(seeded, live, visit)
    seeded.services.control.proceed(job_id, all_=True)
    changed = get(seeded, live, visit, **{"If-None-Match": before.headers["ETag"]})
    assert changed.status_code == 200
    wait_for_end(seeded, job_id)
    wait_until(lambda: get(seeded, live, visit).status_code == STOP_POLLING, CALL_S)
    after = get(seeded, live, visit, **{"If-None-Match": before.headers["ETag"]})
    assert after.status_code == STOP_POLLING
    assert states_of(after.text)["of"]["empty_1"]["s"] == "success"


def test_polling_ends_with_the_job(seeded: Place) -> None:
    job_id = put_job(seeded, 5, CHAIN)
    for tab in ("/live", "/timeline/live", "/events/live"):
        assert get(seeded, address(job_id, tab=tab)).status_code == STOP_POLLING


def test_the_graph_never_changes_and_is_asked_for_once(
    seeded: Place, visit: requests.Session
) -> None:
    job_id = put_job(seeded, 6, CHAIN)
    answer = get(seeded, address(job_id, tab="/graph.json"), visit)
    found = answer.json()
    assert [n["name"] for n in found["nodes"]] == ["reader_0", "dataio_0"]
    assert found["nodes"][0]["here"]
    assert found["edges"][0]["source"] == "reader_0"
    assert set(found["kinds"].values()) >= {"ok", "bad", "run", "wait"}
    tag = answer.headers["ETag"]
    again = get(seeded, address(job_id, tab="/graph.json"), visit, **{"If-None-Match": tag})
    assert again.status_code == 304


def test_a_failed_job_begins_with_its_first_error_and_the_way_to_its_log(seeded: Place) -> None:
    reason = Reason(code="BadData", message=f"no label {HOSTILE[0]}", site=GUEST)
    job_id = put_job(
        seeded, 7, CHAIN, status=JobStatus.FAILED, task_status=TaskStatus.FAILED, reason=reason
    )
    text = page_of(seeded, address(job_id))
    assert "BadData" in text
    assert HOSTILE[0] not in text
    assert "Run what failed" in text


def test_a_refused_job_that_never_came_into_being_says_why(seeded: Place) -> None:
    reason = Reason(code="SiteRefused", message="the table is not there", site=HOST)
    job_id = put_job(
        seeded, 8, CHAIN, status=JobStatus.FAILED, task_status=TaskStatus.WAITING, reason=reason,
        own_sites=(), tag="submit_failed",
    )  # fmt: skip
    for tab in TABS:
        page_of(seeded, address(job_id, tab=tab))
    text = page_of(seeded, address(job_id))
    assert "Why it was not accepted" in text
    assert "the table is not there" in text
    assert "/rerun" not in text


def test_a_waiting_job_says_what_it_waits_for_and_may_be_stopped(seeded: Place) -> None:
    job_id = put_job(
        seeded, 9, CHAIN, status=JobStatus.WAITING, task_status=TaskStatus.WAITING,
        started_ms=None, ended_ms=None,
    )  # fmt: skip
    text = page_of(seeded, address(job_id))
    assert "What it waits for" in text
    assert f"/board/jobs/{job_id}/stop" in text
    assert "/rerun" not in text


def test_a_job_of_one_component_at_one_site_has_its_pages(seeded: Place) -> None:
    local = Site(Role.LOCAL, GUEST.party_id)
    of = seeds.job(
        10, key=JobKey(job_id=seeds.job_id(10), site=local), initiator=local,
        roles={"local": [GUEST.party_id]}, dsl={"components": {"upload_0": {"module": "Upload"}}},
    )  # fmt: skip
    seeds.put(seeded.store, of, seeds.task(of, "upload_0", "Upload"))
    for tab in TABS:
        page_of(seeded, address(of.key.job_id, local, tab))
    assert "upload_0" in page_of(seeded, address(of.key.job_id, local))


def test_a_site_that_did_not_submit_a_job_sees_only_its_own_share(seeded: Place) -> None:
    secret = {"reader_0": {"table": {"namespace": "guests_own", "name": "guests_table"}}}
    own = {"reader_0": {"table": {"namespace": "hosts_own", "name": "hosts_table"}}}
    conf = {
        **CONF,
        "component_parameters": {
            "common": {"dataio_0": {"shared": 1, "db_password": "hidden-word"}},
            "role": {"guest": {"0": secret}, "host": {"0": own}},
        },
    }
    job_id = put_job(seeded, 11, CHAIN, own_sites=(GUEST, HOST), conf=conf)
    for tab in (*TABS, "/definition/conf.json", "/live", "/events/live", "/timeline/live"):
        answer = get(seeded, address(job_id, HOST, tab))
        assert answer.status_code in (200, STOP_POLLING), tab
        assert "guests_" not in answer.text, tab
        assert "hidden-word" not in answer.text, tab
    text = page_of(seeded, address(job_id, HOST))
    assert "hosts_own.hosts_table" in text
    assert states_of(text)["sites"] == ["host 10000"]
    assert "See it as" in text
    given = get(seeded, address(job_id, HOST, "/definition/conf.json")).json()
    assert given["component_parameters"]["role"] == {"host": {"0": own}}
    assert given["component_parameters"]["common"]["dataio_0"]["shared"] == 1
    whole = get(seeded, address(job_id, GUEST, "/definition/conf.json"))
    assert "attachment" in whole.headers["Content-Disposition"]
    assert "hosts_table" in whole.text


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_shown_as_texts_on_every_page(seeded: Place, text: str) -> None:
    number = 100 + HOSTILE.index(text)
    reason = Reason(code=text[:60], message=text, site=HOST)
    conf = {**CONF, "component_parameters": {"common": {"reader_0": {"a": text, text: 1}}}}
    job_id = put_job(
        seeded, number, CHAIN, status=JobStatus.FAILED, task_status=TaskStatus.FAILED,
        reason=reason, conf=conf, description=text, user=text,
        warnings=(JobWarning(code=text, path=text, message=text, hint=text),),
        own_sites=(GUEST, HOST),
    )  # fmt: skip
    with seeded.store.transaction() as tx:
        tx.schedules.set_reason(job_id, reason, now_ms=1)
        tx.jobs.move(
            JobKey(job_id=job_id, site=GUEST), JobEvent.REOPENED, seen=JobStatus.FAILED,
            reason=reason, now_ms=5,
        )  # fmt: skip
    for site in (GUEST, HOST):
        for tab in TABS:
            shown = page_of(seeded, address(job_id, site, tab))
            assert "<script>alert" not in shown
            assert "<script>document" not in shown
            assert "<img src=x" not in shown
            assert "{{ 7" not in shown or text in unescape(shown)


def test_hostile_queries_change_nothing(seeded: Place) -> None:
    job_id = put_job(seeded, 12, CHAIN)
    for query in ("zoom=999&page=-7&by=x&site=<b>", "page=" + "9" * 30, "ran=2&zoom=a"):
        assert "<b>" not in page_of(seeded, address(job_id, tab=f"/timeline?{query}"))
    for query in ("since=-1", "since=" + "9" * 40, "site=host-1&since=x", "site=%00"):
        assert get(seeded, address(job_id, tab=f"/events?{query}")).status_code == 200
    assert get(seeded, address(job_id, tab="/events?component=<b>")).status_code == 400


def test_a_real_job_tells_its_history_attempts_and_reruns(seeded: Place) -> None:
    job_id = submit(seeded, {}, {"fail": "host"})
    wait_for_end(seeded, job_id)
    seeded.services.reruns.rerun(job_id)
    wait_for_end(seeded, job_id)
    events = page_of(seeded, address(job_id, tab="/events"))
    assert "rerun 1" in events
    assert "ComponentFailed" in events
    one = page_of(seeded, address(job_id, tab="/events?component=empty_1"))
    assert "Attempts of empty_1" in one
    assert "empty_0</th>" not in one
    about = page_of(seeded, address(job_id, tab="/events?site=host-10000"))
    assert "host 10000" in about
    first = page_of(seeded, address(job_id, tab="/events?since=0"))
    assert "it was submitted" in first
    drawn = page_of(seeded, address(job_id, tab="/timeline"))
    assert "first run" in drawn
    assert "rerun 1" in drawn
    assert 'class="bar bad"' in drawn
    by_site = page_of(seeded, address(job_id, tab="/timeline?by=site&site=host-10000"))
    assert "executor 1" in by_site
    host = page_of(seeded, address(job_id, HOST, "/events"))
    assert "guest 9999" not in re.sub(r"<nav.*?</nav>", "", host, flags=re.DOTALL)


def test_every_page_counts_attempts_as_task_version_does(seeded: Place) -> None:
    job_id = submit(seeded, {}, {"fail": "host"})
    wait_for_end(seeded, job_id)
    seeded.services.reruns.rerun(job_id)
    wait_for_end(seeded, job_id)
    number = '<th scope="row" class="number">{}</th>'
    one = page_of(seeded, address(job_id, tab="/events?component=empty_1"))
    assert number.format(0) in one
    assert "attempt 1</span>" in one
    assert "attempt 2" not in one
    assert number.format(2) not in one
    drawn = page_of(seeded, address(job_id, tab="/timeline"))
    assert "attempt 0: " in drawn
    assert "attempt 2" not in drawn
    assert re.search(r'events\?component=empty_1">1</a>', page_of(seeded, address(job_id)))
    component = page_of(seeded, address(job_id, tab="/components/empty_1"))
    assert '<a href="?attempt=1">1</a>' in component


def test_many_components_are_drawn_in_pages(seeded: Place) -> None:
    job_id = put_job(seeded, 13, large(300))
    text = page_of(seeded, address(job_id, tab="/timeline"))
    assert "1 to 100 of 300" in text
    last = page_of(seeded, address(job_id, tab="/timeline?page=3&zoom=4&ran=1"))
    assert "201 to 300 of 300" in last
    answer = get(seeded, address(job_id))
    assert int(answer.headers["Content-Length"]) < 100_000, "packed"


def test_pages_come_in_chinese(seeded: Place) -> None:
    job_id = put_job(seeded, 14, CHAIN)
    for tab in TABS:
        answer = get(seeded, address(job_id, tab=tab), **{"Accept-Language": "zh-CN"})
        assert "作业" in answer.text
