"""Encrypted sums of gradients: who encrypts what, and what a host makes of it.

A row's plaintext holds its first derivative (raised by an offset, so that it is not negative), its
second one, and a 1 that counts it, side by side; in a tree with vector leaves those of all classes,
in several ciphertexts if one has no room. The product of ciphertexts holds the sums; each slot has
room for all rows, so nothing carries over. A host multiplies the rows of each bin, adds bins up to
what goes left of each candidate, and packs candidates into few ciphertexts in a secret order. These
are blinded anew: without it the key's owner could find the rows of a small bin.

Source: Cheng et al. 2021 (SecureBoost); Chen et al. 2021 (SecureBoost+), packing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.boosting.bins import LEFT, BinnedColumns, Candidates
from fedflow.components.boosting.criterion import ROWS, Gradients
from fedflow.components.crypto.bucket_products import BucketProducts, passes_of
from fedflow.sdk.crypto.encrypted_rows import DECRYPTION_COST, cost_of
from fedflow.sdk.crypto.schemes import PrivateScheme, PublicScheme
from fedflow.sdk.errors import CodecError
from fedflow.sdk.workers import Workers

CELLS_PER_BLOCK: Final = 32_768  #: ciphertexts of one message of encrypted gradients, about

ROWS_READ: Final = 8_192  #: of which the numbers are in memory at a time

_ADDITION: Final = 3.0  # products of ciphertexts that adding a plaintext takes, about

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotLayout:
    """Where the sums of a candidate stand in plaintexts: pairs of classes, the count highest."""

    rows: int
    bits: int  #: every derivative is at most 2**bits in size
    classes: int = 1
    groups: int = 1  #: plaintexts of a row, each with a part of the classes and the count

    @staticmethod
    def of(key: PublicScheme, *, rows: int, bits: int, classes: int) -> SlotLayout:
        """Return the layout with as few plaintexts as the key's size allows."""
        one = SlotLayout(rows=rows, bits=bits)
        first, second, third = one.widths
        pairs = (key.plaintext_bits - third - 1) // (first + second)
        return replace(one, classes=classes, groups=-(-classes // pairs))

    @property
    def pairs(self) -> int:
        """Return how many classes a plaintext has; the last one may have unused places."""
        return -(-self.classes // self.groups)

    @property
    def offset(self) -> int:
        """Return what is added to each first derivative."""
        return 1 << self.bits

    @property
    def widths(self) -> tuple[int, int, int]:
        """Return the bits of a class's sums of first and second derivatives, and of the count."""
        first = (2 * self.offset * self.rows).bit_length()
        return first, (self.offset * self.rows).bit_length(), self.rows.bit_length()

    @property
    def slot_bits(self) -> int:
        """Return the bits of a candidate's plaintext, and a sign that is never set."""
        first, second, third = self.widths
        return self.pairs * (first + second) + third + 1

    def blocks(self) -> Iterator[tuple[int, slice]]:
        """Yield the number and the rows of every message of encrypted gradients."""
        step = max(1, CELLS_PER_BLOCK // self.groups)
        for number, start in enumerate(range(0, self.rows, step)):
            yield number, slice(start, min(self.rows, start + step))

    def plain(self, values: Ints) -> list[int]:
        """Return the plaintexts of derivatives (rows x 2 classes), row after row."""
        first, second, _ = self.widths
        padded = np.zeros((2, len(values), self.groups * self.pairs), dtype=np.int64)
        padded[:, :, : self.classes] = np.stack(np.split(values, 2, axis=1))
        slopes, curves = padded.reshape(2, -1, self.pairs)[:, :, ::-1]
        found = []
        for pairs in zip((slopes + self.offset).tolist(), curves.tolist(), strict=True):
            plain = 1
            for slope, curve in zip(*pairs, strict=True):
                plain = (plain << second | curve) << first | slope
            found.append(plain)
        return found

    def read(self, opened: Sequence[int], *, sender: str) -> Ints:
        """Return the sums in opened slots, `groups` per candidate (candidates x sums).

        Raises: CodecError: sums that no rows can have.
        """
        first, second, third = self.widths
        low, middle, high = (1 << first) - 1, (1 << second) - 1, 1 << third
        found = np.empty((len(opened), 2, self.pairs), dtype=np.int64)
        counts = np.empty(len(opened), dtype=np.int64)
        for place, slot in enumerate(opened):
            count = slot >> self.pairs * (first + second)
            if not 0 <= count < high:
                raise CodecError(reason=f"encrypted_splitinfo_host of {sender}: a sum has no room")
            counts[place], rest = count, slot
            for pair in range(self.pairs):
                found[place, :, pair] = (rest & low) - count * self.offset, rest >> first & middle
                rest >>= first + second
        rows = len(opened) // self.groups
        counted = counts.reshape(rows, self.groups)
        by_kind = found.reshape(rows, self.groups, 2, self.pairs).swapaxes(1, 2)
        places = by_kind.reshape(rows, 2, self.groups * self.pairs)
        used = places[:, :, : self.classes].reshape(rows, 2 * self.classes)
        sums = np.column_stack((used, counted[:, 0]))
        are_alike = (counted == counted[:, :1]).all() and not places[:, :, self.classes :].any()
        if not are_alike or (counted > self.rows).any() or not self.fits(sums):
            raise CodecError(
                reason=f"encrypted_splitinfo_host of {sender}: sums that its rows cannot have"
            )
        return sums

    def fits(self, sums: Ints) -> bool:
        """Tell whether rows can have such sums (any shape x sums)."""
        rows = sums[..., ROWS:]
        slopes, curves = np.split(sums[..., :ROWS], 2, axis=-1)
        most = rows * self.offset
        within = (np.abs(slopes) <= most) & (curves >= 0) & (curves <= most)
        return bool((rows >= 0).all() and within.all())


def encrypt_gradients(
    key: PrivateScheme, gradients: Gradients, layout: SlotLayout, workers: Workers, *, zeros: Bytes
) -> Bytes:
    """Return the ciphertexts of rows, rows x (groups width).

    `zeros` are ciphertexts of 0 that were used for nothing else (count x width).
    """
    key.prepare()
    width, ready = layout.groups * key.public.width, len(zeros) // layout.groups
    rows, rest = gradients.values[:ready], gradients.values[ready:]
    added = workers.fill_rows(
        functools.partial(_add, key.public, layout),
        (zeros[: ready * layout.groups].reshape(ready, width), rows),
        width=width,
        cost=cost_of(key.public, layout.groups * _ADDITION),
    )
    encrypted = workers.fill_rows(
        functools.partial(_encrypt, key, layout),
        (rest,),
        width=width,
        cost=cost_of(key.public, layout.groups * key.encryption_products()),
    )
    return np.concatenate([added, encrypted])


class HostTreeSums:
    """The encrypted sums of one host's candidates in one tree."""

    def __init__(
        self,
        key: PublicScheme,
        binned: BinnedColumns,
        candidates: Candidates,
        *,
        layout: SlotLayout,
        workers: Workers,
    ) -> None:
        self._key = key
        self._candidates = candidates
        self._layout = layout
        self._workers = workers
        self._columns = np.unique(candidates.columns)
        self._sizes = tuple(binned.sizes[column] for column in self._columns.tolist())

    def of_nodes(
        self, ciphertexts: Bytes, bins: NDArray[np.uint16], nodes: NDArray[np.intp], *, count: int
    ) -> list[list[tuple[mpz, ...]]]:
        """Return per node the encrypted sums left of each candidate, one per group; not blinded.

        Args:
            ciphertexts: of the rows of these nodes (rows x (groups width)).
            bins: of the same rows, and all columns.
            nodes: their nodes, from 0; `count` of them.

        Raises: CodecError: not valid ciphertexts.
        """
        groups = self._layout.groups
        cells = sum(self._sizes) * count * groups
        passes = passes_of(self._sizes, rows=max(1, len(nodes) // max(1, count)))
        found = self._workers.fold_rows(
            functools.partial(_products, self._key, self._sizes, count, groups),
            (ciphertexts, np.ascontiguousarray(bins[:, self._columns]), nodes),
            most=max(1, cells) * self._key.width,
            cost=cost_of(self._key, groups * passes),
        )
        totals, *more = [[cell for _, cell in _cells(body, self._key.width)] for body in found]
        for part in more:
            totals = [self._key.add(one, two) for one, two in zip(totals, part, strict=True)]
        lefts = [self._left(totals, place) for place in range(count * groups)]
        return [list(zip(*lefts[node * groups :][:groups], strict=True)) for node in range(count)]

    def pack(self, sums: Sequence[mpz]) -> bytes:
        """Return the message of sums that are in their secret order: packed, blinded anew."""
        rows = np.frombuffer(self._key.body(sums), np.uint8).reshape(-1, self._key.width)
        return pack_slots(self._key, rows, slot_bits=self._layout.slot_bits, workers=self._workers)

    def _left(self, totals: Sequence[mpz], place: int) -> list[mpz]:
        """Return the sums left of each candidate, of one node and group."""
        modulus = self._key.modulus
        found: list[mpz] = []
        start = place * sum(self._sizes)
        for column, size in zip(self._columns.tolist(), self._sizes, strict=True):
            own = totals[start : start + size]
            running, cumulated = mpz(1), []
            for cell in own[:-1]:
                running = running * cell % modulus
                cumulated.append(running)
            for number in np.flatnonzero(self._candidates.columns == column).tolist():
                left = cumulated[self._candidates.bins[number]]
                if self._candidates.missing[number] == LEFT:
                    left = left * own[-1] % modulus
                found.append(left)
            start += size
        return found


def pack_slots(
    key: PublicScheme, sums: Bytes, *, slot_bits: int, workers: Workers, factor: int = 1
) -> bytes:
    """Return the message of few ciphertexts for the key's owner, blinded anew.

    Their slots have the plaintexts of `sums` (count x width, of this party's own making) times
    `factor`; every |product| must be below 2**(slot_bits - 1): nobody can check it later.
    """
    slots = key.slots(slot_bits)
    padded = np.zeros((-(-len(sums) // slots) * slots, key.width), dtype=np.uint8)
    padded[:, 0] = 1  # a ciphertext of 0
    padded[: len(sums)] = sums
    key.prepare(to_owner=True)
    packed = workers.fill_rows(
        functools.partial(_pack, key, slot_bits, factor),
        (padded.reshape(-1, slots * key.width),),
        width=key.width,
        cost=cost_of(key, slots * (slot_bits + 1) + key.blinding_products(to_owner=True)),
    )
    return key.message_of(packed)


def open_packed(
    key: PrivateScheme, payload: object, *, count: int, slot_bits: int, workers: Workers
) -> list[int]:
    """Return the signed plaintexts of a message of `pack_slots`, with `count` slots in all.

    Raises: CodecError: it is no such message, or a plaintext has more bits than its slots.
    """
    public = key.public
    bits = public.slots(slot_bits) * slot_bits
    opened = workers.fill_rows(
        functools.partial(_open, key, bits),
        (public.rows_of(payload, count=-(-count // public.slots(slot_bits))),),
        width=bits // 8 + 1,
        cost=DECRYPTION_COST * (public.width / 512) ** 3,
    )
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in opened]


def open_sums(
    key: PrivateScheme,
    payload: object,
    *,
    count: int,
    layout: SlotLayout,
    workers: Workers,
    sender: str,
) -> Ints:
    """Return the sums of `count` candidates in the order of a host's message (count x sums).

    Raises: CodecError: it is no such message, or the sums cannot be.
    """
    slot_bits = layout.slot_bits
    slots, slot = key.public.slots(slot_bits), (1 << slot_bits) - 1
    count *= layout.groups
    values: list[int] = []
    for rest in open_packed(key, payload, count=count, slot_bits=slot_bits, workers=workers):
        if rest < 0:
            raise CodecError(reason="encrypted_splitinfo_host: a plaintext is out of range")
        for _ in range(min(slots, count - len(values))):
            values.append(rest & slot)
            rest >>= slot_bits
        if rest:
            raise CodecError(reason=f"encrypted_splitinfo_host of {sender}: more than its slots")
    return layout.read(values, sender=sender)


def _cells(body: bytes, width: int) -> Iterator[tuple[int, mpz]]:
    view = memoryview(body)
    for place in range(len(body) // width):
        yield place, mpz.from_bytes(view[place * width : (place + 1) * width], "little")


# --- on the workers -------------------------------------------------------------------------------


def _encrypt(key: PrivateScheme, layout: SlotLayout, values: Ints) -> bytes:
    return key.public.body(key.encrypt(layout.plain(values)))


def _add(key: PublicScheme, layout: SlotLayout, zeros: Bytes, values: Ints) -> bytes:
    cells = _cells(zeros.tobytes(), key.width)
    plain = layout.plain(values)
    return key.body(key.add_plain(cell, m) for (_, cell), m in zip(cells, plain, strict=True))


def _products(
    key: PublicScheme,
    sizes: tuple[int, ...],
    count: int,
    groups: int,
    ciphertexts: Bytes,
    bins: NDArray[np.uint16],
    nodes: NDArray[np.intp],
) -> bytes:
    """Return the product of every bin of every column of every node and group.

    Raises: CodecError.
    """
    found = []
    for node in range(count):
        rows = np.flatnonzero(nodes == node)
        for group in range(groups):
            sums = BucketProducts(sizes, key.modulus, rows=len(rows))
            columns = slice(group * key.width, (group + 1) * key.width)
            for start in range(0, len(rows), ROWS_READ):
                part = rows[start : start + ROWS_READ]
                sums.add(key.read_rows(ciphertexts[part, columns]), bins[part])
            found.append(key.body(cell for column in sums.products() for cell in column))
    return b"".join(found)


def _pack(key: PublicScheme, slot_bits: int, factor: int, rows: Bytes) -> bytes:
    packed: list[mpz] = []
    for row in rows:
        packed += key.pack([cell for _, cell in _cells(row.tobytes(), key.width)], slot_bits)
    if factor > 1:
        packed = [key.multiply_plain(one, factor) for one in packed]
    return key.body(key.blind(packed, to_owner=True))


def _open(key: PrivateScheme, bits: int, rows: Bytes) -> bytes:
    """Return the plaintexts. Raises: CodecError: not a ciphertext, or more than so many bits."""
    opened = key.open(key.public.read_rows(rows), limit_bits=bits)
    return b"".join(one.to_bytes(bits // 8 + 1, "little", signed=True) for one in opened)
