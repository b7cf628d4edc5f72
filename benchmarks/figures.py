"""What the benchmarks print: one row per figure, as a Markdown table or JSON, and its budget.

A figure within its budget has a ratio of at most 1; the ratio of a rate, which shall be high, is
turned round. The state of the machine stands below, because cores that others use too give other
numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured thing; `values` has one number per run, in `unit`."""

    what: str
    unit: str
    values: Sequence[float]
    budget: float | None = None
    at_least: bool = False  #: the budget is a minimum

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def best(self) -> float:
        return max(self.values) if self.at_least else min(self.values)

    @property
    def ratio(self) -> float | None:
        """Return the median as a multiple of the budget; 1 or less keeps it."""
        if self.budget is None:
            return None
        return self.budget / self.median if self.at_least else self.median / self.budget

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "unit": self.unit,
            "median": self.median,
            "best": self.best,
            "runs": len(self.values),
            "budget": self.budget,
            "at_least": self.at_least,
            "ratio": self.ratio,
            "values": list(self.values),
        }


class Machine:
    """How busy the machine is with the work of others between two moments."""

    def __init__(self) -> None:
        self._busy_s, self._all_s = _jiffies()

    def busy_cores(self) -> float:
        """Return how many cores were busy on average since this object was made, ours included."""
        busy_s, all_s = _jiffies()
        share = (busy_s - self._busy_s) / max(1e-9, all_s - self._all_s)
        return share * (os.cpu_count() or 1)


def _jiffies() -> tuple[float, float]:
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    numbers = [int(f) / os.sysconf("SC_CLK_TCK") for f in fields]
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """Return a parser with `--json`."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def show(
    title: str, figures: Sequence[Figure], *, as_json: bool, machine: Machine, note: str = ""
) -> None:
    """Print the figures and the state of the machine."""
    state = (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load"
        f" {os.getloadavg()[0]:.1f}, {machine.busy_cores():.2f} cores busy while measuring"
    )
    if as_json:
        rows = [f.to_json() for f in figures]
        print(json.dumps({"title": title, "machine": state, "note": note, "figures": rows}))
        return
    print(f"### {title}\n")
    print("| what | median | best | runs | budget | ratio |")
    print("|---|---|---|---|---|---|")
    for f in figures:
        sign = "> " if f.at_least else "< "
        budget = "" if f.budget is None else f"{sign}{number(f.budget)} {f.unit}"
        ratio = "" if f.ratio is None else f"{f.ratio:.2f}{'' if f.ratio <= 1 else ' **over**'}"
        median = f"{number(f.median)} {f.unit}".strip()
        cells = (f.what, median, number(f.best), len(f.values), budget.strip(), ratio)
        print("| " + " | ".join(str(c) for c in cells) + " |")
    print(f"\n{note + chr(10) if note else ''}({state})\n", flush=True)


def number(value: float) -> str:
    """Return a number with three significant digits or its integer part."""
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
