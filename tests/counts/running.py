"""Counts of two real servers: when they have started, and per task run of a chain of ten.

The hooks (`hooks/sitecustomize.py`) are installed by PYTHONPATH, nothing in the product knows of
them. Threads that do something now and then are slowed down by settings, and nobody asks for the
job's status while it runs, so that the counts are those of the job. Packages that
fedflow does not need are hidden from the servers.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.servers import GUEST_ID, HOST_ID, ROOT, Pair, Party, two_parties, wait_for

LENGTH = 10
CHAINS = 4  #: measured; the least of their counts is taken, since what others do only ever adds
QUIET = {
    "FEDFLOW__SCHEDULING__TICK_INTERVAL_S": "60",
    "FEDFLOW__SCHEDULING__DETECT_INTERVAL_S": "60",
    "FEDFLOW__SCHEDULING__HEARTBEAT_S": "60",
    "FEDFLOW__SCHEDULING__LEASE_S": "600",
}

Counts = dict[str, dict[str, float]]  #: section -> name -> number


@dataclass(frozen=True, kw_only=True)
class Side:
    """What one party's processes have done so far; `workers` are those that have ended."""

    server: Mapping[str, int]
    zygote: Mapping[str, int]
    workers: tuple[Mapping[str, int], ...]
    files: int
    folders: int

    def total(self, name: str) -> int:
        return sum(record[name] for record in (self.server, self.zygote, *self.workers))


class CountedPair:
    """Two servers whose processes count."""

    def __init__(self, pair: Pair, hooks: Path) -> None:
        self._pair = pair
        self._records = hooks / "records"

    def sides(self) -> tuple[Side, Side]:
        """Return what guest and host have done; both are idle."""
        return self._side(self._pair.guest), self._side(self._pair.host)

    def run_chain(self) -> None:
        """Run a chain of ten tasks and wait, without asking a server, until all is quiet."""
        sent = self._pair.guest.client.submit(*chain(LENGTH))
        what = f"the end of {sent.job_id}"
        wait_for(lambda: self._has_ended(sent.job_id), what, within_s=120.0)

    def _has_ended(self, job_id: str) -> bool:
        return all(
            _job_statuses(party, job_id) == {"success"} and _is_quiet(party)
            for party in self._pair.all
        )

    def _side(self, party: Party) -> Side:
        assert party.process is not None
        server = self._record(party.process.pid)
        (zygote,) = psutil.Process(party.process.pid).children()
        own = self._record(zygote.pid)
        ended = (json.loads(path.read_text()) for path in self._records.glob("*.json"))
        workers = tuple(record for record in ended if record["parent"] == zygote.pid)
        files, folders = _entries(party.home)
        return Side(server=server, zygote=own, workers=workers, files=files, folders=folders)

    def _record(self, pid: int) -> Mapping[str, int]:
        """Let a process write what it has counted, and return that."""
        path = self._records / f"{pid}.json"
        path.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR2)
        wait_for(path.exists, f"the counts of process {pid}")
        found: Mapping[str, int] = json.loads(path.read_text())
        return found


def counted(folder: Path) -> Counts:
    """Start two servers below `folder`, run chains, and return all counts."""
    hooks, homes = folder / "hooks", folder / "homes"
    (hooks / "records").mkdir(parents=True)
    homes.mkdir()
    shutil.copy(Path(__file__).parent / "hooks" / "sitecustomize.py", hooks)
    (hooks / "hidden.txt").write_text("\n".join(sorted(hidden_packages())))
    (hooks / "home.txt").write_text(str(homes))
    settings = {**QUIET, "PYTHONPATH": os.pathsep.join((str(hooks), str(ROOT)))}
    with two_parties(homes, settings=settings) as pair:
        parties = CountedPair(pair, hooks)
        started = parties.sides()
        for _ in range(2):  # what is loaded or made once
            parties.run_chain()
        rows: list[tuple[dict[str, float], dict[str, float]]] = []
        before = parties.sides()
        for _ in range(CHAINS):
            parties.run_chain()
            after = parties.sides()
            rows.append((_per_run(before, after, 0), _per_run(before, after, 1)))
            before = after
    return {
        "start": _at_start(started),
        "chain_guest": _least(guest for guest, _ in rows),
        "chain_host": _least(host for _, host in rows),
    }


