"""Texts of other people are texts on every page that links lead to, whatever they hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Final

import pytest

from fedflow.domain.job.warning import JobWarning
from fedflow.domain.reason import Reason
from fedflow.domain.records import Metric
from fedflow.domain.scheduling.history import Event, Subject
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board.job_seeds import CONF
from tests.board.log_seeds import put_log
from tests.board.model_seeds import add_share, put_output, stored_table
from tests.board.places import Place, serving
from tests.board.seeds import (
    CHAIN,
    GUEST,
    HOST,
    HOSTILE,
    START_MS,
    job,
    job_id,
    put,
    put_metrics,
    task,
)
from tests.e2e.board_crawl import Answer, Crawl, crawl

pytestmark = pytest.mark.timeout(600)

WORST: Final = f"{HOSTILE[1]}{HOSTILE[0]}'\"><svg/onload=alert(1)><a href=javascript:alert(1)>"
_URLS: Final = frozenset({"href", "src", "action", "formaction", "hx-get", "hx-post", "data-src"})
_TAGS: Final = frozenset({"iframe", "object", "embed", "base", "img"})  #: that no page has


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawl]:
    """All pages of a server on which every text is hostile."""
    with serving(tmp_path_factory.mktemp("hostile")) as place:
        for number in (1, 2):
            put_hostile_job(place, number)
        param = {"weight": {WORST: 0.5}, "header": [WORST], "intercept": 0.1, WORST: [WORST]}
        metric = Metric(namespace=WORST, name=WORST, points=((WORST, WORST),))
        add_share(
            place, 3, GUEST, WORST[:60], param_name="HeteroLRParam", param=param, metrics=(metric,)
        )  # fmt: skip
        compared = f"/board/compare?job={job_id(1)}&job={job_id(2)}&all=1"
        yield crawl(place.url, ("/board/", compared))


def put_hostile_job(place: Place, number: int) -> None:
    """Put a failed job into the store of which every text is hostile."""
    reason = Reason(code=WORST[:60], message=WORST, site=HOST)
    parameters = {WORST: {WORST: [WORST, number]}}
    of = job(
        number, status=JobStatus.FAILED, reason=reason, description=WORST, user=WORST[:60],
        conf={**CONF, "component_parameters": {"common": parameters}}, parameters=parameters,
        warnings=(JobWarning(code=WORST, path=WORST, message=WORST, hint=WORST),),
    )  # fmt: skip
    own = task(
        of, "dataio_0", WORST[:60], party_status=TaskStatus.FAILED, reason=reason,
        traceback=WORST, parameters=parameters, inherited_from=WORST[:20],
    )  # fmt: skip
    put(place.store, of, own, task(of, "reader_0", CHAIN["reader_0"][0], parameters=parameters))
    told = Metric(
        namespace=WORST, name=WORST, points=((1, 0.5 * number), (2, 0.25)),
        meta={"metric_type": "LOSS", "name": WORST, "unit_name": WORST, "curve_name": WORST},
    )  # fmt: skip
    put_metrics(place.store, own, told, replace(told, name=f"{WORST}2", meta={WORST: WORST}))
    subject = next(iter(Subject))
    event = Event(
        job_id=of.key.job_id, subject=subject, at_ms=START_MS, site=GUEST, component=WORST[:60],
        reason=reason,
    )  # fmt: skip
    with place.store.transaction() as tx:
        tx.events.add(event)
        tx.tracking.put_summary(own.key, {WORST: [WORST]}, now_ms=START_MS)
        tx.job_tags.add(of.key.job_id, WORST[:50], now_ms=START_MS)
    table = stored_table(place, f"{WORST[:90]}{number}", WORST[:90], {WORST: [WORST], "a": [WORST]})
    put_output(place, number, GUEST, table)
    for component in ("", "dataio_0"):
        for name in ("INFO.log", "ERROR.log"):
            put_log(place, of, f"{WORST}\n", component=component, name=name)


class _Page(HTMLParser):
    """Collects what of a page a browser would run or load."""

    def __init__(self) -> None:
        super().__init__()
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag in _TAGS:
            self.bad.append(f"<{tag}>")
        is_data = given.get("type") == "application/json"
        if tag == "script" and not is_data and not given.get("src", "").startswith("/board/static"):
            self.bad.append(f"<script {given}>")
        self.bad += [n for n in given if n.startswith("on") or n in ("style", "srcdoc")]
        for name in _URLS & given.keys():
            if not given[name].startswith(("/board", "#", "?")) and given[name]:
                self.bad.append(f"{name}={given[name][:80]}")


def runs(answer: Answer) -> list[str]:
    page = _Page()
    page.feed(answer.text)
    return page.bad


def test_the_crawl_saw_hostile_texts_on_pages_of_every_kind(hostile: Crawl) -> None:
    shown = {
        a.url.partition("?")[0] for a in hostile.answers if "&lt;script&gt;document" in a.text
    }  # fmt: skip
    share = f"/board/jobs/{job_id(1)}/guest/9999"
    component = f"{share}/components/dataio_0"
    assert shown >= {
        "/board/", "/board/jobs", "/board/compare", "/board/tables", "/board/tables/table", share,
        f"{share}/events", f"{share}/logs", f"{share}/definition", component,
        f"{component}/metrics", f"{component}/parameters", f"{component}/data", f"{component}/logs",
    }  # fmt: skip


def test_no_page_runs_or_loads_what_a_text_says(hostile: Crawl) -> None:
    pages = [a for a in hostile.answers if a.kind == "text/html"]
    assert len(pages) > 50
    bad = [f"{a}: {found}" for a in pages if (found := runs(a))]
    assert bad == [], "\n".join(bad[:20])


def test_no_page_breaks_on_a_text(hostile: Crawl) -> None:
    broken = [str(a) for a in hostile.answers if a.status >= 500]
    assert broken == []


def test_what_is_no_page_is_json_or_a_file_to_keep(hostile: Crawl) -> None:
    for answer in hostile.answers:
        assert answer.headers["X-Content-Type-Options"] == "nosniff", answer
        if answer.kind not in ("text/html", "application/json"):
            kept = answer.headers["Content-Disposition"]
            assert kept.startswith("attachment"), answer
            assert not {"<", ">", "\n", "/"} & set(kept), answer
