"""Reading counts and times of a serving process.

Source: Prometheus, "Exposition formats", version 0.0.4; timestamps are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_PAIR: Final = r'[A-Za-z_]\w*="(?:[^"\\]|\\.)*"'
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_LINE: Final = re.compile(rf"([A-Za-z_:][\w:]*)(?:\{{((?:{_PAIR},?)*)\}})? (\S+)")
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One number."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str) -> Iterator[Sample]:
    """Yield the numbers of a text; lines that are none are passed over."""
    for line in text.split("\n"):  # labels may have other signs that end lines
        found = None if line.startswith("#") else _LINE.fullmatch(line)
        if found is None:
            continue
        name, labels, number = found.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        yield Sample(
            name=name,
            labels={key: _unescaped(one) for key, one in _LABEL.findall(labels or "")},
            value=value,
        )


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
