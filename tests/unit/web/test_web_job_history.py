"""The routes of a job's history and explanation."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

JOB_ID = "202611201000000000000"


def test_events_are_given_in_pages_through_two_doors(client: FlaskClient, services: Any) -> None:
    body = {"job_id": JOB_ID, "component_name": "a", "since": 7, "limit": "5"}
    posted = client.post("/v1/job/events", json=body).json
    got = client.get(f"/v1/job/{JOB_ID}/events?component_name=a&since=7&limit=5").json
    assert posted == got
    assert posted["data"] == {"job_id": JOB_ID, "events": [], "next": 7, "more": False}
    page = {"component": "a", "since": 7, "limit": 5}
    assert services.calls == [("events", JOB_ID, page), ("events", JOB_ID, page)]


def test_without_more_words_all_events_are_meant(client: FlaskClient, services: Any) -> None:
    client.post("/v1/job/events", json={"job_id": JOB_ID})
    client.get(f"/v1/job/{JOB_ID}/events")
    page = {"component": None, "since": 0, "limit": 1000}
    assert [call[2] for call in services.calls] == [page, page]


def test_an_explanation_has_two_doors(client: FlaskClient) -> None:
    posted = client.post("/v1/job/explain", json={"job_id": JOB_ID}).json
    assert posted == client.get(f"/v1/job/{JOB_ID}/explain").json
    assert posted["data"]["job_id"] == JOB_ID


@pytest.mark.parametrize("path", ["events", "explain"])
def test_an_unknown_job_has_code_102_and_a_hint(client: FlaskClient, path: str) -> None:
    for answer in (
        client.post(f"/v1/job/{path}", json={"job_id": "no"}).json,
        client.get(f"/v1/job/no/{path}").json,
    ):
        assert answer["retcode"] == 102
        assert answer["error"]["hint"]


@pytest.mark.parametrize("path", ["events", "explain"])
def test_a_body_without_a_job_is_refused(client: FlaskClient, services: Any, path: str) -> None:
    answer = client.post(f"/v1/job/{path}", json={"since": 1}).json
    assert answer["retcode"] == 101
    assert "job_id" in answer["retmsg"]
    assert services.calls == []


@pytest.mark.parametrize("wrong", [{"since": "x"}, {"limit": [1]}, {"component_name": {}}])
def test_a_wrong_member_is_named(client: FlaskClient, services: Any, wrong: Any) -> None:
    answer = client.post("/v1/job/events", json={"job_id": JOB_ID, **wrong}).json
    assert answer["retcode"] == 101
    assert next(iter(wrong)) in answer["retmsg"]
    assert services.calls == []
