"""Microseconds per operation on ciphertexts of each scheme, one core, no network.

    .venv/bin/python benchmarks/ciphertexts.py [--keys paillier:2048 ou:2048] [--rows 400]

Plaintexts have 90 bits, as a row's gradient and Hessian; packing is that of slots of 128 bits. Each
figure is the median of five runs over all rows; building tables is shown apart, in milliseconds.
"""

from __future__ import annotations

import argparse
import secrets
import statistics
import time
from collections.abc import Callable, Iterable
from itertools import pairwise

from fedflow.sdk.crypto.random_powers import Blinding
from fedflow.sdk.crypto.schemes import Cryptosystem, PrivateScheme, generate_key

RUNS = 5
VALUE_BITS = 90
SLOT_BITS = 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keys", nargs="+", default=["paillier:1024", "paillier:2048", "ou:2048"])
    parser.add_argument("--blinding", choices=[b.value for b in Blinding], default="table")
    parser.add_argument("--rows", type=int, default=400)
    options = parser.parse_args()
    found = {}
    for name in options.keys:
        method, bits = name.split(":")
        key = generate_key(Cryptosystem(method), int(bits), Blinding(options.blinding))
        found[name] = measure(key, rows=options.rows)
    print(f"| microseconds, {options.blinding} | " + " | ".join(found) + " |")
    print("|---" * (len(found) + 1) + "|")
    for operation in next(iter(found.values())):
        cells = (f"{figures[operation]:,.1f}" for figures in found.values())
        print(f"| {operation} | " + " | ".join(cells) + " |")


def measure(key: PrivateScheme, *, rows: int) -> dict[str, float]:
    """Return the figures of one key."""
    public = key.public
    values = [secrets.randbits(VALUE_BITS) - (1 << (VALUE_BITS - 1)) for _ in range(rows)]
    built = {
        "tables of the owner, ms": once(key.prepare) * 1000,
        "tables towards others, ms": once(public.prepare) * 1000,
        "tables towards the owner, ms": once(lambda: public.prepare(to_owner=True)) * 1000,
    }
    ciphertexts = list(key.encrypt(values))
    few = ciphertexts[: max(1, rows // 4)]
    packed = public.pack(ciphertexts, SLOT_BITS)
    payload = public.to_bytes(ciphertexts)

    def product() -> None:
        modulus = public.modulus
        for left, right in pairwise(ciphertexts):
            _ = left * right % modulus

    return {
        "owner's encryption": median(lambda: all_of(key.encrypt(values)), rows),
        "public encryption": median(lambda: all_of(public.encrypt(values)), rows),
        "new blinding towards the owner": median(
            lambda: all_of(public.blind(few, to_owner=True)), len(few)
        ),
        "product": median(product, rows - 1),
        "packing, per value": median(lambda: public.pack(ciphertexts, SLOT_BITS), rows),
        "decryption, per ciphertext": median(lambda: key.decrypt(packed), len(packed)),
        "decryption, per packed value": median(lambda: key.decrypt(packed), rows),
        "writing": median(lambda: public.to_bytes(ciphertexts), rows),
        "reading and checking": median(lambda: public.from_bytes(payload, count=rows), rows),
        "bytes of a ciphertext": float(public.width),
        **built,
    }


def median(work: Callable[[], object], count: int) -> float:
    """Return microseconds of CPU per item."""
    return statistics.median(once(work) for _ in range(RUNS)) / count * 1e6


def once(work: Callable[[], object]) -> float:
    start_s = time.process_time()
    work()
    return time.process_time() - start_s


def all_of(items: Iterable[object]) -> None:
    for _ in items:
        pass


if __name__ == "__main__":
    main()
