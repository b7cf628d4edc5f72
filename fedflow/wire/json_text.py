"""JSON text from outside into plain values, within limits."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fedflow.base.errors.requests import BadRequest

MAX_DEPTH: Final = 100  #: objects and lists inside each other
MAX_VALUES: Final = 2_000_000  #: values of one text, some hundred bytes of memory each
MAX_MODEL_VALUES: Final = 20_000_000  #: values of one part of a model


def decode_json(
    raw: bytes | str, *, max_depth: int = MAX_DEPTH, max_values: int = MAX_VALUES
) -> Any:
    """Return the value of a JSON text.

    Raises: BadRequest: it is not JSON, it may have more than `max_values` values, or it is nested
    deeper than `max_depth`.
    """
    _check_number(raw, max_values)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError) as exc:
        raise BadRequest(reason=f"the body is not JSON: {exc}") from exc
    except RecursionError:
        raise BadRequest(reason=_too_deep(max_depth)) from None
    if _may_be_deep(raw, max_depth) and _depth_over(value, max_depth):
        raise BadRequest(reason=_too_deep(max_depth))
    return value


def _check_number(raw: bytes | str, limit: int) -> None:
    """Refuse a text that may have too many values, before any of them is built.

    Each value but the first of a list or an object comes after a comma, and what contains it begins
    with a bracket. Those inside texts are counted too.
    """
    if len(raw) > limit and _count(raw, ",[{") > limit:
        raise BadRequest(reason=f"the body has more than {limit} values")


def _too_deep(limit: int) -> str:
    return f"the body is nested deeper than {limit} levels"


def _may_be_deep(raw: bytes | str, limit: int) -> bool:
    """Tell cheaply whether the text has enough brackets to be too deep."""
    return _count(raw, "{[") > limit


def _count(raw: bytes | str, marks: str) -> int:
    """Return how often any of some ASCII characters stands in a text."""
    if isinstance(raw, str):
        return sum(raw.count(mark) for mark in marks)
    return sum(raw.count(mark.encode()) for mark in marks)


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
