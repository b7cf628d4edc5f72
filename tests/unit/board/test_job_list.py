"""The list of jobs as values: what addresses ask for, what rows and the home page show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.app.queries.job_lists import Overview
from fedflow.base.ids import PartyId
from fedflow.board.presenters import home
from fedflow.board.presenters.job_list import (
    LONGEST,
    MOST_CELLS,
    MOST_OTHERS,
    PERIODS_MS,
    SIZES,
    ListQuery,
    chips,
    read_query,
    rows,
    tag_of,
)
from fedflow.board.presenters.paging import MOST
from fedflow.domain.job_lines import JobLine, StatusCount, Strip, strip_status
from fedflow.domain.records import Between, JobKey, Order, Sort
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
NOW_MS = 1_795_168_800_000  # 2026-11-20 10:00 UTC


def read(query: str) -> ListQuery:
    several = parse_qs(query)
    return read_query({name: values[0] for name, values in several.items()}, several)


def line(**changes: Any) -> JobLine:
    made = {
        "key": JobKey(job_id="j1", site=GUEST), "initiator": GUEST, "status": JobStatus.RUNNING,
        "epoch": 0, "roles": {"guest": ["9999"], "host": ["10000"]}, "created_ms": NOW_MS,
        "updated_ms": NOW_MS, "started_ms": NOW_MS + 1000,
    }  # fmt: skip
    return JobLine(**{**made, **changes})


# --- the address ----------------------------------------------------------------------------------


def test_an_empty_address_asks_for_the_newest_jobs() -> None:
    which = read("").filter(NOW_MS)
    assert (which.limit, which.offset, which.order) == (20, 0, Order(by=Sort.ACTIVITY))
    assert which.refused
    assert (which.roles, which.statuses, which.between, which.any_part) == (None, None, (), None)
    assert not read("").is_filtered


def test_all_filters_reach_the_store() -> None:
    which = read(
        "text=a&job=b&party=c&partner=d&notes=e&tag=f&role=guest&role=host&status=failed"
        "&sort=elapsed&order=asc&size=50&page=3"
    ).filter(NOW_MS)
    assert (which.any_part, which.job_id_part, which.party_id_part) == ("a", "b", "c")
    assert (which.partner_part, which.description_part, which.tag) == ("d", "e", "f")
    assert (which.roles, which.statuses) == ((Role.GUEST, Role.HOST), (JobStatus.FAILED,))
    assert which.order == Order(by=Sort.ELAPSED, descending=False)
    assert (which.limit, which.offset) == (50, 100)


def test_a_job_that_is_ready_is_among_those_that_wait() -> None:
    which = read("status=waiting&status=success").filter(NOW_MS)
    assert set(which.statuses or ()) == {JobStatus.WAITING, JobStatus.SUCCESS, JobStatus.READY}


def test_a_period_and_times_bound_when_jobs_were_submitted() -> None:
    (day,) = read("period=day").filter(NOW_MS).between
    assert day == Between(by=Sort.CREATED, low=NOW_MS - PERIODS_MS["day"], high=day.high)
    assert day.high > NOW_MS
    (both,) = read("since=2026-11-20T09:00&until=2026-11-20T10:00:00").filter(NOW_MS).between
    assert (both.low, both.high) == (NOW_MS - 3_600_000, NOW_MS)
    (latest,) = read("period=hour&since=2020-01-01").filter(NOW_MS).between
    assert latest.low == NOW_MS - PERIODS_MS["hour"]


@pytest.mark.parametrize(
    "query",
    [
        "sort=nonsense", "size=7", "size=-1", "size=abc", "page=0", "page=-3", "page=x",
        "role=admin", "status=lost", "period=aeon", "page=%F0%9D%9F%99", "order=sideways",
    ],
)  # fmt: skip
def test_what_cannot_be_read_counts_for_nothing(query: str) -> None:
    assert read(query).filter(NOW_MS) == read("").filter(NOW_MS)


@pytest.mark.parametrize("given", ["yesterday", "2026-13-01", "0000-01-01T00:00", "9" * 50, "\x00"])
def test_a_time_that_is_none_is_named(given: str) -> None:
    query = read_query({"since": given, "until": "2026-11-20"}, {})
    assert query.problems == ("since",)
    assert (query.since, query.until) == ("", "2026-11-20")


def test_huge_values_are_cut() -> None:
    query = read(f"text={'x' * 10_000}&page={'9' * 12}")
    assert len(query.text) == LONGEST
    assert query.number == MOST


@given(st.dictionaries(st.sampled_from([*"abc", "text", "since", "page", "size", "sort", "tag"]),
                       st.text(max_size=30)))  # fmt: skip
def test_any_address_can_be_read_and_written_again(values: dict[str, str]) -> None:
    query = read_query(values, {})
    again = read_query(
        dict(parse_qsl(query.query(page=query.number).removeprefix("?"), keep_blank_values=True)),
        {},
    )
    assert again == replace(query, problems=())
    query.filter(NOW_MS)


def test_a_column_sorts_and_then_the_other_way() -> None:
    query = read("text=a&page=4")
    assert query.sorted_by("elapsed") == "?text=a&sort=elapsed"
    assert read("text=a&sort=elapsed").sorted_by("elapsed") == "?text=a&sort=elapsed&order=asc"
    assert read("").sorted_by("job_id") == "?sort=job_id&order=asc"
    assert read("sort=elapsed").sorted_by("activity") == ""
    assert read("").sorted_by("create_time") == "?sort=create_time"


def test_filters_that_are_not_always_seen_are_known() -> None:
    assert not read("text=a&status=failed&sort=elapsed").has_details
    assert read("tag=a").has_details
    assert not read("size=50&sort=elapsed&order=asc").is_filtered


# --- rows -----------------------------------------------------------------------------------------


def test_a_row_says_what_may_be_done() -> None:
    lines = [
        line(),
        line(key=JobKey(job_id="j1", site=HOST)),
        line(key=JobKey(job_id="j2", site=GUEST), status=JobStatus.READY, started_ms=None),
        line(key=JobKey(job_id="j3", site=GUEST), status=JobStatus.FAILED, ended_ms=NOW_MS + 3000),
        line(key=JobKey(job_id="j4", site=GUEST), status=JobStatus.FAILED, refused=True),
    ]
    found = rows(lines, {}, NOW_MS + 5000)
    assert [r.status for r in found] == ["running", "running", "waiting", "failed", "refused"]
    assert [r.is_first for r in found] == [True, False, True, True, True]
    assert [r.duration_ms for r in found[:4]] == [4000, 4000, None, 2000]
    assert [(r.may_stop, r.may_rerun) for r in found] == [
        (True, False), (True, False), (True, False), (False, True), (False, False),
    ]  # fmt: skip
    assert [s.key for s in found[0].others] == ["host-10000"]
    assert [s.key for s in found[1].others] == ["guest-9999"]


def test_a_strip_has_a_cell_per_component_and_sums_if_there_are_many() -> None:
    one = line()
    strip = {f"c_{n}": TaskStatus.SUCCESS for n in range(MOST_CELLS)}
    (row,) = rows([one], {one.key: strip}, NOW_MS)
    assert row.cells == tuple((name, "success") for name in strip)
    assert row.sums == ()
    (row,) = rows([one], {one.key: {**strip, "last": TaskStatus.FAILED}}, NOW_MS)
    assert (row.cells, row.sums) == ((), (("success", MOST_CELLS), ("failed", 1)))


def test_what_failed_elsewhere_is_no_success_in_a_strip() -> None:
    good, bad, runs = TaskStatus.SUCCESS, TaskStatus.FAILED, TaskStatus.RUNNING
    assert strip_status(bad, good) is bad
    assert strip_status(runs, good) is good
    assert strip_status(runs, bad) is bad
    assert strip_status(TaskStatus.WAITING, runs) is runs


def test_chips_count_and_switch_statuses() -> None:
    query = read("text=a&status=canceled&page=3")
    counts = [
        StatusCount(status=JobStatus.READY, count=1),
        StatusCount(status=JobStatus.WAITING, count=2),
        StatusCount(status=JobStatus.FAILED, count=4),
        StatusCount(status=JobStatus.FAILED, count=3, refused=True),
    ]
    assert [(c.status, c.count, c.is_on) for c in chips(query, counts)] == [
        ("waiting", 3, False), ("failed", 4, False), ("canceled", 0, True), ("refused", 3, False),
    ]  # fmt: skip
    assert query.toggled("failed") == "?text=a&status=failed&status=canceled"
    assert query.toggled("canceled") == "?text=a"


def test_refused_jobs_are_a_status_of_their_own() -> None:
    only = read("status=refused").filter(NOW_MS)
    assert (only.statuses, only.or_refused) == ((), True)
    failed = read("status=failed").filter(NOW_MS)
    assert (failed.statuses, failed.refused, failed.or_refused) == (
        (JobStatus.FAILED,), False, False,
    )  # fmt: skip


def test_few_of_many_partners_are_named() -> None:
    hosts = [str(n) for n in range(100)]
    (row,) = rows([line(roles={"guest": ["9999"], "host": hosts, "nonsense": ["1"]})], {}, NOW_MS)
    assert len(row.others) == MOST_OTHERS
    assert row.more == 100 - MOST_OTHERS


def test_a_clock_that_went_back_gives_no_negative_duration() -> None:
    assert rows([line()], {}, NOW_MS - 10**6)[0].duration_ms == 0


def test_the_tag_of_rows_changes_with_what_is_seen() -> None:
    def tag(*lines: JobLine, now_ms: int = NOW_MS, strip: Strip | None = None) -> str:
        return tag_of(lines, {lines[0].key: strip or {}}, now_ms)

    one = line()
    assert tag(one) == tag(replace(one, user="x"))
    assert tag(one) != tag(replace(one, progress=5))
    assert tag(one) != tag(replace(one, tags=("a",)))
    assert tag(one) != tag(replace(one, updated_ms=1))
    assert tag(one) != tag(one, one)
    assert tag(one) != tag(one, strip={"reader_0": TaskStatus.RUNNING})
    assert tag(one) != tag(one, now_ms=NOW_MS + 60_000)
    ended = replace(one, status=JobStatus.SUCCESS)
    assert tag(ended) == tag(ended, now_ms=NOW_MS + 60_000)


def test_pages_have_no_other_sizes() -> None:
    assert {read(f"size={size}").size for size in range(300)} == set(SIZES)


# --- the home page --------------------------------------------------------------------------------


def test_rare_statuses_are_shown_only_if_there_are_any() -> None:
    seen = Overview(
        now_ms=NOW_MS, day={JobStatus.SUCCESS: 2},
        week={JobStatus.SUCCESS: 5, JobStatus.TIMEOUT: 1},
        running=(), waiting=(), failed=(),
    )  # fmt: skip
    found = {one.status: (one.day, one.week) for one in home.counts(seen)}
    assert found == {
        "running": (0, 0), "waiting": (0, 0), "success": (2, 5), "failed": (0, 0),
        "timeout": (0, 1),
    }  # fmt: skip


def test_the_home_page_changes_with_what_it_shows_not_with_the_time() -> None:
    told = home.health(
        True,
        {
            "store": True, "executor": True, "disk": True, "closed": [], "outbox": 0,
            "cores": {"total": 4, "free": 4}, "memory_mib": {"total": 0, "free": 0},
        },
    )  # fmt: skip
    seen = Overview(now_ms=NOW_MS, day={}, week={}, running=(line(),), waiting=(), failed=())
    mark = home.tag_of(seen, told, [])
    assert mark == home.tag_of(replace(seen, now_ms=NOW_MS + 1), told, [])
    assert mark != home.tag_of(replace(seen, running=(line(progress=9),)), told, [])
    assert mark != home.tag_of(seen, replace(told, free_cores=1), [])
