"""Federated statuses and progress that travel along with other commands."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.app.protocol.piggyback import apply_statuses, news_of
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.states import TaskStatus
from fedflow.wire.commands import Statuses, read_command
from tests.unit.app.fakes import HOST, OneServer

KEY = JobKey(job_id="1", site=HOST)
TASK = TaskKey(job_id="1", component="a", version=0, site=HOST)


def take(host: OneServer, body: Any) -> None:
    with host.store.transaction() as tx:
        apply_statuses(tx, KEY, read_command(body, Statuses), now_ms=host.clock.ms)


def test_news_are_what_ended_and_how_much_of_all_that_is() -> None:
    statuses = {
        "a": (0, TaskStatus.SUCCESS),
        "b": (2, TaskStatus.FAILED),
        "c": (0, TaskStatus.RUNNING),
    }
    assert news_of(statuses) == {"tasks": {"a": [0, "success"], "b": [2, "failed"]}, "progress": 66}
    assert news_of({}) == {"tasks": {}, "progress": 0}


def test_news_of_the_current_attempt_are_stored(host: OneServer) -> None:
    host.create()
    take(host, {"tasks": {"a": [0, "success"], "z": [0, "failed"]}, "progress": 50})
    assert host.task(TASK).status is TaskStatus.SUCCESS
    assert host.task(TASK).party_status is TaskStatus.WAITING  # the site's own word
    assert host.job("1").progress == 50


def test_news_of_another_attempt_are_left_aside(host: OneServer) -> None:
    host.create()
    take(host, {"tasks": {"a": [1, "success"]}})
    assert host.task(TASK).status is TaskStatus.WAITING


@pytest.mark.parametrize(
    "body",
    [None, [], "x", {"tasks": []}, {"tasks": {"a": "success"}}, {"tasks": {"a": [0]}},
     {"progress": "50"}, {"progress": None}, {"tasks": {"a": [0, "success", 1]}}],
)  # fmt: skip
def test_news_in_another_shape_are_no_news(host: OneServer, body: Any) -> None:
    host.create()
    take(host, body)
    assert host.task(TASK).status is TaskStatus.WAITING
    assert host.job("1").progress == 0


def test_a_status_that_does_not_exist_is_refused(host: OneServer) -> None:
    host.create()
    with pytest.raises(BadRequest):
        take(host, {"tasks": {"a": [0, "great"]}})


def test_progress_only_grows_and_stays_a_percentage(host: OneServer) -> None:
    host.create()
    seen = []
    for told in (-5, 30, 20, 1000):
        take(host, {"progress": told})
        seen.append(host.job("1").progress)
    assert seen == [0, 30, 30, 100]
