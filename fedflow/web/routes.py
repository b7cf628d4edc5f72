"""`@route`: declares a route once, for serving it and for describing it (`web/openapi.py`).

    @route(job, "/stop", body=StopBody)
    def stop(body: StopBody) -> Response:
        "End a job."

The body arrives read and checked; parameters of the path follow as keywords. An error is answered
in-band (HTTP 200, the retcode tells), or with its HTTP status where `style` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec
from flask import Blueprint, Response, request

from fedflow.base.errors import BadRequest, FedflowError
from fedflow.web.bodies import Body, NoBody, read_body
from fedflow.web.errors import status_errors
from fedflow.wire.json_text import decode_json

View = Callable[..., Response]

_MARK: Final = "__fedflow_route__"


class Style(StrEnum):
    """How a route answers errors."""

    IN_BAND = "in-band"  #: HTTP 200 and a retcode
    STATUS = "status"  #: the error's HTTP status; clients take exactly 200 as the file


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What is known of a route without calling it."""

    body: type[Body]
    data: Any  #: type of the answer's `data`: what `msgspec.json.schema` understands; None = none
    style: Style
    produces: str | None  #: media type of a download; None = the envelope
    form: bool  #: multipart: the body class describes query and text fields, one part is `file`
    own: bool  #: fedflow's, not FATE's


def route(
    blueprint: Blueprint,
    rule: str,
    *,
    body: type[Body] = NoBody,
    data: Any = None,
    methods: tuple[str, ...] = ("POST",),
    style: Style = Style.IN_BAND,
    produces: str | None = None,
    form: bool = False,
    own: bool = False,
) -> Callable[[View], View]:
    """Serve `rule` with the decorated view; may be given several times for several rules.

    With `form` the view gets no body and reads the request itself.
    """
    declared = Route(body=body, data=data, style=style, produces=produces, form=form, own=own)
    needed = any(field.required for field in msgspec.structs.fields(body))

    def mark(view: View) -> View:
        @functools.wraps(view)
        def served(**parameters: Any) -> Response:
            if form:
                return view(**parameters)
            return view(read_body(body, _given(needed)), **parameters)

        guarded = status_errors(served) if style is Style.STATUS else served
        setattr(guarded, _MARK, declared)
        endpoint = f"{view.__name__}{rule}".replace(".", "_")
        blueprint.add_url_rule(rule, endpoint=endpoint, view_func=guarded, methods=methods)
        return view

    return mark


def declaration(view: Callable[..., Any]) -> Route | None:
    """Return what `route` declared for a served view, None if it was not declared."""
    found = getattr(view, _MARK, None)
    return found if isinstance(found, Route) else None


def _given(needed: bool) -> dict[str, Any]:
    """Return the body; where none is needed, one that cannot be read counts as absent, as in FATE.

    Raises: BadRequest.
    """
    try:
        return json_object()
    except FedflowError:
        if needed:
            raise
        return {}


def json_object() -> dict[str, Any]:
    """Return the request's body, read as JSON whatever its Content-Type; empty if there is none.

    Raises: BadRequest: it is not JSON, too deep, or no object.
    """
    raw = request.get_data(cache=True)
    if not raw.strip():
        return {}
    value = decode_json(raw)
    if not isinstance(value, dict):
        raise BadRequest(reason="the body must be a JSON object")
    return value
