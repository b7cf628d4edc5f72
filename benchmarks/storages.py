"""Reading a bound table into a job, from MariaDB and Parquet: wall, memory, ratio to reading alone.

    python benchmarks/storages.py [--rows 1000000] [--folder DIR] [--only mysql,parquet,s3] [--json]

Six columns: id, two DOUBLE, BIGINT, DECIMAL, VARCHAR. Each read runs in a process of its own, so
that its peak memory (anonymous, as mapped files are the system's cache) is its own. Beside it
stands what the library takes to read the same rows into nothing: `pymysql` with a streaming cursor,
whose values become Python's, and `pyarrow.parquet` in batches on one thread. A job's read also
turns numbers into text, compares ids, counts statistics and writes the table's file.

MariaDB is the one at FEDFLOW_TEST_MYSQL or 127.0.0.1:3306; a database is made there and dropped. S3
is moto's server in another process: it shows the protocol's cost, not that of a real store.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
from figures import Figure, Machine, arguments, show
from pyarrow import parquet
from pymysql.cursors import SSCursor

from fedflow.domain.data.storages import Connection, LocalFiles, MysqlRows, S3Files, Secrets
from fedflow.domain.records import TableRecord
from fedflow.tables.catalog import TableOrigin, schema_to_json
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.local import LocalTableStore
from fedflow.tables.storages.opening import open_rows
from fedflow.testing.tables import MemoryCatalog

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.storage_servers import MysqlDatabase, S3Server, mysql_database, s3_server

AT_ONCE = 200_000
FILES = 4
MEMORY_MIB = 200.0  #: beyond what the process has that has imported the libraries
RATIOS = {"mysql": 2.0, "parquet": 20.0, "s3": 20.0}


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where files are made [a temporary folder]")
    parser.add_argument("--only", default="mysql,parquet,s3")
    given = parser.parse_args()
    logging.disable(logging.INFO)
    machine = Machine()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        make_files(folder / "set", given.rows)
        for kind in given.only.split(","):
            figures += KINDS[kind](folder, given.rows)
    note = f"{given.rows:,} rows, 6 columns."
    show("Reading bound tables", figures, as_json=given.json, machine=machine, note=note)


# --- what is read ---------------------------------------------------------------------------------


def of_mysql(folder: Path, rows: int) -> list[Figure]:
    with mysql_database() as database:
        fill(database, rows)
        address = MysqlRows(
            host=database.host, port=database.port, db=database.database, name="bench"
        )
        secrets = Secrets(user=database.user, password=database.password)
        connection = Connection(address=address, secrets=secrets)
        alone = run(mysql_alone, database)
        return figures_of("mysql", rows, alone, run(job_read, folder / "m", connection))


def of_parquet(folder: Path, rows: int) -> list[Figure]:
    connection = Connection(address=LocalFiles(path=str(folder / "set")))
    alone = run(parquet_alone, folder / "set")
    return figures_of("parquet", rows, alone, run(job_read, folder / "p", connection))


def of_s3(folder: Path, rows: int) -> list[Figure]:
    with server_apart() as server:
        server.files.create_dir("bucket")
        for path in sorted((folder / "set").iterdir()):
            with server.files.open_output_stream(f"bucket/set/{path.name}") as sink:
                sink.write(path.read_bytes())
        address = S3Files(bucket="bucket", path="set", endpoint=server.endpoint)
        keys = Secrets(access_key=server.access_key, secret_key=server.secret_key)
        connection = Connection(address=address, secrets=keys)
        alone = run(parquet_alone, folder / "set")
        return figures_of("s3", rows, alone, run(job_read, folder / "s", connection))


KINDS: dict[str, Callable[[Path, int], list[Figure]]] = {
    "mysql": of_mysql,
    "parquet": of_parquet,
    "s3": of_s3,
}
Cost = tuple[float, float]  #: seconds, MiB


def figures_of(kind: str, rows: int, alone: Cost, job: Cost) -> list[Figure]:
    ratio = job[0] / alone[0]
    return [
        Figure(what=f"{kind}: the library alone", unit="s", values=[alone[0]]),
        Figure(what=f"{kind}: into a job's table", unit="s", values=[job[0]]),
        Figure(what=f"{kind}: rows per second", unit="", values=[rows / job[0]]),
        Figure(what=f"{kind}: ratio", unit="x", values=[ratio], budget=RATIOS[kind]),
        Figure(what=f"{kind}: memory of it", unit="MiB", values=[job[1]], budget=MEMORY_MIB),
    ]


def make_files(folder: Path, rows: int) -> None:
    """Write a data set of some Parquet files."""
    folder.mkdir()
    random = np.random.default_rng(1)
    cuts = [rows * i // FILES for i in range(FILES + 1)]
    for number, (first, last) in enumerate(pairwise(cuts)):
        writer: Any = None
        for start in range(first, last, AT_ONCE):
            count = min(AT_ONCE, last - start)
            table = pa.table(
                {
                    "id": [f"u{start + i:09d}" for i in range(count)],
                    "a": np.round(random.normal(size=count), 6),
                    "b": random.normal(size=count),
                    "n": random.integers(0, 1000, count),
                    "m": np.round(random.normal(size=count), 2),
                    "w": [f"word{i % 97}" for i in range(count)],
                }
            )
            writer = writer or parquet.ParquetWriter(folder / f"{number}.parquet", table.schema)
            writer.write_table(table)
        writer.close()


def fill(database: MysqlDatabase, rows: int) -> None:
    """Make the table `bench` in the database itself."""
    database.run(
        "CREATE TABLE bench (id VARCHAR(20) PRIMARY KEY, a DOUBLE, b DOUBLE, n BIGINT,"
        " m DECIMAL(10,2), w VARCHAR(20)) ENGINE=InnoDB"
    )
    for start in range(1, rows + 1, AT_ONCE):
        end = min(rows, start + AT_ONCE - 1)
        database.run(
            "INSERT INTO bench SELECT CONCAT('u', LPAD(seq, 9, '0')), ROUND(RAND(1) - 0.5, 6),"
            " RAND(2), seq % 1000, seq % 997 / 7, CONCAT('word', seq % 97)"
            f" FROM seq_{start}_to_{end}"
        )


@contextmanager
def server_apart() -> Iterator[S3Server]:
    """Run moto's server in a process of its own."""
    receiver, sender = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(sender,))
    process.start()
    try:
        yield receiver.recv()
    finally:
        receiver.send("end")
        process.join()


