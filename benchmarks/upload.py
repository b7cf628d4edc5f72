"""Upload of a CSV, Parquet or Arrow file: wall, memory, and the ratio to reading it alone.

    python benchmarks/upload.py [rows ...]     (default 1000000; 20 columns)

Each upload runs in a process of its own, as in an executor, against a catalog in memory, so that
its peak memory is its own. Beside it stands what `pyarrow.csv` takes to read the same file in
blocks, on one thread, into nothing; and a transformation of the table (DataTransform), and the join
with half of its ids in another order (what Intersection does after its exchange: ids, positions,
rows, a new table), beside duckdb's join of the same two on one thread into an Arrow file.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import ipc, parquet

from fedflow.base.ids import PartyId
from fedflow.components.features.data_transform import DataTransform
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs
from fedflow.tables.gathering import take_rows
from fedflow.tables.local import LocalTableStore
from fedflow.tables.local_table import LocalTable
from fedflow.testing.run import run_component
from fedflow.testing.tables import local_store

COLUMNS = 20
AT_ONCE = 100_000
GUEST = Site(Role.GUEST, PartyId("9999"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", type=int, default=[1_000_000])
    parser.add_argument("--folder", type=Path, help="where files are made [a temporary folder]")
    parser.add_argument("--kinds", default="csv,parquet,arrow")
    parser.add_argument("--no-transform", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for rows in given.rows:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            found = measure(Path(folder), rows, given.kinds.split(","), not given.no_transform)
        for row in found:
            print(json.dumps(row) if given.json else line_of(row), flush=True)


def line_of(row: dict[str, Any]) -> str:
    """Return a measurement as a line for people."""
    rest = ", ".join(f"{name} {value}" for name, value in row.items() if name != "what")
    return f"{row['what']:40s} {rest}"


def measure(folder: Path, rows: int, kinds: list[str], transforms: bool) -> list[dict[str, Any]]:
    """Return what each step cost."""
    source = folder / "data.csv"
    make_csv(source, rows)
    size = source.stat().st_size
    found = [run("read alone (pyarrow.csv)", rows, size, read_alone, source)]
    alone = found[0]["wall_s"]
    for kind in kinds:
        path = folder / f"data.{kind}"
        if kind != "csv":
            run("convert", rows, size, convert, source, path, kind)
        row = run(f"upload of {kind}", rows, path.stat().st_size, upload, path, folder / kind)
        row["ratio_to_reading_csv"] = round(row["wall_s"] / alone, 2)
        found.append(row)
        if kind != "csv":
            path.unlink()
    if transforms:
        found.append(run("DataTransform", rows, size, transform, folder / kinds[0]))
    made = folder / kinds[0]
    run("choose ids", rows, size, choose, made, folder / "ids.arrow")
    found.append(run("join, duckdb", rows, size, join_by_duckdb, made, folder / "ids.arrow"))
    alone = found[-1]["wall_s"]
    found.append(run("join", rows, size, join, made, folder / "ids.arrow"))
    found[-1]["ratio_to_duckdb"] = round(found[-1]["wall_s"] / alone, 2)
    return found


def run(
    what: str, rows: int, size: int, function: Callable[..., None], *given: Any
) -> dict[str, Any]:
    """Run a function in a process of its own and return what it cost."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_child, args=(sender, function, given)
    )
    process.start()
    sender.close()
    wall_s, cpu_s, before_mib, peak_mib = receiver.recv()
    process.join()
    return {
        "what": what,
        "rows": rows,
        "file_mib": size >> 20,
        "wall_s": round(wall_s, 2),
        "cpu_s": round(cpu_s, 2),
        "mib_per_s": round((size >> 20) / wall_s, 1),
        "start_mib": before_mib,
        "peak_mib": peak_mib,
    }


def _child(sender: Any, function: Callable[..., None], given: tuple[Any, ...]) -> None:
    logging.disable(logging.INFO)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    before = _anonymous_mib()
    started, cpu = time.perf_counter(), time.process_time()
    peak = _Peak()
    function(*given, peak)
    sender.send(
        (time.perf_counter() - started, time.process_time() - cpu, before, max(peak.mib, before))
    )


class _Peak:
    """The greatest anonymous memory seen; mapped files are the system's cache, not the task's."""

    def __init__(self) -> None:
        self.mib = 0

    def __call__(self, _: object = None) -> None:
        self.mib = max(self.mib, _anonymous_mib())


