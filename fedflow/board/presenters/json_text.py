"""JSON as people type it: its value, where each part of it stands, and what is wrong with it.

The server's own decoder says only that a text is not JSON. Whoever types one needs the line, the
column and a sentence, and must learn of a key that stands twice, of which all but the last would
silently be lost. Offsets count characters of the text from 0.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from typing import Final, Never

from fedflow.base.values import dataclass

MAX_DEPTH: Final = 100  #: objects and lists inside each other
MAX_DIGITS: Final = 400  #: characters of one number
MAX_FAULTS: Final = 100


class FaultKind(StrEnum):
    """What can be wrong with a text."""

    EMPTY = "empty"
    UNEXPECTED = "unexpected"
    NOT_A_NUMBER = "not_a_number"
    QUOTES = "quotes"
    COMMENT = "comment"
    TRAILING_COMMA = "trailing_comma"
    NO_COMMA = "no_comma"
    NO_COLON = "no_colon"
    NO_KEY = "no_key"
    OPEN_TEXT = "open_text"
    CONTROL = "control"
    BAD_ESCAPE = "bad_escape"
    NOT_CLOSED = "not_closed"
    MORE_TEXT = "more_text"
    TOO_DEEP = "too_deep"
    LONG_NUMBER = "long_number"
    WORD = "word"
    TWICE = "twice"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One mistake, from offset `start` to before `end`."""

    kind: FaultKind
    start: int
    end: int
    found: str = ""  #: what stands there, cut


@dataclass(slots=True)
class JsonPart:
    """Where one value stands, and its parts by key or in order."""

    start: int
    end: int = 0
    key_start: int = -1  #: of the member's name, -1: it has none
    members: dict[str, JsonPart] = field(default_factory=dict)
    items: list[JsonPart] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class JsonText:
    """A text that was read; it has a value if it `is_json`."""

    text: str
    value: object
    is_json: bool
    faults: tuple[Fault, ...]
    _whole: JsonPart | None = None

    def find(self, keys: Sequence[str | int]) -> JsonPart | None:
        """Return where the value stands that `keys` lead to, or the deepest part on the way to it;
        None if the text is no JSON.
        """
        if not self.is_json:
            return None
        if self._whole is None:
            try:
                _, self._whole = _Reader(self.text).read()
            except _Stop:  # beyond the limits above, which the decoder does not know
                return None
        part = self._whole
        for key in keys:
            below = _below(part, key)
            if below is None:
                return part
            part = below
        return part


def read_json(text: str) -> JsonText:
    """Return what a text says. Reading stops at the first mistake, but not at a key that stands
    twice.
    """
    try:  # most texts have no mistakes: finding the places of their parts would take most time
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
        return JsonText(text=text, value=value, is_json=True, faults=())
    except (ValueError, RecursionError):
        pass
    reader = _Reader(text)
    try:
        value, whole = reader.read()
    except _Stop as stop:
        faults = (*reader.twice, stop.fault)
        return JsonText(text=text, value=None, is_json=False, faults=faults)
    faults = tuple(reader.twice)
    return JsonText(text=text, value=value, is_json=True, faults=faults, _whole=whole)


def keys_of(path: str) -> tuple[str | int, ...]:
    """Return the keys of a JSON path such as `$.dsl.components["a b"].input[0]`, `$` left out.

    What cannot be read ends the path.
    """
    keys: list[str | int] = []
    at = 1 if path.startswith("$") else 0
    while (found := _STEP.match(path, at)) is not None:
        plain, index, quoted = found.groups()
        if plain is not None:
            keys.append(plain)
        elif index is not None:
            keys.append(int(index))
        else:
            keys.append(str(json.loads(quoted)))
        at = found.end()
    return tuple(keys)


