"""Counts of the source tree: what a newcomer has to know, read from the files alone.

Every counter takes the root of a checkout. Code that `bin/protoc` generates is left out.
"""

from __future__ import annotations

import ast
import io
import posixpath
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from pathlib import Path

LONG_FUNCTION = 80  #: lines, decorators left out
LONG_FILE = 800  #: lines
MANY_PARAMETERS = 7  #: of a constructor, without `self`

_CITED = re.compile(r"(?<![\w./:{<-])(?:[\w.*-]+/)*[\w*-]+\.(?:md|py|proto)\b(?![\w/(])")
_COUNTED = (
    ast.FunctionDef, ast.AsyncFunctionDef, ast.arg, ast.AnnAssign, ast.Import, ast.ImportFrom
)  # fmt: skip
_URL = re.compile(r"\b[a-z]+://\S+")


@dataclass(frozen=True)
class Module:
    """One source file: its path from the root, text and syntax tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return what the counters look at; walking through a tree takes its time."""
        return [node for node in ast.walk(self.tree) if isinstance(node, _COUNTED)]


def house_counts(root: Path) -> dict[str, dict[str, int]]:
    """Return all counts of a checkout: section -> name -> number."""
    modules = modules_of(root, "fedflow")
    found = {name: len(places) for name, places in findings(root, modules).items()}
    return {
        "lines": lines_per_package(modules),
        "house": {
            "any": sum(map(any_in_annotations, modules)),
            "fmt_skip": sum(m.text.count("# fmt: skip") for m in modules),
            "upward_arrows_in_app": upward_arrows(arrows_of_app(modules)),
            **found,
        },
    }


def findings(root: Path, modules: Sequence[Module]) -> dict[str, list[str]]:
    """Return those counts of which each single one has a place: name -> places."""
    names = class_names(modules).items()
    return {
        "dict_out_of_app": dicts_out_of_app(modules),
        "class_names_used_twice": [
            f"{name}: {', '.join(sorted(map(str, places)))}"
            for name, places in sorted(names)
            if len(places) > 1
        ],
        "dead_references": dead_references(root),
        "long_functions": long_functions(modules),
        "wide_constructors": wide_constructors(modules),
        "long_files": [str(m.path) for m in modules if m.lines > LONG_FILE],
    }


# --- files ----------------------------------------------------------------------------------------


def modules_of(root: Path, folder: str) -> list[Module]:
    """Return the Python files below a folder, in order of their paths."""
    found = []
    for path in sorted((root / folder).rglob("*.py")):
        if "_pb2" not in path.name:
            text = path.read_text(encoding="utf-8")
            found.append(Module(path.relative_to(root), text, ast.parse(text)))
    return found


def lines_per_package(modules: Iterable[Module]) -> dict[str, int]:
    """Return package -> lines, blank ones and docstrings included; `fedflow` has its own files."""
    lines: dict[str, int] = defaultdict(int)
    for module in modules:
        parts = module.path.parts
        lines[parts[1] if len(parts) > 2 else parts[0]] += module.lines
    return dict(sorted(lines.items()))


# --- types ----------------------------------------------------------------------------------------


def any_in_annotations(module: Module) -> int:
    """Return how often annotations of a file name `Any`."""
    count = 0
    for node in module.nodes:
        for annotation in _annotations(node):
            count += sum(
                isinstance(part, ast.Name) and part.id == "Any" for part in ast.walk(annotation)
            )
    return count


def dicts_out_of_app(modules: Iterable[Module]) -> list[str]:
    """Return the functions of `fedflow/app` whose answer has a `dict[str, Any]` in it."""
    return [
        f"{module.path}:{function.lineno}"
        for module in modules
        if module.path.parts[:2] == ("fedflow", "app")
        for function in _functions(module)
        if function.returns is not None and "dict[str, Any]" in ast.unparse(function.returns)
    ]


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the annotations that belong to a node itself; one that is a string is parsed."""
    found: list[ast.expr | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        found.append(node.returns)
    elif isinstance(node, ast.arg | ast.AnnAssign):
        found.append(node.annotation)
    for annotation in found:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            yield ast.parse(annotation.value, mode="eval").body
        elif annotation is not None:
            yield annotation


# --- sizes and names ------------------------------------------------------------------------------


def class_names(modules: Iterable[Module]) -> dict[str, set[Path]]:
    """Return the name of each public class of a module's top level, and the files that have one."""
    found: dict[str, set[Path]] = defaultdict(set)
    for module in modules:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(module.path)
    return found


def long_functions(modules: Iterable[Module]) -> list[str]:
    """Return the functions of more than `LONG_FUNCTION` lines, docstrings included."""
    return [
        f"{module.path}:{function.lineno}"
        for module in modules
        for function in _functions(module)
        if (function.end_lineno or 0) - function.lineno + 1 > LONG_FUNCTION
    ]


