"""Prints the report, or with --write keeps it in docs/accuracy.md. See `bin/accuracy --help`."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accuracy import (
    binning,
    boosting,
    columns,
    common_bins,
    features,
    horizontal,
    linear,
    measures,
    networks,
)
from benchmarks.accuracy.boosters import LIGHTGBM, XGBOOST, installed
from benchmarks.accuracy.data import DataFolder, NoData
from benchmarks.accuracy.rows import HEAD, Check, Row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
CHECKS = (
    *features.CHECKS,
    *columns.CHECKS,
    *binning.CHECKS,
    *common_bins.CHECKS,
    *linear.CHECKS,
    *horizontal.CHECKS,
    *boosting.CHECKS,
    *measures.CHECKS,
    *networks.CHECKS,
)
TOOLS = ("scikit-learn", "statsmodels", "pandas", "numpy")
OPTIONAL = (XGBOOST, LIGHTGBM)  #: may be lacking; without them trees have fewer references


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks and return 0 if all rows are within tolerance, 1 if not, 2 without data.

    Without xgboost or lightgbm it says so, leaves out their rows, and does not write.
    """
    options = _parser().parse_args(arguments)
    chosen = _chosen(options.only, quick=options.quick)
    if lacking := [tool for tool in OPTIONAL if not installed(tool)]:
        print(_not_installed(lacking), file=sys.stderr)
        if options.write:
            return 2
    data = DataFolder(path=Path(options.data))
    try:
        rows = list(_rows(chosen, data))
    except NoData as exc:
        print(exc, file=sys.stderr)
        return 2
    table = markdown(rows)
    print(table)
    if options.write:
        PAGE.write_text(_page(table))
    failed = sum(not row.passed for row in rows)
    print(f"{len(rows)} comparisons, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


def markdown(rows: Sequence[Row]) -> str:
    """Return the table of the rows."""
    lines = [HEAD, ("---",) * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"


def _rows(chosen: Sequence[Check], data: DataFolder) -> Iterator[Row]:
    """Yield the rows of the checks, and tell on standard error how long each took."""
    for check in chosen:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fedflow-accuracy-") as folder:
            yield from check.make(data, Path(folder))
        print(f"{check.name}: {time.monotonic() - started:.1f} s", file=sys.stderr)


def _chosen(only: Sequence[str], *, quick: bool) -> list[Check]:
    """Return the checks to run. Exits if a name is unknown."""
    known = {check.name: check for check in CHECKS}
    if unknown := [name for name in only if name not in known]:
        raise SystemExit(f"no check {', '.join(unknown)}; there are {', '.join(known)}")
    return [c for c in CHECKS if (not only or c.name in only) and (c.quick or not quick)]


def _not_installed(lacking: Sequence[str]) -> str:
    return (
        f"Not installed: {' and '.join(lacking)}. Trees are not compared with them, and nothing is"
        " written to docs/accuracy.md. Install them: pip install --editable '.[accuracy]'."
    )


def _parser() -> argparse.ArgumentParser:
    folder = os.environ.get("FEDFLOW_ACCURACY_DATA", str(ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(
        prog="bin/accuracy",
        description="Compares the components with plaintext tools on FATE's example data.",
        epilog=f"checks: {', '.join(check.name for check in CHECKS)}",
    )
    parser.add_argument(
        "--data", default=folder, help="folder of the CSV files; default: %(default)s"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="CHECK", help="run this one; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="only what takes seconds")
    parser.add_argument("--write", action="store_true", help="also write docs/accuracy.md")
    return parser


def _page(table: str) -> str:
    """Return the whole of docs/accuracy.md."""
    versions = {name: importlib.metadata.version(name) for name in TOOLS}
    # xgboost is also published under other names, which `version` would not find
    versions |= {name: importlib.import_module(name).__version__ for name in OPTIONAL}
    tools = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (Path(__file__).parent / "page.md").read_text().format(table=table, tools=tools)


if __name__ == "__main__":
    logging.basicConfig(level=logging.ERROR)  # not: that keys are short
    raise SystemExit(main())
