"""YAML text as JSON values.

YAML is read as its core schema has it, so that a text means what it would mean as JSON: `1e-4` is a
number, `no` and `2026-01-01` are texts. Only values that JSON has are read; aliases are, up to a
bound. A key that is a number becomes a text: the sites of a role are `0`, `1`, ...
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from typing import Any, Final

import yaml

from fedflow.base.errors.requests import BadDocument

_LONGEST: Final = 1 << 20  #: characters of a YAML file
_MOST: Final = 200_000  #: values in one, each alias counted as what it stands for
_DEEPEST: Final = 100  #: levels of nesting
_LARGEST: Final = 1 << 63  #: whole numbers are smaller
_TAG: Final = "tag:yaml.org,2002:"
_SCALARS: Final = (  # tag, what is written like it, the characters that begin it
    ("null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    ("bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    ("int", re.compile(r"[-+]?[0-9]+\Z"), list("-+0123456789")),
    (
        "float",
        re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
        list("-+.0123456789"),
    ),
)


class _Loader(yaml.SafeLoader):
    """Knows the scalars of the core schema; it makes nodes, no values."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  as PyYAML has it


for _name, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, _first)


def parse_yaml(text: str, shown: str) -> Any:
    """Return what a YAML text says, as JSON values; `shown` names it in errors.

    Raises: BadDocument: with line and column: it is no YAML; a key twice; something that JSON does
        not have. It is too long, too deep, or too large with its aliases.
    """
    if len(text) > _LONGEST:
        raise BadDocument(where=shown, reason=f"it is longer than {_LONGEST} characters")
    try:
        node = _Loader(text).get_single_node()
        return None if node is None else _Reader(shown).value(node)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        reason = ", ".join(part for part in (exc.context, exc.problem) if part)
        raise BadDocument(where=_place(shown, mark), reason=reason) from exc
    except yaml.YAMLError as exc:
        raise BadDocument(where=shown, reason=str(exc).replace("\n", " ")) from exc
    except RecursionError as exc:
        raise BadDocument(where=shown, reason="it is nested too deep") from exc


def _place(shown: str, mark: Any) -> str:
    return shown if mark is None else f"{shown}, line {mark.line + 1}, column {mark.column + 1}"


class _Reader:
    """Makes JSON values of the nodes of one YAML text."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._left = _MOST

    def value(self, node: yaml.Node, depth: int = 0) -> Any:
        """Return the value of a node. Raises: BadDocument."""
        self._left -= 1
        if self._left < 0:
            raise self._wrong(node, f"there are more than {_MOST} values, with those of aliases")
        if depth > _DEEPEST:
            raise self._wrong(node, f"it is nested deeper than {_DEEPEST} levels")
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node, depth)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self.value(one, depth + 1) for one in node.value]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, kind)
        raise self._wrong(node, f"the tag {node.tag[:100]} is not read here")

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = self._key(key)
            if name in found:
                raise self._wrong(key, f"the member {name[:100]!r} occurs twice")
            found[name] = self.value(value, depth + 1)
        return found

    def _key(self, node: yaml.Node) -> str:
        kind = node.tag.removeprefix(_TAG)
        if not isinstance(node, yaml.ScalarNode) or kind not in ("str", "int", "float"):
            raise self._wrong(node, "a key must be a text; write it in quotes")
        if node.value == "<<" and node.style is None:
            raise self._wrong(node, "merge keys (<<) are not read here; repeat the members")
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, kind: str) -> Any:
        text: str = node.value
        if kind == "str":
            return text
        if kind == "null":
            return None
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("int", "float"):
            with suppress(ValueError):
                found = int(text) if kind == "int" else float(text)
                if math.isfinite(found) if isinstance(found, float) else abs(found) < _LARGEST:
                    return found
        raise self._wrong(node, f"{text[:40]!r} is no value that JSON has")

    def _wrong(self, node: yaml.Node, reason: str) -> BadDocument:
        return BadDocument(where=_place(self._shown, node.start_mark), reason=reason)
