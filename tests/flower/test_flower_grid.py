"""The Grid: what a ServerApp sends and gets back, whatever its ClientApps' sites do."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("flwr", reason="run with .flower/bin/python, which bin/flower makes")

import numpy as np
from flwr.app import Message

from fedflow.flower.grid import MESSAGE, REPLY
from fedflow.flower.messages import read_instruction, write_reply
from fedflow.sdk import ComponentFailed, Site
from fedflow.testing.federation import LocalFederation
from tests.flower.federations import (
    CLIENTS,
    NODES,
    SAID,
    SERVER,
    content,
    federation,
    grid_of,
    hello,
    played,
    to_all,
)

GUEST, HOST, OTHER = CLIENTS
FIRST, SECOND, THIRD = NODES


def next_message(fed: LocalFederation, site: Site) -> tuple[Message, str]:
    """Return what a client is sent next, and its tag."""
    event = fed.at(site).recv_any(MESSAGE, from_=(SERVER,), timeout_s=10.0)
    node = next(node for node, known in NODES.items() if known == site)
    return read_instruction(event.value, node_id=node), event.tag


def echo(fed: LocalFederation, site: Site, *values: float) -> None:
    """Answer one message."""
    message, tag = next_message(fed, site)
    reply = Message(content(*values) if values else message.content, reply_to=message)
    fed.at(site).send(REPLY, write_reply(reply), to=SERVER, tag=tag)


def sources(replies: list[Message]) -> list[int]:
    return [reply.metadata.src_node_id for reply in replies]


def test_each_node_replies_to_its_message() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    assert list(grid.get_node_ids()) == list(NODES)
    with played(lambda site: echo(fed, site)):
        replies = grid.send_and_receive(to_all(content(1.0, 2.0), "train.deep"))
    assert sources(replies) == list(NODES)
    for reply, node in zip(replies, NODES, strict=True):
        assert reply.content["arrays"].to_numpy_ndarrays()[0].tolist() == [1.0, 2.0]
        assert reply.metadata.message_type == "train.deep"
        assert reply.metadata.reply_to_message_id == f"1.{node}"


def test_replies_come_in_the_order_of_the_messages_whoever_was_first() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    turns = {site: threading.Event() for site in CLIENTS}

    def in_turn(site: Site) -> None:
        turns[site].wait(10.0)
        echo(fed, site)
        if site != GUEST:
            turns[CLIENTS[CLIENTS.index(site) - 1]].set()

    turns[OTHER].set()
    with played(in_turn):
        assert sources(grid.send_and_receive(to_all(content(1.0)))) == list(NODES)


def test_one_content_for_many_nodes_is_one_value() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    sent: list[list[Site]] = []
    own_send = grid._federation.send

    def send(name: str, value: Any, *, to: Any, **more: Any) -> None:
        sent.append(list(to))
        own_send(name, value, to=to, **more)

    grid._federation.send = send  # type: ignore[method-assign]
    grid.push_messages(to_all(content(1.0)))
    grid.push_messages([Message(content(float(node)), node, "train") for node in NODES])
    assert sent == [list(CLIENTS), [GUEST], [HOST], [OTHER]]


def test_two_messages_for_one_node_are_two() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    same = content(1.0)

    def twice(site: Site) -> None:
        echo(fed, site)
        echo(fed, site)

    with played(twice, GUEST):
        replies = grid.send_and_receive([Message(same, FIRST, "query") for _ in range(2)])
    assert sources(replies) == [FIRST, FIRST]
    assert len({reply.metadata.reply_to_message_id for reply in replies}) == 2


def test_a_node_that_does_not_reply_in_time_is_left_out_and_may_come_back() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    over = threading.Event()

    def late(site: Site) -> None:
        message, tag = next_message(fed, site)
        if site == HOST:
            over.wait(10.0)
        fed.at(site).send(
            REPLY, write_reply(Message(message.content, reply_to=message)), to=SERVER, tag=tag
        )
        echo(fed, site)

    with played(late):
        first = grid.send_and_receive(to_all(content(1.0)), timeout=0.3)
        over.set()
        second = grid.send_and_receive(to_all(content(2.0)))
    assert sources(first) == [FIRST, THIRD]
    assert sources(second) == list(NODES)
    assert [r.content["arrays"].to_numpy_ndarrays()[0].tolist() for r in second] == [[2.0]] * 3
    assert grid.counts.late == 1


def test_a_node_that_dies_is_an_error_at_once_and_no_longer_there() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()

    def die(site: Site) -> None:
        if site == HOST:
            next_message(fed, site)
            fed.fail(site, "its process was killed")
        else:
            echo(fed, site)

    with played(die):
        replies = grid.send_and_receive(to_all(content(1.0)))
    assert [reply.has_error() for reply in replies] == [False, True, False]
    assert "its process was killed" in replies[1].error.reason
    assert list(grid.get_node_ids()) == [FIRST, THIRD]
    assert grid.counts.left == {HOST.key: "its process was killed"}


def test_a_message_to_a_node_that_is_gone_has_an_error_as_reply() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    fed.fail(OTHER, "gone")
    grid.get_node_ids()
    replies = grid.send_and_receive(to_all(content(1.0), nodes=[THIRD, 99]), timeout=5.0)
    assert [(r.has_error(), r.metadata.src_node_id) for r in replies] == [(True, 3 + 1), (True, 99)]


def test_with_fewer_nodes_than_needed_the_run_fails_and_says_who_is_gone() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, min_nodes=3)
    grid.open()
    fed.fail(GUEST, "its process was killed")
    with pytest.raises(ComponentFailed, match=r"2 of 3 .* 3 are needed.*guest.*was killed"):
        grid.send_and_receive(to_all(content(1.0)))


def test_a_node_that_never_starts_is_waited_for_no_longer_than_said() -> None:
    fed = federation()
    hello(fed, GUEST, HOST)
    grid = grid_of(fed, start_timeout_s=0.1)
    grid.open()
    assert list(grid.get_node_ids()) == [FIRST, SECOND]


def test_nodes_that_never_start_are_named_if_they_are_needed() -> None:
    fed = federation()
    hello(fed, GUEST)
    with pytest.raises(ComponentFailed, match=r"1 of 3 .*not started: host 10000, host 10001"):
        grid_of(fed, start_timeout_s=0.1, min_nodes=2).open()


@pytest.mark.parametrize("how", ["gone", "late"])
def test_an_app_that_waits_for_nodes_that_are_away_ends(how: str) -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, round_timeout_s=0.05)
    grid.open()
    if how == "gone":
        fed.fail(OTHER, "gone")
    else:
        assert grid.send_and_receive(to_all(content(1.0), nodes=[THIRD])) == []

    def look_again_and_again() -> None:
        for _ in range(1000):
            grid.get_node_ids()
            threading.Event().wait(0.01)

    with pytest.raises(ComponentFailed, match=r"waits for more nodes than are left.* host 10001"):
        look_again_and_again()


def hostile_array() -> bytes:
    """Return a message whose array is a pickle."""
    import io

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    what = content(1.0)
    array = what["arrays"]["0"]
    array.__dict__["data"] = file.getvalue()
    return what


def nan() -> Any:
    return content(float("nan"))


def short() -> Any:
    what = content(1.0, 2.0)
    array = what["arrays"]["0"]
    array.__dict__["data"] = array.data[:-4]
    return what


def other_shape() -> Any:
    what = content(1.0, 2.0)
    what["arrays"]["0"].__dict__["shape"] = (7,)
    return what


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (hostile_array, "Python objects"),
        (nan, "NaN"),
        (short, "its size is not"),
        (other_shape, "and says float64"),
        (lambda: b"\xff\xff", "not a message"),
        (lambda: b"", "either content or an error"),
        (lambda: {"stop": True}, "not a message of Flower, but a dict"),
    ],
)
def test_a_reply_that_is_not_as_it_should_be_is_an_error_of_its_node(make: Any, said: str) -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()

    def client(site: Site) -> None:
        if site != HOST:
            echo(fed, site)
            return
        message, tag = next_message(fed, site)
        value = make()
        if not isinstance(value, bytes | dict):
            value = write_reply(Message(value, reply_to=message))
        fed.at(site).send(REPLY, value, to=SERVER, tag=tag)

    with played(client):
        replies = grid.send_and_receive(to_all(content(1.0)))
    assert [reply.has_error() for reply in replies] == [False, True, False]
    assert said in replies[1].error.reason


def test_a_node_cannot_reply_for_another_one_nor_to_another_message() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()

    def lie(site: Site) -> None:
        message, tag = next_message(fed, site)
        reply = Message(content(9.0), reply_to=message)
        values = reply.metadata.__dict__
        values["_src_node_id"], values["_reply_to_message_id"] = SECOND, f"1.{SECOND}"
        values["_message_type"], values["_run_id"] = "evaluate", 1
        fed.at(site).send(REPLY, write_reply(reply), to=SERVER, tag="7")  # never sent
        fed.at(site).send(REPLY, write_reply(reply), to=SERVER, tag=tag)

    with played(lie, GUEST):
        replies = grid.send_and_receive(to_all(content(1.0)), timeout=1.0)
    assert sources(replies) == [FIRST]
    metadata = replies[0].metadata
    assert (metadata.message_type, metadata.run_id) == ("train", 77)
    assert metadata.reply_to_message_id == f"1.{FIRST}"


def test_pushed_messages_are_pulled_when_their_replies_have_come() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    ids = grid.push_messages(to_all(content(1.0)))
    assert grid.pull_messages(ids) == []
    with played(lambda site: echo(fed, site)):
        found: list[Message] = []
        while len(found) < 3:
            found += grid.pull_messages(ids)
    assert sorted(sources(found)) == list(NODES)
    assert grid.pull_messages(ids) == []


def test_threads_that_wait_at_once_each_get_their_own_replies() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    found: dict[int, list[float]] = {}

    def ask(node: int) -> None:
        for value in range(5):
            message = Message(content(float(value)), node, "train")
            (reply,) = grid.send_and_receive([message])
            assert reply.metadata.src_node_id == node
            found.setdefault(node, []).append(
                reply.content["arrays"].to_numpy_ndarrays()[0].tolist()[0]
            )

    def five(site: Site) -> None:
        for _ in range(5):
            echo(fed, site)

    with played(five):
        threads = [threading.Thread(target=ask, args=(node,)) for node in NODES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20.0)
    assert found == {node: [0.0, 1.0, 2.0, 3.0, 4.0] for node in NODES}


def test_another_version_of_the_app_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    fed = federation()
    hello(fed, GUEST, HOST)
    fed.at(OTHER).send(REPLY, {"flwr": "1.40.0"}, to=SERVER, tag="hello")
    grid_of(fed).open()
    assert "host 10001 runs another app or flwr" in caplog.text


def test_stop_reaches_all_that_are_there() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    fed.fail(HOST, "gone")
    grid.get_node_ids()
    grid.stop()
    for site in (GUEST, OTHER):
        assert fed.at(site).recv(MESSAGE, from_=SERVER, tag="1") == {"stop": True}


def test_a_node_that_is_launched_again_takes_part_from_the_next_messages_on() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    fed.fail(HOST, "its process was killed")
    assert list(grid.get_node_ids()) == [FIRST, THIRD]
    fed.again(HOST)
    fed.at(HOST).send(REPLY, SAID, to=SERVER, tag="hello.again")
    assert list(grid.get_node_ids()) == list(NODES)
    with played(lambda site: echo(fed, site)):
        assert sources(grid.send_and_receive(to_all(content(1.0)))) == list(NODES)
    fed.fail(HOST, "killed once more")
    assert list(grid.get_node_ids()) == [FIRST, THIRD]


def test_a_node_that_is_back_before_its_end_is_heard_has_lost_what_it_was_asked() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()

    def answer(site: Site) -> None:
        if site != HOST:
            echo(fed, site)
            return
        fed.at(HOST).recv(MESSAGE, from_=SERVER, tag="1")
        fed.at(HOST).send(REPLY, SAID, to=SERVER, tag="hello.again")

    with played(answer):
        replies = grid.send_and_receive(to_all(content(1.0)), timeout=5.0)
    assert [r.metadata.src_node_id for r in replies if r.has_error()] == [SECOND]
    assert list(grid.counts.left) == [HOST.key]
    assert list(grid.get_node_ids()) == list(NODES)


def test_a_node_that_is_late_is_not_there_until_it_has_answered() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed)
    grid.open()
    frozen, ready = threading.Event(), threading.Event()

    def freeze(site: Site) -> None:
        if site == HOST:
            frozen.wait(10.0)
        echo(fed, site)
        if site == HOST:
            ready.set()

    with played(freeze):
        grid.send_and_receive(to_all(content(1.0)), timeout=0.2)
        assert list(grid.get_node_ids()) == [FIRST, THIRD]
        frozen.set()
        assert ready.wait(10.0)
        assert list(grid.get_node_ids()) == list(NODES)


def test_nodes_that_are_needed_and_late_are_waited_for() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, min_nodes=3, round_timeout_s=5.0)
    grid.open()

    def slow(site: Site) -> None:
        if site == HOST:
            threading.Event().wait(0.5)
        echo(fed, site)

    with played(slow):
        grid.send_and_receive(to_all(content(1.0)), timeout=0.1)
        assert list(grid.get_node_ids()) == list(NODES)


def test_too_many_late_nodes_end_the_run_after_the_limit() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, min_nodes=3, round_timeout_s=0.2)
    grid.open()
    with played(lambda site: echo(fed, site), GUEST, OTHER):
        grid.send_and_receive(to_all(content(1.0)))
    with pytest.raises(ComponentFailed, match=r"2 of 3 .* late: host 10000"):
        grid.get_node_ids()


def test_too_few_nodes_are_told_to_every_thread_that_waits() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, min_nodes=3)
    grid.open()
    raised: list[str] = []

    def ask(node: int) -> None:
        try:
            grid.send_and_receive([Message(content(1.0), node, "train")])
        except ComponentFailed as exc:
            raised.append(str(exc))

    threads = [threading.Thread(target=ask, args=(node,)) for node in (FIRST, THIRD)]
    for thread in threads:
        thread.start()
    next_message(fed, GUEST)
    next_message(fed, OTHER)
    fed.fail(HOST, "its process was killed")
    for thread in threads:
        thread.join(10.0)
    assert len(raised) == 2
    with pytest.raises(ComponentFailed, match="was killed"):
        grid.send_and_receive(to_all(content(1.0)))


def test_an_app_that_computes_for_long_while_another_thread_looks_goes_on() -> None:
    fed = federation()
    hello(fed)
    grid = grid_of(fed, round_timeout_s=0.05)
    grid.open()
    fed.fail(OTHER, "gone")
    found: list[int] = []

    def look() -> None:
        for _ in range(20):
            found.append(len(list(grid.get_node_ids())))
            threading.Event().wait(0.01)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(10.0)
    assert found == [2] * 20
