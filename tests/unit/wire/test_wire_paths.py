"""The one table of party commands: there and back, and what it does not open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import (
    PARTY_COMMANDS,
    PREFIX,
    WORKER_COMMANDS,
    job_path,
    parse_party_path,
    parse_worker_path,
    site_of,
    task_of,
    task_path,
)

SITE = Site(Role.HOST, PartyId("10000"))
JOB = JobKey(job_id="202611201000000000000", site=SITE)
TASK = TaskKey(job_id=JOB.job_id, component="hetero_lr_0", version=2, site=SITE)


@pytest.mark.parametrize("name", sorted(PARTY_COMMANDS))
def test_every_party_path_is_recognised_as_itself(name: str) -> None:
    if "<task_id>" in PARTY_COMMANDS[name]:
        path = task_path(name, TASK, status="success")
    else:
        path = job_path(name, JOB, status="failed").replace("<component>", "lr_0")
    for ending in ("", "/"):
        match = parse_party_path(PREFIX + path + ending)
        assert match is not None
        assert match.name == name


@pytest.mark.parametrize("name", sorted(WORKER_COMMANDS))
def test_no_worker_path_is_open_to_parties(name: str) -> None:
    path = PREFIX + task_path(name, TASK)
    assert parse_party_path(path) is None
    match = parse_worker_path(path)
    assert match is not None
    assert task_of(match.params) == TASK


@given(
    st.text("abcXYZ019_-", min_size=1, max_size=30),
    st.integers(0, 10**8),
    st.sampled_from(Role),
    st.text("0123456789", min_size=1, max_size=8),
)
def test_a_task_survives_its_path(component: str, version: int, role: Role, party: str) -> None:
    key = TaskKey(
        job_id="j1", component=component, version=version, site=Site(role, PartyId(party))
    )
    match = parse_party_path(PREFIX + task_path("task_start", key))
    assert match is not None
    assert task_of(match.params) == key
    assert site_of(match.params) == key.site


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/v1/job/submit",
        "/v2/party/heartbeat",
        "/v1/party/heartbeat/x",
        "/v1/party/j1/guest/9999/create?x=1",
        "/v1/party/j1/guest/9999/create\n",
        "/v1/party/j1/guest/9999/..%2fcreate",
        "/v1/party/../job/submit/guest/9999/create",
        "/v1/party//guest/9999/create",
        "/v1/party/j1/boss/9999/create",
        "/v1/party/j1/guest/9999/stop/",
        "/v1/party/j1/guest/9999/stop/Canceled",
        "/v1/tracker/j1/lr_0/guest/9999/output/table/x",
        "/v1/party/j1/guest/9999/create\x00",
        "//v1/party/j1/guest/9999/create",
        "/v1/party/" + "j" * 65 + "/guest/9999/create",
    ],
)
def test_nothing_else_is_open(path: str) -> None:
    assert parse_party_path(path) is None


def test_a_task_id_of_another_component_is_refused() -> None:
    path = PREFIX + task_path("task_start", TASK).replace("/hetero_lr_0/", "/other_0/", 1)
    match = parse_party_path(path)
    assert match is not None
    with pytest.raises(BadRequest, match="task id"):
        task_of(match.params)


def test_a_job_path_names_no_task() -> None:
    match = parse_party_path(PREFIX + job_path("job_create", JOB))
    assert match is not None
    with pytest.raises(BadRequest, match="no task"):
        task_of(match.params)
