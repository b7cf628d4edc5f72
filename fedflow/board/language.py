"""The board's languages: English texts are the keys of `messages/<language>/*.json`."""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any, Final

from flask import g, has_request_context, request

LANGUAGES: Final = {"en": "English", "zh": "中文"}
COOKIE: Final = "ff_language"


def language() -> str:
    """Return the language of this request: the visitor's choice, else the browser's wish."""
    if not has_request_context():
        return "en"
    chosen = g.get("board_language")
    if chosen is None:
        asked = request.cookies.get(COOKIE, "")
        wish = request.accept_languages.best_match(list(LANGUAGES), "en") or "en"
        chosen = g.board_language = asked if asked in LANGUAGES else wish
    return str(chosen)


def t(text: str, /, **values: Any) -> str:
    """Return `text` in the language of this request, with `values` at its `{names}`."""
    translated = catalogue(language()).get(text, text)
    return translated.format(**values) if values else translated


@functools.cache
def catalogue(name: str) -> dict[str, str]:
    """Return English text -> translation; empty for English itself.

    Raises: ValueError: two files translate a text differently.
    """
    folder = resources.files("fedflow.board") / "messages" / name
    found: dict[str, str] = {}
    if not folder.is_dir():
        return found
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".json"):
            continue
        for text, translation in json.loads(entry.read_text(encoding="utf-8")).items():
            if found.setdefault(text, translation) != translation:
                raise ValueError(f"{name}/{entry.name}: {text!r} is translated in two ways")
    return found
