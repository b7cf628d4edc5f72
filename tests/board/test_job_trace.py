"""The tab *Trace* of a job, over HTTP."""

from __future__ import annotations

import pytest

from tests.board.jobs_to_submit import Person
from tests.board.places import Place
from tests.board.seeds import job, job_id, put

pytestmark = pytest.mark.timeout(600)


def test_a_job_without_traffic_says_so_and_that_nothing_is_recorded(seeded: Place) -> None:
    put(seeded.store, job(1))
    page = Person(seeded.url).get(f"/board/jobs/{job_id(1)}/guest/9999/trace").text
    assert "No traffic is known" in page
    assert "Single values are not being recorded." in page
    assert f'action="/board/jobs/{job_id(1)}/guest/9999/trace/record"' in page


def test_a_site_that_has_no_part_of_the_job_has_no_trace(seeded: Place) -> None:
    put(seeded.store, job(2))
    page = Person(seeded.url).get(f"/board/jobs/{job_id(2)}/host/77/trace")
    assert page.status_code == 404