def wide_constructors(modules: Iterable[Module]) -> list[str]:
    """Return the methods `__init__` with more than `MANY_PARAMETERS` parameters."""
    found = []
    for module in modules:
        for function in _functions(module):
            given = function.args
            parameters = len(given.posonlyargs) + len(given.args) + len(given.kwonlyargs) - 1
            if function.name == "__init__" and parameters > MANY_PARAMETERS:
                found.append(f"{module.path}:{function.lineno}")
    return found


def _functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


# --- imports --------------------------------------------------------------------------------------


def arrows_of_app(modules: Iterable[Module]) -> set[tuple[str, str]]:
    """Return (package, package that it imports) inside `fedflow/app`.

    Modules that lie in `app` itself are no package: contracts between files keep those in order.
    """
    inside = {
        module: module.path.parts[2]
        for module in modules
        if module.path.parts[:2] == ("fedflow", "app") and len(module.path.parts) > 3
    }
    packages = set(inside.values())
    return {
        (package, to[2])
        for module, package in inside.items()
        for to in (name.split(".") for name in _imported(module))
        if to[:2] == ["fedflow", "app"] and to[2] in packages - {package}
    }


def upward_arrows(arrows: set[tuple[str, str]]) -> int:
    """Return how many arrows at least point up, however the packages are put into layers.

    Held and Karp's recursion over sets of packages: `least[s]` is the least number of arrows from
    the lower packages `s` to others above. Source: Lawler 1964, "A comment on minimum feedback arc
    sets".
    """
    packages = sorted({package for arrow in arrows for package in arrow})
    least: dict[frozenset[str], int] = {frozenset(): 0}
    for size in range(1, len(packages) + 1):
        for chosen in map(frozenset, combinations(packages, size)):
            least[chosen] = min(
                least[chosen - {top}]
                + sum(start != top and start in chosen and end == top for start, end in arrows)
                for top in chosen
            )
    return least[frozenset(packages)]


def _imported(module: Module) -> Iterator[str]:
    """Yield what a file imports, as `package.module.name`; imports for types count, too."""
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield f"{alias.name}."


# --- references -----------------------------------------------------------------------------------


def dead_references(root: Path) -> list[str]:
    """Return `file: cited` for each page or source file that a text cites and nobody has.

    Texts are comments and docstrings of Python files, comments of scripts, and Markdown outside of
    code blocks. A page is cited by its path from the root, from the package `fedflow`, or from the
    citing file; a source file by any end of its path. Addresses on the web are no citations, and a
    source file in a folder that this repository does not have is another project's.
    """
    files = _files(root)
    ends = {name[i:] for name in files for i in _starts(name)}
    return [
        f"{name}: {cited}"
        for name in sorted(files)
        for cited in sorted(set(_cited(root / name)))
        if not _exists(cited, Path(name), files, ends)
    ]


def _starts(name: str) -> Iterator[int]:
    """Yield where each end of a path begins."""
    yield 0
    yield from (i + 1 for i, letter in enumerate(name) if letter == "/")


def _exists(cited: str, citing: Path, files: frozenset[str], ends: set[str]) -> bool:
    if "*" in cited:
        return any(Path(name).match(cited) for name in files)
    first, folder, _ = cited.partition("/")
    if first != ".." and not cited.endswith(".md"):
        is_ours = not folder or any(name.startswith((f"{first}/", f"fedflow/{first}/"))
                                    for name in files)  # fmt: skip
        return cited in ends or not is_ours
    return any(_joined(start, cited) in files for start in ("", "fedflow", str(citing.parent)))


def _joined(folder: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(folder, path))


def _cited(path: Path) -> Iterator[str]:
    for text in _texts(path):
        for found in _CITED.finditer(_URL.sub("", text)):
            yield found[0]


def _texts(path: Path) -> Iterator[str]:
    """Yield the prose of a file."""
    if path.suffix not in ("", ".md", ".py", ".sh", ".toml", ".yaml"):
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    if _CITED.search(text) is None:  # most have none, and tokens take their time
        return
    if path.suffix == ".py":
        yield from _python_texts(text)
    elif path.suffix == ".md":
        yield re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    else:
        yield from (line for line in text.splitlines() if line.lstrip().startswith("#"))


def _python_texts(text: str) -> Iterator[str]:
    starts = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_docstring = token.type == tokenize.STRING and previous in starts
        if is_docstring or token.type == tokenize.COMMENT:
            yield token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type


@lru_cache
def _files(root: Path) -> frozenset[str]:
    """Return the files that git knows or would take; without git, all but hidden ones."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and (root / ".git").exists():
        names = [name for name in listed.stdout.split("\0") if name]
    else:
        names = [str(p.relative_to(root)) for p in root.rglob("[!.]*") if p.is_file()]
        names = [name for name in names if "/." not in f"/{name}"]
    return frozenset(n for n in names if (root / n).is_file() and "_pb2" not in n)
