"""The head of a job's page: sites, tables, waits, the end, and what may be done."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from fedflow.app.queries.site_jobs import SiteJob
from fedflow.board.presenters import job_head
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import SUBMIT_FAILED, JobKey
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus
from fedflow.wire.api.job_history import End, Explanation, Wait
from tests.board.seeds import GUEST, HOST, START_MS, job, job_id

TABLES: dict[str, Any] = {
    "dsl_version": 2,
    "component_parameters": {
        "common": {"x_0": {"a": 1}},
        "role": {
            "guest": {"0": {"reader_0": {"table": {"namespace": "exp", "name": "guest"}}}},
            "host": {"all": {"reader_0": {"table": {"namespace": "exp", "name": "host"}}}},
        },
    },
}
QUIET = Explanation(
    job_id=job_id(1), status="running", epoch=0, initiator=GUEST.key, is_initiator=True
)


def seen(site: Site = GUEST, explained: Explanation | None = None, **fields: Any) -> SiteJob:
    state = {
        name: fields.pop(name)
        for name in (
            "is_stopped",
            "is_paused",
            "on_hold",
            "stop",
            "step",
            "is_accepted",
            "own_sites",
        )
        if name in fields
    }
    made: dict[str, Any] = {
        "is_accepted": True, "own_sites": (site,), "order": (), "tasks": (), "step": False,
        "explained": explained or QUIET, "is_stopped": False, "is_paused": False,
        "on_hold": False, "stop": None,
    }  # fmt: skip
    of = job(key=JobKey(job_id=job_id(1), site=site), **{"conf": TABLES, **fields})
    return SiteJob(job=of, site=site, **{**made, **state})


def running(**more: Any) -> SiteJob:
    return seen(status=JobStatus.RUNNING, ended_ms=None, **more)


def test_the_initiator_sees_all_tables_and_another_site_its_own() -> None:
    guest, host = job_head.members(seen(own_sites=(GUEST, HOST)))
    assert guest.tables == (("reader_0", "exp.guest"),)
    assert host.tables == (("reader_0", "exp.host"),)
    assert (guest.is_seen, guest.is_initiator, host.is_here) == (True, True, True)
    guest, host = job_head.members(seen(HOST))
    assert guest.tables == ()
    assert host.tables == (("reader_0", "exp.host"),)
    assert (host.is_seen, guest.is_here) == (True, False)


def test_odd_confs_name_no_tables() -> None:
    for conf in (None, [], {"component_parameters": 7}, {"component_parameters": {"role": []}}):
        assert job_head.tables_read(conf, "guest", 0) == {}
    earlier = {"job_id": "j0", "component_name": "a", "data_name": "data"}
    conf = {"component_parameters": {"common": {"reader_0": {"table": earlier}}}}
    assert job_head.tables_read(conf, "guest", 0) == {"reader_0": "j0/a/data"}


STATES = {
    "running": (running(), {"stop", "pause"}),
    "paused": (running(is_stopped=True, is_paused=True), {"stop", "proceed"}),
    "awaits a step": (running(is_stopped=True, step=True), {"stop", "pause", "proceed"}),
    "ended": (seen(), {"rerun", "delete"}),
    "failed": (seen(status=JobStatus.FAILED), {"rerun", "delete"}),
    "refused": (seen(status=JobStatus.FAILED, tag=SUBMIT_FAILED), {"delete"}),
    "never stored here": (seen(status=JobStatus.FAILED, is_accepted=False), {"delete"}),
}


@pytest.mark.parametrize("name", STATES)
def test_what_may_be_done_follows_from_the_state(name: str) -> None:
    of, wanted = STATES[name]
    may = job_head.head(of, START_MS).may
    words = ("stop", "pause", "proceed", "rerun", "delete")
    assert {word for word in words if getattr(may, word)} == wanted


def test_a_job_is_called_paused_as_in_lists_from_the_moment_it_is() -> None:
    for of in (running(on_hold=True), seen(status=JobStatus.WAITING, on_hold=True)):
        assert job_head.head(of, START_MS).shown_status == "pause"
    stepping = running(is_stopped=True, step=True)  # its component still runs
    assert job_head.head(stepping, START_MS).shown_status == "running"
    assert job_head.head(seen(status=JobStatus.READY), START_MS).shown_status == "waiting"


def test_a_job_that_is_being_stopped_cannot_be_paused_and_says_why() -> None:
    why = Reason(code="Stopped", message="stopped by guest 9999", site=GUEST)
    found = job_head.head(
        running(stop=StopRequest(status=JobStatus.CANCELED, reason=why)), START_MS
    )
    assert found.stopping == "stopped by guest 9999"
    assert not found.may.pause


def test_an_ended_job_tells_its_first_error_and_where_it_was() -> None:
    end = End(
        code="BadData", message="no label", remedy="look", site=HOST.key, component="a", version=1
    )
    found = job_head.head(
        seen(explained=replace(QUIET, end=end), status=JobStatus.FAILED), START_MS
    )
    assert found.end == end
    assert found.error_site == HOST
    good = job_head.head(seen(explained=replace(QUIET, end=replace(end, message="all"))), START_MS)
    assert (good.end, good.ended_well) == (None, "all")


def test_waits_of_the_job_are_shown_and_those_of_components_are_not() -> None:
    def wait(component: str | None) -> Wait:
        return Wait(code="X", message="m", remedy="r", component=component)

    waits = (wait("a"), *(wait(None) for _ in range(30)))
    found = job_head.head(running(explained=replace(QUIET, waits=waits, deadline_ms=5)), START_MS)
    assert len(found.waits) == job_head.WAITS
    assert found.waits_left == 30 - job_head.WAITS
    assert found.deadline_ms == 5


def test_that_the_initiator_decides_is_told_once_it_is_silent() -> None:
    wait = Wait(code="Initiator", message="m", remedy="r", site=GUEST.key, heard_ms=START_MS)
    explained = replace(QUIET, waits=(wait,))
    for later_ms, count in ((1_000, 0), (60_000, 1)):
        found = job_head.head(running(site=HOST, explained=explained), START_MS + later_ms)
        assert len(found.waits) == count
    waiting = seen(HOST, explained, status=JobStatus.WAITING, ended_ms=None)
    assert len(job_head.head(waiting, START_MS).waits) == 1


def test_times_and_the_model_follow_from_the_record() -> None:
    of = running(started_ms=START_MS, in_use=True, memory=512)
    found = job_head.head(of, START_MS + 7_000)
    assert (found.duration_ms, found.cores, found.memory) == (7_000, 4, 512)
    assert (found.model_id, found.model_version) == ("guest-9999#host-10000#model", job_id(1))
    common = {"job_type": "predict", "model_id": "m", "model_version": "v"}
    conf = {"dsl_version": 2, "job_parameters": {"common": common}}
    predicts = job_head.head(seen(conf=conf), START_MS)
    assert (predicts.model_id, predicts.model_version, predicts.is_predict) == ("m", "v", True)


def test_a_job_that_ended_is_not_settled_while_it_holds_cores_or_something_is_undelivered() -> None:
    wait = Wait(code="Undelivered", message="m", remedy="r", component="")
    assert job_head.head(seen(), START_MS).is_settled
    assert not job_head.head(running(), START_MS).is_settled
    assert not job_head.head(seen(in_use=True), START_MS).is_settled
    assert not job_head.head(seen(explained=replace(QUIET, waits=(wait,))), START_MS).is_settled
