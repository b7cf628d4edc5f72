"""Commands to several parties over real gRPC: order, parallel destinations, one that is dead."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from fedflow.app.administration.leadership import OnlyServer
from fedflow.app.protocol.commands import Commands, Incoming
from fedflow.app.protocol.party_router import PartyRouter
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import SystemClock, pause
from fedflow.base.errors.parties import IncompatibleVersions
from fedflow.base.ids import PartyId
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import Reply
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.commands import GrpcClient
from fedflow.rpc.client.routes import Route, Routes, RouteTable
from fedflow.rpc.credentials import certificate_party
from fedflow.rpc.packets import ProtobufPackets
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.unary import UnaryService, UnarySettings
from fedflow.server.outbox_senders import OutboxSenders
from fedflow.wire import envelope
from fedflow.wire.versions import BEFORE, OURS, Speaks
from tests.unit.app.fakes import GUEST, FakeClock, FakeParties, OneServer, conf, dsl

THREE = conf(guest=[9999], host=[10000, 10001])
LIMIT_S = 60.0
NEXT = Speaks(lowest=2, highest=7, product="9.9")


class MachineClock(FakeClock):
    """The machine's own clock, where the fake of unit tests is expected."""

    def now_ms(self) -> int:
        return SystemClock().now_ms()

    def monotonic_s(self) -> float:
        return SystemClock().monotonic_s()


@dataclass
class Peer:
    """The door of a party; its handler remembers what came, and answers what `answer` says."""

    party_id: str
    seen: list[tuple[str, str]] = field(default_factory=list)  #: path, request id
    answer: Callable[[int], dict[str, Any]] = lambda _number: envelope.success()
    speaks: Speaks | None = OURS
    port: int = 0

    def open(self, stack: ExitStack) -> Peer:
        server = RpcServer(RpcSettings(port=self.port))
        service = UnaryService(
            self._handle,
            authenticate=certificate_party,
            packets=ProtobufPackets(),
            hosts=lambda party: party == self.party_id,
            admits=lambda _: True,
            pace=server.pace,
            settings=UnarySettings(speaks=self.speaks),
        )
        server.open()
        stack.callback(service.close)
        stack.callback(server.stop, 0.2)
        server.listen([service.add_to])
        self.port = server.port
        return self

    def _handle(self, path: str, headers: Mapping[str, str], _body: bytes) -> tuple[int, bytes]:
        self.seen.append((path, headers.get("X-FEDFLOW-REQUEST-ID", "")))
        return 200, envelope.encode(self.answer(len(self.seen)))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def black_hole(stack: ExitStack) -> int:
    """Return a port where connections are taken and nothing is ever said."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    port: int = listener.getsockname()[1]
    return port


def initiator(
    stack: ExitStack, home: Path, ports: dict[str, int], *, speaks: Speaks | None = OURS,
    call_timeout_s: float = 1.0,
) -> OneServer:  # fmt: skip
    """Return the server of party 9999 with real channels to the others, and live outbox senders."""
    remote = {p: Route(host="127.0.0.1", port=port, tls=False) for p, port in ports.items()}
    routes = RouteTable(Routes(local=frozenset({"9999"}), remote=remote))
    channels = Channels(routes, credentials=None, settings=ChannelSettings())
    stack.callback(channels.close)

    class Idle:
        """The own party's handlers: they do nothing."""

        def handle(self, _incoming: Incoming) -> Reply:
            return Reply(retcode=0)

    router = PartyRouter(
        routes,
        servers=OnlyServer(),
        own_party="9999",
        remote=GrpcClient(channels, packets=ProtobufPackets(), own_party="9999", speaks=speaks),
    )
    router.connect(cast(Commands, Idle()), forward=lambda *_: pytest.fail("this server leads"))
    timing = Timing(call_timeout_s=call_timeout_s, preflight_timeout_s=call_timeout_s)
    server = OneServer(
        home=home, party_id="9999", parties=cast(FakeParties, router), clock=MachineClock(),
        timing=timing,
    )  # fmt: skip
    outbox_senders = OutboxSenders(
        delivery=server.core.delivery, store=server.store, clock=cast(Any, server.clock)
    )
    stack.callback(outbox_senders.stop)
    server.wakeup.then = outbox_senders.look
    return server


def wait_for(condition: Callable[[], bool]) -> None:
    clock, never = SystemClock(), threading.Event()
    deadline_s = clock.monotonic_s() + LIMIT_S
    while not condition():
        assert clock.monotonic_s() < deadline_s, "it did not happen"
        pause(0.01, never)


def phases(server: OneServer, job_id: str) -> dict[str, SitePhase]:
    return {s.site.party_id: s.phase for s in server.scheduled(job_id).sites}


def test_a_party_that_never_answers_delays_no_command_to_another(
    stack: ExitStack, tmp_path: Path
) -> None:
    well = Peer("10001").open(stack)
    server = initiator(
        stack, tmp_path, {"10000": black_hole(stack), "10001": well.port}, call_timeout_s=3.0
    )
    jobs = [server.core.submissions.begin(dsl(), THREE)[0] for _ in range(12)]
    wait_for(lambda: len(well.seen) >= 12)
    assert (
        server.core.circuit_breakers.view("10000").failed_ms is None
    )  # the first call still waits
    assert len({path for path, _ in well.seen}) == 12
    wait_for(lambda: server.core.circuit_breakers.opened() == ["10000"])
    busy = server.core.delivery._under_way["10000"]
    wait_for(lambda: len(busy) <= 1)
    for job_id in jobs:
        assert phases(server, job_id)["10001"] is SitePhase.CREATED


