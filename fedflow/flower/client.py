"""A site that runs a ClientApp: it answers the messages of the ServerApp until it is told to stop.

What the app raises stays here: the ServerApp learns the class of the exception alone.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from flwr import app as flower

from fedflow.flower.grid import HELLO, MESSAGE, REPLY, STOP
from fedflow.flower.messages import APP_RAISED, read_instruction, write_reply
from fedflow.flower.results import ReplyMetrics
from fedflow.sdk import Departure, Federation, PeerFailed, Site

logger = logging.getLogger(__name__)

_LOOK_S: Final = 3600.0  #: a wait for the next message; after it the next wait begins


@dataclass(slots=True)
class ClientCounts:
    """What a ClientApp did."""

    messages: int = 0
    errors: dict[str, int] = field(default_factory=dict)  #: class of an exception -> how often


def answer_messages(
    app: Any,
    context: flower.Context,
    *,
    federation: Federation,
    server: Site,
    hello: dict[str, str],
    metrics: ReplyMetrics,
) -> ClientCounts:
    """Call `app` for each message of the ServerApp until it says stop, with one context for all.

    Raises: PeerFailed: the ServerApp's site is gone. ValueError: what came is no message of Flower.
    """
    counts = ClientCounts()
    tag = f"{HELLO}.{secrets.token_hex(4)}"  # a process that is launched again says it anew
    federation.send(REPLY, hello, to=server, tag=tag)
    while True:
        event = federation.recv_any(MESSAGE, from_=(server,), timeout_s=_LOOK_S)
        if event is None:
            continue
        if isinstance(event, Departure):
            raise PeerFailed(site=str(server), reason=event.reason)
        if event.value == STOP:
            return counts
        message = read_instruction(event.value, node_id=context.node_id)
        reply = _called(app, message, context, counts)
        metrics.record(message, reply)
        federation.send(REPLY, _written(reply, message, counts), to=server, tag=event.tag)


def _called(
    app: Any, message: flower.Message, context: flower.Context, counts: ClientCounts
) -> flower.Message:
    """Return the app's reply, or one with the class of what it raised."""
    counts.messages += 1
    try:
        reply = app(message, context)
    except Exception as exc:  # somebody's app
        logger.exception("The ClientApp failed on %s.", message.metadata.message_type)
        return _failure(message, type(exc).__name__, counts)
    if not isinstance(reply, flower.Message):
        logger.error("The ClientApp returned a %s, not a Message.", type(reply).__name__)
        return _failure(message, "TypeError", counts)
    return reply


def _written(reply: flower.Message, message: flower.Message, counts: ClientCounts) -> bytes:
    try:
        return write_reply(reply)
    except Exception as exc:  # values of types that Flower does not send
        logger.exception("The ClientApp's reply cannot be sent.")
        return write_reply(_failure(message, type(exc).__name__, counts))


def _failure(message: flower.Message, kind: str, counts: ClientCounts) -> flower.Message:
    counts.errors[kind] = counts.errors.get(kind, 0) + 1
    error = flower.Error(APP_RAISED, f"{kind}; its own party's log has the traceback")
    return flower.Message(error, reply_to=message)
