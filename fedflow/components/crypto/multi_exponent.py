"""Products of powers: for each column x of an integer matrix, the product of c_i ** x_i modulo M.

Under an additively homomorphic scheme this is the encrypted inner product of the encrypted column
c with x. Vertical models spend most of their time on it, so it is done for all columns at once:

- Exponents are cut into signed digits of w bits, -2**(w-1) < d <= 2**(w-1). Negative digits use the
  inverse of c_i; all inverses cost one modular inversion and three products per row.
- Per column and digit position, ciphertexts with the same |d| are multiplied into one bucket; the
  buckets are joined by running products: rows + 2**w products instead of rows * w.
- w is chosen for the real data by counting products.

Source: Pippenger 1976 (buckets); Montgomery 1987, section 10.3.1 (shared inversion).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

WINDOWS = range(2, 15)  #: digit widths, bits; a single bit leaves no room for a sign
CELLS_PER_BLOCK = (
    1 << 20
)  #: digits are cut for this many matrix cells at a time, which bounds memory
LARGEST = 1 << 62  #: |x| must stay below

_ONE = mpz(1)


def dot_columns(
    ciphertexts: Sequence[mpz],
    matrix: NDArray[np.int64],
    modulus: mpz,
    *,
    window: int | None = None,
) -> list[mpz]:
    """Return for each column x of `matrix` the product of ciphertexts[i] ** x[i] modulo `modulus`.

    Args:
        ciphertexts: one per row, invertible modulo `modulus`.
        matrix: rows x columns, int64, every |x| < 2**62.
        window: digit width in bits, 2 to 14; None chooses the cheapest. The result does not
            depend on it.

    Raises: ValueError: the shapes or the window do not fit, or an exponent is too large.
        ZeroDivisionError: a ciphertext is not invertible.
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
    factors = [*ciphertexts, *_inverses(ciphertexts, modulus)]
    products: list[mpz] = []
    step = max(1, CELLS_PER_BLOCK // rows)
    for start in range(0, columns, step):
        block = np.ascontiguousarray(matrix[:, start : start + step].T)
        digits = signed_digits(block, width)
        products.extend(
            _column(factors, [d[column] for d in digits], width, modulus)
            for column in range(block.shape[0])
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
    """Return about how many products modulo M all columns need with digits of `window` bits."""
    total = 0.0
    for low in range(0, int(longest.max()) + 1, window):
        entries = longer[:, max(low, 1)] * (1.0 - 2.0**-window)
        buckets = np.where(entries > 0, 2.0 ** np.clip(longest - low, 0, window - 1), 0.0)
        total += float(np.sum(entries + buckets))  # the first factor of a bucket costs nothing
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
    factors: list[mpz], digits: Sequence[NDArray[np.int64]], width: int, modulus: mpz
) -> mpz:
    """Return one column's product; `factors` holds all ciphertexts, then all their inverses."""
    rows = len(factors) // 2
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
            _fill_buckets(factors, used.tolist(), sizes.tolist(), modulus), modulus
        )
        result = result * joined % modulus
    return result


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


def _inverses(numbers: Sequence[mpz], modulus: mpz) -> list[mpz]:
    """Return the inverses of all `numbers` with one inversion. Raises: ZeroDivisionError."""
    prefixes = list(accumulate(numbers, lambda a, b: a * b % modulus))
    inverse = gmpy2.invert(prefixes[-1], modulus)
    inverses = [_ONE] * len(numbers)
    for index in range(len(numbers) - 1, 0, -1):
        inverses[index] = inverse * prefixes[index - 1] % modulus
        inverse = inverse * numbers[index] % modulus
    inverses[0] = inverse
    return inverses
