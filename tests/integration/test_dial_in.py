"""Parties that no exchange can call: their calls come over connections of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np
import pytest

from fedflow.base.clock import SystemClock
from fedflow.exchange import dialled
from fedflow.federation.settings import MIB
from fedflow.wire.exchange import (
    DESTINATION,
    END,
    HEADER_BYTES,
    LANE,
    METHOD,
    SERVE,
    SERVER,
    CallHeader,
    CallKind,
)
from tests.integration.test_exchange import (
    GUEST,
    HOST,
    MARK,
    SITES,
    THIRD,
    TOKEN,
    Line,
    a_line,
    big,
    flipped,
    once,
    send_over_breaks,
    until,
)  # fmt: skip
from tests.support.data_plane import credentials_of
from tests.support.exchange import Passing
from tests.support.proxy import FaultyProxy
from tests.support.site_keys import MemorySiteKeys


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
    """Two parties of which the exchange can call the guest only."""
    with a_line(tmp_path, keys, dial_in=["10000"]) as found:
        yield found


def servers_here(line: Line, party: str = "10000") -> list[dict[str, Any]]:
    return [dict(one) for name, one in line.exchange.dialled.dialled_in() if name == party]


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 1024, MIB - 1, 5 * MIB + 3])
def test_values_of_any_size_arrive_at_a_party_that_dials_in(line: Line, size: int) -> None:
    value = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert np.array_equal(line.send(value), value)
    assert line.log == []


def test_values_go_both_ways_between_parties_that_both_dial_in(
    tmp_path: Path, keys: dict[str, MemorySiteKeys]
) -> None:
    with a_line(tmp_path, keys, dial_in=["9999", "10000"]) as line:
        for server in (line.guest, line.host):
            server.open("job_both_0", SITES, token=TOKEN)
        with (
            line.guest.handle("job_both_0", GUEST, token=TOKEN) as guest,
            line.host.handle("job_both_0", HOST, token=TOKEN) as host,
        ):
            for number in range(12):  # more than lines that wait
                guest.send("to host", big(2, number), to=HOST, tag=str(number))
                host.send("to guest", {"number": number}, to=GUEST, tag=str(number))
            for number in range(12):
                got = host.recv("to host", from_=GUEST, tag=str(number), timeout_s=60)
                assert np.array_equal(got, big(2, number))
                assert guest.recv("to guest", from_=HOST, tag=str(number)) == {"number": number}
        assert line.log == []


# --- breaks ---------------------------------------------------------------------------------------


def test_a_value_goes_on_where_it_was_when_its_senders_link_is_cut(line: Line) -> None:
    passed = send_over_breaks(line, big(48), 2, every=12 * MIB)
    assert passed < (48 + 2 * 16) * MIB


def test_a_value_goes_on_where_it_was_when_its_receivers_link_is_cut(line: Line) -> None:
    line.tap.keeps = False
    line.host.hang_up()
    counts = line.exchange.traffic.of("9999", "10000")
    with FaultyProxy(line.exchange.port) as proxy, ThreadPoolExecutor(1) as pool:
        line.host.dial_in(proxy.port)
        value = big(48)
        sent = pool.submit(line.send, value)
        for number in range(2):
            until(lambda passed=(number + 1) * 12 * MIB: counts.bytes_up > passed)
            proxy.reset()
        assert np.array_equal(sent.result(60), value)  # type: ignore[arg-type]
        line.host.hang_up()
    assert counts.bytes_up < (48 + 2 * 16) * MIB


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


def test_a_link_that_died_without_a_word_is_noticed_and_replaced(
    tmp_path: Path, keys: dict[str, MemorySiteKeys]
) -> None:
    with a_line(tmp_path, keys, dial_in=["10000"], keepalive_s=1.0) as line:
        line.host.hang_up()
        with FaultyProxy(line.exchange.port) as proxy:
            line.host.dial_in(proxy.port, keepalive_s=1.0)
            until(lambda: len(servers_here(line)) == 1)
            proxy.stall()
            until(lambda: servers_here(line) == [])  # the exchange notices, and waits for another
            proxy.heal()
            until(lambda: len(servers_here(line)) == 1)  # the party noticed as well
            assert line.send(MARK.decode()) == MARK.decode()
            line.host.hang_up()


def test_a_new_connection_of_a_server_takes_the_place_of_one_that_may_be_dead(line: Line) -> None:
    line.host.hang_up()
    with FaultyProxy(line.exchange.port) as proxy:
        line.host.dial_in(proxy.port)
        until(lambda: len(servers_here(line)) == 1)
        proxy.stall()  # and the exchange does not know yet
        line.host.dial_in(line.exchange.port)
        until(lambda: servers_here(line)[0]["since_ms"] > 0)
        assert line.send(MARK.decode()) == MARK.decode()
        line.host.hang_up()


def test_the_server_that_dialled_in_first_is_called_while_it_is_there(line: Line) -> None:
    until(lambda: len(servers_here(line)) == 1)
    line.host.dial_in(line.exchange.port, server_id="two")
    until(lambda: len(servers_here(line)) == 2)
    line.send(big(2))
    line.send("value")
    one, two = servers_here(line)
    assert (one["server"], one["calls"] > 0) == ("one", True)
    assert (two["server"], two["calls"]) == ("two", 0)


def test_a_party_knows_how_its_lines_stand_and_why_none_is_there(line: Line) -> None:
    line.host.hang_up()
    begin_ms = SystemClock().now_ms()
    lines = line.host.dial_in(line.exchange.port)
    until(lambda: lines.state.connected)
    up = lines.state
    assert up.exchange == f"127.0.0.1:{line.exchange.port}"
    assert up.since is not None
    assert up.last_try is not None
    assert begin_ms <= up.last_try <= up.since
    assert up.last_error == ""
    line.exchange.stop()
    until(lambda: "connection refused" in lines.state.last_error)
    down = lines.state
    assert not down.connected
    assert down.since is not None
    assert down.since >= up.since
    until(lambda: (lines.state.last_try or 0) > (down.last_try or 0))
    assert lines.state.since == down.since  # it is one interruption
    line.exchange.start()
    until(lambda: lines.state.connected)
    assert lines.state.last_error == ""


def test_a_party_that_may_not_dial_in_knows_the_reason(line: Line) -> None:
    lines = line.guest.dial_in(line.exchange.port)
    until(lambda: lines.state.last_error != "")
    assert "has no `dial-in` for it" in lines.state.last_error
    assert not lines.state.connected


# --- flow and limits ------------------------------------------------------------------------------


def channel_of(line: Line, party: str) -> grpc.aio.Channel:
    """Return a party's own connection to the exchange."""
    return grpc.aio.secure_channel(
        f"127.0.0.1:{line.exchange.port}",
        credentials_of(party, line.authority).for_client(),
        options=[("grpc.ssl_target_name_override", "party-exchange")],
    )


