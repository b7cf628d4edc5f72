"""What a second core does for the encrypted arithmetic of the linear models.

    .venv/bin/python benchmarks/linear_cores.py [--rows 100000] [--columns 10] [--bits 1024]
        [--runs 3] [--cores 1 2] [--no-training] [--memory]

First one party's two large steps: encrypting a number per row, and the inner products of a message
with all columns (checking its ciphertexts included). Then a whole iteration of HeteroLR over all
rows in one batch, three roles as threads of one process, each with these cores: guest and host work
at the same time for most of it, so on a machine of two cores they already use both. CPU is that of
this process and its forked children; what this process has of it bounds the time on a machine that
nobody else uses. `--memory` shows, instead of times, the highest PSS of this process and the USS of
its children while a party encrypts and multiplies.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from fedflow.components.linear.arithmetic import encode_features
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import Inputs, Role, Site, TableKind, TableSchema
from fedflow.sdk.crypto.encrypted_rows import (
    IntegerRows,
    column_sums,
    encrypt_integers,
)
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

SITES = (Site(Role.GUEST, "9999"), Site(Role.HOST, "10000"), Site(Role.ARBITER, "10001"))
FIXED = FixedPoint(bits=23)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=10, help="of each party")
    parser.add_argument("--bits", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--no-training", action="store_true")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    key = PrivateKey.generate(options.bits).public
    key.prepare()
    if options.memory:
        memory(key, options)
        return
    features = np.random.default_rng(0).normal(size=(options.rows, options.columns))
    steps: dict[str, Callable[[int], Any]] = {
        "encrypt": lambda cores: encrypt(key, features, cores),
        "inner products": products(key, features),
    }
    if not options.no_training:
        steps["HeteroLR, 1 iteration"] = training(options)
    for name, step in steps.items():
        for cores in options.cores:
            measured = [timed(step, cores) for _ in range(options.runs)]
            wall, here, cpu = map(statistics.median, zip(*measured, strict=True))
            print(f"{name:24} {cores} cores: {wall:7.2f} s wall, {cpu:7.2f} s CPU, {here:.2f} here")


def encrypt(key: PublicKey, features: np.ndarray, cores: int) -> bytes:
    residuals = FIXED.encode(features[:, 0], limit_bits=30, what="residuals")
    return encrypt_integers(LocalWorkers(cores), key, residuals)


def products(key: PublicKey, features: np.ndarray) -> Callable[[int], Any]:
    payload = message(key, len(features))
    names = [str(i) for i in range(features.shape[1])]
    encoded = encode_features(features, fixed=FIXED, columns=names)

    def step(cores: int) -> Any:
        workers = LocalWorkers(cores)
        return column_sums(workers, key, payload, IntegerRows.of(encoded, workers))

    return step


def message(key: PublicKey, rows: int) -> bytes:
    """Return a message of as many ciphertexts, quickly: few are different."""
    some = key.rows_of(encrypt_integers(LocalWorkers(1), key, np.arange(500)), count=500)
    return key.message_of(np.resize(some, (rows, key.width)))


def training(options: argparse.Namespace) -> Callable[[int], Any]:
    ids = [f"id{i:08}" for i in range(options.rows)]
    rng = np.random.default_rng(1)
    inputs = {SITES[2]: Inputs(data={"train_data": [("up", None)]}, model={})}
    for site in SITES[:2]:
        label = {"y": rng.integers(0, 2, options.rows)} if site.role is Role.GUEST else {}
        columns = {f"x{i}": rng.normal(size=options.rows) for i in range(options.columns)}
        schema = TableSchema(
            kind=TableKind.INSTANCES, id="id", label="y" if label else None, columns=tuple(columns)
        )
        table = MemoryTableStore().add(pa.table({"id": ids, **label, **columns}), schema=schema)
        inputs[site] = Inputs(data={"train_data": [("up", table)]}, model={})
    params = {
        "max_iter": 1,
        "shuffle": False,
        "masked_rate": 0,
        "encrypt_param": {"key_length": options.bits},
        "init_param": {"init_method": "zeros"},
    }

    def step(cores: int) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            found = run_component(
                HeteroLR,
                sites=SITES,
                work_dir=Path(folder),
                params=dict.fromkeys(SITES, params),
                inputs=inputs,
                cores=cores,
                timeout_s=3600.0,
            )
            return outputs_of(found)

    return step


def timed(step: Callable[[int], Any], cores: int) -> tuple[float, float, float]:
    """Return seconds of a step: wall, CPU of this process, CPU of its children too."""
    start_s, (own_s, all_s) = time.perf_counter(), cpu_s()
    step(cores)
    now_own_s, now_all_s = cpu_s()
    return time.perf_counter() - start_s, now_own_s - own_s, now_all_s - all_s


def cpu_s() -> tuple[float, float]:
    """Return the CPU seconds of this process, and with those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, children = (u.ru_utime + u.ru_stime for u in used)
    return own, own + children


def memory(key: PublicKey, options: argparse.Namespace) -> None:
    """Show the highest PSS of each step; a tenth of the rows is worked on, all are in memory."""
    part = slice(0, options.rows // 10)
    show("imported", lambda: None)
    features = np.random.default_rng(0).normal(size=(options.rows, options.columns))
    show("features", lambda: None)
    names = [str(i) for i in range(options.columns)]
    encoded: list[Any] = []
    show(
        "encode",
        lambda: encoded.append(encode_features(features, fixed=FIXED, columns=names)),
    )
    payload = message(key, options.rows)
    show("message", lambda: None)
    head = key.message_of(key.rows_of(payload, count=options.rows)[part])
    for cores in options.cores:
        workers = LocalWorkers(cores)
        matrix = IntegerRows.of(encoded[0], workers)
        residuals = FIXED.encode(features[part, 0], limit_bits=30, what="residuals")
        show(f"encrypt, {cores} cores", lambda: encrypt_integers(workers, key, residuals))  # noqa: B023
        rows = matrix.select(part)
        show(f"products, {cores} cores", lambda: column_sums(workers, key, head, rows))  # noqa: B023


def show(name: str, step: Callable[[], Any]) -> None:
    """Print the highest PSS of this process during a step, and what children have alone."""
    stop, peaks = threading.Event(), [0.0, 0.0]

    def sample() -> None:
        own = psutil.Process()
        while True:
            children = 0.0
            for child in own.children():
                try:
                    children += child.memory_full_info().uss
                except psutil.Error:
                    continue
            peaks[0] = max(peaks[0], own.memory_full_info().pss / 2**20)
            peaks[1] = max(peaks[1], children / 2**20)
            if stop.wait(0.05):
                return

    thread = threading.Thread(target=sample, name="sampler")
    thread.start()
    try:
        step()
    finally:
        stop.set()
        thread.join()
    print(f"{name:24} {peaks[0]:7.0f} MiB here, {peaks[1]:7.0f} MiB in children")


if __name__ == "__main__":
    main()
