"""Products of powers: for each column x of an integer matrix, the product of c_i ** x_i mod n**2.

Under an additively homomorphic scheme this is the encrypted inner product of the encrypted column
c with x. Vertical models spend most of their time on it, so it is done for all columns at once:

- Exponents are cut into signed digits of w bits, -2**(w-1) < d <= 2**(w-1). Negative digits use the
  inverse of c_i; all inverses cost one modular inversion and three products modulo n per row.
- Per column and digit position, ciphertexts with the same |d| are multiplied into one bucket; the
  buckets are joined by running products: rows + 2**w products instead of rows * w.
- What goes into buckets is in short form (`short_form.py`), which halves the cost of most products;
  the lifts of a column are added up as integers.
- w is chosen for the real data by counting products.

Source: Pippenger 1976 (buckets); Montgomery 1987, section 10.3.1 (shared inversion).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import mul

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto.short_form import ShortFactors

WINDOWS = range(2, 15)  #: digit widths, bits; a single bit leaves no room for a sign
CELLS_PER_BLOCK = (
    1 << 20
)  #: digits are cut for this many matrix cells at a time, which bounds memory
LARGEST = 1 << 62  #: |x| must stay below

_ONE = mpz(1)


def dot_columns(
    ciphertexts: Sequence[mpz],
    matrix: NDArray[np.int64],
    n: mpz,
    *,
    window: int | None = None,
) -> list[mpz]:
    """Return for each column x of `matrix` the product of ciphertexts[i] ** x[i] modulo n**2.

    Args:
        ciphertexts: one per row, below n**2 and coprime to n.
        matrix: rows x columns, int64, every |x| < 2**62.
        window: digit width in bits, 2 to 14; None chooses the cheapest. The result does not
            depend on it.

    Raises: ValueError: the shapes or the window do not fit, or an exponent is too large.
        ZeroDivisionError: a ciphertext is not coprime to n.
    """
    rows, columns = matrix.shape
    if rows != len(ciphertexts):
        raise ValueError(f"{len(ciphertexts)} ciphertexts for a matrix of {rows} rows")
    if matrix.size == 0:
        return [_ONE] * columns
    longest_exponent(matrix)
    width = window or cheapest_window(matrix)
    if width not in WINDOWS:
        raise ValueError(f"digits cannot have {width} bits")
    factors = ShortFactors.of(ciphertexts, n)
    products: list[mpz] = []
    step = max(1, CELLS_PER_BLOCK // rows)
    for start in range(0, columns, step):
        block = np.ascontiguousarray(matrix[:, start : start + step].T)
        digits = signed_digits(block, width)
        products.extend(
            _column(factors, exponents, [d[column] for d in digits], width=width, n=n)
            for column, exponents in enumerate(block)
        )
    return products


def longest_exponent(matrix: NDArray[np.int64]) -> int:
    """Return the bits of the largest |x| of a matrix that is not empty.

    Raises: ValueError: it is too large.
    """
    largest = max(int(matrix.max()), -int(matrix.min()))
    if largest >= LARGEST:
        raise ValueError("an exponent reaches 2**62")
    return largest.bit_length()


def product(factors: Sequence[mpz], modulus: mpz) -> mpz:
    """Return the product of `factors` modulo `modulus`, 1 if there are none."""
    result = _ONE
    for factor in factors:
        result = result * factor % modulus
    return result


def cheapest_window(matrix: NDArray[np.int64]) -> int:
    """Return the digit width in bits that needs the fewest products for `matrix` (an estimate)."""
    columns = matrix.shape[1]
    bits = np.frexp(np.abs(matrix.T).astype(np.float64))[1]  # of |x|, 0 for 0
    cells = np.bincount(
        (bits + 65 * np.arange(columns)[:, None]).ravel(), minlength=65 * columns
    ).reshape(columns, 65)
    longer = np.cumsum(cells[:, ::-1], axis=1)[:, ::-1]  # [column, k]: entries of at least k bits
    longest = bits.max(axis=1)
    return min(WINDOWS, key=lambda window: _products(window, longer, longest))


def _products(window: int, longer: NDArray[np.int64], longest: NDArray[np.int64]) -> float:
    """Return the cost of all columns with digits of `window` bits, in products of a short factor.

    A product of two numbers modulo n**2 costs two of these.
    """
    total = 0.0
    for low in range(0, int(longest.max()) + 1, window):
        entries = longer[:, max(low, 1)] * (1.0 - 2.0**-window)
        buckets = np.where(entries > 0, 2.0 ** np.clip(longest - low, 0, window - 1), 0.0)
        # The first factor of a bucket costs nothing; joining costs two long products per bucket.
        total += float(np.sum(entries + 3.0 * buckets))
    return total + float(longest.sum())


def signed_digits(block: NDArray[np.int64], width: int) -> list[NDArray[np.int64]]:
    """Return the digits of every entry, least significant first, each of the block's shape."""
    base, half = 1 << width, 1 << (width - 1)
    rest = block
    digits = []
    while rest.any():
        digit = rest & (base - 1)
        digit[digit > half] -= base
        rest = (rest - digit) >> width
        digits.append(digit)
    return digits


def _column(
    factors: ShortFactors,
    exponents: NDArray[np.int64],
    digits: Sequence[NDArray[np.int64]],
    *,
    width: int,
    n: mpz,
) -> mpz:
    """Return one column's product; `digits` are those of its `exponents`."""
    modulus = n * n
    rows = len(exponents)
    shift = 1 << width
    result = _ONE
    for digit in reversed(digits):
        if result != 1:
            result = gmpy2.powmod(result, shift, modulus)
        used = np.flatnonzero(digit)
        if used.size == 0:
            continue
        values = digit[used]
        used[values < 0] += rows
        sizes = np.abs(values)
        joined = _join_buckets(
            _fill_buckets(factors.units, used.tolist(), sizes.tolist(), modulus), modulus
        )
        result = result * joined % modulus
    lift = _lift(factors, exponents, digits, width=width) % n
    return result * (1 + n * lift) % modulus


def _lift(
    factors: ShortFactors,
    exponents: NDArray[np.int64],
    digits: Sequence[NDArray[np.int64]],
    *,
    width: int,
) -> mpz:
    """Return the sum of the lifts of all that a column's product has taken from `factors`.

    With the digits above 0 making up a and those below 0 making up -b, x = a - b: a times the lift
    k and b times -(k + t) are x k - b t.
    """
    negative = np.zeros(len(exponents), dtype=np.uint64)  # b can be above 2**63
    for position, digit in enumerate(digits):
        negative += np.maximum(-digit, 0).astype(np.uint64) << np.uint64(width * position)
    lifts = sum(map(mul, exponents.tolist(), factors.lifts), start=mpz(0))
    return lifts - sum(map(mul, negative.tolist(), factors.corrections), start=mpz(0))


def _fill_buckets(factors: list[mpz], used: list[int], sizes: list[int], modulus: mpz) -> list[mpz]:
    """Return buckets[s] = product of the used factors of digit size s."""
    buckets = [_ONE] * (max(sizes) + 1)
    for index, size in zip(used, sizes, strict=True):
        buckets[size] = buckets[size] * factors[index] % modulus
    return buckets


def _join_buckets(buckets: list[mpz], modulus: mpz) -> mpz:
    """Return the product of buckets[s] ** s."""
    running = result = _ONE
    for size in range(len(buckets) - 1, 0, -1):
        if buckets[size] is not _ONE:
            running = running * buckets[size] % modulus
        result = result * running % modulus
    return result
