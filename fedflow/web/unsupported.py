"""Routes of FATE Flow 1.11 that this version does not serve: they say so, instead of "no route"."""

from __future__ import annotations

from typing import Final

from fedflow.wire.paths import PREFIX

_PATHS: Final = frozenset({PREFIX + "/component/hetero/merge"})


def is_later(path: str) -> bool:
    """Tell whether FATE serves a path (with `/v1`) that this version does not."""
    return path.rstrip("/") in _PATHS
