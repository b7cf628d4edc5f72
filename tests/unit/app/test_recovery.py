"""What a server does about its executors when it comes back, and what it shows of an ended job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.records import TaskRecord
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, JobStatus
from tests.sim.faults import Faults
from tests.sim.server import NoSessions, Server
from tests.sim.world import World

DSL: dict[str, Any] = {
    "components": {
        "c0": {"module": "Step", "output": {"data": ["data"]}},
        "c1": {"module": "Step", "input": {"data": {"data": ["c0.data"]}}},
    }
}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "job_parameters": {"common": {"task_cores": 1}},
}


class Recorded(NoSessions):
    """Remembers which sessions were opened; `opened` is shared by all servers of a test."""

    opened: list[Site]

    def open_session(
        self, session: str, site: Site, *, token: str, sites: Sequence[Site], incarnation: int
    ) -> None:
        self.opened.append(site)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(Recorded, "opened", [], raising=False)
    monkeypatch.setattr("tests.sim.world.NoSessions", Recorded)
    return World(7, home=tmp_path, faults=Faults(), parties=("9999", "10000"))


def live(server: Server) -> list[TaskRecord]:
    with server.store.read() as tx:
        return tx.tasks.live()


def run_until_launched(world: World, server: Server, *, with_process: bool) -> TaskRecord:
    """Let the world go on until a task was launched, and (or not yet) has a known process."""

    def reached() -> bool:
        return any((t.handle is not None) is with_process for t in live(server))

    assert world.run(until=reached, limit_ms=60_000, step=lambda: None)
    return next(t for t in live(server) if (t.handle is not None) is with_process)


@pytest.mark.parametrize("with_process", [True, False])
def test_an_executor_finds_its_session_again_even_if_its_process_was_not_known_yet(
    world: World, with_process: bool
) -> None:
    guest, host = world.servers["9999"], world.servers["10000"]
    assert guest.core is not None
    guest.core.submissions.begin(DSL, CONF)
    task = run_until_launched(world, host, with_process=with_process)
    host.crash()
    Recorded.opened.clear()
    host.boot()
    assert Recorded.opened == [task.key.site]


def test_no_share_of_an_ended_job_is_shown_as_unfinished(world: World) -> None:
    guest, host = world.servers["9999"], world.servers["10000"]
    assert guest.core is not None
    job_id, _ = guest.core.submissions.begin(DSL, CONF)
    run_until_launched(world, host, with_process=True)
    guest.core.jobs.request_stop(job_id)

    def ended() -> bool:
        assert guest.core is not None
        return guest.core.jobs.job(job_id).status in JOB_FINAL

    assert world.run(until=ended, limit_ms=60_000, step=lambda: None)
    view = guest.core.jobs.status_view(job_id)
    assert view.status == JobStatus.CANCELED.value
    shown = {(t.component, t.site): t.status for t in view.tasks}
    assert len(shown) == 4
    assert set(shown.values()) == {"canceled"}, shown