def _anonymous_mib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) >> 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def make_csv(path: Path, rows: int) -> None:
    """Write `rows` rows: id, y and 18 numbers of six digits, two of them with gaps."""
    random = np.random.default_rng(1)
    names = ["id", "y", *(f"x{i}" for i in range(COLUMNS - 2))]
    with path.open("wb") as file:
        file.write((",".join(names) + "\n").encode())
        for start in range(0, rows, AT_ONCE):
            count = min(AT_ONCE, rows - start)
            columns: dict[str, Any] = {
                "id": [f"u{start + i:09d}" for i in range(count)],
                "y": random.integers(0, 2, count),
            }
            for name in names[2:]:
                columns[name] = np.round(random.normal(size=count), 6)
            table = pa.table(columns)
            for name in names[2:4]:
                gaps = random.random(count) < 0.01
                column = pa.array(columns[name], mask=gaps)
                table = table.set_column(table.schema.get_field_index(name), name, column)
            arrow_csv.write_csv(
                table, file, arrow_csv.WriteOptions(include_header=False, quoting_style="none")
            )


def read_alone(path: Path, peak: _Peak) -> None:
    """Read a file as text columns and drop it."""
    names = path.open().readline().strip().split(",")
    types = arrow_csv.ConvertOptions(column_types={name: pa.string() for name in names})
    options = arrow_csv.ReadOptions(use_threads=False)
    with arrow_csv.open_csv(path, read_options=options, convert_options=types) as reader:
        for batch in reader:
            peak(batch)


def convert(source: Path, target: Path, kind: str, peak: _Peak) -> None:
    """Write the rows of a CSV file with their types as another kind of file."""
    with arrow_csv.open_csv(source) as reader:
        if kind == "parquet":
            writer: Any = parquet.ParquetWriter(target, reader.schema)
        else:
            writer = ipc.new_file(target, reader.schema)
        with writer:
            for batch in reader:
                writer.write_batch(batch)


def upload(path: Path, folder: Path, peak: _Peak) -> None:
    """Make a table of a file, below `folder`."""
    store = local_store(folder)
    table = store.import_csv(path, namespace="n", name="t", progress=peak)
    (folder / "entry.json").write_text(json.dumps(msgspec.to_builtins(table.entry)))


def transform(folder: Path, peak: _Peak) -> None:
    """Transform an uploaded table."""
    store, table = _opened(folder)
    result = run_component(
        DataTransform, sites=[GUEST], work_dir=folder / "work", timeout_s=3600,
        params={GUEST: {"with_label": True, "missing_fill": True, "missing_fill_method": "mean"}},
        inputs={GUEST: Inputs(data={"data": [("reader_0", table)]}, model={})},
        tables={GUEST: store},
    )[GUEST]  # fmt: skip
    peak()
    if result.error is not None:
        raise result.error
    assert result.outputs is not None
    made = result.outputs.data[0]
    assert isinstance(made, LocalTable)
    (folder / "entry.json").write_text(json.dumps(msgspec.to_builtins(made.entry)))


def choose(folder: Path, target: Path, peak: _Peak) -> None:
    """Write half of the ids of a table, shuffled: what an intersection found."""
    _, table = _opened(folder)
    ids = table.read((table.schema.id,)).column(0).combine_chunks()
    chosen = np.random.default_rng(2).permutation(table.count)[: table.count // 2]
    common = pa.table({"id": ids.take(pa.array(chosen)), "place": np.arange(len(chosen))})
    with ipc.new_file(target, common.schema) as writer:
        writer.write_table(common)


def join(folder: Path, ids: Path, peak: _Peak) -> None:
    """Make a table of the rows of the chosen ids, in their order."""
    store, table = _opened(folder)
    common = ipc.open_file(pa.memory_map(str(ids))).read_all().column(0).combine_chunks()
    own = table.read((table.schema.id,)).column(0).combine_chunks()
    rows = pc.index_in(common, value_set=own).to_numpy().astype(np.int64)
    peak()
    with store.create(table.schema) as writer:
        for batch in take_rows(table, rows):
            writer.write(batch)
            peak()


def join_by_duckdb(folder: Path, ids: Path, peak: _Peak) -> None:
    """Write the same rows in the same order to an Arrow file."""
    _, table = _opened(folder)
    common = ipc.open_file(pa.memory_map(str(ids))).read_all()
    with duckdb.connect(config={"threads": 1}) as db:
        db.register("own", table.read())
        db.register("common", common)
        found = db.execute(
            "select own.* from common join own on own.id = common.id order by common.place"
        ).to_arrow_reader(65_536)
        with ipc.new_file(folder / "joined.arrow", found.schema) as writer:
            for batch in found:
                writer.write_batch(batch)
                peak()
    (folder / "joined.arrow").unlink()


def _opened(folder: Path) -> tuple[LocalTableStore, LocalTable]:
    from fedflow.domain.records import TableRecord

    store = local_store(folder)
    entry = msgspec.json.decode((folder / "entry.json").read_bytes(), type=TableRecord)
    return store, store.table_of(entry)


if __name__ == "__main__":
    main()
