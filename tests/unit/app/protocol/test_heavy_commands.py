"""Large commands of one party come one after the other; those of others do not wait for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from fedflow.app.participant.party_heartbeats import MAX_TOLD
from fedflow.app.protocol.heavy_commands import HEAVY, WAITING, HeavyCommands, weight_of
from fedflow.base.errors.jobs import StillBusy, SubmitRefused
from fedflow.domain.records import JobKey
from fedflow.wire.commands import CreateJob, EndJob, Heartbeat, RerunJob
from fedflow.wire.envelope import NOT_NOW
from tests.unit.app.fakes import HOST, OneServer, conf, create_body, dsl

KEY = JobKey(job_id="1", site=HOST)
LARGE = CreateJob(
    epoch=0,
    dsl={"components": {f"c{i}": {"module": "Step"} for i in range(300)}},
    runtime_conf={"role": {"guest": [1], "host": list(range(2, 20))}},
    initiator_role="guest",
    initiator_party_id="1",
)
SMALL = CreateJob(
    epoch=0, dsl=dsl(), runtime_conf=conf(), initiator_role="guest", initiator_party_id="1"
)


def test_work_is_weighed_by_components_and_sites_by_size_and_by_jobs() -> None:
    assert weight_of(LARGE) == 300 * 19
    assert weight_of(SMALL) < 100
    wide = {"component_parameters": {"common": {"c": {"x": "y" * 100_000}}}}
    assert weight_of(RerunJob(epoch=1, runtime_conf=wide, tasks={})) > HEAVY
    assert weight_of(Heartbeat(jobs={str(i): {} for i in range(300)})) > HEAVY
    assert weight_of(Heartbeat(jobs={str(i): {} for i in range(50)})) < HEAVY
    assert weight_of(EndJob(epoch=0)) == 0


@contextmanager
def held(heavy: HeavyCommands, party: str) -> Iterator[None]:
    """Let another thread have a party's turn."""
    begun, over = threading.Event(), threading.Event()

    def work() -> None:
        with heavy.turn(party, LARGE):
            begun.set()
            over.wait(20)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert begun.wait(10)
        yield
    finally:
        over.set()
        thread.join(20)


def test_a_second_large_command_of_a_party_waits_and_that_of_another_does_not() -> None:
    heavy = HeavyCommands(wait_s=0.05)
    with held(heavy, "9999"):
        with pytest.raises(StillBusy) as caught, heavy.turn("9999", LARGE):
            pass
        assert caught.value.retcode in NOT_NOW  # its sender repeats it
        with heavy.turn("10000", LARGE), heavy.turn("9999", SMALL):
            pass
    with heavy.turn("9999", LARGE):
        pass
    assert heavy._turns == {}


def test_few_large_commands_of_a_party_wait_for_their_turn() -> None:
    heavy, done = HeavyCommands(), []

    def work() -> None:
        with heavy.turn("9999", LARGE):
            done.append(1)

    with held(heavy, "9999"):
        threads = [threading.Thread(target=work) for _ in range(WAITING)]
        with ExitStack() as stack:
            for thread in threads:
                thread.start()
                stack.callback(thread.join, 20)
            while heavy._turns["9999"][1] <= WAITING:
                pass
            with pytest.raises(StillBusy), heavy.turn("9999", LARGE):
                pass
            assert done == []
            stack.pop_all()
    for thread in threads:
        thread.join(20)
    assert len(done) == WAITING


def test_a_large_create_of_a_party_takes_its_turn(host: OneServer) -> None:
    heavy = host.core.commands._heavy = HeavyCommands(wait_s=0.05)
    many = create_body(dsl_={"components": {f"c{i}": {"module": "Step"} for i in range(1_200)}})
    with held(heavy, "9999"):
        with pytest.raises(StillBusy):
            host.ask("job_create", KEY, body=many)
        host.create("2")
    host.ask("job_create", KEY, body=many)


def test_parameters_are_checked_only_as_long_as_the_sender_waits(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def slow(module: str, *_: Any, **__: Any) -> list[Any]:
        checked.append(module)
        host.clock.ms += 3_000
        return []

    monkeypatch.setattr(host.catalog, "check", slow)
    many = create_body(dsl_={"components": {f"c{i}": {"module": "Step"} for i in range(10)}})
    with pytest.raises(SubmitRefused, match="cannot be checked within 10 s"):
        host.ask("job_create", KEY, body=many)
    assert len(checked) == 4


def test_the_answer_to_a_heartbeat_tells_of_a_bounded_number_of_tasks(
    host: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_TOLD >= 500 * 40  # jobs of a message x their tasks
    monkeypatch.setattr("fedflow.app.participant.party_heartbeats.MAX_TOLD", 3)
    names = ("1", "2", "3")
    for name in names:
        host.create(name, dsl_=dsl(a="Step", b="Step"))
    jobs = {name: {"epoch": 0, "sites": {HOST.key: "granted"}} for name in names}
    answer = host.ask("heartbeat", body={"jobs": jobs}).data["jobs"]
    told = [answer[name][HOST.key] for name in names]
    assert [one["status"] for one in told] == ["waiting"] * 3  # and their leases are renewed
    assert ["tasks" in one and one["tasks"] is not None for one in told] == [True, True, False]
