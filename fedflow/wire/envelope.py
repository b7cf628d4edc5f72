"""The response envelope of FATE's HTTP API: retcode, retmsg, data, jobId, meta.

Members whose value is null are left out, because clients ask `"data" in result`. Errors come
in two styles: in-band (HTTP 200, the retcode tells) and, on downloads, with an HTTP status that is
the retcode.
Source: `docs/reference/rest.md#envelope` and `docs/reference/rest.md#return-codes`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

import msgspec

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import BadPacket
from fedflow.base.messages import beside, english, received
from fedflow.domain.records import Reply
from fedflow.wire.json_text import decode_json

SUCCESS: Final = 0
NOT_EFFECTIVE: Final = 10
EXCEPTION: Final = 100
ARGUMENT_ERROR: Final = 101
NOT_NOW: Final = frozenset({105, 106})  #: the same request may be answered otherwise a little later
_SUCCESS: Final = b'{"retcode":0,'

Envelope = dict[str, Any]


def success(
    data: Any = None, *, retmsg: str = "success", job_id: str | None = None,
    meta: Any = None,
) -> Envelope:  # fmt: skip
    """Return the envelope of an answer; null members are left out."""
    return envelope(SUCCESS, retmsg, data=data, job_id=job_id, meta=meta)


def envelope(
    retcode: int, retmsg: str, *, data: Any = None, job_id: str | None = None,
    meta: Any = None, error: dict[str, Any] | None = None,
) -> Envelope:  # fmt: skip
    """Return an envelope with the members that are not null."""
    members = {
        "retcode": retcode, "retmsg": str(retmsg), "data": data, "jobId": job_id,
        "meta": meta, "error": error,
    }  # fmt: skip
    return {name: value for name, value in members.items() if value is not None}


def is_success(encoded: bytes) -> bool:
    """Tell whether an envelope that `encode` wrote is of a call that was carried out."""
    return encoded.startswith(_SUCCESS)


def failure(exc: FedflowError) -> Envelope:
    """Return the in-band envelope of an error: message and hint, and `error` for machines."""
    job_id = exc.fields.get("job_id")
    return envelope(
        exc.retcode,
        exc.advice,
        data=exc.data,
        job_id=str(job_id) if job_id else None,
        error=error_member(exc),
    )


def error_member(exc: FedflowError) -> dict[str, Any]:
    """Return what machines read of an error: code, name, hint, and where, if it names a place."""
    member = {"code": exc.code, "name": exc.name, "hint": exc.hint, **beside(exc.message)}
    if isinstance(exc, InvalidJobSpec):
        member["path"] = exc.problems[0].path if exc.problems else "$"
        member["problems"] = [
            {"path": p.path, "message": p.message, "rule": p.rule} for p in exc.problems
        ]
    elif isinstance(exc.fields.get("path"), str):
        member["path"] = exc.fields["path"]
    return member


def internal_error() -> Envelope:
    """Return the envelope of a defect: no details, because peers are other companies."""
    error = {"code": FedflowError.code, "name": "InternalError", "hint": FedflowError.hint}
    return envelope(EXCEPTION, "internal error", error=error)


def status_failure(status: int, retmsg: str | None = None) -> Envelope:
    """Return the body of an error with an HTTP status; the text defaults to the status's phrase."""
    if retmsg is None:
        known = {s.value: s.phrase for s in HTTPStatus}
        retmsg = known.get(status, "no data")
    return {"retmsg": str(retmsg), "retcode": status}


def of_reply(reply: Reply) -> Envelope:
    """Return the envelope of a party's answer."""
    error = {**({"name": reply.error} if reply.error else {}), **beside(reply.retmsg)}
    return envelope(reply.retcode, reply.retmsg, data=reply.data, error=error or None)


def encode(value: Any) -> bytes:
    """Return JSON text: sets as lists, enums as their value, dataclasses as objects."""
    return msgspec.json.encode(value, enc_hook=english)


def parse_reply(body: bytes) -> Reply:
    """Return the answer that an envelope of another party carries.

    Raises: BadPacket: it is no JSON object with an integer `retcode`.
    """
    try:
        value = decode_json(body)
    except FedflowError as exc:
        raise BadPacket(reason=f"the answer is not JSON ({exc.message})") from exc
    if not isinstance(value, dict):
        raise BadPacket(reason="the answer is not a JSON object")
    retcode, retmsg = value.get("retcode"), value.get("retmsg", "")
    if not isinstance(retcode, int) or isinstance(retcode, bool):
        raise BadPacket(reason="the answer has no retcode")
    if not isinstance(retmsg, str):
        raise BadPacket(reason="the answer's retmsg is not text")
    error = value.get("error")
    told = error if isinstance(error, dict) else {}
    name = told.get("name")
    return Reply(
        retcode=retcode,
        retmsg=received(retmsg, told.get("said"), len(retmsg)),
        data=value.get("data"),
        error=name[:100] if isinstance(name, str) else "",
    )
