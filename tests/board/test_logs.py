"""Pages of logs without scripts, and what the script asks: what is shown, to whom, how safely."""

from __future__ import annotations

import html
import io
import re
import tarfile
from dataclasses import replace
from typing import Any

import pytest
import requests

from fedflow.base.ids import PartyId
from fedflow.domain.reason import Reason
from fedflow.domain.records import JobKey, JobRecord
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board.log_seeds import (
    component_logs_path,
    logs_path,
    put_log,
    record,
    seed_failed_then_good,
    seed_running,
)
from tests.board.places import Place
from tests.board.seeds import GUEST, HOST, HOSTILE, job, put, task

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0


def get(place: Place, path: str, **headers: str) -> requests.Response:
    return requests.get(place.url + path, timeout=CALL_S, headers=headers)


def text(place: Place, path: str) -> str:
    answer = get(place, path)
    assert answer.status_code == 200, answer.text[:2000]
    return answer.text


def shown(page: str) -> list[str]:
    """Return the texts of the lines on a page."""
    return [html.unescape(found) for found in re.findall(r"<code>(.*?)</code>", page, re.DOTALL)]


def ask(place: Place, path: str) -> Any:
    answer = get(place, path, **{"X-Requested-With": "board"})
    assert answer.status_code == 200, answer.text[:2000]
    return answer.json()


def archived(place: Place, of: JobRecord) -> list[str]:
    """Return the names in the archive of a site's logs."""
    content = io.BytesIO(get(place, logs_path(of, "/archive")).content)
    with tarfile.open(fileobj=content) as archive:
        return archive.getnames()


def seed_many(place: Place, number: int, lines: int = 1000) -> JobRecord:
    of = job(number)
    put(place.store, of, task(of, "lr_0", "HeteroLR"))
    put_log(place, of, "".join(record("INFO", f"row {n}", n) for n in range(1, lines + 1)))
    return of


def test_a_page_shows_the_end_of_a_log_and_links_to_older_and_newer_lines(seeded: Place) -> None:
    of = seed_many(seeded, 101)
    page = text(seeded, logs_path(of))
    assert "Lines 801 to 1,000 of 1,000" in page
    assert shown(page)[-1].endswith("row 1000")
    older = re.search(r'href="([^"]+)">Older lines', page)
    assert older is not None
    page = text(seeded, html.unescape(older[1]))
    assert "Lines 601 to 800 of 1,000" in page
    newer = re.search(r'href="([^"]+)">Newer lines', page)
    assert newer is not None
    assert "Lines 801 to 1,000" in text(seeded, html.unescape(newer[1]))


def test_the_address_of_a_line_shows_it_among_its_neighbours(seeded: Place) -> None:
    of = seed_many(seeded, 102)
    page = text(seeded, logs_path(of, "?line=500"))
    assert re.search(r'<li id="L500" class="INFO current">', page)
    assert "Lines 480 to 679" in page


def test_a_search_without_scripts_goes_on_by_a_link(seeded: Place) -> None:
    of = seed_many(seeded, 103, lines=1200)
    page = text(seeded, logs_path(of, "?q=ROW"))
    assert len(shown(page)) == 500
    further = re.search(r'href="([^"]+)">Search on', page)
    assert further is not None
    assert shown(text(seeded, html.unescape(further[1])))[0].endswith("row 501")
    page = text(seeded, logs_path(of, "?q=row+77&level=INFO"))
    assert [line.rpartition(" ")[2] for line in shown(page)] == ["77", *map(str, range(770, 780))]
    assert "Nothing was found" in text(seeded, logs_path(of, "?level=ERROR"))


