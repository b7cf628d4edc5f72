"""Packets of other parties that must have no effect, over real gRPC to a real site."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from fedflow.app.protocol.commands import Incoming
from fedflow.domain.records import JobKey, JobRecord, TaskFilter, TaskRecord
from fedflow.domain.states import JobStatus
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.unary import UnaryService, UnarySettings
from fedflow.wire import envelope
from fedflow.wire.packet import METHOD, request_packet
from fedflow.wire.paths import parse_party_path, site_of
from tests.unit.app.fakes import HOST, OneServer, create_body, participant

PACKETS = ProtobufPackets()
JOB = "/party/1/host/10000"
TASK = "/party/1/a/1_a/0/host/10000"
BODY_BYTES = 50_000

Send = Callable[..., dict[str, Any]]


@pytest.fixture
def host(tmp_path: Path) -> OneServer:
    """A site with a job of party 9999 that runs."""
    host = participant(tmp_path)
    host.create()
    host.ask("job_apply", JobKey(job_id="1", site=HOST))
    host.ask("job_start", JobKey(job_id="1", site=HOST))
    return host


@pytest.fixture
def send(host: OneServer) -> Iterator[Send]:
    """Return what sends a packet to the site's door and returns the envelope of the answer."""

    def dispatch(path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        match = parse_party_path(path)
        assert match is not None
        params = match.params
        incoming = Incoming(
            name=match.name,
            job_id=params.get("job_id", ""),
            site=site_of(params),
            body=msgspec.json.decode(body),
            component=params.get("component"),
            version=int(params["version"]) if "version" in params else None,
            status=params.get("status"),
            source_party=headers["SRC-PARTY-ID"],
            request_id=headers.get("X-FEDFLOW-REQUEST-ID"),
        )
        return 200, envelope.encode(envelope.of_reply(host.core.commands.answer(incoming)))

    server = RpcServer(RpcSettings(port=0))
    service = UnaryService(
        dispatch, authenticate=certificate_party, packets=PACKETS,
        hosts=lambda party: party == "10000",
        admits=lambda _: True, pace=server.pace, settings=UnarySettings(body_bytes=BODY_BYTES),
    )  # fmt: skip
    with ExitStack() as stack:
        server.open()
        stack.callback(service.close)
        stack.callback(server.stop, 0.2)
        server.listen([service.add_to])
        channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))

        def send(
            path: str, body: Any, *, source: str = "9999", request_id: str = "r"
        ) -> dict[str, Any]:
            packet = request_packet(
                f"/v1{path}", msgspec.json.encode(body), source=source, source_role="guest",
                destination="10000", job_id="1", request_id=request_id, timeout_ms=5000,
            )  # fmt: skip
            raw = channel.unary_unary(METHOD)(PACKETS.encode(packet), timeout=10)
            answer: dict[str, Any] = msgspec.json.decode(PACKETS.decode(raw).body)
            return answer

        yield send


def rows(host: OneServer) -> tuple[JobRecord, list[TaskRecord], int, list[Any]]:
    with host.store.read() as tx:
        tasks = tx.tasks.find(TaskFilter(job_id="1", all_versions=True))
    return host.job("1"), tasks, host.free_cores(), host.executor.started[:]


COMMANDS = [
    (f"{JOB}/resource/apply", {"epoch": 0}),
    (f"{JOB}/resource/return", {"epoch": 0}),
    (f"{JOB}/start", {"epoch": 0}),
    (f"{JOB}/rerun", {"epoch": 1, "runtime_conf": {}, "tasks": {"a": 1}}),
    (f"{JOB}/parameter/update", {"epoch": 0, "runtime_conf": {}}),
    (f"{TASK}/start", {"epoch": 0}),
    (f"{TASK}/stop/canceled", {"epoch": 0}),
    (f"{TASK}/status/success", {"epoch": 0}),
    (f"{TASK}/collect", {}),
    ("/party/1/a/1_a/1/host/10000/create", {"epoch": 0, "auto_retries": 0}),
]


@pytest.mark.parametrize(("path", "body"), COMMANDS, ids=[p for p, _ in COMMANDS])
@pytest.mark.parametrize("source", ["77", "10001"])
def test_a_party_that_is_not_the_initiator_changes_nothing(
    host: OneServer, send: Send, path: str, body: dict[str, Any], source: str
) -> None:
    before = rows(host)
    answer = send(path, body, source=source)
    assert answer["retcode"] != 0
    assert answer["error"]["name"]
    assert rows(host) == before


@pytest.mark.parametrize("epoch", [1, 7])
@pytest.mark.parametrize("path", [f"{JOB}/resource/apply", f"{JOB}/start", f"{TASK}/start"])
def test_a_command_of_another_epoch_changes_nothing(
    host: OneServer, send: Send, path: str, epoch: int
) -> None:
    before = rows(host)
    answer = send(path, {"epoch": epoch})
    assert (answer["retcode"], answer["error"]["name"]) == (10, "StaleCommand")
    assert rows(host) == before


@pytest.mark.parametrize("epoch", [-1, "0", None, 1.5, [0], 10**10])
def test_an_epoch_that_is_none_changes_nothing(host: OneServer, send: Send, epoch: Any) -> None:
    before = rows(host)
    assert send(f"{JOB}/resource/apply", {"epoch": epoch})["retcode"] != 0
    assert rows(host) == before


@pytest.mark.parametrize(
    "path",
    ["/party/2/host/10000/start", "/party/1/host/10001/start", "/party/1/guest/10000/start",
     "/party/2/a/2_a/0/host/10000/start", "/party/1/zzz/1_zzz/0/host/10000/start"],
)  # fmt: skip
def test_a_command_for_a_job_or_task_that_is_not_here_changes_nothing(
    host: OneServer, send: Send, path: str
) -> None:
    before = rows(host)
    assert send(path, {"epoch": 0})["retcode"] != 0
    assert rows(host) == before


def test_a_request_id_of_another_party_gives_and_takes_nothing(host: OneServer, send: Send) -> None:
    given = send("/party/heartbeat", {"jobs": {"1": {}}}, request_id="same")
    assert given["retcode"] == 0
    before = rows(host)
    other = send(f"{JOB}/start", {"epoch": 0}, source="77", request_id="same")
    assert other["error"]["name"] == "WrongSite"
    assert "data" not in other
    assert rows(host) == before


def test_a_command_that_is_too_big_or_unknown_changes_nothing(host: OneServer, send: Send) -> None:
    before = rows(host)
    big = send(f"{JOB}/start", {"epoch": 0, "x": "y" * BODY_BYTES})
    assert (big["retcode"], big["error"]["name"]) == (101, "BadPacket")
    for path in (f"{JOB}/explode", "/party/1/host/10000", "/job/stop", f"{TASK}/report"):
        answer = send(path, {"epoch": 0})
        assert (answer["retcode"], answer["error"]["name"]) == (108, "ForbiddenRoute")
    assert rows(host) == before


def test_no_party_ends_or_creates_another_initiators_job(host: OneServer, send: Send) -> None:
    before = rows(host)
    assert send(f"{JOB}/stop/canceled", {"epoch": 0}, source="77")["retcode"] != 0
    body = create_body(initiator_party_id="9999")
    assert send(f"{JOB}/create", body, source="77", request_id="r9")["retcode"] != 0
    assert rows(host) == before
    assert host.job("1").status is JobStatus.RUNNING
