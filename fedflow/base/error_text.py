"""The error of fedflow that a text names, such as the traceback of another process."""

from __future__ import annotations

import re
from string import Formatter
from typing import Final

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError

_RAISED: Final = re.compile(r"^fedflow\.base\.errors\.\w+\.(\w+): ", re.MULTILINE)


def printed_error(text: str) -> FedflowError | None:
    """Return the last error of fedflow that a traceback in `text` names, with its fields as text.

    None: there is none, or its sentence is not of the form that its class gives it.
    """
    kinds = {kind.__name__: kind for kind in all_errors()}
    for found in reversed(list(_RAISED.finditer(text))):
        kind = kinds.get(found[1])
        if kind is None:
            continue
        message, marked, _ = text[found.end() :].partition(f" [{kind.code}] {kind.hint}")
        fields = _fields(kind, message) if marked else None
        if fields is not None:
            return _made(kind, fields)
    return None


def _fields(kind: type[FedflowError], message: str) -> dict[str, str] | None:
    pattern, seen = "", set()
    for literal, name, _, _ in Formatter().parse(kind.template()):
        pattern += re.escape(literal)
        if name is None:
            continue
        if not name.isidentifier():
            return None
        pattern += f"(?P={name})" if name in seen else f"(?P<{name}>.*?)"
        seen.add(name)
    found = re.fullmatch(pattern, message, re.DOTALL)
    return found.groupdict() if found else None


def _made(kind: type[FedflowError], fields: dict[str, str]) -> FedflowError | None:
    try:
        return kind(**fields)
    except (KeyError, TypeError, ValueError):  # it is made of more than its sentence
        return None