def test_after_a_failed_attempt_and_a_good_one_both_can_be_read(seeded: Place) -> None:
    of = seed_failed_then_good(seeded, 104)
    page = text(seeded, logs_path(of, "?component=lr_0"))
    assert "attempt one ends well" in page
    assert re.search(r'attempt=0">Attempt 0 <span class="status bad">', page)
    assert re.search(r'attempt=1"[^>]*>Attempt 1 <span class="status ok">', page)
    assert "An earlier attempt failed" in text(seeded, logs_path(of))
    page = text(seeded, component_logs_path(of, "lr_0", "?attempt=0"))
    assert "First real error" in page
    assert "attempt zero begins" in page
    assert "ValueError: no column &lt;b&gt;age&lt;/b&gt;" in page
    assert "attempt one ends well" in text(seeded, component_logs_path(of, "lr_0"))


def test_the_first_real_error_leads_to_its_line_in_the_whole_log(seeded: Place) -> None:
    of = seed_failed_then_good(seeded, 105)
    answer = get(seeded, logs_path(of, "/first-error?component=lr_0&attempt=0"))
    assert answer.url.endswith("/components/lr_0/logs?attempt=0&file=info&line=41")
    assert re.search(r'<li id="L41" class="ERROR current">', answer.text)
    assert get(seeded, logs_path(of, "/first-error?component=other")).status_code != 200


def test_a_failure_that_another_site_caused_says_where_to_look(seeded: Place) -> None:
    of = job(
        106, status=JobStatus.FAILED,
        reason=Reason(code="BadData", message="reader_0 at host 10000: no", site=HOST),
    )  # fmt: skip
    followed = Reason(code="PeerFailed", message="host 10000 stopped taking part: no", site=GUEST)
    put(
        seeded.store, of,
        task(of, "reader_0", "Reader", party_status=TaskStatus.FAILED, reason=followed),
    )  # fmt: skip
    assert "This followed from a failure at host 10000" in text(seeded, logs_path(of))


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_whatever_a_line_holds_is_shown_as_text(seeded: Place, number: int) -> None:
    hostile = HOSTILE[number]
    of = job(110 + number)
    bad = task(
        of, "lr_0", "HeteroLR", party_status=TaskStatus.FAILED,
        reason=Reason(code="ComponentFailed", message=hostile, site=GUEST),
    )  # fmt: skip
    put(seeded.store, of, bad)
    line = record("ERROR", hostile)
    put_log(seeded, of, line)
    put_log(seeded, of, line, component="lr_0", name="ERROR.log")
    page = text(seeded, logs_path(of))
    assert "<script>" not in page
    assert "<img src=x" not in page
    assert "\u202e" not in page
    expected = hostile.replace("\u202e", "\\u202e").replace("\u2066", "\\u2066")
    assert shown(page)[0].endswith(expected)