class Lines:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def at(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def browser_offset(text: str, offset: int) -> int:
    """Return an offset as browsers count it: a character beyond U+FFFF is two there."""
    before = text[:offset]
    return offset if before.isascii() else len(before.encode("utf-16-le", "surrogatepass")) // 2


# --- reading --------------------------------------------------------------------------------------

_STEP = re.compile(r'\.([^.\[\]]+)|\[([0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')
_BLANK = re.compile(r"[ \t\n\r]*")
_TEXT = re.compile(r'"([^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*)"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORDISH = re.compile(r"[-+]?[^\s\"'{}\[\],:/#]{1,40}")
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_QUOTES: Final = ("'", "\u2018", "\u2019", "\u201c", "\u201d", "`")
_NOT_NUMBERS: Final = frozenset({"nan", "infinity", "inf"})


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object. Raises: ValueError: a key stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse(word: str) -> Never:
    raise ValueError(word)


class _Stop(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.kind)


class _Reader:
    """Reads one text, without recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 1 if text.startswith("\ufeff") else 0
        self.twice: list[Fault] = []

    def read(self) -> tuple[object, JsonPart]:
        """Raises: _Stop."""
        self._skip()
        if self._at == len(self._text):
            self._stop(FaultKind.EMPTY, self._at, self._at)
        value, whole = self._values()
        self._skip()
        if self._at < len(self._text):
            self._comment()
            self._stop(FaultKind.MORE_TEXT, self._at, len(self._text))
        return value, whole

    def _values(self) -> tuple[object, JsonPart]:
        """Return the value that begins here: the open containers are kept in a stack."""
        stack: list[tuple[dict[str, object] | list[object], JsonPart]] = []
        key, key_start = "", -1
        while True:
            value, part = self._simple_or_open(key_start)
            opened = isinstance(value, dict | list)
            if stack:
                container, around = stack[-1]
                if isinstance(container, dict):
                    container[key] = value
                    around.members[key] = part
                else:
                    container.append(value)
                    around.items.append(part)
            if isinstance(value, dict | list):
                stack.append((value, part))
                if len(stack) > MAX_DEPTH:
                    self._stop(FaultKind.TOO_DEEP, part.start, part.start + 1)
            while stack:
                container, around = stack[-1]
                if self._closes(container, around, is_new=opened):
                    value, part = stack.pop()
                    opened = False
                    continue
                key, key_start = self._key(container, around)
                break
            if not stack:
                return value, part

    def _simple_or_open(self, key_start: int) -> tuple[object, JsonPart]:
        self._skip()
        text, start = self._text, self._at
        first = text[start : start + 1]
        value: object
        if first in ("{", "["):
            self._at += 1
            return ({} if first == "{" else []), JsonPart(start, key_start=key_start)
        if first == '"':
            value = self._string()
        elif first == "-" or first.isdecimal():
            value = self._number()
        else:
            value = self._word()
        return value, JsonPart(start, self._at, key_start)

    def _closes(
        self, container: dict[str, object] | list[object], part: JsonPart, *, is_new: bool
    ) -> bool:
        """Go past the bracket that closes the container, or to its next member."""
        closing = "}" if isinstance(container, dict) else "]"
        self._skip()
        found = self._text[self._at : self._at + 1]
        if found == closing:
            self._at += 1
            part.end = self._at
            return True
        if not found:
            self._stop(FaultKind.NOT_CLOSED, part.start, part.start + 1, self._text[part.start])
        if is_new:
            return False
        if found != ",":
            self._comment()
            kind = FaultKind.UNEXPECTED if found in "}]:" else FaultKind.NO_COMMA
            self._stop(kind, self._at, self._at + 1, found)
        comma = self._at
        self._at += 1
        self._skip()
        if self._text[self._at : self._at + 1] == closing:
            self._stop(FaultKind.TRAILING_COMMA, comma, comma + 1)
        return False

    def _key(
        self, container: dict[str, object] | list[object], around: JsonPart
    ) -> tuple[str, int]:
        """Return the name of the next member of an object, and where it stands."""
        if isinstance(container, list):
            return "", -1
        self._skip()
        start = self._at
        if self._text[start : start + 1] != '"':
            self._comment()
            self._quotes()
            end = found.end() if (found := _WORDISH.match(self._text, start)) else start + 1
            self._stop(FaultKind.NO_KEY, start, end, self._text[start:end])
        key = self._string()
        if key in container and len(self.twice) < MAX_FAULTS:
            self.twice.append(
                Fault(kind=FaultKind.TWICE, start=start, end=self._at, found=key[:60])
            )
        self._skip()
        if self._text[self._at : self._at + 1] != ":":
            self._stop(FaultKind.NO_COLON, start, self._at, key[:60])
        self._at += 1
        return key, start

    def _string(self) -> str:
        start = self._at
        found = _TEXT.match(self._text, start)
        if found is None:
            self._bad_string(start)
        self._at = found.end()
        inner = found.group(1)
        return str(json.loads(found.group())) if "\\" in inner else inner

    def _bad_string(self, start: int) -> Never:
        """Say why no text begins here. Raises: _Stop."""
        text, at = self._text, start + 1
        while at < len(text) and text[at] != '"':
            if text[at] == "\n":
                break
            if text[at] < " ":
                self._stop(FaultKind.CONTROL, at, at + 1, f"U+{ord(text[at]):04X}")
            if text[at] == "\\" and at + 1 < len(text):
                if _TEXT.match(f'"{text[at : at + 6]}"') is None and (
                    _TEXT.match(f'"{text[at : at + 2]}"') is None
                ):
                    self._stop(FaultKind.BAD_ESCAPE, at, at + 2, text[at : at + 2])
                at += 1
            at += 1
        self._stop(FaultKind.OPEN_TEXT, start, min(at, len(text)), text[start : start + 20])

    def _number(self) -> object:
        start = self._at
        wordish = _WORDISH.match(self._text, start)
        found = _NUMBER.match(self._text, start)
        if found is None or (wordish is not None and wordish.end() > found.end()):
            return self._word()
        if found.end() - start > MAX_DIGITS:
            self._stop(FaultKind.LONG_NUMBER, start, found.end())
        self._at = found.end()
        is_whole = found.group(1) is None and found.group(2) is None
        return int(found.group()) if is_whole else float(found.group())

    def _word(self) -> object:
        """Return true, false or null. Raises: _Stop: it is something else."""
        start = self._at
        found = _WORDISH.match(self._text, start)
        word = found.group() if found else self._text[start : start + 1]
        if word in _WORDS:
            self._at += len(word)
            return _WORDS[word]
        if not word:
            self._stop(FaultKind.NOT_CLOSED, max(0, start - 1), start)
        self._comment()
        self._quotes()
        end = start + len(word)
        if word.lstrip("+-").lower() in _NOT_NUMBERS:
            self._stop(FaultKind.NOT_A_NUMBER, start, end, word)
        kind = FaultKind.WORD if found else FaultKind.UNEXPECTED
        self._stop(kind, start, end, word)

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._at)
        if found is not None:
            self._at = found.end()

    def _comment(self) -> None:
        if self._text.startswith(("//", "/*", "#"), self._at):
            end = self._text.find("\n", self._at)
            self._stop(FaultKind.COMMENT, self._at, end if end > 0 else len(self._text))

    def _quotes(self) -> None:
        if self._text.startswith(_QUOTES, self._at):
            self._stop(FaultKind.QUOTES, self._at, self._at + 1, self._text[self._at])

    def _stop(self, kind: FaultKind, start: int, end: int, found: str = "") -> Never:
        raise _Stop(Fault(kind=kind, start=start, end=end, found=found[:60]))


def _below(part: JsonPart, key: str | int) -> JsonPart | None:
    if isinstance(key, int) and 0 <= key < len(part.items):
        return part.items[key]
    return part.members.get(str(key))
