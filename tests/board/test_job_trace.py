"""The tab *Ledger* of a job, over HTTP."""

from __future__ import annotations

import functools
import re

import pytest

from tests.board.jobs_to_submit import Person
from tests.board.places import Place
from tests.board.seeds import job, job_id, put
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)


def test_a_job_without_exchange_says_so_and_that_nothing_is_recorded(seeded: Place) -> None:
    put(seeded.store, job(1))
    page = Person(seeded.url).get(f"/board/jobs/{job_id(1)}/guest/9999/trace").text
    assert "No exchange is known" in page
    assert "Single values are not being recorded." in page
    file = Person(seeded.url).get(f"/board/jobs/{job_id(1)}/guest/9999/trace/ledger.csv")
    assert file.headers["Content-Type"].startswith("text/csv")
    assert file.text.startswith("ledger of job,component,attempt,site,peer,direction,message")
    assert f'action="/board/jobs/{job_id(1)}/guest/9999/trace/record"' in page


def says(person: Person, url: str, text: str) -> bool:
    return text in person.get(url).text


def test_a_switch_is_shown_before_anything_was_exchanged(seeded: Place) -> None:
    put(seeded.store, job(3))
    person, url = Person(seeded.url), f"/board/jobs/{job_id(3)}/guest/9999/trace"
    for is_on, said in (("1", "Each value is being recorded"), ("0", "are not being recorded")):
        token = re.search(r'name="csrf" value="([^"]+)"', person.get(url).text)
        assert token
        fields = {"csrf": token[1], "is_on": is_on}
        answer = person.session.post(f"{seeded.url}{url}/record", data=fields, timeout=60)
        assert answer.status_code == 200
        wait_until(functools.partial(says, person, url, said), 30.0)


def test_a_site_that_has_no_part_of_the_job_has_no_trace(seeded: Place) -> None:
    put(seeded.store, job(2))
    page = Person(seeded.url).get(f"/board/jobs/{job_id(2)}/host/77/trace")
    assert page.status_code == 404
