"""Correlations between the columns of two parties, by inner products under encryption.

MESSAGES

[[x]] is x encrypted with the key owner's Paillier key. Both parties standardize their columns
(population). One of them, the owner, makes a key and encrypts each row of its columns, several
columns in the slots of one plaintext. The other raises these to its own fixed-point numbers and
multiplies over the rows. That gives the inner products of one of its columns with all columns in
the slots. It adds noise below 2**-34 of a correlation, blinds, and sends them. The owner decrypts,
divides by the number of rows, and sends the correlations back. The blinding is r**n with a uniform
r: the owner has made the factors, so anything less could show it how they were combined. Who owns
the key follows from the numbers of columns: the cheaper way is taken, the guest in a draw.

**What each party learns**, if both follow the protocol: the correlations between the two parties'
columns, which both are to have. They also learn the number of the other's columns, their anonymous
names, and the number of rows. The other party sees only ciphertexts of the owner's key, which are
as good as random (`crypto/paillier.py`). The owner decrypts sums that show the correlations to
about ten digits and nothing else. The blinding hides how they were computed. The noise hides the
low digits of the exact integer sums, in which single rows could be looked for. The other party
knows its noise, so the owner sends, and keeps, ten digits of each correlation. That is less than
FATE's shared (SPDZ) form shows, where both parties put together the exact fixed-point product.

**What the result itself tells**: k correlations are k linear equations in the rows of a column. So
a party refuses when it has not more than twice as many rows as the other has columns, or under 10
rows. It warns below ten times as many. Repeated jobs with other columns give more equations;
nothing counts them.

Source: Goethals, Laur, Lipmaa, Mielikainen 2004, "On private scalar product computation".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.pearson.params import HeteroPearsonParams
from fedflow.components.training.params import MIN_KEY_BITS
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Role, Site
from fedflow.sdk.crypto.encrypted_rows import (
    DECRYPTION_COST,
    IntegerRows,
    blinding_products,
    cost_of,
    merged,
    sums_of_block,
)
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.crypto.paillier import Blinding, PrivateKey, PublicKey, unpack
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
pearson_columns | settings | guest <-> host | {names: anonymous ones, key_length}
sample_ids | rows | guest <-> host | {rows, digest}; tag `pearson`
paillier_pubkey | key | key owner -> other | {n: hexadecimal}
standardized | ciphertext | key owner -> other | [[x]] per row, columns packed; tag `block.pack`
inner_products | sealed | other -> key owner | [[sum of x y, plus noise]], packed as they came
correlations | statistics | key owner -> other | float64, guest's columns x host's columns
""")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

FIXED: Final = FixedPoint(bits=30)  #: of standardized values; worst error of a correlation 1e-9
NOISE_BITS: Final = 34  #: noise is below 2**-34 of the greatest inner product
ROWS_PER_BLOCK: Final = 4096  #: of one message
MAX_COLUMNS: Final = 10_000  #: of one party, so that a wrong message cannot exhaust the memory
MIN_ROWS: Final = 10
_BLOCKS_PER_CORE: Final = 4  # of several cores, at a time
_CHUNK_BYTES: Final = 256 << 20  # of ciphertexts that workers get at once
_MAX_KEY_BITS = 8192
_MAX_NAME = 500
DIGITS: Final = 10  #: of a correlation; lower ones are noise, or would show what it hides
_ROUNDING = 1e-6  #: by which a correlation may exceed 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Peer:
    """What the two parties tell each other at the start."""

    site: Site
    names: tuple[str, ...]  #: the anonymous names of its columns
    key_bits: int  #: of the key that both use