def test_commands_of_a_job_arrive_in_order_though_answers_are_not_now(
    stack: ExitStack, tmp_path: Path
) -> None:
    def every_third(number: int) -> dict[str, Any]:
        return envelope.success() if number % 3 == 0 else envelope.envelope(106, "not now")

    peer = Peer("10000", answer=every_third).open(stack)
    server = initiator(stack, tmp_path, {"10000": peer.port})
    wake, server.wakeup.then = server.wakeup.then, lambda: None
    server.core.submissions.begin(dsl(), conf())
    [first] = server.outbox("10000")
    with server.store.transaction() as tx:
        tx.outbox.put([replace(first, request_id=f"later-{n}") for n in range(4)])
    wake()
    wait_for(lambda: not server.outbox("10000"))
    ids = [request_id for _, request_id in peer.seen]
    assert list(dict.fromkeys(ids)) == [first.request_id, *(f"later-{n}" for n in range(4))]
    assert ids == sorted(ids, key=list(dict.fromkeys(ids)).index)  # each until it was taken


def test_what_waited_for_a_dead_party_goes_when_it_is_back(
    stack: ExitStack, tmp_path: Path
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = initiator(stack, tmp_path, {"10000": port})
    jobs = [server.core.submissions.begin(dsl(), conf())[0] for _ in range(6)]
    wait_for(lambda: server.core.circuit_breakers.opened() == ["10000"])
    Peer("10000", port=port).open(stack)
    wait_for(lambda: not server.outbox("10000"))
    assert {phases(server, job_id)["10000"] for job_id in jobs} == {SitePhase.CREATED}
    assert server.core.circuit_breakers.opened() == []


def far_away(stack: ExitStack, target: int, delay_s: float) -> int:
    """Return a port from which every piece of a stream arrives `delay_s` later."""
    listener = stack.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(4)
    never = threading.Event()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65_536):
                pause(delay_s, never)
                sink.sendall(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            caller, _ = listener.accept()
            with caller, socket.create_connection(("127.0.0.1", target)) as there:
                back = threading.Thread(target=pump, args=(there, caller))
                back.start()
                pump(caller, there)
                back.join()

    thread = threading.Thread(target=accept)
    thread.start()
    stack.callback(thread.join)
    stack.callback(listener.shutdown, socket.SHUT_RDWR)
    port: int = listener.getsockname()[1]
    return port


def test_a_party_at_the_end_of_a_slow_line_is_reached_by_the_first_call(
    stack: ExitStack, tmp_path: Path
) -> None:
    peer = Peer("10000").open(stack)
    port = far_away(stack, peer.port, 0.15)
    server = initiator(stack, tmp_path, {"10000": port})
    assert call(server).retcode == 0
    assert server.core.circuit_breakers.view("10000").failed_ms is None


# --- versions -------------------------------------------------------------------------------------


def call(server: OneServer) -> Reply:
    return server.core.parties.call(
        GUEST, "10000", "/party/info/common", {}, request_id="", job_id="v", deadline_s=5.0
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "known"),
    [(OURS, OURS, OURS), (OURS, None, BEFORE), (None, OURS, OURS),
     (OURS, NEXT, NEXT)],
)  # fmt: skip
def test_neighbouring_releases_talk_and_know_each_other(
    stack: ExitStack, tmp_path: Path, ours: Speaks | None, theirs: Speaks | None, known: Speaks
) -> None:
    peer = Peer("10000", speaks=theirs).open(stack)
    server = initiator(stack, tmp_path, {"10000": peer.port}, speaks=ours)
    assert call(server).retcode == 0
    assert server.core.circuit_breakers.theirs("10000") == known


@pytest.mark.parametrize("theirs", [(3, 3), (3, 9)])
def test_a_release_without_a_common_protocol_refuses_before_anything_happens(
    stack: ExitStack, tmp_path: Path, theirs: tuple[int, int]
) -> None:
    speaks = Speaks(lowest=theirs[0], highest=theirs[1], product="9.9")
    peer = Peer("10000", speaks=speaks).open(stack)
    server = initiator(stack, tmp_path, {"10000": peer.port})
    reply = call(server)
    assert (reply.retcode, reply.error) == (107, IncompatibleVersions.__name__)
    assert str(speaks) in reply.retmsg
    assert str(OURS) in reply.retmsg
    assert peer.seen == []


def test_a_release_that_does_not_check_is_refused_by_the_one_that_does(
    stack: ExitStack, tmp_path: Path
) -> None:
    peer = Peer("10000", speaks=None).open(stack)
    server = initiator(stack, tmp_path, {"10000": peer.port})
    server.core.circuit_breakers.speaks = Speaks(lowest=3, highest=3, product="9.9")
    reply = call(server)
    assert (reply.retcode, reply.error) == (107, IncompatibleVersions.__name__)
    assert PartyId("10000") in reply.retmsg
