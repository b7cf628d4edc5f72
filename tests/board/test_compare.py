"""Jobs side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect

from fedflow.domain.records import JobKey, JobRecord
from fedflow.store.session import Session
from tests.board import seeds
from tests.board.component_seeds import metric, put_trained
from tests.board.places import NARROW, Place, Visitor, check_fits

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0


@pytest.fixture(scope="module")
def three(seeded: Place) -> list[JobRecord]:
    return [
        put_trained(
            seeded.store, 200 + i, strength=2.0 + i, alpha=0.01 * (i + 1),
            parameters={"timeout": 3600 * (i + 1), "task_cores": 4},
            description=f"try {i} <b>",
        )[0]
        for i in range(3)
    ]  # fmt: skip


def address(jobs: list[JobRecord], *more: str) -> str:
    query = "&".join([*(f"job={job.key.job_id}" for job in jobs), *more])
    return f"/board/compare?{query}"


def get(place: Place, path: str) -> requests.Response:
    return requests.get(place.url + path, timeout=CALL_S)


def test_what_differs_is_shown_and_on_request_everything(
    seeded: Place, three: list[JobRecord]
) -> None:
    text = get(seeded, address(three)).text
    assert "lr_0.alpha" in text
    assert "timeout" in text
    assert "task_cores" not in text
    assert "lr_0.penalty" not in text
    assert "try 0 &lt;b&gt;" in text
    everything = get(seeded, address(three, "all=1")).text
    assert "task_cores" in everything
    assert "lr_0.penalty" in everything
    assert "hunter2" not in everything


def test_the_best_score_of_three_is_marked(seeded: Place, three: list[JobRecord]) -> None:
    text = get(seeded, address(three)).text
    assert text.count('class="best"') == 2  # the auc of train and of validate; ks are equal
    assert "0.8<span" in text


def test_curves_of_all_jobs_are_in_one_chart_and_its_file(
    seeded: Place, three: list[JobRecord]
) -> None:
    view = address(three, "component=evaluation_0", "key=roc").replace("compare?", "compare/view?")
    found = get(seeded, view).json()
    assert [s["model"] for s in found["series"]] == ["A", "A", "B", "B", "C", "C"]
    assert [s["name"] for s in found["series"]][:2] == ["A · lr_0 · train", "A · lr_0 · validate"]
    csv = get(seeded, view.replace("view?", "view.csv?"))
    assert csv.content.count(b"\r\n") == 6 * 101 + 1
    durations = address(three, "component=", "key=durations").replace("compare?", "compare/view?")
    assert get(seeded, durations).json()["categories"] == ["reader_0", "lr_0", "evaluation_0"]


def test_many_components_cost_a_few_statements(
    seeded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"c_{i}" for i in range(40)]
    made = [
        seeds.job(230 + i, dsl=seeds.dsl(dict.fromkeys(names, ("Evaluation", ()))))
        for i in range(5)
    ]
    for i, job in enumerate(made):
        tasks = [seeds.task(job, name, "Evaluation") for name in names]
        seeds.put(seeded.store, job, *tasks)
        for task in tasks:
            score = metric("EVALUATION_SUMMARY", "lr_0", ("auc", 0.5 + i / 100))
            seeds.put_metrics(seeded.store, task, score, metric("LOSS", "loss", (0, 1), (1, 2)))
    asked: list[str] = []
    ask = Session.rows

    def counted(self: Session, sql: str, *values: Any, **options: Any) -> Any:
        asked.append(sql)
        return ask(self, sql, *values, **options)

    monkeypatch.setattr(Session, "rows", counted)
    text = get(seeded, address(made)).text
    assert text.count('class="best"') == len(names)
    assert "c_39" in text
    reads = [sql for sql in asked if "t_tracking_metric" in sql]
    assert len(reads) < len(names) * 2


def test_curves_of_many_components_come_in_pages(seeded: Place) -> None:
    made = []
    for i in range(2):
        job = seeds.job(240 + i, dsl=seeds.dsl({f"lr_{n}": ("HeteroLR", ()) for n in range(7)}))
        tasks = [seeds.task(job, f"lr_{n}", "HeteroLR") for n in range(7)]
        seeds.put(seeded.store, job, *tasks)
        for task in tasks[1:]:
            seeds.put_metrics(seeded.store, task, metric("LOSS", "loss", (0, 1), (1, 2)))
        made.append(job)
    first = get(seeded, address(made)).text
    assert [n for n in range(7) if f'id="view-lr_{n}-loss"' in first] == [1, 2, 3, 4, 5]
    assert "1 to 5 of 6" in first
    second = get(seeded, address(made, "curves=2")).text
    assert [n for n in range(7) if f'id="view-lr_{n}-loss"' in second] == [6]


def test_a_changed_graph_is_told(seeded: Place, three: list[JobRecord]) -> None:
    other = seeds.job(210, dsl=seeds.dsl({"reader_0": ("Reader", ()), "new_0": ("Union", ())}))
    seeds.put(
        seeded.store, other, seeds.task(other, "reader_0", "Reader"),
        seeds.task(other, "new_0", "Union"),
    )  # fmt: skip
    text = get(seeded, address([three[0], other])).text
    assert "new_0.module" in text
    assert "not there" in text


def test_jobs_that_are_gone_are_named_and_the_others_compared(
    seeded: Place, three: list[JobRecord]
) -> None:
    gone = "job=20990101&job=%3Cscript%3Ealert(1)%3C/script%3E"
    text = get(seeded, address(three[:2], gone)).text
    assert "These jobs are not at this server" in text
    assert "20990101" in text
    assert "<script>alert" not in text
    assert "lr_0.alpha" in text


@pytest.mark.parametrize("query", ["", "?job=", "?job=none", "?job=none:king:1", "?job=a&job=b"])
def test_without_two_jobs_the_page_says_what_it_needs(seeded: Place, query: str) -> None:
    answer = get(seeded, f"/board/compare{query}")
    assert answer.status_code == 200
    assert "Two jobs are needed" in answer.text


def test_more_than_five_jobs_are_left_out_and_said(seeded: Place, three: list[JobRecord]) -> None:
    more = [f"job={three[0].key.job_id}:guest:9999", "job=x", "job=y", "job=z"]
    text = get(seeded, address(three, *more)).text
    assert "At most 5 jobs can be compared; 2 are left out." in text


def test_a_share_of_another_site_is_compared_only_where_it_is_here(
    seeded: Place, three: list[JobRecord]
) -> None:
    guest = three[0]
    host_job = replace(guest, key=JobKey(job_id=seeds.job_id(220), site=seeds.HOST))
    task = seeds.task(host_job, "lr_0", "HeteroLR", parameters={"alpha": 9.5})
    seeds.put(seeded.store, host_job, task)
    seeds.put_metrics(seeded.store, task, metric("LOSS", "loss", (0, 1), (1, 2)))
    text = get(seeded, address([guest], f"job={seeds.job_id(220)}:host:10000")).text
    assert "models of different roles" in text
    assert "9.5" in text
    asked = f"job={guest.key.job_id}:host:10000"
    other = get(seeded, address([three[1]], asked)).text
    assert "These jobs are not at this server" in other


@pytest.mark.browser
def test_three_jobs_are_drawn_and_hidden_by_job_and_the_page_is_accessible(
    visitor: Visitor, three: list[JobRecord], axe: Callable[[Page], None],
    shot: Callable[[Page, str], None],
) -> None:  # fmt: skip
    page = visitor.open(address(three))
    figure = page.locator("#view-evaluation_0-roc")
    figure.scroll_into_view_if_needed()
    expect(figure.locator("ff-chart canvas")).to_be_visible()
    figure.locator("ff-chart .filters").get_by_role("button", name="B", exact=True).press("Space")
    shown = figure.locator("ff-chart").evaluate(
        "c => c.lines.plot.series.slice(1).map(s => s.show)"
    )
    assert shown == [True, True, False, False, True, True]
    page.locator("#view-durations").scroll_into_view_if_needed()
    expect(page.locator("#view-durations ff-chart svg rect[x]").first).to_be_visible()
    axe(page)
    shot(page, "compare")
    visitor.sized(NARROW)
    check_fits(page)
    axe(page)


@pytest.mark.browser
def test_a_job_is_added_in_the_form_and_the_address_tells_all_of_them(
    visitor: Visitor, three: list[JobRecord]
) -> None:
    page = visitor.open(address(three[:2]))
    page.get_by_label("Add a job by its id").fill(three[2].key.job_id)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("link", name=three[2].key.job_id)).to_be_visible()
    assert page.url.count("job=") == 3
