"""`@route`: declares a route once, for serving it and for describing it (`web/openapi.py`).

    @route(job, "/stop", body=StopBody)
    def stop(body: StopBody) -> Response:
        "End a job."

The body arrives read and checked: a `Body` as clients write it, any other class to the letter.
Parameters of the path follow as keywords. An error is answered in-band (HTTP 200, the retcode
tells), or with its HTTP status where `style` says so (see `web/errors.py`). The docstring is the
route's description for readers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec
from flask import Blueprint, Flask, Response, request

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.web.requests import Body, NoBody, read_body
from fedflow.wire.json_text import MAX_VALUES, decode_json
from fedflow.wire.worker_commands import read_worker_command

View = Callable[..., Response]

DECODED: Final = "fedflow.body"  #: WSGI environ: the body as the relay has decoded it
_MARK: Final = "__fedflow_route__"


class Style(StrEnum):
    """How a route answers errors."""

    IN_BAND = "in-band"  #: HTTP 200 and a retcode
    STATUS = "status"  #: the error's HTTP status; clients take exactly 200 as the file
    BOARD = "board"  #: HTTP 200, and FATE-Board's `code`


class Access(StrEnum):
    """Who may call a route; its blueprint does the check."""

    CLIENT = "client"  #: signed, if the server asks for signatures
    OPEN = "open"  #: anybody
    EXECUTOR = "executor"  #: this server's executors, with their task token
    PARTY = "party"  #: other parties, through the relay


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """What is known of a route without calling it."""

    body: type[msgspec.Struct]
    data: Any  #: type of the answer's `data`: what `msgspec.json.schema` understands; None = none
    meta: Any  #: type of the envelope's `meta`; None = none
    style: Style
    produces: str | None  #: media type of a download; None = the envelope
    form: bool  #: multipart: the body class describes query and text fields, one part is `file`
    own: bool  #: fedflow's, not FATE's
    access: Access
    bare: bool  #: the answer is `data` itself, without an envelope
    needed: bool  #: a request without a body is refused
    read_only: bool  #: it only looks, so few of its requests are answered at once


def route(
    blueprint: Blueprint,
    rule: str,
    *,
    body: type[msgspec.Struct] = NoBody,
    data: Any = None,
    meta: Any = None,
    methods: tuple[str, ...] = ("POST",),
    style: Style = Style.IN_BAND,
    produces: str | None = None,
    form: bool = False,
    own: bool = False,
    access: Access = Access.CLIENT,
    bare: bool = False,
    strict: bool = False,
    needed: bool = False,
    read_only: bool = False,
) -> Callable[[View], View]:
    """Serve `rule` with the decorated view; may be given several times for several rules.

    With `form` the view gets no body and reads the request itself. With both `data` and `produces`
    the answer may be either. A body is `needed` where a member is required. Elsewhere one that
    cannot be read counts as absent, as in FATE, unless the route is `strict`. Requests of routes
    that are `read_only` have few threads (`http.server.HttpSettings`): they leave time for others.
    """
    needed = needed or any(field.required for field in msgspec.structs.fields(body))
    declared = Route(
        body=body, data=data, meta=meta, style=style, produces=produces, form=form, own=own,
        access=access, bare=bare, needed=needed, read_only=read_only,
    )  # fmt: skip

    def mark(view: View) -> View:
        @functools.wraps(view)
        def served(**parameters: Any) -> Response:
            if form:
                return view(**parameters)
            return view(_read(body, _given(strict=strict, needed=needed)), **parameters)

        setattr(served, _MARK, declared)
        endpoint = f"{view.__name__}{rule}".replace(".", "_")
        if methods != ("POST",):
            endpoint += "-".join(("", *methods))
        blueprint.add_url_rule(rule, endpoint=endpoint, view_func=served, methods=methods)
        return view

    return mark


def read_only_paths(app: Flask) -> frozenset[str]:
    """Return the paths of the routes that only look; they have no parameters in them."""
    return frozenset(
        rule.rule
        for rule in app.url_map.iter_rules()
        if (declared := declaration(app.view_functions[rule.endpoint])) and declared.read_only
    )


def declaration(view: Callable[..., Any] | None) -> Route | None:
    """Return what `route` declared for a served view, None if it was not declared."""
    found = getattr(view, _MARK, None)
    return found if isinstance(found, Route) else None


def _read(kind: type[msgspec.Struct], given: dict[str, Any]) -> msgspec.Struct:
    """Return a body. Raises: BadRequest, MissingArgument."""
    return read_body(kind, given) if issubclass(kind, Body) else read_worker_command(given, kind)


def _given(*, strict: bool, needed: bool) -> dict[str, Any]:
    """Return the body of a request. Raises: BadRequest."""
    if needed and not request.get_data(cache=True).strip():
        raise BadRequest(reason="the body is empty; send a JSON object")
    try:
        return json_object()
    except FedflowError:
        if strict or needed:
            raise
        return {}


def json_object() -> dict[str, Any]:
    """Return the request's body, read as JSON whatever its Content-Type; empty if there is none.

    Raises: BadRequest: it is not JSON, too deep, or no object.
    """
    decoded: dict[str, Any] | None = request.environ.get(DECODED)
    return object_of(request.get_data(cache=True)) if decoded is None else decoded


def object_of(raw: bytes, *, max_values: int = MAX_VALUES) -> dict[str, Any]:
    """Return a JSON object; empty if there is no text. Raises: BadRequest, as `json_object`."""
    if not raw.strip():
        return {}
    value = decode_json(raw, max_values=max_values)
    if not isinstance(value, dict):
        raise BadRequest(reason="the body must be a JSON object")
    return value
