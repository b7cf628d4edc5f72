"""What a command prints: text for people, or one JSON document for programs (`--json`).

Text from a server may come from another company: control characters in it are never printed.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

_PIPE_COLUMNS = 200  #: width of tables that no terminal limits
_GAP = 2  #: characters behind each column
_LONGEST_WORD = 60  #: characters; a longer one may be folded

_STYLES: Mapping[str, str] = {
    "success": "green",
    "pass": "green",
    "running": "cyan",
    "waiting": "dim",
    "failed": "bold red",
    "timeout": "bold red",
    "canceled": "yellow",
}


class Output:
    """Prints results in the form that was asked for."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    @property
    def is_live(self) -> bool:
        """Tell whether a person watches, so that lines may be redrawn."""
        return not self.as_json and sys.stdout.isatty()

    def result(self, value: Any, text: Callable[[], None]) -> None:
        """Print `value` as JSON, or call `text`, which prints it for people."""
        if self.as_json:
            click.echo(json_text(value))
        else:
            text()

    def done(self, value: Any, sentence: str) -> None:
        """Print what was done: `value` for programs, a sentence for people."""
        self.result(value, lambda: self.note(sentence))

    def listing(
        self, value: Any, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, none: str,
        count: int | None = None,
    ) -> None:  # fmt: skip
        """Print rows as a table, or the sentence `none`; `count` is how many there are in all."""

        def text() -> None:
            if not rows:
                self.note(none)
                return
            self.table(columns, rows)
            if count is not None and len(rows) < count:
                self.note(f"{len(rows)} of {count}; --page or --limit shows more.")

        self.result(value, text)

    def facts(self, pairs: Iterable[tuple[str, Any]]) -> None:
        """Print names with their values, one per line, for people; None is left out."""
        shown = [(name, value) for name, value in pairs if value is not None]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            self.note(f"{name:{width}}  {value}")

    def note(self, text: str) -> None:
        """Print a line for people only."""
        if not self.as_json:
            click.echo(clean(text))

    def table(
        self, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = ""
    ) -> None:
        """Print a table for people; one that is too wide in parts, each with the first column.

        A text may be folded to fit; a number or another single word never is.
        """
        if self.as_json:
            return
        shown, screen = [[cell(value) for value in row] for row in rows], console()
        needs = [_longest_word(head, shown, i) + _GAP for i, head in enumerate(columns)]
        for number, part in enumerate(_parts(needs, screen.width)):
            heads = [columns[i] for i in part]
            some = [[row[i] for i in part] for row in shown]
            if number:
                screen.print()
            fits = sum(needs[i] for i in part) <= screen.width
            screen.print(table_of(heads, some, title="" if number else title, whole_words=fits))


def console() -> Console:
    """Return a console on the standard output of this moment."""
    from rich.console import Console  # `fedflow server run` imports this module and prints nothing

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def _parts(needs: Sequence[int], width: int) -> list[list[int]]:
    """Return which columns are printed together, each part with the first one, from the characters
    that each needs; two columns are together however wide they are.
    """
    parts: list[list[int]] = [[0]] if needs else []
    for i in range(1, len(needs)):
        if sum(needs[j] for j in parts[-1]) + needs[i] > width and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(i)
    return parts


def _longest_word(head: str, rows: Sequence[Sequence[Text]], index: int) -> int:
    """Return how wide a column must be so that no word is broken, but for very long ones."""
    texts = (head, *(row[index].plain for row in rows))
    return min(_LONGEST_WORD, max((len(w) for text in texts for w in text.split()), default=0))


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "",
    whole_words: bool = False,
) -> Table:  # fmt: skip
    """Return a table without lines around its cells; `whole_words`: there is room for them."""
    from rich.table import Table

    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        title=title or None,
        title_justify="left",
        header_style="bold",
    )
    listed = [[cell(value) for value in row] for row in rows]
    for i, column in enumerate(columns):
        room = _longest_word(column, listed, i) if whole_words else None
        table.add_column(column, overflow="fold", min_width=room)
    for row in listed:
        table.add_row(*row)
    return table


def cell(value: Any) -> Text:
    """Return a table cell; the words of a status have a colour."""
    from rich.text import Text

    if isinstance(value, Text):
        return value
    if value is None:
        return Text("-", style="dim")
    text = clean(number(value) if isinstance(value, float) else str(value))
    return Text(text, style=_STYLES.get(text.partition(" ")[0], ""))


def json_text(value: Any) -> str:
    """Return `value` as indented JSON; members have the names that the Python client gives them,
    only those that a class names as `SHOWN` if it does so; paths become text.
    """
    text = msgspec.json.encode(_by_attribute(value), enc_hook=_path_text)
    return msgspec.json.format(text, indent=2).decode()


def _by_attribute(value: Any) -> Any:
    """Return an answer without the names that FATE gives its members on the wire."""
    if isinstance(value, msgspec.Struct):
        shown = getattr(value, "SHOWN", None)
        names = value.__struct_fields__ if shown is None else shown.split()
        return {name: _by_attribute(getattr(value, name)) for name in names}
    if isinstance(value, list | tuple):
        return [_by_attribute(one) for one in value]
    if isinstance(value, dict):
        return {name: _by_attribute(one) for name, one in value.items()}
    return value


def _path_text(value: Any) -> str:
    if isinstance(value, Path | str):  # a `Message` is no `str` to msgspec
        return str(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def clean(text: str) -> str:
    """Return `text` with control characters, which could steer a terminal, made visible."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def number(value: float) -> str:
    """Return a number with at most six digits that matter."""
    return f"{value:.6g}"


def moment(time_ms: int | None) -> str | None:
    """Return milliseconds since the epoch as local date and time."""
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str | None:
    """Return a duration for people: `0.4 s`, `12.3 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds is None:
        return None
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def place(site: str) -> str:
    """Return `role-party_id` as people write it: `guest 9999`."""
    return site.replace("-", " ", 1)