async def written_to(line: Line, messages: int) -> int:
    """Return how many bytes an exchange takes of a caller whose party reads nothing."""
    written = 0
    async with channel_of(line, "9999") as channel:
        call = channel.stream_stream(METHOD)(metadata=((DESTINATION, "7777"),))
        await call.write(CallHeader(kind=CallKind.BULK, session=b"s" * 16, call=1).pack())
        try:
            async with asyncio.timeout(2):
                for _ in range(messages):
                    await call.write(bytes(MIB))
                    written += MIB
        except TimeoutError:
            pass
        call.cancel()
    return written


Lines = list[Any]


async def lines_of(
    line: Line, party: str, work: Callable[[Lines], Any], *, count: int = 1, server: str = "s"
) -> Any:
    """Open lines in a party's name by hand, and do something with them."""
    async with channel_of(line, party) as channel:
        lines = [
            channel.stream_stream(SERVE)(metadata=((SERVER, server), (LANE, "big")))
            for _ in range(count)
        ]
        try:
            return await work(lines)
        finally:
            for one in lines:
                one.cancel()


def test_an_exchange_takes_no_more_than_a_party_that_dialled_in_reads(
    tmp_path: Path, keys: dict[str, MemorySiteKeys]
) -> None:
    with a_line(tmp_path, keys, dial_in=["7777"]) as line:
        line.third.hang_up()
        until(lambda: servers_here(line, "7777") == [])

        async def work(lines: Lines) -> int:
            assert await lines[0].read() == END
            return await written_to(line, 200)  # and its party reads nothing

        assert asyncio.run(lines_of(line, "7777", work)) < 16 * MIB
        assert line.exchange.traffic.of("9999", "7777").bytes_up < 12 * MIB


