"""What fedflow costs now as a multiple of what its first usable version cost.

    .venv/bin/python benchmarks/regression.py [--turns 5 | --quick] [--only start,chain,...]
        [--first REV] [--against REV] [--update docs/benchmarks.md]

Both trees are copied into a temporary folder and compiled to bytecode. Then each benchmark runs in
turns, first version, present tree, first version ..., so that whatever else the machine does falls
on both; every second turn begins with the present tree. A row is the ratio of the two medians, and
beside it the lowest and the highest ratio of a single turn. `hetero_lr_normal` is compared with
another commit, `--against`, because the first version had no decoy rows.

The present tree's own scripts measure both trees: they are copied into the other one, except
`parties.py`, which knows how that version is started. So the scripts named in `BENCHMARKS` import
nothing of fedflow, and of `parties.py` only what the first version's has.

`--update` writes the table into a Markdown file between the two comments of `MARKS`; rows that this
call did not measure stay. Compare on a quiet machine: a ratio survives a slow one, not a busy one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Machine, number

ROOT = Path(__file__).parent.parent
MARKS = ("<!-- regression: begin -->", "<!-- regression: end -->")
HEAD = ("| what | before | now | ratio (turns) | budget | commits |", "|---|---|---|---|---|---|")
SHARED = ("figures.py", "main_job.py", "idle.py")  #: what the scripts import of each other


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: a figure that a script prints."""

    what: str
    figure: str  #: its name in the script's JSON
    budget: float
    title: str = ""  #: how the title of the figure's table begins, if the script prints several
    at_least: bool = False  #: the figure shall be high, and the budget is a minimum


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A script, and how often it repeats its work in one turn."""

    name: str
    script: str
    arguments: Sequence[str]
    rows: Sequence[Row]
    against_first: bool = True  #: else against the commit of `--against`


BENCHMARKS = (
    Benchmark(
        name="start",
        script="server_start.py",
        arguments=("--runs", "3"),
        rows=(
            Row(what="server start to healthy, wall", figure="start to healthy", budget=1.0),
            Row(what="server start to healthy, CPU", figure="... CPU of the server", budget=1.0),
        ),
    ),
    Benchmark(
        name="chain",
        script="chain.py",
        arguments=("--runs", "10"),
        rows=(
            Row(what="chain of ten, wall per task", figure="wall per task", budget=1.0),
            Row(what="chain of ten, CPU per task run", figure="CPU per task run", budget=1.0),
        ),
    ),
    Benchmark(
        name="fan",
        script="fan.py",
        arguments=("--runs", "5"),
        rows=(Row(what="fan of 20, CPU per task run", figure="CPU per task run", budget=1.0),),
    ),
    Benchmark(
        name="burst",
        script="burst.py",
        arguments=("--runs", "1"),
        rows=(
            Row(what="burst of 100 x 3, task runs per second", figure="task runs", budget=1.0,
                at_least=True),
        ),
    ),
    Benchmark(
        name="idle",
        script="idle.py",
        arguments=("--seconds", "1"),
        rows=(
            Row(what="idle server, RSS", figure="server, RSS", budget=1.05),
            Row(what="idle, PSS of server and zygote", figure="server and zygote, PSS",
                budget=1.05),
        ),
    ),
    Benchmark(
        name="main_job",
        script="main_job.py",
        arguments=("--runs", "1", "--no-parts"),
        rows=tuple(
            Row(what=f"main job ({x}), {what}", figure=figure, title=f"Main job {x}", budget=1.0)
            for x in ("a", "b")
            for what, figure in (
                ("CPU", "CPU, all processes"), ("peak of PSS", "peak memory, sum of PSS")
            )
        ),
    ),
    Benchmark(
        name="hetero_lr_normal",
        script="hetero_lr_normal.py",
        arguments=("--runs", "1"),
        rows=(
            Row(what="hetero_lr_normal, wall", figure="wall", budget=0.75),
            Row(what="hetero_lr_normal, CPU", figure="CPU, all processes", budget=0.8),
            Row(what="hetero_lr_normal, peak of RSS", figure="peak memory, sum of RSS",
                budget=0.7),
        ),
        against_first=False,
    ),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A version of fedflow that can be run."""

    commit: str
    folder: Path

    def run(self, benchmark: Benchmark) -> dict[Row, tuple[float, str]]:
        """Run a script once and return its figures' medians, with their units."""
        command = [sys.executable, self.folder / "benchmarks" / benchmark.script]
        done = subprocess.run(
            [*command, *benchmark.arguments, "--json"],
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            check=True,
        )
        tables = [json.loads(line) for line in done.stdout.splitlines()]
        return {row: _figure(tables, row) for row in benchmark.rows}


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The values of one row, one per turn, before and now."""

    row: Row
    unit: str
    before: Sequence[float]
    now: Sequence[float]
    commits: str

    @property
    def ratio(self) -> float:
        return statistics.median(self.now) / statistics.median(self.before)

    @property
    def keeps_budget(self) -> bool:
        over = self.ratio < self.row.budget if self.row.at_least else self.ratio > self.row.budget
        return not over

    def line(self) -> str:
        """Return the row of the Markdown table."""
        ratios = [now / before for before, now in zip(self.before, self.now, strict=True)]
        before, now = (number(statistics.median(v)) for v in (self.before, self.now))
        sign = ">=" if self.row.at_least else "<="
        cells = (
            self.row.what,
            f"{before} {self.unit}",
            f"{now} {self.unit}",
            f"{self.ratio:.2f} ({min(ratios):.2f} - {max(ratios):.2f})",
            f"{sign} {self.row.budget:g}{'' if self.keeps_budget else ' **over**'}",
            self.commits,
        )
        return "| " + " | ".join(cells) + " |"


def main() -> None:
    options = _options()
    machine = Machine()
    chosen = [b for b in BENCHMARKS if not options.only or b.name in options.only]
    with tempfile.TemporaryDirectory(prefix="fedflow-regression-") as name:
        folder = Path(name)
        now = present_tree(folder)
        before: dict[bool, Tree] = {}
        for against_first in {b.against_first for b in chosen}:
            revision = options.first if against_first else options.against
            before[against_first] = older_tree(revision, folder, measured_by=now)
        lines: list[str] = []
        for benchmark in chosen:
            pair = (before[benchmark.against_first], now)
            lines += [c.line() for c in compare(benchmark, *pair, turns=options.turns)]
            print(f"{benchmark.name}: done", file=sys.stderr, flush=True)
    note = (
        f"{options.turns} turns, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f},"
        f" {machine.busy_cores():.2f} cores busy while measuring"
    )
    print("\n".join((*HEAD, *lines)), f"\n\n({note})")
    if options.update is not None:
        text = options.update.read_text(encoding="utf-8")
        options.update.write_text(with_table(text, lines, note), encoding="utf-8")


def compare(benchmark: Benchmark, before: Tree, now: Tree, *, turns: int) -> list[Compared]:
    """Run both trees in turns and return one comparison per row."""
    found: dict[Tree, list[dict[Row, tuple[float, str]]]] = {before: [], now: []}
    for turn in range(turns):
        for tree in (before, now) if turn % 2 == 0 else (now, before):
            found[tree].append(tree.run(benchmark))
    return [
        Compared(
            row=row,
            unit=found[now][0][row][1],
            before=[values[row][0] for values in found[before]],
            now=[values[row][0] for values in found[now]],
            commits=f"{before.commit}, {now.commit}",
        )
        for row in benchmark.rows
    ]


# --- trees ----------------------------------------------------------------------------------------


def present_tree(folder: Path) -> Tree:
    """Copy this checkout, changes that are not committed included, and compile it."""
    copy = folder / "now"
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--",
                  "fedflow", "benchmarks", "examples")  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():  # deleted files are listed, too
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, copy / name)
    commit = _git("describe", "--always", "--abbrev=7", "--dirty=+", "--exclude=*").strip()
    return _compiled(Tree(commit=commit, folder=copy))


def older_tree(revision: str, folder: Path, *, measured_by: Tree) -> Tree:
    """Unpack a commit of this repository, with the scripts of another tree, and compile it."""
    commit = _git("rev-parse", "--short=7", f"{revision}^{{commit}}").strip()
    copy = folder / commit
    copy.mkdir()
    with subprocess.Popen(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        subprocess.run(["tar", "-x", "-C", copy], stdin=archive.stdout, check=True)
    for name in {*SHARED, *(b.script for b in BENCHMARKS)}:
        shutil.copyfile(measured_by.folder / "benchmarks" / name, copy / "benchmarks" / name)
    return _compiled(Tree(commit=commit, folder=copy))


def _compiled(tree: Tree) -> Tree:
    """Compile a tree. Raises: RuntimeError: Python would import another one in its place."""
    folders = [tree.folder / "fedflow", tree.folder / "benchmarks"]
    subprocess.run([sys.executable, "-m", "compileall", "-q", *folders], check=True)
    where = subprocess.run(
        [sys.executable, "-c", "import fedflow; print(fedflow.__file__)"],
        env={**os.environ, "PYTHONPATH": str(tree.folder)},
        cwd=tree.folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.strip()
    if Path(where).parent.parent != tree.folder:
        raise RuntimeError(f"Python takes fedflow from {where}, not from {tree.folder}")
    return tree


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout


# --- tables ---------------------------------------------------------------------------------------


def with_table(text: str, lines: Sequence[str], note: str) -> str:
    """Return a page with new rows in its table; rows of another name stay, in the usual order.

    Raises: ValueError: the page lacks one of `MARKS`.
    """
    head, rest = text.split(MARKS[0])
    old, tail = rest.split(MARKS[1])
    rows = {_name(line): line for line in old.splitlines() if line.startswith("| ")}
    rows.pop(_name(HEAD[0]), None)
    rows |= {_name(line): line for line in lines}
    order = [row.what for benchmark in BENCHMARKS for row in benchmark.rows]
    table = "\n".join((*HEAD, *(rows[name] for name in order if name in rows)))
    return f"{head}{MARKS[0]}\n{table}\n\n(last call: {note})\n{MARKS[1]}{tail}"


def _name(line: str) -> str:
    return line.split("|")[1].strip()


def _figure(tables: Sequence[Mapping[str, Any]], row: Row) -> tuple[float, str]:
    """Return the median and the unit of a row's figure. Raises: LookupError: nobody printed it."""
    for table in tables:
        if table["title"].startswith(row.title):
            for figure in table["figures"]:
                if figure["what"] == row.figure:
                    return float(figure["median"]), str(figure["unit"])
    raise LookupError(f"no figure {row.figure!r} for {row.what!r}")


def _options() -> argparse.Namespace:
    names = [b.name for b in BENCHMARKS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--quick", action="store_const", const=2, dest="turns", help="two turns")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[],
                        help=f"some of {','.join(names)}")  # fmt: skip
    parser.add_argument("--first", default="49c6308", metavar="REV", help="the first version")
    parser.add_argument("--against", default="9d23af9", metavar="REV",
                        help="what hetero_lr_normal is compared with")  # fmt: skip
    parser.add_argument("--update", type=Path, metavar="PAGE", help="write the table into PAGE")
    options = parser.parse_args()
    for name in options.only:
        if name not in names:
            parser.error(f"no benchmark {name!r}; there are {', '.join(names)}")
    return options


if __name__ == "__main__":
    main()
