"""MessageCatalog with holes in two languages: what was written in one of them, in the other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Final

from fedflow.base.values import dataclass

ANY: Final = "*"  #: the code of sentences that are said with every code
LONGEST: Final = 20_000  #: characters of a text that is read

_DEPTH: Final = 4  #: of sentences in holes of sentences
_WHERE: Final = re.compile(
    r"(?P<component>[\w.-]{1,128})(?: at (?P<site>[a-z]{1,16} [\w-]{1,64}))?: "
)
"""What stands before the reason of a component in the reason of its job."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A sentence with holes. `literals` stand before, between and behind the `holes`."""

    literals: tuple[str, ...]
    holes: tuple[str, ...]
    has_stop: bool  #: it ends with a full stop, which is no part of `literals`

    def values(self, text: str) -> dict[str, str] | None:
        """Return what stands in the holes of `text`; None: it is not of this form. Its full stop
        may be left out.

        Every literal is looked for once, so this takes one pass whatever the text is.
        """
        if self.has_stop:
            text = text.removesuffix(".")
        first, *between = self.literals
        if not self.holes:
            return {} if text == first else None
        last = between.pop()
        begin, end = len(first), len(text) - len(last)
        if begin > end or not text.startswith(first) or not text.endswith(last):
            return None
        found: dict[str, str] = {}
        for hole, literal in zip(self.holes, between, strict=False):  # the last hole has none
            stop = text.find(literal, begin, end)
            if stop < 0 or found.setdefault(hole, text[begin:stop]) != text[begin:stop]:
                return None
            begin = stop + len(literal)
        if found.setdefault(self.holes[-1], text[begin:end]) != text[begin:end]:
            return None
        return found


def template(text: str) -> Template:
    """Return a format string as a template; how it writes its fields does not matter."""
    pieces = list(Formatter().parse(text.removesuffix(".")))
    if not pieces or pieces[-1][1] is not None:
        pieces.append(("", None, None, None))
    return Template(
        literals=tuple(literal for literal, _, _, _ in pieces),
        holes=tuple(name for _, name, _, _ in pieces if name is not None),
        has_stop=text.endswith("."),
    )


class MessageCatalog:
    """MessageCatalog by the code that they are said with, and their translations.

    What stands in a hole is itself translated: by the code `{hole}` if there are sentences of that
    code; in the hole `message` by the code in the hole `code`, else by the sentence's own.
    """

    def __init__(self, known: Mapping[str, Mapping[str, str]]) -> None:
        """`known` is code -> sentence -> translation, the first one that fits counts."""
        self._known = {
            code: [(template(text), translation) for text, translation in sentences.items()]
            for code, sentences in known.items()
        }

    def told(self, text: str, code: str = "") -> str:
        """Return the translation of a text; the text itself if it is none of the sentences."""
        found = self._told(text, code, _DEPTH) if len(text) <= LONGEST else None
        return text if found is None else found

    def _told(self, text: str, code: str, depth: int) -> str | None:
        if depth == 0:
            return None
        return (
            self._fitting(text, ANY, code, depth)
            or self._of_component(text, code, depth)
            or self._fitting(text, code, code, depth)
        )

    def _fitting(self, text: str, key: str, code: str, depth: int) -> str | None:
        """Return the translation by the first sentence of `key` that fits."""
        for sentence, translation in self._known.get(key, ()):
            values = sentence.values(text)
            if values is not None:
                return translation.format(
                    **{hole: self._value(hole, values, code, depth) for hole in values}
                )
        return None

    def _value(self, hole: str, values: Mapping[str, str], code: str, depth: int) -> str:
        text = values[hole]
        if hole == "message":
            return self._told(text, values.get("code", code), depth - 1) or text
        key = f"{{{hole}}}"
        found = self._fitting(text, key, key, depth - 1) if depth else None
        return text if found is None else found

    def _of_component(self, text: str, code: str, depth: int) -> str | None:
        """Return the translation of a sentence that tells first which component it is about."""
        found = _WHERE.match(text)
        inner = self._told(text[found.end() :], code, depth - 1) if found else None
        if found is None or inner is None:
            return None
        where = f"{found['component']} ({found['site']})" if found["site"] else found["component"]
        return f"{where}: {inner}"
