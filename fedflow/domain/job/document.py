"""A submitted JSON document: its limits, paths into it, merging, and what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.domain.job.warning import MOST, JobWarning, warning

MAX_DEPTH: Final = 50  #: objects and lists inside each other
MAX_VALUES: Final = 1_000_000  #: values in one document
MAX_TEXT: Final = 100_000  #: characters of one string
MAX_NAME: Final = 100  #: characters of a component or output name
MAX_FINDINGS: Final = 1_000  #: problems that are listed; the rest is counted

JsonObject = Mapping[str, object]

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_Trail = tuple["_Trail", str | int] | None  #: where a value stands: its parent's trail, and its key


class Report:
    """Collects what is wrong (`problems`) and what is odd (`warnings`) while a document is read."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []
        self._warnings: list[JobWarning] = []
        self._found = 0

    @property
    def found(self) -> int:
        """Return how many problems were found so far."""
        return self._found

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Return the problems in the order of finding; beyond `MAX_FINDINGS` one that counts."""
        left_out = self._found - len(self._problems)
        if not left_out:
            return tuple(self._problems)
        return (*self._problems, Problem("$", f"{left_out} more problems", rule="LimitExceeded"))

    @property
    def warnings(self) -> tuple[JobWarning, ...]:
        """Return the warnings in the order of finding."""
        return tuple(self._warnings)

    def problem(self, path: str, message: str, *, rule: str) -> None:
        """Record a mistake; `rule` is FATE's exception class for it, or our own word."""
        self._found += 1
        if len(self._problems) < MAX_FINDINGS:
            self._problems.append(Problem(path, message, rule=rule))

    def warn(self, path: str, message: str, *, code: str) -> None:
        """Record something that has no effect or may surprise; `code` is one of `HINTS`."""
        if len(self._warnings) < MOST:
            self._warnings.append(warning(code, path, message))

    def raise_if_any(self) -> None:
        """Raises: InvalidJobSpec: a problem was found; it lists all of them."""
        if self._found:
            raise InvalidJobSpec(self.problems)

    def expect_object(self, value: object, path: str, *, rule: str) -> JsonObject | None:
        """Return `value` if it is an object, or record a problem and return None."""
        if isinstance(value, dict):
            return value
        self.problem(path, f"must be an object, not {kind_of(value)}", rule=rule)
        return None

    def warn_of_unknown(self, value: JsonObject, known: Collection[str], *, path: str) -> None:
        """Record a warning for each member of `value` that is not among `known`, as FATE reads it:
        it has no effect.
        """
        for key in value:
            if key not in known:
                message = f"unknown member, it has no effect; known are {', '.join(known)}"
                self.warn(child(path, key), message, code="UnknownMember")


def child(path: str, key: str) -> str:
    """Return the JSON path of member `key`; a key that is not a plain word is quoted and cut."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{json.dumps(cut(key))}]"


def shown(value: object) -> str:
    """Return a short text of a submitted value, for a message."""
    if isinstance(value, str):
        return json.dumps(cut(value))
    if isinstance(value, int | float) or value is None:
        return json.dumps(value)
    return kind_of(value)


def cut(text: str) -> str:
    """Return the first 60 characters of a submitted text, marked if there are more."""
    return text if len(text) <= 60 else text[:60] + "..."


def kind_of(value: object) -> str:
    """Return JSON's word for the kind of a value."""
    if value is None:
        return "null"
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "a boolean"),
        (str, "a string"),
        ((int, float), "a number"),
        (dict, "an object"),
        (list, "a list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "no JSON value")


def check_document(value: object, path: str, *, report: Report) -> None:
    """Record what no later step could read: a value that is not JSON, or a size beyond the limits.

    Walks without recursion, so that nesting of any depth is answered and not crashed by.
    """
    stack: list[tuple[object, int, _Trail]] = [(value, 0, None)]
    seen = 1
    while stack:
        item, depth, trail = stack.pop()
        fault = _fault(item, depth)
        if fault is not None:
            report.problem(_path(path, trail), fault, rule="LimitExceeded")
            continue
        if not isinstance(item, dict | list):
            continue
        seen += len(item)
        if seen > MAX_VALUES:
            report.problem(path, f"has more than {MAX_VALUES} values", rule="LimitExceeded")
            return
        members = item.items() if isinstance(item, dict) else enumerate(item)
        stack.extend((member, depth + 1, (trail, key)) for key, member in members)


def size_of(*documents: object) -> int:
    """Return how many bytes documents have as JSON, without spaces; 0 if one cannot be written,
    which `check_document` has a problem for.
    """
    try:
        return sum(len(msgspec.json.encode(one)) for one in documents)
    except (TypeError, ValueError, RecursionError):
        return 0


def copy_json(value: object) -> object:
    """Return a deep copy of a checked JSON value."""
    if isinstance(value, dict):
        return {key: copy_json(member) for key, member in value.items()}
    if isinstance(value, list):
        return [copy_json(member) for member in value]
    return value


def copy_object(value: JsonObject) -> dict[str, object]:
    """Return a deep copy of a checked JSON object."""
    return {key: copy_json(member) for key, member in value.items()}


def merge_objects(base: JsonObject, over: JsonObject, *, depth: int) -> dict[str, object]:
    """Return `base` with the members of `over`; two objects of one name are merged likewise.

    `depth` is how many levels are merged (1 = this one only); below, and for everything that is not
    an object on both sides, the later value replaces the earlier one whole.
    """
    merged = dict(base)
    for key, value in over.items():
        earlier = merged.get(key)
        if depth > 1 and isinstance(earlier, dict) and isinstance(value, dict):
            merged[key] = merge_objects(earlier, value, depth=depth - 1)
        else:
            merged[key] = value
    return merged


def lay_over(base: dict[str, object], over: JsonObject, *, depth: int) -> None:
    """Merge copies of the members of `over` into `base`, as `merge_objects` does.

    For many layers: the cost is that of the layers, not of what they amount to, time and again.
    All objects inside `base` must be its own.
    """
    for key, value in over.items():
        if depth > 1 and isinstance(value, dict):
            earlier = base.get(key)
            inner = earlier if isinstance(earlier, dict) else {}
            lay_over(inner, value, depth=depth - 1)
            base[key] = inner
        else:
            base[key] = copy_json(value)


def _path(path: str, trail: _Trail) -> str:
    keys: list[str | int] = []
    while trail is not None:
        trail, key = trail
        keys.append(key)
    for key in reversed(keys):
        path = f"{path}[{key}]" if isinstance(key, int) else child(path, key)
    return path


def _fault(value: object, depth: int) -> str | None:
    """Return what is wrong with one value, its members aside."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _text_fault(value)
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else "is a whole number of more than 64 bits"
    if isinstance(value, float):
        return None if math.isfinite(value) else "is not a finite number"
    if not isinstance(value, dict | list):
        return f"is no JSON value ({type(value).__name__})"
    if depth >= MAX_DEPTH:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict):
        faults = (_text_fault(k) if isinstance(k, str) else "is not text" for k in value)
        return next((f"a member's name {fault}" for fault in faults if fault), None)
    return None


def _text_fault(text: str) -> str | None:
    if len(text) > MAX_TEXT:
        return f"is longer than {MAX_TEXT} characters"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which is no character"
    return None