def _serve(pipe: Any) -> None:
    logging.disable(logging.INFO)
    with s3_server() as server:
        pipe.send(server)
        pipe.recv()


# --- how it is read -------------------------------------------------------------------------------


def run(function: Callable[..., None], *given: Any) -> Cost:
    """Run a function in a new process and return the seconds and the memory that it took."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=_child, args=(sender, function, given)
    )
    process.start()
    sender.close()
    cost: Cost = receiver.recv()
    process.join()
    return cost


def _child(sender: Any, function: Callable[..., None], given: tuple[Any, ...]) -> None:
    logging.disable(logging.INFO)
    pa.set_cpu_count(1)
    before = _anonymous_mib()
    peak = _Peak()
    started = time.perf_counter()
    function(*given, peak)
    sender.send((time.perf_counter() - started, float(max(0, peak.mib - before))))


class _Peak:
    """The greatest anonymous memory seen."""

    def __init__(self) -> None:
        self.mib = 0

    def __call__(self, *_: object) -> None:
        self.mib = max(self.mib, _anonymous_mib())


def _anonymous_mib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) >> 10
    raise RuntimeError("this system does not tell RssAnon")


def mysql_alone(database: MysqlDatabase, peak: _Peak) -> None:
    """Read all rows with a streaming cursor."""
    connection = pymysql.connect(
        host=database.host, port=database.port, user=database.user, password=database.password,
        database=database.database,
    )  # fmt: skip
    with connection, connection.cursor(SSCursor) as cursor:
        cursor.execute("SELECT * FROM bench")
        while cursor.fetchmany(10_000):
            peak()


def parquet_alone(folder: Path, peak: _Peak) -> None:
    """Read all rows in batches."""
    for path in sorted(folder.iterdir()):
        for _batch in parquet.ParquetFile(path).iter_batches(use_threads=False):
            peak()


def job_read(folder: Path, connection: Connection, peak: _Peak) -> None:
    """Read as a Reader does."""
    with open_rows(connection, CsvOptions(), where="bench") as source:
        schema = source.schema
    catalog = MemoryCatalog()
    entry = TableRecord(
        namespace="n", name="t", address="0" * 32, schema=schema_to_json(schema),
        count=0, partitions=1, id_delimiter=",", have_head=True, extend_sid=False,
        origin=TableOrigin.BIND, preview=(),
        created_ms=1, engine=connection.address.engine, storage={"address": {}},
    )  # fmt: skip
    catalog.register(entry)
    catalog.put_connection("n", "t", connection)
    store = LocalTableStore(folder, catalog=catalog, output_namespace="o")
    table = store.open_watched("n", "t", peak)
    print(json.dumps({"rows": table.count}), file=sys.stderr)


if __name__ == "__main__":
    main()
