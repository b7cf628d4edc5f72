"""Plain JSON as nested lists of HTML, folded below the first level."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from markupsafe import Markup, escape

from fedflow.board.formats import short
from fedflow.board.language import t

MEMBERS: Final = 200  #: members of one object or list that are shown
DEPTH: Final = 30  #: deeper values are shown as JSON text
LEAF: Final = 400  #: characters of a text

_FLAT: Final = 20  #: a list of at most so many plain values stands on one line


def tree(value: Any, depth: int = 0) -> Markup:
    """Return a JSON value as HTML."""
    if depth >= DEPTH or not isinstance(value, dict | list | tuple) or not value:
        return leaf(value)
    if isinstance(value, dict):
        return _members(((str(k), v) for k, v in value.items()), len(value), depth)
    if len(value) <= _FLAT and not any(isinstance(v, dict | list | tuple) for v in value):
        return Markup(", ").join(leaf(v) for v in value)
    return _members(((str(i), v) for i, v in enumerate(value)), len(value), depth)


def leaf(value: Any) -> Markup:
    """Return a value without members; an object too deep to unfold is its JSON text."""
    if isinstance(value, str):
        return Markup('<span class="text">{}</span>').format(short(value, LEAF))
    text = json.dumps(value, ensure_ascii=False, default=str)
    return Markup("<code>{}</code>").format(short(text, LEAF))


def _members(members: Iterable[tuple[str, Any]], count: int, depth: int) -> Markup:
    rows = []
    for place, (name, member) in enumerate(members):
        if place >= MEMBERS:
            rest = t("{n} more are not shown", n=count - MEMBERS)
            rows.append(Markup('<li class="muted">{}</li>').format(rest))
            break
        rows.append(_member(name, member, depth))
    return Markup('<ul class="tree">{}</ul>').format(Markup("").join(rows))


def _member(name: str, member: Any, depth: int) -> Markup:
    unfolds = isinstance(member, dict | list | tuple) and bool(member) and depth + 1 < DEPTH
    shown = tree(member, depth + 1)
    if not unfolds or not shown.startswith("<ul"):
        return Markup('<li><span class="key">{}</span> {}</li>').format(short(name, 120), shown)
    return Markup(
        '<li><details{}><summary><span class="key">{}</span> <span class="muted">({})</span>'
        "</summary>{}</details></li>"
    ).format(Markup(" open") if depth < 1 else "", short(name, 120), escape(len(member)), shown)
