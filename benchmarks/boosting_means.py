"""What each means of boosted trees brings: the arithmetic of one tree with and without it.

    .venv/bin/python benchmarks/boosting_means.py [--rows 30000] [--bits 1024] [--json]

One process, one core, no network: 13 host columns, 32 bins, depth 3, sums of the computed nodes.
*Without* is what the same code does otherwise: a column per pass, every node of a level, a
ciphertext per candidate to blind and open, encryption from nothing when a tree begins.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from figures import Figure, Machine, arguments, show
from gmpy2 import mpz

from fedflow.components.boosting.bins import BinnedColumns
from fedflow.components.boosting.criterion import Gradients
from fedflow.components.boosting.sums import (
    HostTreeSums,
    SlotLayout,
    encrypt_gradients,
    open_sums,
)
from fedflow.components.crypto.bucket_products import BucketProducts
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk.crypto.schemes import Cryptosystem, generate_key

COLUMNS, BINS, DEPTH = 13, 32, 3


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--bits", type=int, default=1024)
    parser.add_argument("--scheme", default="paillier")
    options = parser.parse_args()
    machine = Machine()
    found = measured(options.rows, generate_key(Cryptosystem(options.scheme), options.bits))
    figures = []
    for what, (with_s, without_s) in found.items():
        figures.append(Figure(what=f"{what}: with", unit="s", values=[with_s]))
        figures.append(Figure(what=f"{what}: without", unit="s", values=[without_s]))
        times = [without_s / with_s]
        figures.append(Figure(what=f"{what}: gain", unit="times", values=times))
    title = f"one tree of {options.rows} x {COLUMNS} host columns, {options.scheme} {options.bits}"
    show(title, figures, as_json=options.json, machine=machine)


def measured(rows: int, key: Any) -> dict[str, tuple[float, float]]:
    """Return CPU seconds with and without each means."""
    generator = np.random.default_rng(3)
    binned = BinnedColumns.of(generator.normal(size=(rows, COLUMNS)), bins=BINS)
    candidates = binned.candidates(range(COLUMNS))
    shape = (rows, 1)
    gradients = Gradients.of(generator.normal(size=shape), generator.random(shape))
    layout = SlotLayout.of(key.public, rows=rows, bits=gradients.bits, classes=1)
    workers = LocalWorkers(1)
    none = np.empty((0, key.public.width), np.uint8)
    ahead = key.public.body(key.encrypt([0] * rows))
    zeros = np.frombuffer(ahead, np.uint8).reshape(rows, -1)
    encrypt = functools.partial(encrypt_gradients, key, gradients, layout, workers)
    found = {
        "zeros made ahead": (
            timed(lambda: encrypt(zeros=zeros)),
            timed(lambda: encrypt(zeros=none)),
        )
    }
    ciphertexts = encrypt(zeros=none)
    sums = HostTreeSums(key.public, binned, candidates, layout=layout, workers=workers)
    nodes = generator.integers(0, 2 ** (DEPTH - 1), rows)
    half = nodes < 2 ** (DEPTH - 2)
    found["two columns per pass"] = (
        timed(lambda: sums.of_nodes(ciphertexts, binned.numbers, nodes * 0, count=1)),
        timed(lambda: one_column_per_pass(key.public, binned, ciphertexts)),
    )
    count = 2 ** (DEPTH - 1)
    found["only the smaller sibling, a level"] = (
        timed(
            lambda: sums.of_nodes(
                ciphertexts[half], binned.numbers[half], nodes[half], count=count // 2
            )
        ),
        timed(lambda: sums.of_nodes(ciphertexts, binned.numbers, nodes, count=count)),
    )
    own = sums.of_nodes(ciphertexts, binned.numbers, nodes * 0, count=1)
    cells = [cell for of_candidate in own[0] for cell in of_candidate]
    found["packed candidates, a node"] = (
        timed(lambda: packed(key, sums, cells, layout, workers)),
        timed(lambda: single(key, cells, layout)),
    )
    return found


def one_column_per_pass(key: Any, binned: BinnedColumns, ciphertexts: Any) -> None:
    """Multiply all rows into the bins of each column by itself."""
    rows = key.read_rows(ciphertexts)
    for column, size in enumerate(binned.sizes):
        sums = BucketProducts((size,), key.modulus, rows=len(rows))
        sums.add(rows, binned.numbers[:, column : column + 1])
        sums.products()


def packed(
    key: Any, sums: HostTreeSums, cells: list[mpz], layout: SlotLayout, workers: LocalWorkers
) -> None:
    """Pack, blind and open the candidates of a node."""
    open_sums(
        key, sums.pack(cells), count=len(cells), layout=layout, workers=workers, sender="host"
    )


def single(key: Any, cells: list[mpz], layout: SlotLayout) -> None:
    """Blind and open each candidate by itself."""
    key.public.prepare(to_owner=True)
    blinded = list(key.public.blind(cells, to_owner=True))
    layout.read(key.open(blinded, limit_bits=layout.slot_bits), sender="host")


def timed(work: Callable[[], Any]) -> float:
    """Return the least CPU seconds of three runs."""
    found = []
    for _ in range(3):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return min(found)


if __name__ == "__main__":
    main()
