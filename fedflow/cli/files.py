"""Files that are named on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedflow.base.errors.requests import BadDocument
from fedflow.client.documents import parse_document
from fedflow.client.job_file import parse_job_file

if TYPE_CHECKING:
    _Type = click.ParamType[Any]
else:
    _Type = click.ParamType  # not generic before click 8.4


class ParsedFile(_Type):
    """A text file that is parsed; `-` is the standard input.

    What cannot be parsed is a usage error that names file, line and column.
    """

    name = "file"

    def __init__(self, parse: Callable[[str, str], Any]) -> None:
        """`parse`: text and name -> value. Raises: BadDocument."""
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        shown = "standard input" if value == "-" else value
        try:
            with click.open_file(value, encoding="utf-8-sig") as file:
                text = file.read()
        except OSError as exc:
            self.fail(f"{shown}: {exc.strerror or exc}", param, ctx)
        except UnicodeDecodeError as exc:
            self.fail(f"{shown} is not UTF-8 text: byte {exc.start}", param, ctx)
        try:
            return self._parse(text, shown)
        except BadDocument as exc:
            self.fail(f"{exc.fields['where']}: {exc.fields['reason']}", param, ctx)


class JsonFile(ParsedFile):
    """A file that holds one JSON object."""

    def __init__(self) -> None:
        super().__init__(parse_document)


class JobFileParam(ParsedFile):
    """A file that holds a whole job, as YAML or JSON; its value is a `JobFile`."""

    def __init__(self) -> None:
        super().__init__(parse_job_file)


existing_file = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
folder = click.Path(file_okay=False, path_type=Path)
new_file = click.Path(dir_okay=False, path_type=Path)