def _at_start(sides: tuple[Side, Side]) -> dict[str, float]:
    """Return the counts of one server that has started, of the larger of the two."""
    numbers = [
        {
            "own_modules": side.server["own_modules"],
            "modules": side.server["modules"],
            "own_dataclasses": side.server["own_dataclasses"],
            "dataclasses": side.server["dataclasses"],
            "structs": side.server["structs"],
            "threads": side.server["threads"],
            # whoever asks whether a server is ready lets it write, every few seconds
            "writes": side.server["writes"] - side.server["looks"],
            "changes": side.server["changes"] - side.server["looks"],
            "files": side.files,
            "folders": side.folders,
            "zygote_own_modules": side.zygote["own_modules"],
            "zygote_modules": side.zygote["modules"],
            "zygote_own_dataclasses": side.zygote["own_dataclasses"],
            "zygote_anonymous_kib": side.zygote["anonymous_kib"],
        }
        for side in sides
    ]
    return {name: max(one[name] for one in numbers) for name in numbers[0]}


def _per_run(before: tuple[Side, Side], after: tuple[Side, Side], index: int) -> dict[str, float]:
    """Return what one task run of a chain took at one side."""
    old, new, other_old, other_new = (
        before[index], after[index], before[1 - index], after[1 - index]
    )  # fmt: skip

    def done(name: str) -> float:
        return (new.total(name) - old.total(name)) / LENGTH

    workers = [w for w in new.workers if w not in old.workers]
    return {
        "transactions": done("transactions"),
        "writes": done("writes"),
        "statements": done("statements"),
        "calls": (other_new.server["calls"] - other_old.server["calls"]) / LENGTH,
        "opens": done("opens"),
        "creates": done("creates"),
        "mkdirs": done("mkdirs"),
        "files": (new.files - old.files) / LENGTH,
        "folders": (new.folders - old.folders) / LENGTH,
        "forks": done("forks"),
        "worker_modules": max(w["modules"] for w in workers),
        "worker_faults": sum(w["faults"] for w in workers) / len(workers),
        "worker_anonymous_kib": sum(w["anonymous_kib"] for w in workers) / len(workers),
        "worker_page_tables_kib": sum(w["page_tables_kib"] for w in workers) / len(workers),
        "server_own_modules": new.server["own_modules"],
        "threads": new.server["threads"],
    }


def _least(rows: Iterator[dict[str, float]]) -> dict[str, float]:
    first, *others = rows
    return {name: min(row[name] for row in (first, *others)) for name in first}


# --- parties --------------------------------------------------------------------------------------


def chain(length: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of tasks `Empty` at guest and host, one after the other."""
    components: dict[str, Any] = {}
    for i in range(length):
        components[f"empty_{i}"] = {"module": "Empty", "output": {"data": ["data"]}}
        if i:
            components[f"empty_{i}"]["input"] = {"data": {"data": [f"empty_{i - 1}.data"]}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST_ID)},
        "role": {"guest": [int(GUEST_ID)], "host": [int(HOST_ID)]},
        "job_parameters": {"common": {"job_type": "train", "task_cores": 1}},
    }
    return {"components": components}, conf


def _is_quiet(party: Party) -> bool:
    """Tell whether nothing waits to be sent and no worker is left."""
    assert party.process is not None
    below = psutil.Process(party.process.pid).children(recursive=True)
    return len(below) == 1 and _ask(party, "SELECT COUNT(*) FROM t_outbox") == [(0,)]


def _job_statuses(party: Party, job_id: str) -> set[str]:
    rows = _ask(party, "SELECT f_status FROM t_job WHERE f_job_id = ?", job_id)
    return {str(status) for (status,) in rows}


def _ask(party: Party, sql: str, *values: str) -> list[tuple[Any, ...]]:
    path = party.home / "fedflow.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        return connection.execute(sql, values).fetchall()


def _entries(home: Path) -> tuple[int, int]:
    files = folders = 0
    for _, below, here in os.walk(home):
        folders += len(below)
        files += len(here)
    return files, folders


# --- packages -------------------------------------------------------------------------------------


def hidden_packages() -> set[str]:
    """Return the importable names of all distributions that fedflow does not need."""
    needed = {_normal(name) for name in _closure("fedflow", set())}
    return {
        package
        for package, names in packages_distributions().items()
        if not any(_normal(name) in needed for name in names)
    }


def _closure(name: str, seen: set[str]) -> set[str]:
    """Return a distribution and all that it requires, as far as they are installed."""
    seen.add(_normal(name))
    try:
        required = distribution(name).requires or []
    except PackageNotFoundError:
        return seen
    for line in required:
        requirement, _, marker = line.partition(";")
        if "extra ==" not in marker:
            found = re.match(r"[\w.-]+", requirement.strip())
            assert found is not None, line
            if _normal(found[0]) not in seen:
                _closure(found[0], seen)
    return seen


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
