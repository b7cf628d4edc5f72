"""How the board writes values: filters of its templates."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any, Final

from markupsafe import Markup, escape

from fedflow.board.language import t
from fedflow.board.presenters.charts import shown

SHORT: Final = 80  #: characters of a text in a list
_SIZES: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def short(value: Any, length: int = SHORT) -> Markup:
    """Return a text of at most `length` characters; the rest (at most 2,000) in its title."""
    text = str(value)
    if len(text) <= length:
        return escape(text)
    return Markup('<span title="{}">{}…</span>').format(text[:2000], text[: length - 1])


def number(value: Any, digits: int = 6) -> str:
    """Return a number for people: thousands apart, at most `digits` significant digits."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**18 else f"{float(value):.{digits}g}"
    if not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 10**15:
        return f"{int(value):,}"
    return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:.{digits}g}"


def size(count: int | None) -> str:
    """Return a number of bytes with a unit."""
    if count is None:
        return "-"
    amount = float(count)
    for unit in _SIZES[:-1]:
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_SIZES[-1]}"


def percent(share: float | None, digits: int = 1) -> str:
    """Return a share (0 to 1) in percent."""
    return "-" if share is None else f"{100 * share:.{digits}f} %"


def duration(ms: int | None) -> str:
    """Return a duration in at most two units."""
    if ms is None:
        return "-"
    if ms < 1_000:
        return t("{n} ms", n=max(0, ms))
    seconds = ms / 1000
    if seconds < 10:
        return t("{n} s", n=f"{seconds:.1f}")
    whole = round(seconds)
    if whole < 60:
        return t("{n} s", n=whole)
    if whole < 3600:
        return t("{m} min {s} s", m=whole // 60, s=whole % 60)
    if whole < 86400:
        return t("{h} h {m} min", h=whole // 3600, m=whole % 3600 // 60)
    return t("{d} d {h} h", d=whole // 86400, h=whole % 86400 // 3600)


def iso(ms: int) -> str:
    """Return milliseconds since the epoch as UTC in ISO 8601."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%S}Z"


def moment(ms: int | None, *, ago: bool = False) -> Markup:
    """Return a point in time: UTC, which scripts turn into the viewer's zone, or with `ago` into
    how long ago it was.
    """
    if not ms:
        return Markup("-")
    at = datetime.fromtimestamp(ms / 1000, UTC)
    made = Markup('<time datetime="{}"{}>{} UTC</time>')
    kind = Markup(" data-ago") if ago else ""
    return made.format(iso(ms), kind, f"{at:%Y-%m-%d %H:%M:%S}")


def as_json(value: Any) -> str:
    """Return a value as indented JSON, with letters as they are."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


FILTERS: Final = {
    "short": short,
    "number": number,
    "size": size,
    "percent": percent,
    "duration": duration,
    "moment": moment,
    "as_json": as_json,
    "shown": shown,
}
