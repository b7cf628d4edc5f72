"""The route of the queue: its rows, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.protocol.queue import RankedJob
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.reason import Reason
from fedflow.domain.records import WaitingJob
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))


class FakeQueue:
    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def page(self, *, limit: int, offset: int) -> tuple[list[RankedJob], int]:
        self.asked.append((limit, offset))
        job = WaitingJob(
            job_id="j", priority=3, created_ms=1, initiator=GUEST, reason=None, queued_ms=2,
            need=ComputeResources(cores=4, memory=5),
        )  # fmt: skip
        reason = Reason(code="NotEnoughResources", message="waits", site=GUEST)
        return [RankedJob(position=1, job=job, starves=True, reason=reason)], 7


@pytest.fixture
def queue(services: Any) -> FakeQueue:
    services.queue = FakeQueue()
    return services.queue  # type: ignore[no-any-return]


def test_the_queue_tells_of_each_job_what_it_waits_for(
    client: FlaskClient, queue: FakeQueue
) -> None:
    answer = client.post("/v1/job/queue", json={}).get_json()
    assert answer["data"] == {
        "count": 7,
        "jobs": [
            {
                "position": 1,
                "job_id": "j",
                "role": "guest",
                "party_id": "9999",
                "priority": 3,
                "since": 2,
                "starving": True,
                "cores": 4,
                "memory": 5,
                "spark_cores": 0,
                "reason": {
                    "code": "NotEnoughResources", "message": "waits", "site": "guest-9999",
                },
            }
        ],
    }  # fmt: skip
    assert queue.asked == [(100, 0)]


@pytest.mark.parametrize(
    "body", [{"limit": 0}, {"limit": 10_001}, {"limit": -1}, {"offset": -1}, {"limit": "x"}]
)
def test_a_part_that_is_none_is_refused(
    client: FlaskClient, queue: FakeQueue, body: dict[str, Any]
) -> None:
    assert client.post("/v1/job/queue", json=body).get_json()["retcode"] == 101
    assert queue.asked == []
