"""The parameters of a query: names such as `:device_id`, outside of texts and comments."""

from __future__ import annotations

import re
from typing import Final

from fedflow.base.values import dataclass

_PIECES: Final = re.compile(
    r"""(?P<other>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|/\*.*?\*/|--[^\n]*|\#[^\n]*|::)"""
    r"""|:(?P<name>[A-Za-z_]\w*)|(?P<mark>\?)""",
    re.DOTALL | re.ASCII,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedQuery:
    """A query with named parameters."""

    marked: str  #: the query with a `?` in the place of each parameter
    names: tuple[str, ...]  #: of the parameters, in the order of those

    @classmethod
    def of(cls, query: str) -> NamedQuery:
        """Raises: ValueError: it has parameters without a name."""
        names: list[str] = []

        def mark(found: re.Match[str]) -> str:
            if found["mark"]:
                raise ValueError("a parameter of the query has a name, such as :device_id")
            if found["name"]:
                names.append(found["name"])
                return "?"
            return found[0]

        return cls(marked=_PIECES.sub(mark, query), names=tuple(names))
