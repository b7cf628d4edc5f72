"""A server without memory for threads, for some seconds: commands flow again without a restart."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from tests.e2e.jobs import Json, empty_job
from tests.e2e.servers import QUICK, Pair, Party, pass_time, two_parties, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

NONE_S = 4.0


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("threads"), settings=QUICK) as pair:
        yield pair


@contextmanager
def without_memory(party: Party) -> Iterator[None]:
    """Let the address space of a running server grow no more: no thread gets its stack."""
    assert party.process is not None
    process = psutil.Process(party.process.pid)
    process.rlimit(psutil.RLIMIT_AS, (process.memory_info().vms, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def test_commands_flow_again_after_a_moment_without_threads(pair: Pair) -> None:
    assert pair.host.client.parties.ping("9999").ok  # so that the guest has a thread that answers
    with without_memory(pair.guest):  # it has sent no command yet, so it has no outbox senders
        first = pair.host.client.submit(*of_host()).job_id
        wait_for(
            lambda: "outbox-sender-10000-0 could not be started" in pair.guest.log.read_text(),
            "the guest to want a thread",
        )
        pass_time(NONE_S)
    assert set(pair.ends(first).values()) == {"success"}
    job_id = pair.guest.client.submit(*empty_job({"sleep_s": 0.1})).job_id
    assert set(pair.ends(job_id).values()) == {"success"}


def of_host() -> tuple[Json, Json]:
    """Return a job that the host submits, of which the guest runs a part."""
    dsl, conf = empty_job({"sleep_s": 0.1})
    initiator = {"role": "host", "party_id": 10000}
    return dsl, {**conf, "initiator": initiator}
