"""`/v1/job/delete` and `/v1/job/tag` over the use cases themselves and a store in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.queries.job_tags import JobTagging
from fedflow.domain.states import JobStatus
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock
from tests.unit.app.queries.test_deleting import JOB, OTHER, World
from tests.unit.web.applications import app_over


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(MemoryStore(), tmp_path)


@pytest.fixture
def client(world: World) -> FlaskClient:
    tags = JobTagging(store=world.store, clock=FakeClock())
    info = SimpleNamespace(now_ms=lambda: 40 * 86_400_000)
    services = SimpleNamespace(deletions=world.deletions, job_tags=tags, info=info)
    return app_over(services).test_client()


def call(client: FlaskClient, what: str, **body: Any) -> Any:
    answer = client.post(f"/v1/job/{what}", json=body)
    assert answer.status_code == 200
    return answer.json


def test_a_preview_and_a_delete_say_the_same(world: World, client: FlaskClient) -> None:
    world.ran()
    seen = call(client, "delete", job_id=JOB, preview=1)
    assert world.left() != []
    done = call(client, "delete", job_id=JOB)
    assert seen["data"] == done["data"]
    assert world.left() == []
    data = done["data"]
    assert (data["sites"], data["partners"], data["tags"]) == (["guest-9999"], ["10000"], ["red"])
    assert [t["rows"] for t in data["tables"]] == [3, 3]
    assert [(m["model_version"], m["kept"]) for m in data["models"]] == [(JOB, "")]
    assert call(client, "delete", job_id=JOB)["retcode"] == 102


def test_a_running_job_is_refused_with_a_name_for_programs(
    world: World, client: FlaskClient
) -> None:
    world.job(status=JobStatus.RUNNING)
    answer = call(client, "delete", job_id=JOB)
    assert (answer["retcode"], answer["error"]["name"]) == (103, "DeleteRefused")


def test_old_jobs_go_some_at_a_time(world: World, client: FlaskClient) -> None:
    world.ran(JOB)
    world.job(OTHER, created_ms=5, in_use=True)
    seen = call(client, "delete/old", older_than="30d", preview=1)["data"]
    assert [(one["job_id"], one["status"]) for one in seen["jobs"]] == [(JOB, "success")]
    assert [one["job_id"] for one in seen["kept"]] == [OTHER]
    assert "processes" in seen["kept"][0]["reason"]
    first = call(client, "delete/old", older_than="30d", limit=1)["data"]
    assert ([one["job_id"] for one in first["jobs"]], first["after"]) == ([JOB], f"1:{JOB}")
    second = call(client, "delete/old", older_than="30d", limit=1, after=first["after"])["data"]
    assert second["jobs"] == []
    assert world.left(JOB) == []
    assert call(client, "delete/old", older_than="8w", status=["failed"])["data"]["jobs"] == []


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"older_than": "30"}, "such as 30d"),
        ({"older_than": "30d", "status": "running"}, "canceled, failed, success, timeout"),
        ({"older_than": "30d", "limit": 0}, "1 to 100"),
        ({"older_than": "30d", "after": "x"}, "earlier answer"),
        ({"older_than": "30d", "after": "9" * 30 + ":1"}, "earlier answer"),
        ({}, "older_than"),
    ],
)
def test_a_wrong_wish_about_old_jobs_is_refused(
    world: World, client: FlaskClient, body: dict[str, Any], part: str
) -> None:
    world.ran(JOB)
    answer = call(client, "delete/old", **body)
    assert answer["retcode"] == 101
    assert part in answer["retmsg"]
    assert "job" in world.left(JOB)


def test_tags_are_given_listed_and_taken(world: World, client: FlaskClient) -> None:
    world.job(JOB)
    world.job(OTHER)
    assert call(client, "tag/add", job_id=JOB, tag_name="b")["data"] == {"tags": ["b"]}
    assert call(client, "tag/add", job_id=JOB, tag_name="a")["data"] == {"tags": ["a", "b"]}
    assert call(client, "tag/add", job_id=OTHER, tag_name="b")["data"] == {"tags": ["b"]}
    assert call(client, "tag/list")["data"]["tags"] == [
        {"name": "b", "job_count": 2},
        {"name": "a", "job_count": 1},
    ]
    assert call(client, "tag/query", job_id=JOB)["data"] == {"tags": ["a", "b"]}
    assert call(client, "tag/remove", job_id=JOB, tag_name="a")["data"] == {"tags": ["b"]}
    assert call(client, "tag/query", job_id="x")["retcode"] == 102
    assert call(client, "tag/add", job_id=JOB, tag_name=" ")["retcode"] == 101
    assert call(client, "tag/add", job_id=JOB)["retcode"] == 101
