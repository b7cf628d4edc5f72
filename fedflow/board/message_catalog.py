"""What the server wrote in English (errors, reasons, what helps), in the viewer's language.

Errors and reasons are stored as a code and an English sentence. `messages/<language>_server/` has
the translations: `errors.json` by the class of the error, `reasons.json` for other sentences by the
code that they are said with (`*`: any; `{hole}`: what stands in a hole of that name).
"""

from __future__ import annotations

import functools
import json
from importlib import resources
from typing import Any

from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.error import FedflowError
from fedflow.board.language import language
from fedflow.board.presenters.translation import MessageCatalog


def told(text: object, code: str = "") -> str:
    """Return a sentence that the server said with a code in the language of this request; a
    sentence without translation stays as it is.
    """
    known = sentences(language())
    return str(text) if known is None else known.told(str(text), code)


def message_of(exc: FedflowError) -> str:
    """Return the sentence of an error in the language of this request."""
    return told(exc.message, exc.name)


def hint_of(exc: FedflowError) -> str:
    """Return what helps against an error in the language of this request."""
    return told(exc.hint, exc.name)


@functools.cache
def sentences(name: str) -> MessageCatalog | None:
    """Return the translations into a language; None: it is English."""
    reasons, errors = catalogue(name, "reasons"), catalogue(name, "errors")
    if not errors:
        return None
    known = {code: dict(texts) for code, texts in reasons.items()}
    for kind in all_errors():
        texts = errors.get(kind.__name__)
        if texts is not None:
            of_code = known.setdefault(kind.__name__, {})
            of_code[kind.template()] = texts["message"]
            of_code[kind.hint] = texts["hint"]
    return MessageCatalog(known)


@functools.cache
def catalogue(name: str, file: str) -> dict[str, Any]:
    """Return one of the files of a language; empty if it has none."""
    folder = resources.files("fedflow.board") / "messages" / f"{name}_server"
    found = folder / f"{file}.json"
    read: dict[str, Any] = json.loads(found.read_text(encoding="utf-8")) if found.is_file() else {}
    return read
