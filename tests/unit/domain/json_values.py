"""Any JSON value, with the words of job documents in it, and the places to put one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st


def json_values(words: Iterable[str]) -> st.SearchStrategy[Any]:
    """Draw values of any kind and shape; `words` are likely as texts and keys."""
    text = st.one_of(st.sampled_from(list(words)), st.text(max_size=8))
    return st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=25,
    )


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of a JSON value."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            found.append((value, key))
            found += places(value[key])
    return found
