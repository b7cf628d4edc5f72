"""`/board/serving/try`: a form for one request of a service, and its answer.

What people enter and what comes of it stands on the page that answers, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from flask import Response, request

from fedflow.base.decoding import decode_as
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.board.access import need
from fedflow.board.forms import act
from fedflow.board.language import t
from fedflow.board.page import board_blueprint, page
from fedflow.board.presenters.serving import ServiceRow, ServingPage, VersionRow
from fedflow.board.serving import serving_page
from fedflow.domain.administration.accounts import AccountRole
from fedflow.web.context import services

board_serving_try = board_blueprint("board_serving_try", "/serving")

FIELDS: Final = 200  #: features that have a field of their own
_IDS: Final = 3  #: ids without a name that the settings know
_FEATURE, _ID = "feature ", "id "

Row = dict[str, str | int | float | bool | None]


@board_serving_try.get("/try")
def form() -> Response:
    """Show the form for a service."""
    need(AccountRole.OPERATOR)
    return _page(request.args.get("service", ""))


@act(board_serving_try, "/try")
def ask() -> Response:
    """Ask the service, and show the form with the answer."""
    service = request.form.get("service_id", "")
    shown = serving_page()
    version = _main_version(shown, _service(shown, service))
    texts = frozenset(version.texts) if version else frozenset[str]()
    reply = services().models.publishing().tried(service, _features(texts), _ids())
    return _page(service, reply=reply)


def _page(service_id: str, **more: Any) -> Response:
    shown = serving_page()
    service = _service(shown, service_id)
    version = _main_version(shown, service)
    inputs = list(version.inputs) if version else []
    given = request.form.to_dict() if request.method == "POST" else {}
    return page(
        "serving_try.html",
        title=t("Try a request"),
        nav="serving",
        known=shown,
        service_id=service_id,
        service=service,
        version=version,
        inputs=inputs[:FIELDS],
        more_inputs=max(0, len(inputs) - FIELDS),
        text_inputs=frozenset(version.texts) if version else frozenset(),
        partner_ids=_partner_ids(),
        id_rows=range(_IDS),
        given=given,
        selected_word=selected_word,
        **{"reply": None, **more},
    )


def _service(shown: ServingPage | None, service_id: str) -> ServiceRow | None:
    return None if shown is None else shown.service(service_id)


def _main_version(shown: ServingPage | None, service: ServiceRow | None) -> VersionRow | None:
    """Return the version of a service that answers most users, whose features are asked for."""
    if shown is None or service is None:
        return None
    parts = sorted(service.parts, key=lambda part: (part.shadow, -part.weight))
    found = (shown.guest_version((part.model_id, part.model_version)) for part in parts)
    return next((one for one in found if one is not None), None)


def _partner_ids() -> list[str]:
    """Return the names of ids that may go to hosts, as far as a process knows them."""
    overview = services().models.serving().overview()
    for process in overview.processes if overview is not None else ():
        if process.partner_ids:
            return list(process.partner_ids)
    return []


def _features(texts: frozenset[str]) -> Row:
    """Return the features of the form: JSON if it is there, else the fields that are filled.

    Raises: BadRequest.
    """
    given = request.form.get("json", "").strip()
    if given:
        try:
            return decode_as(given, Row)
        except msgspec.MsgspecError as exc:
            raise BadRequest(reason="the features are no JSON object of values") from exc
    return {
        name: value if name in texts else _number(name, value)
        for name, value in _filled(_FEATURE).items()
    }


def _ids() -> Mapping[str, str]:
    """Return the ids of the form. Raises: BadRequest: one has no name."""
    found = _filled(_ID)
    for place in range(_IDS):
        name = request.form.get(f"id_name_{place}", "").strip()
        value = request.form.get(f"id_value_{place}", "").strip()
        if value and not name:
            raise BadRequest(reason="an id has a value and no name")
        if value:
            found[name] = value
    return found


def _filled(prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value.strip()
        for name, value in request.form.items()
        if name.startswith(prefix) and value.strip()
    }


def _number(name: str, text: str) -> float:
    """Raises: BadRequest: it is none."""
    try:
        return float(text)
    except ValueError as exc:
        raise BadRequest(reason=Message("the feature {name} is no number", name[:60])) from exc


def selected_word(by: str) -> str:
    """Return why a version answered."""
    words = {
        "service": t("the only version of the service"),
        "weight": t("chosen by weight, the same for this user every time"),
        "rule": t("chosen by a rule"),
        "version": t("named by the request"),
        "default": t("the default service"),
    }
    return words.get(by, by)
