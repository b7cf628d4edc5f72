"""Jobs, confs and other JSON objects that callers give as values, or as files of their machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedflow.base.errors.requests import BadDocument

Document = Mapping[str, Any] | str | os.PathLike[str]
"""A JSON object, or the path of a file that holds one."""


def read_document(given: Document) -> Mapping[str, Any]:
    """Return a JSON object as it is, or as its file says. Raises: BadDocument: there is none."""
    if isinstance(given, Mapping):
        return given
    shown = os.fspath(given)
    return parse_document(read_text(Path(given), shown), shown)


def read_text(path: Path, shown: str) -> str:
    """Return what a file says; `shown` names it in errors. Raises: BadDocument: it is no text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as exc:
        raise BadDocument(where=shown, reason=exc.strerror or str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise BadDocument(where=shown, reason=f"is not UTF-8 text: byte {exc.start}") from exc


def parse_document(text: str, shown: str) -> dict[str, Any]:
    """Return the JSON object in `text`; `shown` names it in errors.

    Raises: BadDocument: its `where` has line and column of the first mistake; JSON but no object; a
        member twice; a number that JSON does not have.
    """
    try:
        found = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except json.JSONDecodeError as exc:
        place = f"{shown}, line {exc.lineno}, column {exc.colno}"
        raise BadDocument(where=place, reason=exc.msg) from exc
    except RecursionError as exc:
        raise BadDocument(where=shown, reason="it is nested too deep") from exc
    except ValueError as exc:
        raise BadDocument(where=shown, reason=str(exc)) from exc
    if not isinstance(found, dict):
        raise BadDocument(where=shown, reason="it must hold a JSON object")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object's members; two members of one name are a mistake that JSON would hide."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the member {twice!r} occurs twice in one object")
    return members


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not JSON")
