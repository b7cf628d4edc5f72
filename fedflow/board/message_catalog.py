"""What the server wrote in English (errors, reasons, what helps), in the viewer's language.

It says messages (`base/messages.py`): a template and fields. `messages/<language>_server/` has the
translations of templates: `errors.json` by the class of the error, `reasons.json` of all others
(in `{field}`: words that stand in a field of that name).
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError
from fedflow.base.messages import plain_template
from fedflow.board.language import language
from fedflow.board.presenters.translation import MessageCatalog


def told(text: object) -> str:
    """Return what the server said in the language of this request; what has no translation stays
    as it is.
    """
    said, known = text if isinstance(text, str) else str(text), sentences(language())
    return said if known is None else known.told(said)


def message_of(exc: FedflowError) -> str:
    """Return the sentence of an error in the language of this request."""
    return told(exc.message)


def hint_of(exc: FedflowError) -> str:
    """Return what helps against an error in the language of this request."""
    return told(exc.hint)


@functools.cache
def sentences(name: str) -> MessageCatalog | None:
    """Return the translations into a language; None: it is English."""
    reasons, errors = catalogue(name, "reasons"), catalogue(name, "errors")
    if not errors:
        return None
    known = {text: told for texts in reasons.values() for text, told in texts.items()}
    hints = {}
    for kind in all_errors():
        texts = errors[kind.__name__]
        known[plain_template(kind.template())] = texts["message"]
        hints[kind.hint] = texts["hint"]
    words = {name.strip("{}"): texts for name, texts in reasons.items()}
    return MessageCatalog({**known, **hints}, {**words, "hint": hints, "reason": known})


@functools.cache
def catalogue(name: str, file: str) -> dict[str, Any]:
    """Return one of the files of a language; empty if it has none."""
    folder = resources.files("fedflow.board") / "messages" / f"{name}_server"
    found = folder / f"{file}.json"
    read: dict[str, Any] = json.loads(found.read_text(encoding="utf-8")) if found.is_file() else {}
    return read
