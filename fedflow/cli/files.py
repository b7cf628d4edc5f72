"""Files that are named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedflow.base.errors.requests import BadDocument
from fedflow.client.documents import parse_document

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
            return parse_document(text, shown)
        except BadDocument as exc:
            self.fail(f"{exc.fields['where']}: {exc.fields['reason']}", param, ctx)


existing_file = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
folder = click.Path(file_okay=False, path_type=Path)
new_file = click.Path(dir_okay=False, path_type=Path)
