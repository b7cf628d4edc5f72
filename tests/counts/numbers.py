"""The file of numbers: what each count may be, and why it last rose.

One line per number, `name = value  # why it last rose`. `bin/print-counts` renews the values:

    bin/print-counts                     values that fell; refuses if one rose
    bin/print-counts --why "WHY"         values that rose, too; WHY replaces their comments
    bin/print-counts --house             without starting servers
    bin/print-counts --places            where the counts of the source tree are; renews nothing
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.counts.house import findings, house_counts, modules_of
from tests.counts.running import counted

ROOT: Final = Path(__file__).parents[2]
FILE: Final = Path(__file__).parent / "numbers.toml"

TOLERANCE: Final[Mapping[str, float]] = {
    # threads that wait ask the store again, the more often the longer a chain takes
    "statements": 0.10,
    "transactions": 0.20,
    # whether two messages of a party go together is a matter of moments
    "writes": 0.05,
    "changes": 0.05,
    "calls": 0.10,
    # a pool starts its threads as it needs them
    "threads": 0.05,
    # other versions of Python and of libraries have other modules and other sizes
    "modules": 0.05,
    "dataclasses": 0.05,
    "zygote_modules": 0.05,
    "worker_modules": 0.05,
    "zygote_anonymous_kib": 0.10,
    "worker_faults": 0.10,
    "worker_anonymous_kib": 0.10,
    "worker_page_tables_kib": 0.15,
}
"""Part of its number by which a count may exceed it, where a count is not the same in each run."""

_LINE = re.compile(r"(?P<name>\w+) = (?P<value>[\d.]+)  # (?P<why>.+)")

Numbers = Mapping[str, Mapping[str, float]]  #: section -> name -> number


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A count that is not what the file says; None: one of the two does not have it."""

    name: str  #: `section.name`
    number: float | None
    count: float | None

    @property
    def is_above(self) -> bool:
        """Tell whether the count is more than its number and the tolerance allow, or is new."""
        return self.number is None or (self.count or 0) > self.number * (1 + self._tolerance)

    @property
    def is_below(self) -> bool:
        """Tell whether the number may clearly be lowered, or is not counted any more."""
        return self.count is None or self.count < (self.number or 0) * (1 - self._tolerance)

    @property
    def _tolerance(self) -> float:
        return TOLERANCE.get(self.name.rpartition(".")[2], 0.0)

    def __str__(self) -> str:
        if self.number is None:
            return f"{self.name} is {self.count:g} and has no number yet"
        if self.count is None:
            return f"{self.name} is not counted any more"
        if self.is_above:
            return f"{self.name} rose from {self.number:g} to {self.count:g}"
        return f"{self.name} = {self.number:g} may be lowered to {self.count:g}"


def read_numbers(path: Path = FILE) -> Numbers:
    """Return the numbers of the file."""
    found: Numbers = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def differences(numbers: Numbers, counts: Numbers) -> list[Difference]:
    """Return where counts and numbers of the counted sections differ."""
    found = []
    for section, values in counts.items():
        known = numbers.get(section, {})
        for name in dict.fromkeys((*known, *values)):
            number, count = known.get(name), values.get(name)
            if number != count:
                found.append(Difference(name=f"{section}.{name}", number=number, count=count))
    return found


def renewed(text: str, counts: Numbers, *, why: str | None) -> str:
    """Return the file with the counts as its numbers; sections that were not counted stay.

    A number whose count is within the tolerance stays, too. Raises: ValueError: a count rose, and
    `why` is None, or a line of the file is not understood.
    """
    numbers: Numbers = tomllib.loads(text)
    changed = {d.name: d for d in differences(numbers, counts)}
    risen = [d for d in changed.values() if d.count is not None and d.is_above]
    if risen and why is None:
        raise ValueError("; ".join(map(str, risen)) + '. Say why: --why "..."')
    reasons = _reasons(text)
    head = text.partition("\n[")[0].rstrip("\n")
    blocks = [head]
    for section in dict.fromkeys((*numbers, *counts)):
        lines = [f"[{section}]"]
        for name, value in counts.get(section, numbers.get(section, {})).items():
            full = f"{section}.{name}"
            number = numbers.get(section, {}).get(name)
            difference = changed.get(full)
            if difference is not None and (difference.is_above or difference.is_below):
                number = value
            reason = reasons.get(full)
            if difference is not None and difference.is_above:
                reason = why
            lines.append(f"{name} = {number if number is not None else value:g}  # {reason}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _reasons(text: str) -> dict[str, str]:
    """Return `section.name` -> why it last rose. Raises: ValueError: a number has no reason."""
    found: dict[str, str] = {}
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            match = _LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"not `name = number  # why it last rose`: {line!r}")
            found[f"{section}.{match['name']}"] = match["why"]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Renew tests/counts/numbers.toml.")
    parser.add_argument("--why", help="the reason, if a count rose")
    parser.add_argument("--house", action="store_true", help="start no servers")
    parser.add_argument("--places", action="store_true", help="list what the house counts")
    options = parser.parse_args()
    if options.places:
        for name, places in findings(ROOT, modules_of(ROOT, "fedflow")).items():
            print(f"{name}: {len(places)}", *places, sep="\n    ")
        return
    counts: dict[str, Mapping[str, float]] = dict(house_counts(ROOT))
    if not options.house:
        with tempfile.TemporaryDirectory(prefix="fedflow-counts-") as folder:
            counts |= counted(Path(folder))
    for difference in differences(read_numbers(), counts):
        if difference.is_above or difference.is_below:
            print(difference)
    try:
        text = renewed(FILE.read_text(encoding="utf-8"), counts, why=options.why)
    except ValueError as exc:
        sys.exit(str(exc))
    FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
