"""Intersection of two parties in two processes of this machine, without a network.

    python benchmarks/psi.py [ids ...] [--method ecdh,dh,rsa] [--cores N] [--key-length BITS]

Half of the ids are in common. Per party: seconds, ids per second, CPU seconds of the whole
component with its children, CPU seconds that its operations alone take (multiplications and maps on
the curve, or powers; measured in the same process before and after), their ratio, and peak resident
memory.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import queue
import resource
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gmpy2
import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from gmpy2 import mpz

from fedflow.base.ids import PartyId
from fedflow.components.intersection.blind_rsa import EXPONENT, SigningKey
from fedflow.components.intersection.curve import FIELD, elligator2
from fedflow.components.intersection.intersection import Intersection
from fedflow.components.intersection.params import IntersectionParams
from fedflow.components.intersection.prime_group import GROUPS, group_bits, prime_of
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Context, Inputs, Role, Site, check_params
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


SAMPLES = 1_000


def alone(method: str, bits: int) -> dict[Site, float]:
    """Return the CPU seconds of one id's operations at each party, without anything around."""
    if method == "ecdh":
        key, points = X25519PrivateKey.generate(), [os.urandom(31) + b"\1" for _ in range(SAMPLES)]
        elements = [mpz(secrets.randbelow(int(FIELD))) for _ in range(SAMPLES)]
        load = X25519PublicKey.from_public_bytes
        multiply = timed(lambda: [key.exchange(load(point)) for point in points])
        both = 2 * multiply + timed(lambda: [elligator2(element) for element in elements])
        return {GUEST: both, HOST: both}
    if method == "dh":
        size = group_bits(bits)
        prime, exponent = prime_of(size), secrets.randbits(GROUPS[size][1])
        values = [mpz(secrets.randbelow(int(prime))) for _ in range(SAMPLES)]
        both = 2 * timed(lambda: gmpy2.powmod_base_list(values, exponent, prime))
        return {GUEST: both, HOST: both}
    key = SigningKey.generate(bits)
    values = [mpz(secrets.randbelow(int(key.n))) for _ in range(SAMPLES)]
    halves = [(p, gmpy2.invert(EXPONENT, p - 1), [v % p for v in values]) for p in (key.p, key.q)]
    sign = sum(timed(lambda h=h: gmpy2.powmod_base_list(h[2], h[1], h[0])) for h in halves)
    check = timed(lambda: gmpy2.powmod_base_list(values, EXPONENT, key.n))
    invert = timed(lambda: [gmpy2.invert(value, key.n) for value in values])
    return {GUEST: 2 * check + invert, HOST: 2 * (sign + check)}


def timed(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return (time.process_time() - begun) / SAMPLES


def cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def party(
    site: Site,
    count: int,
    method: str,
    bits: int,
    cores: int,
    pipe: Connection,
    report: Connection,
) -> None:
    chosen = {"intersect_method": method}
    if method != "ecdh":
        chosen[f"{method}_params"] = {"key_length": bits}
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
            params=check_params(IntersectionParams, chosen, path="$"),
            inputs=Inputs(data={"data": [("reader_0", table)]}, model={}),
            federation=federation,
            tracker=RecordingTracker(),
            checkpoints=MemoryCheckpoints(),
            tables=store,
            work_dir=Path(folder),
            cores=cores,
            workers=LocalWorkers(cores),
            log=logging.getLogger("benchmark"),
        )
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        operations = alone(method, bits)[site]
        begun, used = time.perf_counter(), cpu_s()
        outputs = Intersection().run(ctx)
        wall, used = time.perf_counter() - begun, cpu_s() - used
        operations = count * (operations + alone(method, bits)[site]) / 2
    federation.close()
    assert outputs.summary["intersect_num"] == count - count // 2
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report.send_bytes(
        json.dumps([str(site), wall, used, operations, before / 1024, peak / 1024]).encode()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", type=int, nargs="*", default=[100_000])
    parser.add_argument("--method", default="ecdh", help="several with commas")
    parser.add_argument("--key-length", type=int, default=2048)
    parser.add_argument("--cores", type=int, default=1)
    options = parser.parse_args()
    print(
        "method party               ids       wall s   ids/s    cpu s  alone s   ratio"
        "  MiB before  MiB peak"
    )
    for method in options.method.split(","):
        for count in options.ids:
            run(method, count, options)


def run(method: str, count: int, options: argparse.Namespace) -> None:
    fork = multiprocessing.get_context("fork")
    one, other = fork.Pipe()
    receive, report = fork.Pipe(duplex=False)
    parties = [
        fork.Process(
            target=party,
            args=(site, count, method, options.key_length, options.cores, pipe, report),
        )
        for site, pipe in ((GUEST, one), (HOST, other))
    ]
    for process in parties:
        process.start()
    report.close()  # so that the end of both parties ends the wait
    for _ in parties:
        if not receive.poll(3600):
            raise TimeoutError("a party did not report within an hour")
        site, wall, used, operations, before, peak = json.loads(receive.recv_bytes())
        print(
            f"{method:6} {site:12} {count:9,}  {wall:9.1f}  {count / wall:7,.0f}  {used:7.1f}"
            f"  {operations:7.1f}  {used / operations:6.2f}  {before:10.0f}  {peak:8.0f}"
        )
    for process in parties:
        process.join()


if __name__ == "__main__":
    main()
