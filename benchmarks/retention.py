"""What many jobs leave with retention on: disk, database, files and memory after 100 and after N.

    .venv/bin/python benchmarks/retention.py [--jobs 1000] [--first 100] [--json]

Each job is Reader, DataTransform and Empty at guest and host, over a table of 569 rows. Jobs that
ended 5 s ago are deleted; before each look at the numbers all of them are gone. The server's own
log is left out: `log.max_mib` bounds it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burst import run_jobs
from figures import Figure, Machine, arguments, show
from parties import Parties, Party, memory_of, two_parties, wait_for

from fedflow.cli.demo_servers import GUEST, HOST

AGE_S = 5.0
AT_ONCE = 50  #: jobs
DATA = Path(__file__).parents[1] / "examples" / "data"
SETTINGS = {
    "FEDFLOW__RETENTION__JOBS_DAYS": f"{AGE_S / 86_400:.7f}",
    "FEDFLOW__RETENTION__STATUS": "[success]",  # one that fails stays, and is noticed
}


@dataclass(frozen=True, kw_only=True)
class State:
    """What one party has; sizes in KiB."""

    disk: float  #: below the home, without database and the server's own log
    database: float  #: the file and its log
    used: float  #: pages of it that hold something
    files: int  #: and folders
    memory: float  #: PSS of server and zygote


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--kept", type=int, default=10, help="jobs whose size is measured")
    options = parser.parse_args()
    machine = Machine()
    with settings(SETTINGS), two_parties() as parties:
        upload(parties)
        begin = look(parties.guest)
        run_jobs(parties, options.kept, JOB)
        full = look(parties.guest)
        run(parties, options.first - options.kept)
        first = look(parties.guest)
        run(parties, options.jobs - options.first)
        last = look(parties.guest)
    per_job = {
        name: (getattr(full, name) - getattr(begin, name)) / options.kept
        for name in ("disk", "used", "files")
    }
    figures = [
        figure
        for name, what, unit in (
            ("disk", "disk without database", "KiB"),
            ("database", "database file and its log", "KiB"),
            ("used", "used pages of the database", "KiB"),
            ("files", "files and folders", ""),
            ("memory", "server and zygote, PSS", "KiB"),
        )
        for figure in (
            Figure(what=f"{what}, empty", unit=unit, values=[getattr(begin, name)]),
            Figure(what=f"... after {options.first} jobs", unit=unit,
                   values=[getattr(first, name)]),
            Figure(what=f"... after {options.jobs} jobs", unit=unit, values=[getattr(last, name)],
                   budget=1.1 * getattr(first, name)),
        )
    ]  # fmt: skip
    figures += [
        Figure(what=f"a job that is kept: {what}", unit=unit, values=[per_job[name]])
        for name, what, unit in (
            ("disk", "disk without database", "KiB"),
            ("used", "pages of the database", "KiB"),
            ("files", "files and folders", ""),
        )
    ]
    show(f"Retention, {options.jobs} jobs x 3 tasks, at the guest", figures,
         as_json=options.json, machine=machine)  # fmt: skip


@contextmanager
def settings(values: Mapping[str, str]) -> Any:
    """Give settings to the servers that are started inside."""
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]


def run(parties: Parties, jobs: int) -> None:
    """Run jobs, so many at once as a busy server has; wait until they were deleted."""
    while jobs > 0:
        run_jobs(parties, min(AT_ONCE, jobs), JOB)
        jobs -= AT_ONCE
    forgotten(parties)


def upload(parties: Parties) -> None:
    """Give each party its table; wait until the job that made it was deleted."""
    for party, name in ((parties.guest, "guest"), (parties.host, "host")):
        done = party.client.upload(
            DATA / f"breast_hetero_{name}.csv", namespace="bench", table_name="rows"
        )
        party.client.wait(done.job_id, timeout_s=60)
    forgotten(parties)


def job() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf: a table is read, made numeric, and passed on."""
    components = {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "empty_0": {
            "module": "Empty",
            "input": {"data": {"data": ["data_transform_0.data"]}},
            "output": {"data": ["data"]},
        },
    }
    reads = {"table": {"namespace": "bench", "name": "rows"}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST)},
        "role": {"guest": [int(GUEST)], "host": [int(HOST)]},
        "job_parameters": {"common": {"job_type": "train", "task_cores": 1}},
        "component_parameters": {
            "role": {
                "guest": {"0": {"reader_0": reads, "data_transform_0": {"with_label": True}}},
                "host": {"0": {"reader_0": reads, "data_transform_0": {"with_label": False}}},
            },
            "common": {"data_transform_0": {"output_format": "dense"}},
        },
    }
    return {"components": components}, conf


JOB = job()


def forgotten(parties: Parties) -> None:
    """Wait until no job is left at either party."""
    parties.settle()
    for party in parties.all:
        wait_for(lambda party=party: count(party) == 0, what="old jobs to be deleted", pause_s=0.2)
    time.sleep(1)  # the files of the last one go after its rows


def count(party: Party) -> int:
    with party.database() as database:
        return int(database.execute("SELECT COUNT(*) FROM t_job").fetchone()[0])


def look(party: Party) -> State:
    """Return what a party has now."""
    database = disk = files = 0
    for folder, folders, names in os.walk(party.home):
        files += len(folders) + len(names)
        if folder.endswith("/server-logs"):
            continue  # `log.max_mib` bounds it
        for name in names:
            size = size_of(Path(folder) / name)
            if name.startswith("fedflow.sqlite"):
                database += size
            else:
                disk += size
    with party.database() as connection:
        pages, free, page = (
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
    pids = [party.process.pid, *(child.pid for child in party.children())]
    return State(
        disk=disk / 1024,
        database=database / 1024,
        used=(pages - free) * page / 1024,
        files=files,
        memory=memory_of(pids).pss * 1024,
    )


def size_of(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0  # it went meanwhile


if __name__ == "__main__":
    main()
