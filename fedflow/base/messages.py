"""Sentences that keep what they were made of, so that telling them in another language reads none.

A `Message` is a `str`, as `markupsafe.Markup` is one: it is shown, logged and sent like any text.
What is cut from it or joined with it is plain text. As JSON it is `{"template", "fields"}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

LONGEST: Final = 4000  #: characters of a text that another process said
_DEPTH: Final = 10  #: of messages in fields of messages
_VERBATIM: Final = "{text}"
_HOLE: Final = re.compile(r"\{(\w+)(?:!(r))?(?::([^{}]*))?\}")
_SHORT: Final = 400  #: characters of a template that is parsed once
_Parsed = tuple[str, tuple[str, ...], tuple[tuple[str, str, str], ...]]


class Message(str):
    """An English sentence, with its `template` and its `fields`, which are texts or messages."""

    __slots__ = ("fields", "template")

    template: str
    fields: Mapping[str, str]

    def __new__(cls, template: str, /, *values: object, **fields: object) -> Message:
        """Return a sentence. `template` has its fields in braces, as `str.format` wants them;
        `values` are those of the first ones.

        Raises: KeyError: a field is missing.
        """
        plain, pieces, holes = _parsed(template)
        given = dict(zip(pieces[1::2], values, strict=False)) | fields
        kept = {name: _kept(given[name], *form) for name, *form in holes}
        parts = list(pieces)
        parts[1::2] = [kept[name] for name in pieces[1::2]]
        made = super().__new__(cls, "".join(parts))
        made.template, made.fields = plain, kept
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], Mapping[str, str]]:
        return (self.template,), self.fields

    def with_fields(self, fields: Mapping[str, str]) -> Message:
        """Return the same sentence about something else."""
        return Message(self.template, **fields)

    def removesuffix(self, suffix: str, /) -> Message:
        """Return the message without the end of its template, or of the field that ends it."""
        if not self.endswith(suffix):
            return self
        if self.template.endswith(suffix):
            return Message(self.template.removesuffix(suffix), **self.fields)
        last = _HOLE.findall(self.template)[-1][0]
        return Message(
            self.template, **{**self.fields, last: self.fields[last].removesuffix(suffix)}
        )


def _kept(value: object, conversion: str, form: str) -> str:
    if conversion or form:
        return format(repr(value) if conversion else value, form)
    return value if isinstance(value, Message) else str(value)


def plain_template(template: str) -> str:
    """Return a template that does not say how its fields are written."""
    return _parsed(template)[0]


def _parsed(template: str) -> _Parsed:
    """Return a template without how its fields are written; its texts with the names of fields
    between them; and each field with how it is written.
    """
    return _short_parsed(template) if len(template) <= _SHORT else _parse(template)


def _parse(template: str) -> _Parsed:
    split = _HOLE.split(template)  # text, name, conversion, form, text, ...
    names = split[1::4]
    pieces = [split[0]]
    for name, text in zip(names, split[4::4], strict=True):
        pieces += (name, text)
    return _HOLE.sub(r"{\1}", template), tuple(pieces), tuple(_HOLE.findall(template))


_short_parsed: Final = lru_cache(maxsize=512)(_parse)


def fill(template: str, fields: Mapping[str, str]) -> str:
    """Return a sentence. Braces with something else in them, also in a field, are text."""
    return _HOLE.sub(lambda hole: fields.get(hole[1], hole[0]), template)


def verbatim(text: str, limit: int = LONGEST) -> Message:
    """Return a text of which nobody here knows how it was made, cut to a sane length. A message
    stays what it is if it is not too long.
    """
    if isinstance(text, Message) and len(text) <= limit:
        return text
    return Message(_VERBATIM, text=text[:limit])


def joined(texts: Iterable[str], separator: str) -> Message:
    """Return sentences one after the other as one message."""
    parts = {f"part{number}": text for number, text in enumerate(texts)}
    return Message(separator.join(f"{{{name}}}" for name in parts), **parts)


def structure(text: object) -> Any:
    """Return a message as JSON: plain text if it is verbatim; anything else as it is."""
    if not isinstance(text, Message):
        return text
    if text.template == _VERBATIM:
        return text.fields["text"]
    return {"template": text.template, "fields": {n: structure(f) for n, f in text.fields.items()}}


def from_structure(value: object, depth: int = _DEPTH) -> Message | None:
    """Return the message that JSON is; None: it is none. It may come from anybody."""
    match value:
        case {"template": str(template), "fields": dict(fields)} if depth:
            holes = [name for name, *form in _HOLE.findall(template) if form == ["", ""]]
            if template != plain_template(template) or sorted(holes) != sorted(fields):
                return None
            known = {
                n: f if isinstance(f, str) else from_structure(f, depth - 1)
                for n, f in fields.items()
            }
            return None if None in known.values() else Message(template, **known)
    return None


def received(text: str, told: object, limit: int = LONGEST) -> Message:
    """Return what another process said: `text`, made as `told`, unless that is another sentence."""
    found = from_structure(told)
    return found if found == text and len(text) <= limit else verbatim(text, limit)


def beside(text: str) -> dict[str, Any]:
    """Return what is sent beside a sentence, as the member `said`: what it is made of, if known."""
    made = structure(text)
    return {"said": made} if isinstance(made, dict) else {}


def english(value: object) -> str:
    """Return a message as text, for `enc_hook` of msgspec, which takes no subclass of `str`."""
    if isinstance(value, Message):
        return str(value)
    raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")
