"""Ways of writing a parameter that mean the same, said of the fields of a `Params`.

    method: Annotated[Literal["quantile", "bucket"], ANY_CASE] = "quantile"

A spelling says how a value that was given is read before its type is checked. Values of other kinds
it leaves alone, so what is wrong is still refused. Fields have the spellings that FATE's checks
take; docs/reference/components.md lists them by class.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

import msgspec

Reading = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Spelling:
    """One way of writing: a field's value is what `read` makes of the one that was given."""

    read: Reading


def also(names: Mapping[str, str]) -> Spelling:
    """Return the spelling of texts with other names, in any case: lower-case name -> what it is."""
    return Spelling(read=lambda v: names.get(v.lower(), v) if isinstance(v, str) else v)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _truth(value: Any) -> Any:
    return bool(value) if type(value) in (int, float) else value


def _nothing(value: Any) -> Any:
    return value or None


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) or type(value) in (int, float) else value


def _as_text(value: Any) -> Any:
    return "" if value is None else value


#: a text in lower, upper or mixed case
ANY_CASE: Final = Spelling(read=_lower)
#: 0 is false, other numbers are true
NUMBER_AS_BOOL: Final = Spelling(read=_truth)
#: 0, false, and the empty text, list and object are null
EMPTY_AS_NULL: Final = Spelling(read=_nothing)
#: a text or number alone is a list of it
ONE_AS_LIST: Final = Spelling(read=_as_list)
#: null is the empty text
NULL_AS_EMPTY: Final = Spelling(read=_as_text)

Flag = Annotated[bool, NUMBER_AS_BOOL]  #: a switch of which FATE asks the truth and not the type


def read_spellings(values: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return `values` as the spellings of a class's fields, and of those in them, read them."""
    readings = _readings(kind)
    return {name: readings[name](v) if name in readings else v for name, v in values.items()}


@cache
def _readings(kind: type[msgspec.Struct]) -> dict[str, Reading]:
    hints = get_type_hints(kind, include_extras=True)
    found = {name: _reading(hint) for name, hint in hints.items()}
    return {name: reading for name, reading in found.items() if reading is not None}


def _reading(hint: Any) -> Reading | None:
    """Return what the spellings in a type do, None if it has none."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return (
            (lambda v: read_spellings(v, hint) if isinstance(v, dict) else v)
            if _readings(hint)
            else None
        )
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        own = [one.read for one in hint.__metadata__ if isinstance(one, Spelling)]
        return _chain([*own, _reading(inner[0])])
    if origin in (Union, types.UnionType):
        return _chain([_reading(part) for part in inner])
    return None


def _chain(readings: list[Reading | None]) -> Reading | None:
    """Return one reading after the other, None if there is none."""
    given = [reading for reading in readings if reading is not None]
    if len(given) < 2:
        return given[0] if given else None

    def read(value: Any) -> Any:
        for reading in given:
            value = reading(value)
        return value

    return read