def meet(ctx: Context, names: tuple[str, ...], *, rows: int) -> Peer:
    """Exchange names with the other party; `rows` is the number of common rows.

    Raises: BadData: the result would tell too much of this party's rows. CodecError.
    """
    params: HeteroPearsonParams = ctx.params
    site = ctx.only(Role.HOST if ctx.site.role is Role.GUEST else Role.GUEST)
    own = {"names": list(names), "key_length": params.fixpoint_bit_length}
    ctx.federation.send("pearson_columns", own, to=site)
    value = ctx.federation.recv("pearson_columns", from_=site)
    peer = _peer(site, value, own_bits=params.fixpoint_bit_length)
    where = f"data of {ctx.component}"
    if rows < MIN_ROWS or rows <= 2 * len(peer.names):
        raise BadData(
            where=where,
            reason=f"{rows} common rows are too few for {len(peer.names)} columns of {site}: their"
            f" correlations would tell single values of {ctx.site}; at least"
            f" {max(MIN_ROWS, 2 * len(peer.names) + 1)} are needed",
        )
    if rows < 10 * len(peer.names):
        ctx.log.warning(
            "%s common rows for %s columns of %s: the correlations tell much of single rows",
            rows,
            len(peer.names),
            site,
        )
    return peer


def cross_correlations(ctx: Context, own: Floats, peer: Peer) -> Floats:
    """Return the correlations, guest's columns x host's columns.

    Args:
        own: this party's standardized columns, rows x columns.

    Raises: CodecError: the other party sent what it must not. PeerFailed.
    """
    rows, width = own.shape
    is_guest = ctx.site.role is Role.GUEST
    slots = _Slots.of(rows, key_bits=peer.key_bits)
    costs = slots.cost(width, len(peer.names)), slots.cost(len(peer.names), width)
    owns_key = costs[0] <= costs[1] if is_guest else costs[0] < costs[1]
    if not owns_key:
        _multiply(ctx, own, peer, slots=slots)
        shape = (width, len(peer.names)) if is_guest else (len(peer.names), width)
        return _checked(wait_for(ctx, "correlations", peer.site), shape)
    found = _own_key(ctx, own, peer, slots=slots)
    found = found if is_guest else np.ascontiguousarray(found.T)
    ctx.federation.send("correlations", found, to=peer.site)
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slots:
    """How inner products over `rows` rows lie in the plaintexts of a key."""

    rows: int
    bits: int  #: of one slot
    count: int  #: slots in a plaintext

    @staticmethod
    def of(rows: int, *, key_bits: int) -> _Slots:
        """|sum of x y| <= rows for standardized columns (Cauchy, Schwarz): one bit more for what
        rounding and noise add, one for the sign.
        """
        bits = 2 * FIXED.bits + rows.bit_length() + 2
        return _Slots(rows=rows, bits=bits, count=(key_bits - 2) // bits)

    def encode(self, values: Floats) -> Ints:
        """Return standardized values, whose sizes are below sqrt(rows), as int64."""
        return FIXED.encode(values, limit_bits=self.rows.bit_length() // 2 + 2, what="values")

    def packs(self, columns: int) -> int:
        """Return how many ciphertexts a row of `columns` columns takes."""
        return -(-columns // self.count)

    def cost(self, owners: int, others: int) -> int:
        """Return about how many multiplications a row costs, in units of an exponent's."""
        encryption = 32  #: a ciphertext costs about as much as this many exponents
        return self.packs(owners) * (others + encryption)

    def parts(self, columns: int) -> list[slice]:
        """Return the columns of each pack."""
        return [slice(i, min(i + self.count, columns)) for i in range(0, columns, self.count)]

    def noise(self, count: int) -> int:
        """Return a plaintext with noise in the first `count` slots."""
        size = 1 << (2 * FIXED.bits + self.rows.bit_length() - 1 - NOISE_BITS)
        return sum((secrets.randbelow(2 * size) - size) << (self.bits * i) for i in range(count))


def _own_key(ctx: Context, own: Floats, peer: Peer, *, slots: _Slots) -> Floats:
    """Return correlations as own columns x the other's, by the key owner's part."""
    key = PrivateKey.generate(peer.key_bits)
    public = key.public
    ctx.federation.send("paillier_pubkey", {"n": hex(int(public.n))}, to=peer.site)
    parts = slots.parts(own.shape[1])
    public.prepare()
    for chunk in _chunks(ctx, len(own), bytes_per_row=len(parts) * public.width):
        rows_of_chunk = ctx.workers.fill_rows(
            partial(_encrypt_block, public, slots),
            (slots.encode(own[chunk.rows]),),
            width=len(parts) * public.width,
            cost=len(parts) * cost_of(public, blinding_products(public)),
        )
        for number, rows in chunk.blocks():
            packs = np.hsplit(rows_of_chunk[rows], len(parts))
            for pack, ciphertexts in enumerate(packs):
                payload = public.message_of(ciphertexts)
                ctx.federation.send("standardized", payload, to=peer.site, tag=f"{number}.{pack}")
        ctx.tracker.progress(chunk.done)
    others = len(peer.names)
    sums = wait_for(ctx, "inner_products", peer.site)
    opened = ctx.workers.fill_rows(
        partial(_open_block, key),
        (public.rows_of(sums, count=len(parts) * others),),
        width=public.width,
        cost=DECRYPTION_COST * (public.bits / 2048) ** 3,
    )
    plain = [int.from_bytes(row.tobytes(), "little", signed=True) for row in opened]
    found = np.empty((own.shape[1], others))
    for pack, part in enumerate(parts):
        width = part.stop - part.start
        for column in range(others):
            numbers = unpack(
                [plain[pack * others + column]], slots.bits, slots=slots.count, count=width
            )
            found[part, column] = FIXED.decode(numbers, factors=2) / len(own)
    return _checked(found.round(DIGITS) + 0.0, found.shape)


def _encrypt_block(key: PublicKey, slots: _Slots, block: Ints) -> bytes:
    """Return per row the ciphertexts of its columns, pack by pack."""
    packs = [key.encrypt(_packed(block[:, part], slots.bits)) for part in slots.parts(len(block.T))]
    return key.body(ciphertext for row in zip(*packs, strict=True) for ciphertext in row)


def _open_block(key: PrivateKey, rows: Bytes) -> bytes:
    """Return the plaintexts, each on as many bytes as its ciphertext had."""
    width = key.public.width
    plain = key.decrypt(key.public.read_rows(rows))
    return b"".join(number.to_bytes(width, "little", signed=True) for number in plain)


def _multiply(ctx: Context, own: Floats, peer: Peer, *, slots: _Slots) -> None:
    """Send the inner products with the own columns to the key owner."""
    value = wait_for(ctx, "paillier_pubkey", peer.site)
    text = value.get("n") if isinstance(value, dict) else None
    key = PublicKey.parse(text, bits=peer.key_bits, blinding=Blinding.CONSERVATIVE)
    parts = slots.parts(len(peer.names))
    sums = [mpz(1)] * (len(parts) * own.shape[1])
    for chunk in _chunks(ctx, len(own), bytes_per_row=len(parts) * key.width):
        matrix = IntegerRows.of(slots.encode(own[chunk.rows]))
        found = ctx.workers.fold_rows(
            partial(_multiply_block, key),
            (_received(ctx, key, peer, chunk, packs=len(parts)), matrix.rows),
            most=len(sums) * key.width,
            cost=cost_of(key, len(parts) * matrix.products),
        )
        added = merged(key, found, count=len(sums))
        sums = [key.add(old, new) for old, new in zip(sums, added, strict=True)]
        ctx.tracker.progress(chunk.done)
    widths = np.repeat([part.stop - part.start for part in parts], own.shape[1])
    noisy = ctx.workers.fill_rows(
        partial(_hide_block, key, slots),
        (np.frombuffer(key.body(sums), np.uint8).reshape(len(sums), key.width), widths),
        width=key.width,
        cost=cost_of(key, blinding_products(key, to_owner=True)),
    )
    ctx.federation.send("inner_products", key.message_of(noisy), to=peer.site)


def _received(ctx: Context, key: PublicKey, peer: Peer, chunk: _Chunk, *, packs: int) -> Bytes:
    """Return the ciphertexts of a chunk's rows, those of all packs side by side."""
    found = np.empty((chunk.rows.stop - chunk.rows.start, packs * key.width), dtype=np.uint8)
    for number, rows in chunk.blocks():
        for pack in range(packs):
            payload = wait_for(ctx, "standardized", peer.site, tag=f"{number}.{pack}")
            ciphertexts = key.rows_of(payload, count=rows.stop - rows.start)
            found[rows, pack * key.width : (pack + 1) * key.width] = ciphertexts
    return found


def _multiply_block(key: PublicKey, rows: Bytes, matrix: Ints) -> bytes:
    """Return the inner products of every pack with every own column, pack by pack."""
    packs = rows.shape[1] // key.width
    return b"".join(sums_of_block(key, part, matrix) for part in np.hsplit(rows, packs))


def _hide_block(key: PublicKey, slots: _Slots, rows: Bytes, widths: NDArray[np.int64]) -> bytes:
    """Return own sums with noise in their first `widths` slots, freshly blinded."""
    sums = (mpz.from_bytes(row.tobytes(), "little") for row in rows)
    noisy = (
        key.add_plain(total, slots.noise(width))
        for total, width in zip(sums, widths.tolist(), strict=True)
    )
    return key.body(key.blind(noisy, to_owner=True))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chunk:
    """Rows that workers get at once, several blocks."""

    first: int  #: number of the first block
    rows: slice
    done: float  #: how much is done after it

    def blocks(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each block, and its rows, counted from the chunk's first."""
        count = self.rows.stop - self.rows.start
        for index, start in enumerate(range(0, count, ROWS_PER_BLOCK)):
            yield self.first + index, slice(start, min(start + ROWS_PER_BLOCK, count))


def _chunks(ctx: Context, rows: int, *, bytes_per_row: int) -> Iterator[_Chunk]:
    """Yield all rows in chunks: the more cores, the larger; short ones keep both parties busy."""
    cores = ctx.workers.cores
    wanted = 1 if cores == 1 else _BLOCKS_PER_CORE * cores
    size = max(1, min(wanted, _CHUNK_BYTES // (ROWS_PER_BLOCK * bytes_per_row)))
    for first in range(0, -(-rows // ROWS_PER_BLOCK), size):
        start = first * ROWS_PER_BLOCK
        stop = min(start + size * ROWS_PER_BLOCK, rows)
        yield _Chunk(first=first, rows=slice(start, stop), done=stop / rows)


def _packed(block: Ints, slot_bits: int) -> list[int]:
    """Return one plaintext per row, the first column in the lowest slot."""
    *lower, last = block.T.tolist()
    plain: list[int] = last
    for column in reversed(lower):
        plain = [(high << slot_bits) + low for high, low in zip(plain, column, strict=True)]
    return plain


def _peer(site: Site, value: object, *, own_bits: int) -> Peer:
    names = value.get("names") if isinstance(value, dict) else None
    bits = value.get("key_length") if isinstance(value, dict) else None
    if (
        not isinstance(names, list)
        or not 0 < len(names) <= MAX_COLUMNS
        or not all(isinstance(name, str) and len(name) <= _MAX_NAME for name in names)
        or len(set(names)) != len(names)
    ):
        raise CodecError(reason=f"{site} sent no names of columns")
    if type(bits) is not int or not MIN_KEY_BITS <= bits <= _MAX_KEY_BITS or bits % 2:
        raise CodecError(reason=f"{site} sent no length of a key")
    return Peer(site=site, names=tuple(names), key_bits=max(bits, own_bits))


def _checked(value: object, shape: tuple[int, ...]) -> Floats:
    """Return correlations, within -1 to 1. Raises: CodecError: they are none."""
    if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
        raise CodecError(reason="the correlations are no matrix of the agreed size")
    if not np.all(np.abs(value) <= 1.0 + _ROUNDING):
        raise CodecError(reason="a correlation is not within -1 to 1")
    return np.clip(value, -1.0, 1.0)
