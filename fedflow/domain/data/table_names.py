"""What a namespace, name or column of a table may be called."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from fedflow.base.errors.data import BadTableName

REPLACED: Final = "__replaced__"  #: namespace of tables that are kept only for running jobs
NAME_LIMIT: Final = 100  #: characters of a namespace or name
_REFUSED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def checked_name(what: str, value: object) -> str:
    """Return a namespace or name as text; it is never used as a path.

    Raises: BadTableName: empty, longer than 100 characters, or people could not read or type it.
    """
    text = str(value)
    if not 1 <= len(text) <= NAME_LIMIT or has_control(text):
        raise BadTableName(what=what, value=text[: 2 * NAME_LIMIT])
    return text


def new_namespace(value: object) -> str:
    """Return a namespace that people may put tables into. Raises: BadTableName."""
    text = checked_name("namespace", value)
    if text == REPLACED:
        raise BadTableName(what="namespace", value=text)
    return text


def has_control(text: str) -> bool:
    """Tell whether `text` has control characters, line separators or broken Unicode."""
    return any(unicodedata.category(c) in _REFUSED for c in text)


def names_in_schema(schema: Mapping[str, Any], *, delimiter: str) -> tuple[str, ...]:
    """Return the column names that FATE's schema gives to a file without a head.

    They are `sid` and `header`, a list or a text with the delimiter between the names.

    Raises: ValueError: it does not say them.
    """
    sid, header = schema.get("sid"), schema.get("header")
    if isinstance(header, str):
        header = header.split(delimiter) if header else []
    if not isinstance(sid, str) or not sid or not isinstance(header, list):
        raise ValueError("it needs `sid` and `header`")
    return (sid.strip(), *(str(name).strip() for name in header))
