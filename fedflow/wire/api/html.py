"""Results as HTML for notebooks: plain tables, every text escaped, nothing loaded from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, Final

MAX_ROWS: Final = 200  #: a longer table is cut, and says so

_CELL: Final = "text-align:left;padding:2px 12px 2px 0"
_COLOURS: Final = {
    "success": "#2e7d32",
    "pass": "#2e7d32",
    "running": "#1565c0",
    "failed": "#c62828",
    "timeout": "#c62828",
    "canceled": "#8a6d00",
}


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, title: str = "") -> str:
    """Return a table; the words of a status have a colour, None is a dash."""
    listed = list(rows)
    head = "".join(f'<th style="{_CELL}">{escape(str(name))}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed[:MAX_ROWS])
    cut = len(listed) - MAX_ROWS
    more = f"<p>{cut} more rows are not shown.</p>" if cut > 0 else ""
    caption = f"<p><b>{escape(title)}</b></p>" if title else ""
    grid = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div>{caption}{grid}{more}</div>"


def facts(pairs: Iterable[tuple[str, Any]]) -> str:
    """Return names with their values, one per row; those that are None are left out."""
    rows = "".join(
        f'<tr><th style="{_CELL}">{escape(name)}</th>{_cell(value)}</tr>'
        for name, value in pairs
        if value is not None
    )
    return f"<div><table><tbody>{rows}</tbody></table></div>"


def _cell(value: Any) -> str:
    text = "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    colour = _COLOURS.get(text.partition(" ")[0])
    style = f"{_CELL};color:{colour}" if colour else _CELL
    return f'<td style="{style}">{escape(text)}</td>'
