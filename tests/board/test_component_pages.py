"""The component page over HTTP: attempts, parameters, errors, files, what changes while it runs."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from html import unescape

import pytest
import requests

from fedflow.base.errors.data import BadData
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message
from fedflow.board import metric_pace
from fedflow.domain.outside import outside
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey, Metric, TaskRecord
from fedflow.domain.site import Role, Site
from fedflow.domain.states import TaskStatus
from tests.board import seeds
from tests.board.component_seeds import address, losses, metric, put_trained
from tests.board.job_seeds import submit
from tests.board.model_seeds import put_output, stored_table
from tests.board.places import Place
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
HOST = Site(Role.HOST, PartyId("10000"))


@pytest.fixture(scope="module")
def trained(seeded: Place) -> tuple[TaskRecord, TaskRecord]:
    _, model, evaluated = put_trained(seeded.store, 101)
    return model, evaluated


def get(place: Place, path: str, **headers: str) -> requests.Response:
    return requests.get(place.url + path, headers=headers, timeout=CALL_S)


def test_the_page_has_module_status_times_and_tabs(
    seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    text = get(seeded, address(trained[0])).text
    assert "<h1>lr_0" in text
    assert "HeteroLR" in text
    assert "guest 9999" in text
    for tab in ("metrics", "model", "data", "parameters", "logs"):
        assert f'href="{address(trained[0], tab)}"' in text


def test_what_is_not_there_is_a_page_that_says_so(
    seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    path = address(trained[0])
    for wrong, status in (
        (path.replace("lr_0", "none_0"), 404),
        (path.replace("guest/9999", "guest/1"), 404),
        (path.replace("guest/9999", "king/9999"), 404),
        (f"{path}?attempt=7", 400),
        (f"{path}?attempt=%3Cscript%3E", 400),
        (f"{path}/metrics/view?key=none", 404),
    ):
        answer = get(seeded, wrong)
        assert answer.status_code in (status, 210), wrong
        assert "<script>alert" not in answer.text


def test_another_sites_share_is_not_shown_even_if_its_job_is_known(seeded: Place) -> None:
    job = seeds.job(110)
    theirs = replace(
        seeds.task(job, "lr_0", "HeteroLR", parameters={"theirs": "their value"}),
        key=replace(seeds.task(job, "lr_0", "HeteroLR").key, site=seeds.HOST),
    )
    seeds.put(seeded.store, job, theirs)
    seeds.put_metrics(seeded.store, theirs, metric("LOSS", "their loss", (0, 1), (1, 2)))
    own = f"/board/jobs/{job.key.job_id}/guest/9999/components/lr_0"
    their = own.replace("guest/9999", "host/10000")
    for path in (own, their):
        for tab in ("", "/metrics", "/parameters", "/metrics.json", "/report.zip", "/head"):
            answer = get(seeded, path + tab)
            assert answer.status_code == 404
            assert "their value" not in answer.text
            assert "their loss" not in answer.text


def test_a_guest_does_not_see_its_hosts_shares_on_the_same_server(seeded: Place) -> None:
    guest = seeds.job(111)
    host = replace(guest, key=JobKey(job_id=guest.key.job_id, site=seeds.HOST))
    tasks = {
        job.key.site: seeds.task(
            job, "lr_0", "HeteroLR", parameters={"alpha": f"of {job.key.site}"}
        )
        for job in (guest, host)
    }
    seeds.put(seeded.store, guest, host, *tasks.values())
    for site, task in tasks.items():
        seeds.put_metrics(seeded.store, task, metric("NEW", "who", ("who", f"metric of {site}")))
    for site, task in tasks.items():
        other = seeds.HOST if site == seeds.GUEST else seeds.GUEST
        for tab in ("metrics", "parameters", "metrics.json"):
            text = get(seeded, address(task, tab)).text
            assert f"metric of {other}" not in text
            assert f"of {other}" not in text


def test_parameters_are_those_of_the_site_with_defaults_and_without_secrets(
    seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    text = get(seeded, address(trained[0], "parameters")).text
    assert "hunter2" not in text
    assert "******" in text
    assert "tol" in text  # a default
    assert "null" in text  # a parameter without a value is shown as such
    found = get(seeded, address(trained[0], "parameters?search=init_method")).text
    assert "init_param.init_method" in found
    assert "Found: 1" in found
    none = get(seeded, address(trained[0], "parameters?search=no-such-thing")).text
    assert "No parameter fits" in none


def test_parameters_of_a_module_that_is_gone_are_shown_as_they_were_given(seeded: Place) -> None:
    job = seeds.job(112)
    task = seeds.task(job, "old_0", "NoSuchModule", parameters={"given": 7, "api_key": "k"})
    seeds.put(seeded.store, job, task)
    text = get(seeded, address(task, "parameters")).text
    assert "no longer installed at this server" in text
    assert "given" in text


def test_earlier_attempts_show_their_own_metrics_parameters_and_errors(seeded: Place) -> None:
    job = seeds.job(113)
    first = seeds.task(
        job, "lr_0", "HeteroLR", parameters={"alpha": 0.125}, party_status=TaskStatus.FAILED,
        status=TaskStatus.FAILED, traceback="Traceback: first <b>attempt</b>",
        reason=Reason(code="Diverged", message="loss is NaN", site=seeds.GUEST),
    )  # fmt: skip
    second = replace(
        seeds.task(job, "lr_0", "HeteroLR", parameters={"alpha": 0.5}),
        key=replace(first.key, version=1),
    )
    seeds.put(seeded.store, job, first, second)
    seeds.put_metrics(seeded.store, first, metric("NEW", "only first", ("a", 1)))
    seeds.put_metrics(seeded.store, second, metric("NEW", "only second", ("a", 1)))
    with seeded.store.transaction() as tx:
        tx.tracking.put_summary(first.key, {"said": "by the first"}, now_ms=1)
        tx.tracking.put_summary(second.key, {"said": "by the second"}, now_ms=1)
    latest = get(seeded, address(second, "metrics")).text
    assert "only second" in latest
    assert "only first" not in latest
    assert "by the second" in latest
    earlier = get(seeded, address(second, "metrics?attempt=0")).text
    assert "only first" in earlier
    assert "only second" not in earlier
    assert "by the first" in earlier
    assert "This is an earlier attempt." in earlier
    assert "attempt=0" in earlier.split('class="tabs"')[1]
    overview = get(seeded, address(second, "?attempt=0").replace("/?", "?")).text
    assert "first &lt;b&gt;attempt&lt;/b&gt;" in overview
    assert "Diverged" in overview
    assert "0.125" in get(seeded, address(second, "parameters?attempt=0")).text


def test_a_failed_attempt_has_a_text_for_the_other_parties_without_names_and_rows(
    seeded: Place,
) -> None:
    job = seeds.job(127)
    error = BadData(where="column 'hiv'", reason="1 of 30 values is infinite, first in row 4711")
    failed = seeds.task(
        job, "lr_0", "HeteroLR", status=TaskStatus.FAILED, party_status=TaskStatus.FAILED,
        reason=Reason(code=error.name, message=error.message, site=job.key.site),
    )  # fmt: skip
    made = seeds.task(job, "dataio_0", "DataTransform")
    seeds.put(seeded.store, job, made, failed)
    table = stored_table(seeded, "made", "of127", {"id": ["a"], "hiv": [1.0], "age": [2.0]})
    names = {"anonymous": ["guest_9999_0", "guest_9999_1"]}
    renamed = replace(table, name="named127", schema={**table.schema, **names})
    with seeded.store.transaction() as tx:
        tx.tables.put(renamed)
    put_output(seeded, 127, job.key.site, renamed)

    page = get(seeded, address(failed)).text
    assert "row 4711" in unescape(page), "its own people see the whole sentence"
    [text] = re.findall(r'<pre id="for-others"[^>]*>(.*?)</pre>', page, re.DOTALL)
    assert unescape(text) == (
        f"Job {job.key.job_id}, component lr_0 (HeteroLR), attempt 0, at guest 9999\n"
        "BadData; the details stay at guest 9999\n"
        "Columns, by their anonymous names: guest_9999_0\n"
        f"{BadData.hint}"
    )
    chinese = get(seeded, address(failed), **{"Accept-Language": "zh-CN"}).text
    [text] = re.findall(r'<pre id="for-others"[^>]*>(.*?)</pre>', chinese, re.DOTALL)
    assert "列（匿名名称）：guest_9999_0" in text
    assert "hiv" not in text
    assert "4711" not in text
    assert "for-others" not in get(seeded, address(made)).text


def test_what_others_know_already_has_no_text_for_them(seeded: Place) -> None:
    job = seeds.job(128)
    told = outside(BadData(where="x", reason="y").message, code="BadData", site=HOST)
    for name, reason in (
        ("a_0", Reason(code="BadData", message=told, site=HOST)),
        ("b_0", Reason(code="PeerFailed", message=told, site=job.key.site)),
        ("c_0", Reason(code="Stopped", message=Message("stopped by {site}", HOST), site=None)),
    ):
        failed = seeds.task(job, name, "HeteroLR", party_status=TaskStatus.FAILED, reason=reason)
        seeds.put(seeded.store, *((job,) if name == "a_0" else ()), failed)
        assert "for-others" not in get(seeded, address(failed)).text


def test_an_attempt_without_metrics_does_not_show_those_of_another(seeded: Place) -> None:
    job = seeds.job(114)
    first = seeds.task(job, "lr_0", "HeteroLR", party_status=TaskStatus.FAILED)
    second = replace(
        first, key=replace(first.key, version=1), status=TaskStatus.RUNNING,
        party_status=TaskStatus.RUNNING, ended_ms=None,
    )  # fmt: skip
    seeds.put(seeded.store, job, first, second)
    seeds.put_metrics(seeded.store, first, losses())
    text = get(seeded, address(second, "metrics")).text
    assert "No metrics yet" in text
    assert "ff-chart" not in text


def test_a_site_without_the_loss_says_where_it_is_and_how_far_the_training_is(
    seeded: Place,
) -> None:
    job = seeds.job(131)
    running = seeds.task(
        job, "lr_0", "HeteroLR", status=TaskStatus.RUNNING, party_status=TaskStatus.RUNNING,
        ended_ms=None,
    )  # fmt: skip
    ended = replace(
        seeds.task(job, "lr_1", "HeteroLR"),
        party_status=TaskStatus.SUCCESS,
        status=TaskStatus.SUCCESS,
    )
    seeds.put(seeded.store, job, running, ended)
    for task in (running, ended):
        points = [(n, 2.0) for n in range(12)]
        told = metric("ROUND_SECONDS", "round_seconds", *points, of=30, loss_at="arbiter-10000")
        seeds.put_metrics(seeded.store, task, told)
    text = get(seeded, address(running, "metrics")).text
    assert "The loss is at arbiter 10000." in text
    assert "Here: iteration 12 of at most 30, 2.0 s each. At most 36 s are left." in text
    text = get(seeded, address(ended, "metrics")).text
    assert "The loss is at arbiter 10000. Here: 12 iterations, 2.0 s each." in text
    page = f"/board/jobs/{job.key.job_id}/{job.key.site.role.value}/{job.key.site.party_id}"
    whole = get(seeded, page).text
    assert whole.count("At most 36 s are left.") == 1  # in the head, of what runs alone
    assert "iteration 12 of at most 30" in whole
    assert "at most 36 s left" in whole
    assert "loss-line" not in whole
    with_loss = seeds.job(132)
    own = replace(running, key=replace(running.key, job_id=with_loss.key.job_id))
    seeds.put(seeded.store, with_loss, own)
    seeds.put_metrics(seeded.store, own, losses(12), told)
    whole = get(seeded, page.replace(job.key.job_id, with_loss.key.job_id)).text
    assert '<svg class="loss-line"' in whole
    seeds.put_metrics(seeded.store, running, losses(12))
    assert "The loss is at" not in get(seeded, address(running, "metrics")).text


def test_the_live_part_is_sent_once_and_again_when_there_are_more_points(seeded: Place) -> None:
    job = seeds.job(115)
    task = seeds.task(
        job, "lr_0", "HeteroLR", status=TaskStatus.RUNNING, party_status=TaskStatus.RUNNING,
        ended_ms=None,
    )  # fmt: skip
    seeds.put(seeded.store, job, task)
    seeds.put_metrics(seeded.store, task, losses(3))
    path = address(task, "metrics/live")
    first = get(seeded, path)
    assert first.status_code == 200
    tag = first.headers["ETag"]
    assert get(seeded, path, **{"If-None-Match": tag}).status_code == 304
    seeds.put_metrics(seeded.store, task, metric("LOSS", "loss", (3, 0.1)))
    again = get(seeded, path, **{"If-None-Match": tag})
    assert again.status_code == 200
    marks = [re.search(r"mark=(\w+)", answer.text) for answer in (first, again)]
    assert marks[0]
    assert marks[1]
    assert marks[0][1] != marks[1][1]
    drawn = get(seeded, address(task, "metrics/view?key=loss")).json()
    assert drawn["series"][0]["x"] == [0, 1, 2, 3]


def test_views_of_many_points_stay_for_a_while(
    seeded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_pace, "CHEAP", 1)
    monkeypatch.setattr(metric_pace, "POINTS_PER_S", 0.001)
    job = seeds.job(120)
    task = seeds.task(
        job, "lr_0", "HeteroLR", status=TaskStatus.RUNNING, party_status=TaskStatus.RUNNING,
        ended_ms=None,
    )  # fmt: skip
    seeds.put(seeded.store, job, task)
    seeds.put_metrics(seeded.store, task, losses(3))
    path = address(task, "metrics/view?key=loss")
    assert get(seeded, path).json()["series"][0]["x"] == [0, 1, 2]
    seeds.put_metrics(seeded.store, task, metric("LOSS", "loss", (3, 0.1)))
    assert get(seeded, path).json()["series"][0]["x"] == [0, 1, 2]
    monkeypatch.undo()
    assert get(seeded, path).json()["series"][0]["x"] == [0, 1, 2, 3]


def test_polling_ends_with_the_component(
    seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    for tab in ("head", "metrics/live"):
        assert get(seeded, address(trained[1], tab)).status_code == 286
    assert "hx-get" not in get(seeded, address(trained[1], "metrics")).text


def test_metrics_are_downloaded_as_json_csv_and_as_a_report(
    seeded: Place, trained: tuple[TaskRecord, TaskRecord]
) -> None:
    found = json.loads(get(seeded, address(trained[1], "metrics.json")).content)
    assert len(found["train"]["lr_0_roc"]["data"]) == 101
    csv = get(seeded, address(trained[1], "metrics/view.csv?key=roc"))
    assert "attachment" in csv.headers["Content-Disposition"]
    assert csv.content.count(b"\r\n") == 203
    report = get(seeded, address(trained[1], "report.zip"))
    with zipfile.ZipFile(io.BytesIO(report.content)) as content:
        names = content.namelist()
        assert {"roc.csv", "ks.csv", "confusion.csv", "psi.csv", "scores.csv"} <= set(names)


def test_a_big_metric_is_thinned_on_the_page_and_whole_in_its_file(seeded: Place) -> None:
    job = seeds.job(116)
    task = seeds.task(job, "lr_0", "HeteroLR")
    seeds.put(seeded.store, job, task)
    points = tuple((i, i % 97) for i in range(50_000))
    seeds.put_metrics(
        seeded.store, task,
        Metric(namespace="train", name="loss", points=points, meta={"metric_type": "LOSS"}),
        metric("NEW", "names", *((f"name {i}", i) for i in range(1_000))),
    )  # fmt: skip
    answer = get(seeded, address(task, "metrics"))
    assert "of 50,000 points are drawn" in answer.text
    assert "200 of 1,000 rows" in answer.text
    assert len(answer.content) < 150_000
    assert len(get(seeded, address(task, "metrics/view?key=loss")).json()["series"][0]["x"]) <= 2000
    assert get(seeded, address(task, "metrics.json")).content.count(b"[") > 50_000


def test_hostile_texts_are_texts_on_every_tab(seeded: Place) -> None:
    job = seeds.job(117)
    task = seeds.task(
        job, "lr_0", "HeteroLR", parameters={text[:60]: text for text in seeds.HOSTILE},
        traceback="\n".join(seeds.HOSTILE), party_status=TaskStatus.FAILED,
        reason=Reason(code="Bad", message=seeds.HOSTILE[0], site=seeds.GUEST),
    )  # fmt: skip
    seeds.put(seeded.store, job, task)
    for text in seeds.HOSTILE:
        seeds.put_metrics(
            seeded.store, task,
            metric(text[:100], text[:150], (text, text)),
            metric("data_info", text[:170], table_info={text: text}, name_=text),
            metric("EVALUATION_SUMMARY", text[:150], (text, 1)),
        )  # fmt: skip
    with seeded.store.transaction() as tx:
        tx.tracking.put_summary(task.key, {text: [text] for text in seeds.HOSTILE}, now_ms=1)
    for tab in ("", "metrics", "parameters", "parameters?search=script"):
        text = get(seeded, address(task, tab)).text
        assert "<script>document" not in text
        assert "<img" not in text
        assert "<script>alert" not in text


def test_values_of_a_megabyte_make_a_small_page(seeded: Place) -> None:
    job = seeds.job(119)
    big = "x" * 1_000_000
    task = seeds.task(job, "lr_0", "HeteroLR", parameters={"note": big}, traceback=big)
    seeds.put(seeded.store, job, task)
    seeds.put_metrics(
        seeded.store, task,
        metric("NEW", "a", (big, big)), metric("NEW", "b", deep={"x": [big]}),
        metric("LOSS", "loss", (0, 1), (1, 2), curve_name=big),
        metric("ROC_EVALUATION", "c_roc", (0, 0), (1, 1), thresholds=[big, big]),
        metric("CONFUSION_MAT", "d_confusion_mat", tp=[big], thresholds=[0.5]),
    )  # fmt: skip
    for tab in ("", "metrics", "parameters", "metrics/view?key=roc", "metrics/view?key=confusion"):
        assert len(get(seeded, address(task, tab)).content) < 120_000, tab


def test_a_job_that_is_deleted_while_one_looks_is_404_for_the_live_part(seeded: Place) -> None:
    path = "/board/jobs/202611201000000000099999/guest/9999/components/lr_0/metrics/live"
    answer = get(seeded, path, **{"HX-Request": "true"})
    assert answer.status_code == 404


def test_an_arbiter_has_its_own_page(seeded: Place) -> None:
    arbiter = Site(Role.ARBITER, PartyId("10000"))
    job = seeds.job(118)
    job = replace(job, key=JobKey(job_id=job.key.job_id, site=arbiter))
    task = seeds.task(job, "lr_0", "HeteroLR")
    seeds.put(seeded.store, job, task)
    assert "arbiter 10000" in get(seeded, address(task)).text
    assert "No metrics" in get(seeded, address(task, "metrics")).text


def test_a_job_that_really_runs_has_its_pages_from_the_first_moment(seeded: Place) -> None:
    job_id = submit(seeded, {"rows": 3}, {})
    site = seeded.services.tracking.default_site(job_id)
    base = f"/board/jobs/{job_id}/{site.role.value}/{site.party_id}/components"
    for name in ("empty_0", "empty_1"):
        for tab in ("", "/metrics", "/parameters", "/head", "/metrics/live", "/report.zip"):
            assert get(seeded, f"{base}/{name}{tab}").status_code in (200, 286), tab
    wait_until(lambda: get(seeded, f"{base}/empty_1/metrics/live").status_code == 286, 60.0)
    text = get(seeded, f"{base}/empty_1").text
    assert "success" in text
    assert "host 10000" in text  # the initiator sees how it went at the other party
    assert "No metrics" in get(seeded, f"{base}/empty_1/metrics").text
    assert "Two jobs are needed" in get(seeded, f"/board/compare?job={job_id}").text
