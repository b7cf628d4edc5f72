"""JSON text from outside into plain values, within limits."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fedflow.base.errors.requests import BadRequest

MAX_DEPTH: Final = 100  #: objects and lists inside each other


def decode_json(raw: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text.

    Raises: BadRequest: it is not JSON, or it is nested deeper than `max_depth`.
    """
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise BadRequest(reason=f"the body is not JSON: {exc}") from exc
    except RecursionError:
        raise BadRequest(reason=_too_deep(max_depth)) from None
    if _may_be_deep(raw, max_depth) and _depth_over(value, max_depth):
        raise BadRequest(reason=_too_deep(max_depth))
    return value


def check_json(raw: bytes) -> None:
    """Check the form and the depth of a JSON text without building its values.

    Numbers out of range and texts that are not UTF-8 are left to whoever decodes it.
    Raises: BadRequest: as `decode_json`.
    """
    if _may_be_deep(raw, MAX_DEPTH):
        decode_json(raw)
        return
    try:
        _skip(raw)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise BadRequest(reason=f"the body is not JSON: {exc}") from exc


_skip: Final = msgspec.json.Decoder(msgspec.Raw).decode


def _too_deep(limit: int) -> str:
    return f"the body is nested deeper than {limit} levels"


def _may_be_deep(raw: bytes | str, limit: int) -> bool:
    """Tell cheaply whether the text has enough brackets to be too deep."""
    if isinstance(raw, str):
        return raw.count("{") + raw.count("[") > limit
    return raw.count(b"{") + raw.count(b"[") > limit


def _depth_over(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True
