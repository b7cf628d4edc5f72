"""Requests of an executor: executed once, answered again while the answer is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data_plane import PeerFailed, ReplyFreed
from fedflow.base.errors.requests import BadRequest
from fedflow.federation.messages import Accepted, Delivered, Nothing, Reply, Value
from fedflow.federation.requests import MAX_AHEAD, MAX_REPLIES, MAX_REPLY_BYTES, Requests
from fedflow.federation.spool import Blob


class Connection:
    """Notes what an executor is answered."""

    def __init__(self) -> None:
        self.got: list[tuple[Reply, bytes | None]] = []

    def answer(self, reply: Reply, blob: Blob | None = None) -> None:
        self.got.append((reply, None if blob is None else blob.data))


def make() -> tuple[Requests, Connection, list[Blob]]:
    released: list[Blob] = []
    requests = Requests(release=released.append)
    connection = Connection()
    requests.outlet = connection
    return requests, connection, released


def value(number: int, data: bytes = b"x") -> tuple[Value, Blob]:
    size = len(data)
    reply = Value(id=number, size=size, digest="d" * 64, file=False)
    return reply, Blob(size=size, digest="d" * 64, data=data)


def test_a_repeat_while_the_first_runs_gets_its_answer() -> None:
    requests, connection, _ = make()
    assert requests.begin(1)
    assert not requests.begin(1)
    requests.outlet = again = Connection()
    assert not requests.begin(1)
    requests.end(1, *value(1))
    assert connection.got == []
    assert again.got == [(value(1)[0], b"x")]


def test_a_repeat_afterwards_gets_the_kept_answer_until_it_is_freed() -> None:
    requests, connection, released = make()
    requests.begin(1)
    requests.end(1, *value(1))
    assert not requests.begin(1)
    assert connection.got == [(value(1)[0], b"x")] * 2
    assert released == []
    requests.free([1])
    assert [blob.data for blob in released] == [b"x"]
    with pytest.raises(ReplyFreed):
        requests.begin(1)
    assert len(connection.got) == 2


def test_a_send_is_accepted_and_delivered_once_however_often_it_is_repeated() -> None:
    async def story() -> None:
        requests, connection, _ = make()
        for number in (1, 2, 3):
            assert requests.begin(number)
            requests.accepted(number)
        assert not requests.begin(2)
        requests.delivered(1, None)
        requests.delivered(2, None)
        requests.delivered(3, PeerFailed(site="host 1", reason="killed"))
        await asyncio.sleep(0)
        replies = [reply for reply, _ in connection.got]
        assert replies[:4] == [Accepted(id=number) for number in (1, 2, 3, 2)]
        assert isinstance(replies[4], Delivered)
        assert replies[4].error is not None
        assert replies[5:] == [Delivered(ids=[1, 2])]
        assert not requests.begin(1)
        assert connection.got[-1][0] == Delivered(ids=[1])

    asyncio.run(story())


def test_what_is_kept_is_bounded() -> None:
    requests, _, released = make()
    for number in range(1, MAX_REPLIES + 11):
        requests.begin(number)
        requests.end(number, Nothing(id=number))
    with pytest.raises(ReplyFreed):
        requests.begin(10)
    assert not requests.begin(11)
    for number in range(MAX_REPLIES + 11, MAX_REPLIES + 16):
        requests.begin(number)
        requests.end(number, *value(number, bytes(MAX_REPLY_BYTES // 4)))
    assert len(released) == 1
    assert requests.close() == set()
    assert len(released) == 5


def test_a_number_far_ahead_is_refused() -> None:
    requests, _, _ = make()
    with pytest.raises(BadRequest):
        requests.begin(MAX_AHEAD + 2)
    assert requests.begin(MAX_AHEAD + 1)
    with pytest.raises(BadRequest):
        requests.begin(MAX_AHEAD + 3)


Act = tuple[str, int]


@given(
    acts=st.lists(
        st.tuples(st.sampled_from(["request", "end", "free", "connect"]), st.integers(1, 6)),
        max_size=60,
    )
)
def test_nothing_is_executed_twice_or_lost(acts: list[Act]) -> None:
    requests, _, released = make()
    executed: set[int] = set()
    running: set[int] = set()
    done: dict[str, Callable[[int], None]] = {}

    def request(number: int) -> None:
        try:
            is_new = requests.begin(number)
        except ReplyFreed:
            assert number in executed
            assert number not in running
            return
        assert is_new == (number not in executed)
        if is_new:
            executed.add(number)
            running.add(number)

    def end(number: int) -> None:
        if number in running:
            running.discard(number)
            requests.end(number, *value(number, b"%d" % number))

    def connect(_: int) -> None:
        requests.outlet = Connection()

    done |= {
        "request": request, "end": end, "free": lambda n: requests.free([n]), "connect": connect,
    }  # fmt: skip
    for act, number in acts:
        done[act](number)
    requests.close()
    assert len(released) == len(executed - running)
