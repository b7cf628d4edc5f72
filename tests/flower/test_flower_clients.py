"""A ClientApp at its site: what it is called with, and what is said of its failures."""

from __future__ import annotations

import threading
from typing import Any

import pytest

pytest.importorskip("flwr", reason="run with .flower/bin/python, which bin/flower makes")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.flower.arrays import arrays_from_json, arrays_to_json
from fedflow.flower.client import ClientCounts, answer_messages
from fedflow.flower.grid import MESSAGE
from fedflow.flower.messages import instruction, read_instruction, read_reply
from fedflow.flower.results import ReplyMetrics, named_arrays
from fedflow.sdk import PeerFailed
from fedflow.testing.federation import LocalFederation
from fedflow.testing.tracker import RecordingTracker
from tests.flower.federations import (
    CLIENTS,
    NODES,
    RUN,
    SAID,
    SERVER,
    content,
    federation,
    grid_of,
    played,
    to_all,
)

GUEST = CLIENTS[0]
FIRST = next(iter(NODES))


def serve(fed: LocalFederation, app: Any, tracker: RecordingTracker | None = None) -> ClientCounts:
    """Play the guest with an app, until it is told to stop."""
    context = Context(
        run_id=RUN, node_id=FIRST, node_config={}, state=RecordDict(), run_config={"rate": 0.5}
    )
    return answer_messages(
        app,
        context,
        federation=fed.at(GUEST),
        server=SERVER,
        hello=SAID,
        metrics=ReplyMetrics(tracker or RecordingTracker()),
    )


def asked(app: Any, *messages: Message, tracker: RecordingTracker | None = None) -> list[Message]:
    """Return what the guest's app replies to messages, one after the other."""
    fed = federation()
    for site in CLIENTS[1:]:
        fed.fail(site, "not here")
    grid = grid_of(fed)
    with played(lambda _: serve(fed, app, tracker) and None, GUEST):
        grid.open()
        replies = [reply for one in messages for reply in grid.send_and_receive([one])]
        grid.stop()
    return replies


def test_an_app_keeps_its_state_from_message_to_message() -> None:
    app = ClientApp()

    @app.query()
    def count(message: Message, context: Context) -> Message:
        calls = context.state["seen"]["calls"] + 1 if "seen" in context.state else 1
        context.state["seen"] = ConfigRecord({"calls": calls})
        return Message(content(calls=calls), reply_to=message)

    replies = asked(app, *(Message(content(), FIRST, "query") for _ in range(3)))
    assert [reply.content["config"]["calls"] for reply in replies] == [1, 2, 3]


def test_kinds_with_names_reach_their_functions_and_mods_see_all() -> None:
    seen: list[str] = []

    def mod(message: Message, context: Context, call: Any) -> Message:
        seen.append(message.metadata.message_type)
        return call(message, context)

    app = ClientApp(mods=[mod])

    @app.train("deep")
    def deep(message: Message, context: Context) -> Message:
        return Message(content(name="deep"), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(content(name="plain"), reply_to=message)

    replies = asked(
        app, Message(content(), FIRST, "train.deep"), Message(content(), FIRST, "evaluate")
    )
    assert [reply.content["config"]["name"] for reply in replies] == ["deep", "plain"]
    assert seen == ["train.deep", "evaluate"]


@pytest.mark.parametrize("how", ["raise", "nothing", "unsendable", "unknown kind"])
def test_an_app_that_fails_is_an_error_whose_text_stays_at_its_party(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Any:
        if how == "raise":
            raise RuntimeError("row 17 is Alice")
        if how == "unsendable":
            reply = Message(content(), reply_to=message)
            reply.content["config"].__dict__["_data"]["x"] = object()
            return reply
        return None

    kind = "train.other" if how == "unknown kind" else "train"
    replies = asked(app, Message(content(), FIRST, kind), Message(content(), FIRST, kind))
    assert all(reply.has_error() and reply.error.code == 2 for reply in replies)
    assert "Alice" not in replies[0].error.reason
    assert "log has the traceback" in replies[0].error.reason
    assert caplog.text.count("Traceback") == (0 if how == "nothing" else 2)


def test_the_server_that_dies_ends_the_client() -> None:
    fed = federation()
    raised: list[BaseException] = []

    def client() -> None:
        try:
            serve(fed, ClientApp())
        except PeerFailed as exc:
            raised.append(exc)

    thread = threading.Thread(target=client)
    thread.start()
    fed.fail(SERVER, "its process was killed")
    thread.join(10.0)
    assert "its process was killed" in str(raised[0])


@pytest.mark.parametrize("value", [b"\x01\x02", {"stop": False}, "stop", None])
def test_what_is_no_message_ends_the_client(value: Any) -> None:
    fed = federation()
    fed.at(SERVER).send(MESSAGE, value, to=GUEST, tag="1")
    with pytest.raises(ValueError, match="a message"):
        serve(fed, ClientApp())


def test_numbers_of_replies_are_metrics_of_the_own_site() -> None:
    app = ClientApp()

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        reply = content(1.0)
        reply["metrics"]["loss"] = 0.25
        reply["metrics"]["list"] = [1, 2]
        reply["metrics"]["broken"] = float("nan")
        return Message(reply, reply_to=message)

    tracker = RecordingTracker()
    later = content()
    later["config"]["server-round"] = 7
    asked(
        app, Message(content(), FIRST, "evaluate"), Message(later, FIRST, "evaluate"),
        tracker=tracker,
    )  # fmt: skip
    found = {key: metric.points for key, metric in tracker.metrics.items()}
    assert found["validate", "loss"] == [(1, 0.25), (7, 0.25)]
    assert ("validate", "list") not in found
    assert ("validate", "broken") not in found


@settings(deadline=None)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20))
def test_arrays_come_back_from_a_model_as_they_were(values: list[float]) -> None:
    arrays = named_arrays(content(*values)["arrays"])
    back = arrays_from_json(arrays_to_json(arrays))
    assert back["0"].tolist() == values
    assert back["0"].dtype == arrays["0"].dtype


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b'{"trees": []}'])
def test_what_only_the_app_understands_is_kept_as_its_bytes(data: bytes) -> None:
    record = ArrayRecord({"0": Array("", (), "", data)})
    assert named_arrays(record)["0"].tobytes() == data


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_no_bytes_do_more_than_be_refused(noise: bytes, place: int) -> None:
    (sent,) = to_all(content(1.0, 2.0, rate=0.5), nodes=[FIRST])
    proto = instruction(sent, number=1, run_id=RUN)
    good = proto.SerializeToString()
    for data in (noise, good[:place] + noise + good[place + len(noise) :]):
        for read in (
            lambda data: read_reply(data, to=proto.metadata, node_id=FIRST),
            lambda data: read_instruction(data, node_id=FIRST),
        ):
            try:
                message = read(data)
            except ValueError:
                continue
            assert isinstance(message, Message)
