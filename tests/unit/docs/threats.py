"""The threat table of docs/security.md: its kinds of attackers, its rows, and the tests they name.

A test is named as pytest does, `tests/...py::test_name`; a scenario of `bin/attack` after the word
attack or attacks.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.unit.docs.markdown import ROOT

PAGE = ROOT / "docs" / "security.md"
_SECTION = re.compile(r"^## Threats$(.*?)^## ", re.MULTILINE | re.DOTALL)
_KIND = re.compile(r"^### (.+)$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_ATTACK = re.compile(r"\battacks? ((?:`[a-z0-9-]+`(?:, )?)+)")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One threat: which kind of attacker, and what the last cell names."""

    who: str
    wants: str
    stops: str
    tests: tuple[tuple[str, str], ...]  #: file and function
    attacks: tuple[str, ...]


def rows() -> Iterator[Row]:
    """Yield the rows of all kinds of attackers."""
    section = _SECTION.search(PAGE.read_text(encoding="utf-8"))
    assert section is not None, "docs/security.md has no section Threats"
    _, *parts = _KIND.split(section[1])
    for who, text in zip(parts[::2], parts[1::2], strict=True):
        for line in text.splitlines():
            if line.startswith("| ") and not line.startswith("| wants |"):
                wants, stops, named = (cell.strip() for cell in line.strip("|").split("|"))
                attacks = (name for group in _ATTACK.findall(named) for name in group.split(", "))
                yield Row(
                    who=who, wants=wants, stops=stops, tests=tuple(_TEST.findall(named)),
                    attacks=tuple(name.strip("` ") for name in attacks if name.strip("` ")),
                )  # fmt: skip


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the tests that pytest collects from a file, none if there is no such file."""
    file = ROOT / path
    if not file.is_file() or not file.name.startswith("test_"):
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(one.name for one in tree.body if isinstance(one, functions))
