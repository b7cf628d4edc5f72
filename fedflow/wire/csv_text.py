"""Tables as CSV that spreadsheets open without running anything in it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a text begins that a spreadsheet would run; the last ones are the wide forms of `=+-@`."""


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as CSV; a text that a spreadsheet would run gets a quote before it."""
    target = io.StringIO()
    csv.writer(target, lineterminator="\r\n").writerows(map(_harmless, row) for row in rows)
    return target.getvalue()


def _harmless(cell: object) -> object:
    if isinstance(cell, str) and cell.startswith(_FORMULA) and not _is_number(cell):
        return f"'{cell}"
    return "" if cell is None else cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
