"""Answers to heartbeats that were asked before the site had the job: they say nothing of it."""

from __future__ import annotations

from typing import Any

from fedflow.domain.phases import SitePhase
from fedflow.domain.records import Reply
from tests.unit.app.fakes import HOST, OneServer, conf, dsl


def test_a_job_that_arrived_while_a_heartbeat_was_under_way_is_not_lost(guest: OneServer) -> None:
    job_id = guest.core.submissions.begin(dsl(), conf())[0]

    def answer(path: str, _body: Any) -> Reply:
        if not path.endswith("heartbeat"):
            return Reply(retcode=0)
        create = guest.core.delivery.take("10000")
        assert create is not None
        guest.core.delivery.settle(create, Reply(retcode=0))  # the host has it by now
        return Reply(retcode=0, data={"jobs": {job_id: {HOST.key: {"status": None}}}})

    guest.parties.answer = answer
    guest.core.heartbeats.send("10000")
    (phase,) = {s.phase for s in guest.scheduled(job_id).sites if s.site == HOST}
    assert phase is SitePhase.CREATED
