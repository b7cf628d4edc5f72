"""What people do with serving: load, bind, switch, roll back, unbind, unload."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import msgspec
from flask import Response, request

from fedflow.app.models.publishing import Published, summed_up
from fedflow.app.ports.serving import BindOptions, ServingReply
from fedflow.base.decoding import decode_as
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.board import access
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.message_catalog import told
from fedflow.board.page import board_blueprint, redirect_to
from fedflow.board.serving import serving_page
from fedflow.web.context import services

logger = logging.getLogger(__name__)

board_serving_actions = board_blueprint("board_serving_actions", "/serving")

HOME: Final = "/board/serving"


@act(board_serving_actions, "/load")
def load() -> Response:
    """Load a deployed version at the serving processes of all its parties, or at none."""
    model_id, version = _field("model_id"), _field("model_version")
    done = services().models.publishing().load(model_id, version)
    _noted("load", version)
    return _published(done, t("The version was loaded."), t("The version was not loaded."))


@act(board_serving_actions, "/unload")
def unload() -> Response:
    """Let the serving processes of a version's parties forget it."""
    model_id, version = _field("model_id"), _field("model_version")
    done = services().models.publishing().unload(model_id, version)
    _noted("unload", version)
    message = t("Not all parties unloaded the version.")
    return _published(done, t("The version was unloaded."), message)


@act(board_serving_actions, "/bind")
def bind() -> Response:
    """Let a version answer a service: all of it, a part of the users, or beside as a shadow."""
    service = _field("service_id").strip()
    model_id, version = _version(_field("version"))
    how = BindOptions(weight=_weight(), shadow=bool(request.form.get("shadow")))
    replies = services().models.publishing().bind(service, model_id, version, how)
    _noted("bind", service)
    return _done(replies, t("The service {service} was bound.", service=service[:60]))


@act(board_serving_actions, "/rollback")
def roll_back() -> Response:
    """Let a service be answered as before the last change."""
    service = _field("service_id")
    replies = services().models.publishing().roll_back(service)
    _noted("roll_back", service)
    return _done(replies, t("The service {service} was rolled back.", service=service[:60]))


@act(board_serving_actions, "/unbind")
def unbind() -> Response:
    """Let nothing answer for a service."""
    service = _field("service_id")
    replies = services().models.publishing().unbind(service)
    _noted("unbind", service)
    return _done(replies, t("The service {service} was unbound.", service=service[:60]))


def _field(name: str) -> str:
    """Return a field of the form. Raises: BadRequest: it is empty."""
    value = request.form.get(name, "")
    if not value:
        raise BadRequest(reason=Message("the field {name} is empty", name))
    return value


def _version(text: str) -> tuple[str, str]:
    """Return the model id and version that a choice means. Raises: BadRequest."""
    try:
        return decode_as(text, tuple[str, str])
    except msgspec.MsgspecError as exc:
        raise BadRequest(reason="the field version names no version") from exc


def _weight() -> float:
    """Return the percentage of the form, by default all. Raises: BadRequest."""
    text = request.form.get("weight", "").strip() or "100"
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 100:
        raise BadRequest(reason="the weight is no number from 0 to 100")
    return weight


def _noted(action: str, what: str) -> None:
    """Log who did something at the board."""
    name = access.viewer().name or "everybody"
    logger.info("board: %s of %s by %s", action, ascii(what[:200]), name, extra={"action": action})


def _done(replies: Sequence[ServingReply], sentence: str) -> Response:
    serving_page(after_change=True)
    said = summed_up(replies)
    if said.retcode:
        return redirect_to(HOME, message=told(said.retmsg[:300]), kind="bad")
    return redirect_to(HOME, message=sentence)


def _published(done: Published, sentence: str, failure: str) -> Response:
    """Say what each party answered."""
    serving_page(after_change=True)
    sites = [
        told(reply.said_by(site))[:200] if reply.retcode else f"{site}: {t('done')}"
        for site, reply in done.replies.items()
    ]
    message = " ".join([sentence if done.done else failure, "; ".join(sites)])
    return redirect_to(HOME, message=message, kind="ok" if done.done else "bad")
