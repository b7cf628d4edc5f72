"""JSON values as lists of paths, to search them and to compare them."""

from __future__ import annotations

from typing import Any

MOST_PATHS = 5_000  #: of one value


def flat(value: Any, *, most: int = MOST_PATHS) -> dict[str, Any]:
    """Return path -> value without members; empty objects and lists stand for themselves.

    Lists without objects in them are values. At most `most` paths.
    """
    found: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [("", value)]
    while waiting and len(found) < most:
        path, one = waiting.pop()
        if isinstance(one, dict) and one:
            below = [(f"{path}.{name}" if path else str(name), v) for name, v in one.items()]
        elif isinstance(one, list) and any(isinstance(v, dict | list) for v in one):
            below = [(f"{path}[{i}]", v) for i, v in enumerate(one)]
        else:
            found[path] = one
            continue
        waiting.extend(reversed(below))
    return found
