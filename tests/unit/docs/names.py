"""Names of fedflow that have a word which docs/glossary.md rules out.

A name is split into words at `_` and at capitals. Looked at: modules and packages, public classes,
public methods of Protocols. Not the classes of errors, whose names are part of the REST API.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.unit.docs.markdown import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def banned() -> frozenset[str]:
    """Return the words in code in the glossary's last column."""
    rows = re.findall(r"^\|.*\|([^|]*)\|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return frozenset(word for cell in rows for word in re.findall(r"`(\w+)`", cell))


def wrong_names() -> set[str]:
    """Return the names that have a banned word: `module x`, `class X`, `method X.y`."""
    words = banned()
    return {
        f"{kind} {name}"
        for kind, name in _names()
        if words & {word.lower() for word in _WORD.findall(name.rpartition(".")[2])}
    }


def _names() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "fedflow").rglob("*.py")):
        if path.stem.endswith(("_pb2", "_pb2_grpc")):
            continue
        yield "module", path.parent.name if path.stem == "__init__" else path.stem
        if "errors" in path.relative_to(ROOT).with_suffix("").parts:
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield "class", node.name
                if any("Protocol" in ast.unparse(base) for base in node.bases):
                    for item in node.body:
                        if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                            yield "method", f"{node.name}.{item.name}"
