"""Intersection of two parties in two processes of this machine, without a network.

    python benchmarks/psi.py [ids ...]        (default 100000; half of the ids are in common)

Prints per party: ids per second of the whole component, the share of time in curve operations,
and peak resident memory. `--cores N` lets each party use N processes.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import queue
import resource
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.base.ids import PartyId
from fedflow.components.psi import ecdh, exchange
from fedflow.components.psi.intersection import Intersection
from fedflow.components.psi.params import IntersectionParams
from fedflow.sdk import Context, Inputs, Role, Site
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tracker import RecordingTracker

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))


class PipeFederation:
    """Two parties over a pipe; values come in the order they were sent or are kept aside."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._kept: dict[str, Any] = {}
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._push, name="pipe", daemon=True)
        self._thread.start()

    def _push(self) -> None:
        while (data := self._outgoing.get()) is not None:
            self._pipe.send_bytes(data)

    def close(self) -> None:
        """Wait until all is sent."""
        self._outgoing.put(None)
        self._thread.join()

    def send(self, name: str, value: Any, *, to: Any, tag: str = "") -> None:
        kind = "bytes" if isinstance(value, bytes) else "json"
        if isinstance(value, np.ndarray):
            kind, value = "int64", value.tobytes()
        self._outgoing.put(json.dumps([name, kind]).encode())
        self._outgoing.put(value if isinstance(value, bytes) else json.dumps(value).encode())

    def recv(self, name: str, *, from_: Site, tag: str = "", timeout_s: float | None = None) -> Any:
        while name not in self._kept:
            given, kind = json.loads(self._pipe.recv_bytes())
            data = self._pipe.recv_bytes()
            if kind == "json":
                self._kept[given] = json.loads(data)
            else:
                self._kept[given] = np.frombuffer(data, "<i8") if kind == "int64" else data
        return self._kept.pop(name)

    def recv_all(self, name: str, *, from_: Sequence[Site], tag: str = "", **_: Any) -> list[Any]:
        return [self.recv(name, from_=site, tag=tag) for site in from_]


class TimedBlinder(ecdh.Blinder):
    """Adds up the seconds spent in curve operations."""

    seconds = 0.0

    def blind_ids(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed(super().blind_ids, *args, **kwargs)

    def blind_points(self, *args: Any, **kwargs: Any) -> Any:
        return self._timed(super().blind_points, *args, **kwargs)

    @staticmethod
    def _timed(call: Any, *args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            TimedBlinder.seconds += time.perf_counter() - begun


def party(site: Site, count: int, cores: int, pipe: Connection, report: Connection) -> None:
    exchange.Blinder = TimedBlinder  # type: ignore[misc]
    first = 0 if site is GUEST else count // 2
    store = MemoryTableStore()
    rng = np.random.default_rng(1)
    numbers = rng.permutation(np.arange(first, first + count))
    table = store.add(
        {
            "id": pa.array(numbers).cast(pa.string()),
            "x0": pa.array(numbers.astype(np.float64)),
        }
    )
    federation = PipeFederation(pipe)
    with tempfile.TemporaryDirectory() as folder:
        ctx = Context(
            job_id="benchmark",
            component="intersection_0",
            task_version=0,
            site=site,
            sites=(GUEST, HOST),
            params=IntersectionParams(),
            inputs=Inputs(data={"data": [("reader_0", table)]}, model={}),
            federation=federation,
            tracker=RecordingTracker(),
            checkpoints=MemoryCheckpoints(),
            tables=store,
            work_dir=Path(folder),
            cores=cores,
            log=logging.getLogger("benchmark"),
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        begun = time.perf_counter()
        outputs = Intersection().run(ctx)
        wall = time.perf_counter() - begun
    federation.close()
    assert outputs.summary["intersect_num"] == count - count // 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report.send_bytes(
        json.dumps([str(site), wall, TimedBlinder.seconds, before / 1024, peak / 1024]).encode()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", type=int, nargs="*", default=[100_000])
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    fork = multiprocessing.get_context("fork")
    print("party         ids       wall s   ids/s    curve %  MiB before  MiB peak")
    for count in options.ids:
        one, other = fork.Pipe()
        receive, report = fork.Pipe(duplex=False)
        parties = [
            fork.Process(target=party, args=(site, count, options.cores, pipe, report))
            for site, pipe in ((GUEST, one), (HOST, other))
        ]
        for process in parties:
            process.start()
        report.close()  # so that the end of both parties ends the wait
        for _ in parties:
            if not receive.poll(3600):
                raise TimeoutError("a party did not report within an hour")
            site, wall, curve, before, peak = json.loads(receive.recv_bytes())
            print(
                f"{site:12} {count:9,}  {wall:7.1f}  {count / wall:7,.0f}"
                f"  {100 * curve / wall:6.1f}  {before:10.0f}  {peak:8.0f}"
            )
        for process in parties:
            process.join()


if __name__ == "__main__":
    main()
