"""Reading stored models, which any component may have written: what is not there is nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return the object at a path, empty if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def items(value: Any, *path: str) -> Sequence[Any]:
    """Return the list at a path, empty if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, list | tuple) else ()


def objects(value: Any, *path: str) -> list[Mapping[str, Any]]:
    """Return the objects in the list at a path."""
    return [one for one in items(value, *path) if isinstance(one, Mapping)]


def texts(value: Any, *path: str) -> list[str]:
    """Return the list at a path as texts."""
    return [str(one) for one in items(value, *path)]


def number(value: Any) -> float | None:
    """Return a number, None for anything else, also for what JSON has as text or NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if not isinstance(value, float) or math.isfinite(value) else None


def numbers(value: Any, *path: str) -> list[float | None]:
    """Return the list at a path as numbers."""
    return [number(one) for one in items(value, *path)]


def at(values: Sequence[Any], index: int) -> Any:
    """Return an item, None if there is none."""
    return values[index] if 0 <= index < len(values) else None


def chosen(choices: Mapping[str, str], name: str, options: Sequence[str]) -> str:
    """Return which option an address asks for, else the first one; "" if there is none."""
    asked = choices.get(name, "")
    return asked if asked in options else (options[0] if options else "")