def test_one_caller_cannot_take_all_lines_to_a_party(
    tmp_path: Path, keys: dict[str, MemorySiteKeys], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialled, "CALLS", 8)
    first = CallHeader(kind=CallKind.BULK, session=b"s" * 16, call=1).pack()

    async def flood(lines: Lines) -> None:
        for one in lines:
            assert await one.read() == END
        async with AsyncExitStack() as stack:
            channels = {
                party: await stack.enter_async_context(channel_of(line, party))
                for party in ("9999", "10000")
            }

            async def called(party: str) -> str:
                call = channels[party].stream_stream(METHOD)(metadata=((DESTINATION, "7777"),))
                await call.write(first)
                try:
                    await call.read()
                except grpc.aio.AioRpcError as exc:
                    return str(exc.details())
                return ""

            calls = [asyncio.create_task(called("9999")) for _ in range(10)]
            while sum(call.done() for call in calls) < 4:
                await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=0.1)
            assert {call.result() for call in calls if call.done()} == {
                "the exchange cannot reach party 7777: your party has too many calls to it open"
            }
            other = asyncio.create_task(called("10000"))
            taken = [asyncio.create_task(one.read()) for one in lines]
            while sum(one.done() for one in taken) < 7:
                await asyncio.wait((*taken, other), timeout=0.1)
                assert not other.done()
            for task in (*calls, other, *taken):
                task.cancel()

    with a_line(tmp_path, keys, dial_in=["7777"]) as line:
        line.third.hang_up()
        until(lambda: servers_here(line, "7777") == [])
        asyncio.run(lines_of(line, "7777", flood, count=12))


# --- hostile parties ------------------------------------------------------------------------------


def outcome(line: Line, party: str, **given: Any) -> None:
    """Raise what one of the lines is refused with, whichever it is."""

    async def work(lines: Lines) -> None:
        for read in asyncio.as_completed([one.read() for one in lines]):
            await read

    asyncio.run(lines_of(line, party, work, **given))


def test_nobody_dials_in_as_another_party(line: Line) -> None:
    until(lambda: len(servers_here(line)) == 1)
    for party in ("7777", "9999", "4711"):  # which have addresses, or are not known
        with pytest.raises(grpc.aio.AioRpcError, match="does not dial in here"):
            outcome(line, party)
    assert [one["server"] for one in servers_here(line)] == ["one"]


def test_too_many_lines_and_servers_of_a_party_are_refused(line: Line) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match="too many lines"):
        outcome(line, "10000", count=dialled.AHEAD + 1)
    with pytest.raises(grpc.aio.AioRpcError, match="it is no line"):
        outcome(line, "10000", server="a b")


def test_what_a_party_answers_unsealed_is_not_believed(
    tmp_path: Path, keys: dict[str, MemorySiteKeys]
) -> None:
    """The exchange cannot tell; who called can."""
    with a_line(tmp_path, keys, dial_in=["10000"]) as line:
        line.tap.alter = once(
            lambda one: (
                [flipped(one.data, 5)] if (one.kind, one.way) == (CallKind.BULK, "down") else None
            )
        )
        assert np.array_equal(line.send(big(3)), big(3))
        assert "SealBroken" in line.log


def test_a_repeated_call_over_a_line_is_refused(line: Line) -> None:
    line.send(big(2))
    first = line.of(CallKind.BULK)[0].data
    assert len(first) > HEADER_BYTES

    async def again() -> str:
        async with channel_of(line, "7777") as channel:
            call = channel.stream_stream(METHOD)(metadata=((DESTINATION, "10000"),))
            await call.write(first)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call.read()
            return str(caught.value.details())

    assert "SealReplayed" in asyncio.run(again())


def test_a_party_that_has_not_dialled_in_is_said_to_be_away(line: Line) -> None:
    line.host.hang_up()
    until(lambda: servers_here(line) == [])

    async def call() -> str:
        async with channel_of(line, "9999") as channel:
            stream = channel.stream_stream(METHOD)(metadata=((DESTINATION, "10000"),))
            await stream.write(CallHeader(kind=CallKind.HELLO).pack())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            return str(caught.value.details())

    assert asyncio.run(call()) == "the exchange cannot reach party 10000: it has not dialled in"