def test_a_search_text_is_shown_as_text(seeded: Place) -> None:
    of = seed_many(seeded, 130, lines=3)
    page = text(seeded, logs_path(of) + "?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>alert" not in page


def test_addresses_are_masked_and_long_lines_are_cut(seeded: Place) -> None:
    of = job(131)
    put(seeded.store, of)
    put_log(seeded, of, "from 10.0.12.7\n" + "x" * 10_000_000 + "\n")
    page = text(seeded, logs_path(of))
    assert "10.0.12.7" not in page
    assert "cut: the line has 9.5 MiB" in page
    assert len(page) < 100_000


def test_the_script_gets_lines_by_number_and_nothing_if_nothing_was_added(seeded: Place) -> None:
    of = seed_running(seeded, 132)
    put_log(seeded, of, "one\ntwo\n")
    path = logs_path(of, "/lines?begin=2&count=10")
    first = get(seeded, path)
    assert [line[:1] + line[4:5] for line in first.json()["lines"]] == [[2, "two"]]
    assert first.json()["final"] is False
    tag = {"If-None-Match": first.headers["ETag"]}
    again = get(seeded, path, **tag)
    assert (again.status_code, again.text) == (304, "")
    put_log(seeded, of, "three")
    then = get(seeded, path, **tag)
    assert [line[4] for line in then.json()["lines"]] == ["two", "three"]
    assert then.json()["total"] == 3


def test_the_script_searches_and_counts_levels(seeded: Place) -> None:
    of = seed_failed_then_good(seeded, 133)
    where = "component=lr_0&attempt=0"
    assert ask(seeded, logs_path(of, f"/levels?{where}"))["levels"] == {"INFO": 40, "ERROR": 1}
    found = ask(seeded, logs_path(of, f"/search?{where}&level=ERROR"))
    assert [line[0] for line in found["lines"]] == [41, 42, 43, 44, 45]
    assert found["done"] is True
    found = ask(seeded, logs_path(of, f"/search?{where}&q=valueERROR"))
    assert [line[0] for line in found["lines"]] == [41, 44, 45]


def test_a_site_gets_only_its_own_logs(seeded: Place) -> None:
    of = job(134)
    host = replace(of, key=JobKey(job_id=of.key.job_id, site=HOST))
    put(seeded.store, of, host)
    put_log(seeded, of, "of the guest\n")
    put_log(seeded, host, "of the host\n")
    folder = put_log(seeded, host, "").parent.parent.parent
    (folder / "fate_flow_schedule.log").write_text("of the server, about both\n")
    for path in ("", "/lines", "/raw", "/lines?file=schedule", "/raw?file=schedule", "?q=of"):
        assert "of the host" not in get(seeded, logs_path(of, path)).text
        answer = get(seeded, logs_path(host, path)).text
        assert "of the guest" not in answer
        assert "about both" not in answer
    assert "about both" in text(seeded, logs_path(of, "?file=schedule"))
    assert archived(seeded, of) == ["guest/9999/INFO.log", "fate_flow_schedule.log"]
    assert archived(seeded, host) == ["host/10000/INFO.log"]
    other = replace(of, key=JobKey(job_id=of.key.job_id, site=Site(Role.HOST, PartyId("77"))))
    for path in ("", "/lines", "/raw", "/archive", "/levels", "/search", "/first-error"):
        assert get(seeded, logs_path(other, path)).status_code == 404, path


@pytest.mark.parametrize(
    "query",
    [
        "file=../../x", "file=passwd", "component=..", "component=a/b", "component=lr_0&attempt=x",
        "level=LOUD", "line=-1", "begin=x", "count=1e9", "cursor=x", "q=" + "x" * 300,
    ],
)  # fmt: skip
def test_what_names_no_log_is_refused(seeded: Place, query: str) -> None:
    of = job(135)
    put(seeded.store, of)
    put_log(seeded, of, "x\n")
    answers = {
        path: get(seeded, logs_path(of, f"{path}?{query}")).status_code
        for path in ("", "/lines", "/search", "/raw", "/levels")
    }
    assert set(answers.values()) <= {200, 400, 404}
    assert 400 in answers.values()


def test_a_link_out_of_the_log_folder_is_no_log(seeded: Place) -> None:
    of = job(136)
    put(seeded.store, of)
    folder = put_log(seeded, of, "x\n").parent
    secret = seeded.home / "secret.txt"
    secret.write_text("a secret\n")
    (folder / "ERROR.log").symlink_to(secret)
    (folder / "lr_0").symlink_to(seeded.home)
    for path in ("?file=error", "/lines?file=error", "/raw?file=error", "/archive"):
        assert b"secret" not in get(seeded, logs_path(of, path)).content
    assert "lr_0" not in text(seeded, logs_path(of))


def test_a_job_without_logs_and_a_log_without_lines_say_so(seeded: Place) -> None:
    of = job(137)
    put(seeded.store, of)
    assert "Nothing was logged yet, or the log was deleted." in text(seeded, logs_path(of))
    assert get(seeded, logs_path(of, "/lines")).status_code == 404
    put_log(seeded, of, "")
    assert "The log is empty" in text(seeded, logs_path(of))


def test_the_page_is_chinese_for_whom_it_shall_be(seeded: Place) -> None:
    of = seed_failed_then_good(seeded, 138)
    page = get(seeded, logs_path(of), **{"Accept-Language": "zh"}).text
    assert "较早的一次尝试失败" in page
    assert "在日志中搜索" in page
