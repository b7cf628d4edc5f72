"""What an exchange sees of the calls that it passes on, and what becomes of what it does to them.

Two real servers and a real exchange, whose operator listens, changes, repeats, drops and redirects.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import grpc.aio
import numpy as np
import pytest

from fedflow.base.errors.data_plane import PeerFailed
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.exchange.parties import DIAL_IN
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.rpc.sealed import agreement
from fedflow.wire.exchange import DESTINATION, HEADER_BYTES, METHOD, CallHeader, CallKind
from tests.support.certificates import Authority, make_ca
from tests.support.data_plane import DataPlaneServer, Party, credentials_of
from tests.support.exchange import Passing, Tap, TestExchange
from tests.support.proxy import FaultyProxy
from tests.support.site_keys import MemorySiteKeys

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
THIRD = Site(Role.HOST, PartyId("7777"))
SITES = [GUEST, HOST]
TOKEN = "t"
MARK = b"patient 4711 has it"
FAST = FederationSettings(
    receive_timeout_s=100,
    send_timeout_s=60,
    progress_timeout_s=2.0,
    watch_interval_s=0.2,
    reconnect_min_s=0.02,
    reconnect_max_s=0.1,
)


@dataclass
class Line:
    """Two parties, a third one, and the exchange between them."""

    guest: DataPlaneServer
    host: DataPlaneServer
    third: DataPlaneServer
    exchange: TestExchange
    tap: Tap
    authority: Authority
    log: list[str]  #: names of errors that receivers and senders found
    passed: int = 0

    def send(self, value: object) -> object:
        """Return what the host gets of a value of the guest."""
        self.passed += 1
        session = f"job_task_{self.passed}"
        for server in (self.guest, self.host):
            server.open(session, SITES, token=TOKEN)
        with (
            self.guest.handle(session, GUEST, token=TOKEN) as sender,
            self.host.handle(session, HOST, token=TOKEN) as receiver,
        ):
            sender.send("value", value, to=HOST)
            got = receiver.recv("value", from_=GUEST, timeout_s=60)
            got = np.array(got) if isinstance(got, np.ndarray) else got
            sender.flush(60)
        return got

    def of(self, kind: CallKind, *, way: str = "up") -> list[Passing]:
        """Return what has passed."""
        return [one for one in self.tap.seen if one.kind is kind and one.way == way]


class _Errors(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if (name := getattr(record, "error", None)) is not None:
            self._found.append(name)


@contextmanager
def a_line(
    home: Path, keys: dict[str, MemorySiteKeys], *, settings: FederationSettings = FAST,
    dial_in: Sequence[str] = (), keepalive_s: float = 10.0,
) -> Iterator[Line]:  # fmt: skip
    """`dial_in`: parties that the exchange cannot call."""
    authority = make_ca()
    parties = list(keys)
    tap, found = Tap(), list[str]()
    handler = _Errors(found)
    logger = logging.getLogger("fedflow.rpc.sealed")
    with ExitStack() as stack:
        servers = {}
        for party in parties:
            (home / party).mkdir()
            servers[party] = DataPlaneServer(
                Party(
                    party_id=party,
                    home=home / party,
                    credentials=credentials_of(party, authority),
                ),
                settings=settings,
                keys=keys[party],
            )
            stack.enter_context(servers[party])
        exchange = stack.enter_context(
            TestExchange(
                {
                    party: DIAL_IN if party in dial_in else f"127.0.0.1:{server.port}"
                    for party, server in servers.items()
                },
                authority=authority,
                tap=tap,
                keepalive_s=keepalive_s,
            )
        )
        for party, server in servers.items():
            server.route_over(exchange.port, [other for other in parties if other != party])
            if party in dial_in:
                server.dial_in(exchange.port)
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        yield Line(
            servers["9999"], servers["10000"], servers["7777"], exchange, tap, authority, found
        )


@pytest.fixture(scope="module")
def keys() -> dict[str, MemorySiteKeys]:
    """The site keys of three parties that know each other."""
    found = {site.party_id: MemorySiteKeys(site.party_id) for site in (GUEST, HOST, THIRD)}
    for own in found.values():
        for other in found.values():
            own.trust(other)
    return dict(found)


@pytest.fixture
def line(tmp_path: Path, keys: dict[str, MemorySiteKeys]) -> Iterator[Line]:
    """A line whose operator does nothing yet."""
    with a_line(tmp_path, keys) as found:
        yield found


def big(mib: int, seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    found = np.random.default_rng(seed).integers(0, 256, mib * MIB, dtype=np.uint8)
    found[: len(MARK)] = np.frombuffer(MARK, dtype=np.uint8)
    return found


def until(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        threading.Event().wait(0.005)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1024, MIB - 1, MIB, 5 * MIB + 3])
def test_values_of_any_size_arrive_as_they_were(line: Line, size: int) -> None:
    value = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert np.array_equal(line.send(value), value)
    assert line.log == []


def test_values_go_both_ways_at_once(line: Line) -> None:
    session = "job_both_0"
    for server in (line.guest, line.host):
        server.open(session, SITES, token=TOKEN)
    with (
        line.guest.handle(session, GUEST, token=TOKEN) as guest,
        line.host.handle(session, HOST, token=TOKEN) as host,
    ):
        for number in range(5):
            guest.send("to host", big(3, number), to=HOST, tag=str(number))
            host.send("to guest", {"number": number}, to=GUEST, tag=str(number))
        for number in range(5):
            assert np.array_equal(
                host.recv("to host", from_=GUEST, tag=str(number), timeout_s=60), big(3, number)
            )
            assert guest.recv("to guest", from_=HOST, tag=str(number)) == {"number": number}
    assert line.log == []


# --- breaks ---------------------------------------------------------------------------------------


def send_over_breaks(line: Line, value: np.ndarray, breaks: int, *, every: int) -> int:  # type: ignore[type-arg]
    """Send a value while the link to the exchange is cut; return the bytes that went over it."""
    line.tap.keeps = False
    counts = line.exchange.traffic.of("9999", "10000")
    with FaultyProxy(line.exchange.port) as proxy:
        line.guest.route_over(proxy.port, ["10000"])
        for server in (line.guest, line.host):
            server.open("job_cut_0", SITES, token=TOKEN)
        with (
            line.guest.handle("job_cut_0", GUEST, token=TOKEN) as sender,
            line.host.handle("job_cut_0", HOST, token=TOKEN) as receiver,
        ):
            sender.send("value", value, to=HOST)
            for number in range(breaks):
                passed = (number + 1) * every
                until(lambda passed=passed: counts.bytes_up > passed, within_s=300)
                proxy.reset()
            got = receiver.recv("value", from_=GUEST, timeout_s=600)
            assert got.shape == value.shape
            assert np.array_equal(got[::997], value[::997])
            sender.flush(60)
    return counts.bytes_up


def test_a_value_goes_on_where_it_was_when_the_link_to_the_exchange_is_cut(line: Line) -> None:
    passed = send_over_breaks(line, big(64), 3, every=12 * MIB)
    assert passed < (64 + 3 * 16) * MIB  # and what was under way at each cut
    assert line.exchange.traffic.of("9999", "10000").calls > 3


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_5_gib_arrive_over_an_exchange_whose_link_is_cut_ten_times(
    tmp_path: Path, keys: dict[str, MemorySiteKeys]
) -> None:
    value = np.zeros(5 * 1024 * MIB, dtype=np.uint8)
    value[::MIB] = np.arange(5 * 1024) % 251 + 1
    with a_line(tmp_path, keys, settings=FederationSettings()) as line:
        passed = send_over_breaks(line, value, 10, every=480 * MIB)
    assert passed < (5 * 1024 + 10 * 16) * MIB


def test_a_value_goes_on_where_it_was_when_the_exchange_is_started_again(line: Line) -> None:
    stop = threading.Event()

    def alter(one: Passing) -> Sequence[bytes]:
        if one.kind is CallKind.BULK and one.way == "up" and one.number == 9:
            stop.set()
        return [one.data]

    line.tap.alter = alter
    value = big(48)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(line.send, value)
        assert stop.wait(30)
        line.exchange.restart()
        assert np.array_equal(sent.result(60), value)  # type: ignore[arg-type]
    sent_bytes = sum(len(one.data) for one in line.of(CallKind.BULK))
    assert 48 * MIB < sent_bytes < (48 + 24) * MIB


def test_an_exchange_takes_no_more_from_a_sender_than_it_can_pass_on(line: Line) -> None:
    line.tap.stalls = True
    counts = line.exchange.traffic.of("9999", "10000")

    async def flood() -> int:
        written = 0
        async with grpc.aio.secure_channel(
            f"127.0.0.1:{line.exchange.port}",
            credentials_of("9999", line.authority).for_client(),
            options=[("grpc.ssl_target_name_override", "party-exchange")],
        ) as channel:
            call = channel.stream_stream(METHOD)(metadata=((DESTINATION, "10000"),))
            await call.write(CallHeader(kind=CallKind.BULK, session=b"s" * 16, call=1).pack())
            try:
                async with asyncio.timeout(2):
                    while written < 200 * MIB:
                        await call.write(bytes(MIB))
                        written += MIB
            except TimeoutError:
                pass
            call.cancel()
        return written

    assert asyncio.run(flood()) < 16 * MIB  # what gRPC holds on both ends
    assert counts.bytes_up < 2 * MIB  # what was read of it


# --- what the operator sees -----------------------------------------------------------------------


def test_an_operator_that_keeps_everything_reads_nothing_of_it(line: Line) -> None:
    line.send({"text": MARK.decode(), "numbers": [1, 2, 3]})
    line.send(big(3))
    assert {one.kind for one in line.tap.seen} >= {CallKind.MESSAGES, CallKind.BULK}
    everything = b"".join(one.data for one in line.tap.seen)
    assert len(everything) > 3 * MIB
    for secret in (MARK, b"job_task", b"guest", b"value", b"digest", b"offer", b"stored"):
        assert secret not in everything
    assert big(3).tobytes()[1000:1032] not in everything


def test_the_operator_counts_calls_and_bytes_of_each_pair(line: Line) -> None:
    before = line.exchange.traffic.of("9999", "10000")
    calls, sent = before.calls, before.bytes_up
    line.send(big(2))
    after = line.exchange.traffic.of("9999", "10000")
    assert after.calls > calls
    assert 2 * MIB < after.bytes_up - sent < 2.1 * MIB


# --- what the operator changes --------------------------------------------------------------------


def once(do: Callable[[Passing], Sequence[bytes] | None]) -> Callable[[Passing], Sequence[bytes]]:
    """Return what does something to the first message that `do` wants, and to no other."""
    done = False

    def alter(one: Passing) -> Sequence[bytes]:
        nonlocal done
        changed = None if done else do(one)
        if changed is None:
            return [one.data]
        done = True
        return changed

    return alter


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


@pytest.mark.parametrize("at", [HEADER_BYTES, HEADER_BYTES + 1, 100, -1], ids=str)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_changed_bit_of_a_big_value_is_noticed_and_the_value_sent_again(
    line: Line, number: int, at: int
) -> None:
    line.tap.alter = once(
        lambda one: (
            [flipped(one.data, at % len(one.data))]
            if (one.kind, one.way, one.number) == (CallKind.BULK, "up", number)
            else None
        )
    )
    assert np.array_equal(line.send(big(5)), big(5))
    assert set(line.log) == {"SealBroken"}


@pytest.mark.parametrize("at", [2, 10, 20, 28], ids=["session", "session end", "call", "time"])
def test_a_changed_header_leads_nowhere(line: Line, at: int) -> None:
    line.tap.alter = once(
        lambda one: (
            [flipped(one.data, at)]
            if (one.kind, one.way, one.number) == (CallKind.BULK, "up", 0)
            else None
        )
    )
    assert np.array_equal(line.send(big(2)), big(2))
    assert set(line.log) <= {"SealBroken"}


def test_a_changed_answer_is_noticed_by_who_asked(line: Line) -> None:
    line.tap.alter = once(
        lambda one: (
            [flipped(one.data, 5)] if (one.kind, one.way) == (CallKind.BULK, "down") else None
        )
    )
    assert np.array_equal(line.send(big(3)), big(3))
    assert "SealBroken" in line.log


def test_a_small_value_that_is_changed_does_not_arrive_so(line: Line) -> None:
    line.tap.alter = once(
        lambda one: (
            [flipped(one.data, len(one.data) - 1)]
            if (one.kind, one.way) == (CallKind.MESSAGES, "up")
            else None
        )
    )
    assert line.send(MARK.decode()) == MARK.decode()
    assert "SealBroken" in line.log


def test_a_message_that_is_left_out_is_noticed(line: Line) -> None:
    line.tap.alter = once(
        lambda one: [] if (one.kind, one.way, one.number) == (CallKind.BULK, "up", 1) else None
    )
    assert np.array_equal(line.send(big(9)), big(9))
    assert set(line.log) == {"SealBroken"}


def test_messages_in_another_order_are_noticed(line: Line) -> None:
    kept: list[bytes] = []

    def alter(one: Passing) -> Sequence[bytes]:
        if (one.kind, one.way) == (CallKind.BULK, "up") and not line.log:
            if one.number == 1:
                kept.append(one.data)
                return []
            if one.number == 2:
                return [one.data, kept.pop()]
        return [one.data]

    line.tap.alter = alter
    assert np.array_equal(line.send(big(9)), big(9))
    assert "SealBroken" in line.log


def test_a_message_that_is_given_on_twice_is_noticed(line: Line) -> None:
    line.tap.alter = once(
        lambda one: (
            [one.data] * 2 if (one.kind, one.way, one.number) == (CallKind.BULK, "up", 1) else None
        )
    )
    assert np.array_equal(line.send(big(9)), big(9))
    assert "SealBroken" in line.log


def test_a_message_of_another_call_is_noticed(line: Line) -> None:
    line.send(big(5, 2))
    other = next(one.data for one in line.of(CallKind.BULK) if one.number == 1)
    line.tap.alter = once(
        lambda one: [other] if (one.kind, one.way, one.number) == (CallKind.BULK, "up", 1) else None
    )
    assert np.array_equal(line.send(big(5)), big(5))
    assert "SealBroken" in line.log


# --- calls that are repeated, cut off, held back, redirected --------------------------------------


def refusal_of(line: Line, messages: Sequence[bytes], *, to: str = "10000") -> str:
    return line.exchange.call_again(to, messages).partition(":")[0]


def test_a_repeated_call_is_refused_by_its_number(line: Line) -> None:
    line.send(big(2))
    line.send(MARK.decode())
    bulk = line.of(CallKind.BULK)
    first = next(one.data for one in bulk if one.call == bulk[-1].call)
    assert refusal_of(line, [first]) == "SealReplayed"
    for bit in range(8):  # with another number
        other = first[:18] + bytes((first[18] ^ 1 << bit,)) + first[19:]
        assert refusal_of(line, [other]) in {"SealBroken", "SealReplayed"}


def test_a_repeated_agreement_opens_nothing(line: Line) -> None:
    line.tap.alter = once(  # so that the next stream needs a session
        lambda one: (
            [flipped(one.data, len(one.data) - 1)]
            if (one.kind, one.way) == (CallKind.MESSAGES, "up")
            else None
        )
    )
    line.send("value")
    (hello, *_) = line.of(CallKind.HELLO)
    assert refusal_of(line, [hello.data]) == "SealReplayed"
    assert refusal_of(line, [hello.data], to="7777") == "SealMisdirected"


def held_back(line: Line) -> list[bytes]:
    """Return the messages of a call for a big value that the receiver has not got."""
    kept: list[Passing] = []

    def alter(one: Passing) -> Sequence[bytes]:
        if one.kind is CallKind.BULK and one.way == "up" and one.call == (kept or [one])[0].call:
            kept.append(one)
            return []
        return [one.data]

    line.tap.alter = alter
    line.send(big(2))  # it is sent again, as another call
    return [one.data for one in kept]


def test_a_call_that_is_cut_off_is_told_from_one_that_has_ended(line: Line) -> None:
    line.tap.cut = lambda one: one.kind is CallKind.BULK and one.number == 2 and not line.log
    assert np.array_equal(line.send(big(9)), big(9))
    assert set(line.log) == {"SealCutOff"}


def test_a_call_that_is_held_back_for_long_is_refused(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = held_back(line)
    monkeypatch.setattr(agreement, "WINDOW_MS", -1)
    assert refusal_of(line, messages) == "SealExpired"


def test_calls_that_go_to_another_party_are_refused_there(line: Line) -> None:
    line.send(MARK.decode())
    line.tap.redirect = {"10000": "7777"}

    def heal(one: Passing) -> Sequence[bytes]:
        if "SealMisdirected" in line.log:
            line.tap.redirect = {}
        return [one.data]

    line.tap.alter = heal
    assert np.array_equal(line.send(big(2)), big(2))
    assert "SealMisdirected" in line.log


@pytest.mark.parametrize("without", ["9999", "10000"])
def test_a_party_without_the_others_key_says_so_at_once(tmp_path: Path, without: str) -> None:
    found = {party: MemorySiteKeys(party) for party in ("9999", "10000", "7777")}
    other = {"9999": "10000", "10000": "9999"}
    found[other[without]].trust(found[without])
    with a_line(tmp_path, found) as line:
        line.guest.open("job_task_0", SITES, token=TOKEN)
        with line.guest.handle("job_task_0", GUEST, token=TOKEN) as sender:
            sender.send("value", MARK.decode(), to=HOST)
            with pytest.raises(PeerFailed, match=f"The call of party {other[without]} is not auth"):
                sender.flush(20)
        assert set(line.log) == {"NotSigned"}
