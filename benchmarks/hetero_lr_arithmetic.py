"""CPU cost of the linear models' encrypted arithmetic: three roles in one process, no network.

    .venv/bin/python benchmarks/hetero_lr_arithmetic.py [--model HeteroLR] [--bits 1024 2048]
        [--iterations 30] [--batch-size 320] [--masked-rate 0]

Data: examples/data/breast_hetero_*.csv, 569 rows, guest 10 and host 20 features. Each part's CPU is
measured per thread, so the roles' turns do not mix; "rest" is numpy, messages and serialising, its
share is that of the ciphertext operations. To compare with (HeteroLR, 30 iterations, batch 320,
quiet machine): 6.6 s at 1024 bit, 28 s at 2048.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.sdk import Inputs, Role, Site
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.oracle import OracleSettings, train_in_clear
from fedflow.testing.run import outputs_of, run_component

DATA = Path(__file__).parent.parent / "examples" / "data"
GUEST, HOST, ARBITER = (
    Site(Role.GUEST, "9999"),
    Site(Role.HOST, "10000"),
    Site(Role.ARBITER, "10000"),
)
PARTS = {
    "encrypt": (PublicKey, ("encrypt",)),
    "re-blind": (PublicKey, ("blind",)),
    "multi-exp": (PublicKey, ("dot_columns", "total")),
    "pack": (PublicKey, ("pack",)),
    "codec": (PublicKey, ("from_bytes", "read_rows")),
    "decrypt": (PrivateKey, ("decrypt",)),
}
MODELS: dict[str, tuple[type[Any], str, float]] = {
    "HeteroLR": (HeteroLR, "logistic", 0.15),
    "HeteroLinR": (HeteroLinR, "linear", 0.15),
    "HeteroPoisson": (HeteroPoisson, "poisson", 0.005),
}  #: with the oracle's name and a learning rate


class Book:
    """CPU seconds by (part, role)."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._depth = threading.local()

    def timed(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return `method`, measured; a generator is run to its end, so that its work counts."""

        def run(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._depth, "inside", False):
                return method(*args, **kwargs)
            self._depth.inside = True
            start_s = time.thread_time()
            try:
                result = method(*args, **kwargs)
                return list(result) if isinstance(result, Iterator) else result
            finally:
                role = threading.current_thread().name.split()[1]
                self.seconds[part, role] += time.thread_time() - start_s
                self._depth.inside = False

        return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS, default="HeteroLR")
    parser.add_argument("--bits", type=int, nargs="+", default=[1024, 2048])
    parser.add_argument("--iterations", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=320)
    parser.add_argument("--masked-rate", type=float, default=0.0)
    options = parser.parse_args()
    book = Book()
    for part, (cls, names) in PARTS.items():
        for name in names:
            setattr(cls, name, book.timed(part, getattr(cls, name)))
    for bits in options.bits:
        book.seconds.clear()
        measure(book, bits, options)


def measure(book: Book, bits: int, options: argparse.Namespace) -> None:
    """Run one training and print where its CPU time went."""
    tables = {GUEST: load("breast_hetero_guest.csv"), HOST: load("breast_hetero_host.csv")}
    inputs = {
        site: Inputs(data={"train_data": [("data", MemoryTableStore().add(rows))]}, model={})
        for site, rows in tables.items()
    }
    inputs[ARBITER] = Inputs(data={"train_data": [("data", None)]}, model={})
    model, family, learning_rate = MODELS[options.model]
    params: dict[str, Any] = {
        "optimizer": "rmsprop",
        "learning_rate": learning_rate,
        "alpha": 0.01,
        "tol": 0.0,
        "max_iter": options.iterations,
        "batch_size": options.batch_size,
        "init_param": {"init_method": "zeros"},
        "encrypt_param": {"key_length": bits},
    }
    if model is HeteroLR:
        params |= {"shuffle": False, "masked_rate": options.masked_rate}
    sites = (GUEST, HOST, ARBITER)
    federation = LocalFederation(sites, receive_timeout_s=600.0)
    start_s = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        results = run_component(
            model,
            sites=sites,
            work_dir=Path(folder),
            params=dict.fromkeys(sites, params),
            inputs=inputs,
            timeout_s=600.0,
            federation=federation,
        )
    total_s = time.process_time() - start_s
    outputs_of(results)
    losses = [loss for _, loss in results[ARBITER].metrics["train", "loss"].points]
    expected = in_clear(tables, options, family=family, learning_rate=learning_rate)
    error = max(abs(a - b) / b for a, b in zip(losses, expected, strict=True))
    print(f"{bits} bit: {total_s:.2f} CPU s, {federation.sent_bytes / 1e6:.1f} MB sent,")
    print(f"  loss {losses[0]:.6f} -> {losses[-1]:.6f}, {error:.1e} from the oracle")
    roles = ("guest", "host", "arbiter")
    print(f"  {'part':10}" + "".join(f"{role:>9}" for role in roles) + f"{'sum':>9}")
    parts_s = 0.0
    for part in PARTS:
        seconds = [book.seconds[part, role] for role in roles]
        parts_s += sum(seconds)
        print(f"  {part:10}" + "".join(f"{s:9.2f}" for s in (*seconds, sum(seconds))))
    rest_s = total_s - parts_s
    print(f"  {'rest':10}{'':27}{rest_s:9.2f}, {rest_s / parts_s:.0%}")


def in_clear(
    tables: dict[Site, pa.Table], options: argparse.Namespace, *, family: str, learning_rate: float
) -> list[float]:
    """Return the oracle's losses."""
    guest, host = tables[GUEST], tables[HOST]
    columns = [guest[name] for name in guest.column_names[2:]]
    columns += [host[name] for name in host.column_names[1:]]
    labels = guest["y"].to_numpy().astype(float)
    if family == "logistic":
        labels = np.where(labels == 1, 1.0, -1.0)
    settings = OracleSettings(
        iterations=options.iterations,
        batch_size=options.batch_size,
        family=family,
        learning_rate=learning_rate,
    )
    return train_in_clear(np.column_stack(columns), labels, settings).losses


def load(name: str) -> pa.Table:
    """Return the rows of an example file, ids as text."""
    return pyarrow.csv.read_csv(
        DATA / name, convert_options=pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})
    )


if __name__ == "__main__":
    main()
