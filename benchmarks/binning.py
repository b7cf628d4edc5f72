"""HeteroFeatureBinning: the local part against pandas and duckdb, the encrypted part against its
ciphertext operations alone.

    python benchmarks/binning.py [--rows N] [--columns N] [--encrypted-rows N] [--key-bits N]

Local: quantile bins, woe and iv of every column of one table (default 1,000,000 x 50), by the whole
component with `local_only`, by pandas (`cut` at the same quantiles, `crosstab`) and by duckdb
(`quantile_disc`, `GROUP BY`). All read the same Arrow table in memory; their ivs must agree to
1e-3: pandas and duckdb compute ranks in floating point and may be off by one row.
Encrypted: a guest and a host with 10 columns in one process; beside it the same encryptions and
products without anything else. CPU seconds count all threads and children.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from fedflow.base.ids import PartyId
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.crypto.bucket_products import BucketProducts
from fedflow.sdk import Inputs, Role, Site
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
HOST_COLUMNS = 10
BINS = 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--encrypted-rows", type=int, default=100_000)
    parser.add_argument("--key-bits", type=int, default=1024)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    figures = {
        **local(args.rows, args.columns, cores=args.cores),
        **encrypted(args.encrypted_rows, bits=args.key_bits, cores=args.cores),
        "load": os.getloadavg()[0],
    }
    if args.json:
        print(json.dumps(figures))
        return
    print("| what | wall, s | CPU, s |\n|---|---|---|")
    for what, found in figures.items():
        if isinstance(found, tuple):
            print(f"| {what} | {found[0]:.2f} | {found[1]:.2f} |")
        else:
            print(f"| {what} | {found:.2f} | |")


def local(rows: int, columns: int, *, cores: int) -> dict[str, Any]:
    """Return wall and CPU seconds of the three on one table."""
    data = make_table(rows, columns)
    found: dict[str, Any] = {}
    ivs: dict[str, dict[str, float]] = {}
    size = f"{rows:,} x {columns}"
    for what, work in {
        "pandas": lambda: with_pandas(data),
        "duckdb": lambda: with_duckdb(data, cores),
        "fedflow, bins and statistics": lambda: with_fedflow(data, None, cores),
        "fedflow, bin numbers written too": lambda: with_fedflow(data, "bin_num", cores),
    }.items():
        found[f"{size}: {what}"], ivs[what] = measured(work)
    first, *others = ivs.values()
    for other in others:
        np.testing.assert_allclose(list(other.values()), list(first.values()), rtol=1e-3)
    return found


def encrypted(rows: int, *, bits: int, cores: int) -> dict[str, Any]:
    """Return wall and CPU seconds of a guest with a host, and of the arithmetic alone."""
    data = make_table(rows, HOST_COLUMNS)
    tables = {GUEST: data.select(["id", "y", "x0"]), HOST: data.drop_columns(["y"])}

    def federated() -> None:
        params = {"encrypt_param": {"key_length": bits}}
        run(tables, dict.fromkeys(tables, params), cores)

    def arithmetic() -> None:
        key = PrivateKey.generate(bits)
        labels = data["y"].to_numpy()
        ciphertexts = list(key.public.encrypt((labels + 1).tolist()))
        sums = BucketProducts((BINS,) * HOST_COLUMNS, key.public.modulus, rows=rows)
        bins = np.random.default_rng(1).integers(0, BINS, (rows, HOST_COLUMNS))
        sums.add(ciphertexts, bins)
        sums.products()

    what = f"encrypted, {rows:,} x {HOST_COLUMNS}, {bits} bits"
    whole, _ = measured(federated)
    alone, _ = measured(arithmetic)
    return {
        f"{what}: both parties": whole,
        f"{what}: ciphertext operations alone, one core": alone,
        f"{what}: CPU as a multiple of that": whole[1] / alone[1],
    }


def with_fedflow(data: pa.Table, transform: str | None, cores: int) -> dict[str, float]:
    """Return the ivs by the component."""
    params = {"local_only": True, "transform_param": {"transform_type": transform}}
    outputs = run({GUEST: data}, {GUEST: params}, cores)
    ivs = dict(outputs[GUEST].summary["0"]["iv"])
    return {name: ivs[name] for name in data.column_names[2:]}


def with_pandas(data: pa.Table) -> dict[str, float]:
    """Return the ivs by pandas."""
    frame = data.to_pandas()
    labels = frame["y"]
    ivs = {}
    for name in data.column_names[2:]:
        column = frame[name]
        quantiles = np.arange(1, BINS) / BINS
        cuts = column.quantile(quantiles, interpolation="inverted_cdf")
        bins = pd.cut(column, [-np.inf, *cuts.unique(), np.inf], labels=False)
        ivs[name] = iv_of(pd.crosstab(bins, labels).to_numpy())
    return ivs


def with_duckdb(data: pa.Table, cores: int) -> dict[str, float]:
    """Return the ivs by duckdb."""
    with duckdb.connect(config={"threads": cores}) as db:
        db.register("data", data)
        names = data.column_names[2:]
        points = [i / BINS for i in range(1, BINS)]
        found = db.sql(
            "SELECT " + ", ".join(f"quantile_disc({n}, {points})" for n in names) + " FROM data"
        ).fetchone()
        assert found is not None
        ivs = {}
        for name, cuts in zip(names, found, strict=True):
            bins = " + ".join(f"({name} > {cut!r})::INT" for cut in sorted(set(cuts)))
            counts = db.sql(
                f"SELECT {bins} AS bin, count(*) FILTER (y = 0), count(*) FILTER (y = 1) "
                "FROM data GROUP BY bin ORDER BY bin"
            ).fetchall()
            ivs[name] = iv_of(np.array(counts)[:, 1:])
        return ivs


def iv_of(table: Any) -> float:
    """Return the information value of counts, bins x (others, events)."""
    rates = table / table.sum(axis=0)
    return float(((rates[:, 1] - rates[:, 0]) * np.log(rates[:, 1] / rates[:, 0])).sum())


def run(tables: dict[Site, pa.Table], params: dict[Site, Any], cores: int) -> Any:
    """Return the outputs of the component."""
    stores = {site: MemoryTableStore() for site in tables}
    inputs = {
        site: Inputs(data={"data": [("a", stores[site].add(rows))]}, model={})
        for site, rows in tables.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        return outputs_of(
            run_component(
                HeteroFeatureBinning,
                sites=tuple(tables),
                work_dir=Path(folder),
                params=params,
                inputs=inputs,
                tables=stores,
                cores=cores,
                timeout_s=600.0,
            )
        )


def make_table(rows: int, columns: int) -> pa.Table:
    """Return ids, labels, and features that tell something about them."""
    generator = np.random.default_rng(3)
    labels = generator.integers(0, 2, rows)
    features = {f"x{i}": generator.normal(size=rows) + labels * i / 50 for i in range(columns)}
    return pa.table({"id": pa.array(np.arange(rows)).cast(pa.string()), "y": labels, **features})


def measured(work: Callable[[], Any]) -> tuple[tuple[float, float], Any]:
    """Return wall and CPU seconds of `work`, and its result."""
    start, used = time.perf_counter(), cpu_s()
    result = work()
    return (time.perf_counter() - start, cpu_s() - used), result


def cpu_s() -> float:
    """Return the CPU seconds of this process and its ended children."""
    own, children = (
        resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    main()
