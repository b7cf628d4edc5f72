"""Orders of lists: ties follow the direction, records without the value come last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.ids import PartyId
from fedflow.domain.lists import fits_job, job_page, main_share
from fedflow.domain.records import JobFilter, JobKey, JobRecord, Order, Sort
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus

TIMES = st.none() | st.integers(0, 3)
SITES = tuple(Site(role, PartyId("1")) for role in (Role.GUEST, Role.HOST))


def make(
    job_id: str, site: Site, created: int, started: int | None, ended: int | None
) -> JobRecord:
    return JobRecord(
        key=JobKey(job_id=job_id, site=site), initiator=site, status=JobStatus.SUCCESS, epoch=0,
        dsl={}, conf={}, roles={"guest": ["1"], "host": ["1", "20", "3"]}, cores=1,
        created_ms=created, updated_ms=created, started_ms=started, ended_ms=ended,
    )  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn) -> list[JobRecord]:
    keys = draw(
        st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(SITES)), unique=True, max_size=6)
    )
    return [make(*key, draw(st.integers(0, 2)), draw(TIMES), draw(TIMES)) for key in keys]


def value(job: JobRecord, by: Sort) -> int | None:
    times = {Sort.CREATED: job.created_ms, Sort.STARTED: job.started_ms, Sort.ENDED: job.ended_ms}
    return times[by]


@pytest.mark.parametrize("by", [Sort.CREATED, Sort.STARTED, Sort.ENDED])
@given(jobs())
def test_one_direction_is_the_other_turned_round_for_those_that_have_the_value(
    by: Sort, found: list[JobRecord]
) -> None:
    down = job_page(found, JobFilter(order=Order(by=by)))
    up = job_page(reversed(found), JobFilter(order=Order(by=by, descending=False)))
    for lacking in (False, True):
        assert [j for j in down if (value(j, by) is None) is lacking] == [
            j for j in reversed(up) if (value(j, by) is None) is lacking
        ]
    for shown in (down, up):
        lack = [value(job, by) is None for job in shown]
        assert lack == sorted(lack)


@given(jobs())
def test_jobs_have_no_versions_so_they_keep_their_own_order(found: list[JobRecord]) -> None:
    which = JobFilter(order=Order(by=Sort.VERSION))
    assert job_page(found, which) == job_page(found, replace(which, order=Order()))


def test_a_partner_is_another_party_of_the_job() -> None:
    job = make("j", SITES[0], 1, None, None)
    assert job.partners == {"20", "3"}
    assert fits_job(JobFilter(partner_part="2"), job)
    assert not fits_job(JobFilter(partner_part="1"), job)
    assert not fits_job(JobFilter(partner_part="203"), job)


def test_a_job_stands_for_its_initiators_share_else_for_one_with_data() -> None:
    arbiter, host, guest = (
        make("a", Site(role, PartyId("1")), 0, None, None)
        for role in (Role.ARBITER, Role.HOST, Role.GUEST)
    )
    elsewhere = Site(Role.GUEST, PartyId("2"))
    shares = [replace(share, initiator=elsewhere) for share in (arbiter, host)]
    assert main_share(shares).key.site.role is Role.HOST
    assert main_share([replace(guest, initiator=elsewhere), arbiter]) == arbiter
