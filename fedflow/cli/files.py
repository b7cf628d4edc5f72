"""Files that are named on the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Type = click.ParamType[dict[str, Any]]
else:
    _Type = click.ParamType  # not generic before click 8.4


class JsonFile(_Type):
    """A file that holds one JSON object; `-` is the standard input.

    Anything else is a usage error that names file, line and column.
    """

    name = "file"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        shown = "standard input" if value == "-" else f"{value!s}"
        try:
            with click.open_file(value, encoding="utf-8-sig") as file:
                text = file.read()
        except OSError as exc:
            self.fail(f"{shown}: {exc.strerror or exc}", param, ctx)
        except UnicodeDecodeError as exc:
            self.fail(f"{shown} is not UTF-8 text: byte {exc.start}", param, ctx)
        try:
            found = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
        except json.JSONDecodeError as exc:
            place = f"{shown}, line {exc.lineno}, column {exc.colno}"
            self.fail(f"{place}: {exc.msg}", param, ctx)
        except (ValueError, RecursionError) as exc:
            self.fail(f"{shown}: {str(exc) or 'nested too deep'}", param, ctx)
        if not isinstance(found, dict):
            self.fail(f"{shown} must hold a JSON object", param, ctx)
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
