"""Vectors of numbers under Paillier encryption (`paillier.py`), to compute with.

A vector knows its scale (fraction bits) and how large its numbers may have become, so results are
exact or refused, never wrapped around. It knows too whether it was computed: what was gets a new
blinding when it is written for another party.
"""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.sdk.crypto.encrypted_rows import (
    DECRYPTION_COST,
    IntegerRows,
    blinding_products,
    column_sums,
    cost_of,
)
from fedflow.sdk.crypto.fixed_point import FixedPoint, check_range, scaled
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey, unpack
from fedflow.sdk.errors import CodecError, NotEncodable
from fedflow.sdk.workers import Workers

Floats = NDArray[np.float64]
Numbers = NDArray[Any] | Sequence[float]

SAFE_BITS: Final = 2048  #: length of a key, about 112 bits of security
LEAST_BITS: Final = 1024  #: for tests and comparisons
MAGIC: Final = b"FEV\x01"  #: encrypted vectors, format version 1

VALUE_FRACTION_BITS: Final = 40  #: encrypted and added floats are multiples of 2**-40
VALUE_LIMIT_BITS: Final = 40  #: and below 2**40 in size
FACTOR_FRACTION_BITS: Final = 32  #: floats that ciphertexts are multiplied by: of 2**-32
FACTOR_LIMIT_BITS: Final = 30  #: and below 2**30
INTEGER_LIMIT_BITS: Final = 62  #: integers of any kind are below 2**62

_HEADER: Final = struct.Struct("<4sIIIQ")  # magic, scale, bits, slots, count
_OPENED: Final = struct.Struct("<4sIQ")  # magic, bytes per number, count
_OPENED_MAGIC: Final = b"FEO\x01"
_MASK_EXTRA_BITS: Final = 40  #: what is masked is within 2**-40 of uniform
_FACTORS: Final = FixedPoint(bits=FACTOR_FRACTION_BITS)


@dataclass(frozen=True, slots=True)
class _Form:
    """How plaintexts are to be read."""

    scale: int  #: fraction bits
    bits: int  #: every |plaintext| is below 2**bits
    slots: int = 1  #: plaintexts in one ciphertext


class PaillierPublicKey:
    """What every party may have: encrypts, and reads what others have encrypted with the key."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key

    def __repr__(self) -> str:
        return f"PaillierPublicKey({self._key.bits} bits, {self._key.key_id.hex()})"

    @property
    def bits(self) -> int:
        """Return the length of the key."""
        return self._key.bits

    def to_wire(self) -> dict[str, str]:
        """Return the key as plain JSON, to be sent to other parties."""
        return {"n": hex(self._key.n)}

    @staticmethod
    def from_wire(value: object, *, bits: int = SAFE_BITS) -> PaillierPublicKey:
        """Return the key that another party sent, of at least `bits` bits.

        Raises: CodecError: it is none, too short, or obviously weak.
        """
        text = value.get("n") if isinstance(value, dict) else None
        return PaillierPublicKey(PublicKey.parse(text, bits=bits))

    def encrypt(self, values: Numbers, *, workers: Workers | None = None) -> EncryptedVector:
        """Return `values` (one axis) encrypted, each with randomness of its own.

        Floats are rounded to multiples of 2**-40 and are below 2**40 in size. Integers are exact
        and below 2**62. With `workers` all cores of the task encrypt.

        Raises: NotEncodable: a value is too large or not finite. TypeError: they are no numbers.
            ValueError: more than one axis.
        """
        numbers = _array(values)
        form = _plain_form(numbers)
        if numbers.dtype.kind == "f":
            check_range(numbers, limit_bits=VALUE_LIMIT_BITS, what="values")
        key = self._key
        if workers is None:
            return EncryptedVector(key, list(key.encrypt(_plain(numbers, form.scale))), form)
        key.prepare()
        rows = workers.fill_rows(
            partial(_encrypt_block, key, form.scale),
            (numbers,),
            width=key.width,
            cost=cost_of(key, blinding_products(key)),
        )
        return EncryptedVector(key, _ciphertexts(rows), form)

    def read(self, payload: object, *, count: int) -> EncryptedVector:
        """Return the vector of `count` numbers that another party wrote with `to_bytes`.

        All is checked that can be: format, key, count, and that each is a ciphertext. What it holds
        cannot be checked.

        Raises: CodecError: it is something else.
        """
        if not isinstance(payload, bytes) or len(payload) < _HEADER.size:
            raise CodecError(reason="no encrypted vector where one was due")
        magic, scale, bits, slots, found = _HEADER.unpack_from(payload)
        form = _Form(scale, bits, slots)
        if magic != MAGIC:
            raise CodecError(reason="the encrypted vector has an unknown format or version")
        if found != count:
            raise CodecError(reason=f"{found} encrypted numbers where {count} were due")
        if not 0 <= scale <= bits or not _fits(self._key, form):
            raise CodecError(reason="the numbers of the encrypted vector do not fit its key")
        own = self._key.from_bytes(payload[_HEADER.size :], count=-(-count // slots))
        return EncryptedVector(self._key, own, form, count=count, is_fresh=False)


class PaillierKeyPair:
    """The key owner's pair: decrypts what others computed. The secret half stays in this object."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.public = PaillierPublicKey(key.public)  #: the half that others get

    def __repr__(self) -> str:
        return f"PaillierKeyPair(of {self.public!r})"

    @staticmethod
    def generate(bits: int = SAFE_BITS) -> PaillierKeyPair:
        """Return a new pair; 2048 bits take about half a second.

        1024 bits are for tests and comparisons only.

        Raises: ValueError: fewer than 1024 bits, or an odd number.
        """
        if bits < LEAST_BITS:
            raise ValueError(f"a key of {bits} bits is not safe; at least {LEAST_BITS}")
        return PaillierKeyPair(PrivateKey.generate(bits))

    def decrypt(self, vector: EncryptedVector, *, workers: Workers | None = None) -> Floats:
        """Return the numbers (float64, one axis); what was computed is exact before that rounding.

        Raises: CodecError: it is of another key, or a packed number has left its place.
        """
        scale = vector._form.scale
        values = [_as_float(number, scale) for number in self._integers(vector, workers)]
        return np.array(values, dtype=np.float64)

    def decrypt_integers(
        self, vector: EncryptedVector, *, workers: Workers | None = None
    ) -> list[int]:
        """Return the numbers of a vector that was made and multiplied by integers only.

        Raises: ValueError: floats took part. CodecError: as `decrypt`.
        """
        if vector._form.scale:
            raise ValueError("floats took part: decrypt() returns them")
        return self._integers(vector, workers)

    def open_masked(self, vector: EncryptedVector, *, workers: Workers | None = None) -> bytes:
        """Return what is below the encryption, exactly, for the party that has the `Mask`.

        This is the owner's part of decrypting for somebody else: see `EncryptedVector.masked`.

        Raises: CodecError: as `decrypt`.
        """
        width = vector._form.bits // 8 + 1
        numbers = self._integers(vector, workers)
        try:
            body = b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
        except OverflowError:
            raise CodecError(reason="a number is larger than its sender said") from None
        return _OPENED.pack(_OPENED_MAGIC, width, len(numbers)) + body

    def _integers(self, vector: EncryptedVector, workers: Workers | None) -> list[int]:
        """Return the plaintexts, unpacked."""
        key = self._key
        if vector._key.n != key.public.n:
            raise CodecError(reason="the numbers were encrypted with another key")
        if workers is None:
            found = key.decrypt(vector._ciphertexts)
        else:
            width = key.public.bits // 8 + 1
            rows = workers.fill_rows(
                partial(_decrypt_block, key, width),
                (vector._rows(),),
                width=width,
                cost=DECRYPTION_COST * (key.public.bits / 2048) ** 3,
            )
            found = [int.from_bytes(row.tobytes(), "little", signed=True) for row in rows]
        slots = vector._form.slots
        if slots == 1:
            return found
        return unpack(found, vector._form.bits + 1, slots=slots, count=len(vector))


class EncryptedVector:
    """Numbers that only the key's owner can read, and that everybody can compute with.

    `+` and `-` take another vector of the same key, or plain numbers; `*` takes plain numbers. All
    have the same length, or there is one plain number for all. Results are exact.

    Send `to_bytes()`, and nothing else: it gives what was computed a new blinding, without which
    the key's owner could find out how it was computed.
    """

    __slots__ = ("_ciphertexts", "_count", "_form", "_is_fresh", "_key")
    __array_ufunc__ = None  # numpy leaves `array * vector` to this class

    def __init__(
        self,
        key: PublicKey,
        ciphertexts: list[mpz],
        form: _Form,
        *,
        count: int | None = None,
        is_fresh: bool = True,
    ) -> None:
        self._key = key
        self._ciphertexts = ciphertexts
        self._form = form
        self._count = len(ciphertexts) if count is None else count
        self._is_fresh = is_fresh

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"EncryptedVector({len(self)} numbers, key {self._key.key_id.hex()})"

    def __getitem__(self, rows: slice | NDArray[Any] | Sequence[int]) -> EncryptedVector:
        """Return some of the numbers: a slice, row numbers, or one truth value per number."""
        self._need_arithmetic()
        if isinstance(rows, int | np.integer):
            raise TypeError("take a slice, such as vector[3:4]: one number is a vector too")
        if isinstance(rows, slice):
            chosen = self._ciphertexts[rows]
        else:
            at = np.arange(len(self))[np.asarray(rows)]
            chosen = [self._ciphertexts[row] for row in at.tolist()]
        return EncryptedVector(self._key, chosen, self._form, is_fresh=self._is_fresh)

    def __add__(self, other: EncryptedVector | Numbers | float) -> EncryptedVector:
        key = self._key
        if isinstance(other, EncryptedVector):
            left, right = self._aligned(other)
            form = _Form(left._form.scale, max(left._form.bits, right._form.bits) + 1)
            pairs = zip(left._ciphertexts, right._ciphertexts, strict=True)
            return self._computed((key.add(one, two) for one, two in pairs), form)
        numbers = self._broadcast(other)
        if numbers.dtype.kind == "f":
            check_range(numbers, limit_bits=VALUE_LIMIT_BITS, what="values")
        plain = _plain_form(numbers)
        own = self._at_scale(max(self._form.scale, plain.scale))
        added = plain.bits + own._form.scale - plain.scale
        form = _Form(own._form.scale, max(own._form.bits, added) + 1)
        values = _plain(numbers, own._form.scale)
        return self._computed(
            (key.add_plain(c, v) for c, v in zip(own._ciphertexts, values, strict=True)), form
        )

    __radd__ = __add__

    def __neg__(self) -> EncryptedVector:
        return self * -1

    def __sub__(self, other: EncryptedVector | Numbers | float) -> EncryptedVector:
        return self + (-other if isinstance(other, EncryptedVector) else -_array(other))

    def __rsub__(self, other: Numbers | float) -> EncryptedVector:
        return -self + other

    def __mul__(self, other: Numbers | float) -> EncryptedVector:
        if isinstance(other, EncryptedVector):
            raise TypeError("two encrypted numbers cannot be multiplied under Paillier")
        factors, scale = _factors(self._broadcast(other))
        form = _Form(self._form.scale + scale, self._form.bits + INTEGER_LIMIT_BITS)
        pairs = zip(self._ciphertexts, factors.tolist(), strict=True)
        return self._computed((self._key.multiply_plain(c, f) for c, f in pairs), form)

    __rmul__ = __mul__

    def sum(self) -> EncryptedVector:
        """Return the sum of all numbers, as a vector of one."""
        self._need_arithmetic()
        form = replace(self._form, bits=self._form.bits + len(self).bit_length())
        return self._computed([self._key.total(self._ciphertexts)], form)

    def dot(self, matrix: NDArray[Any], *, workers: Workers | None = None) -> EncryptedVector:
        """Return the inner product with each column of `matrix` (rows x columns): `matrix.T @ v`.

        Floats of the matrix are rounded to multiples of 2**-32 and are below 2**30 in size.
        Integers are exact and below 2**62. One row per number of the vector; the result has one
        number per column. With `workers` all cores of the task take part.

        Raises: NotEncodable: a number of the matrix is too large or not finite. ValueError: the
            shapes do not fit.
        """
        self._need_arithmetic()
        if matrix.ndim != 2 or len(matrix) != len(self):
            raise ValueError(f"a matrix of shape {matrix.shape} for {len(self)} encrypted rows")
        integers, scale = _factors(matrix)
        grown = INTEGER_LIMIT_BITS + len(self).bit_length()
        form = _Form(self._form.scale + scale, self._form.bits + grown)
        key = self._key
        if workers is None:
            found = key.dot_columns(self._ciphertexts, integers)
        else:
            payload = key.to_bytes(self._ciphertexts)
            found = column_sums(workers, key, payload, IntegerRows.of(integers))
        return self._computed(found, form)

    def masked(self) -> tuple[EncryptedVector, Mask]:
        """Return the numbers plus large random ones, and the mask that takes those off again.

        For results that the key's owner must not read. Send the masked vector to the owner, who
        answers with `PaillierKeyPair.open_masked`; `Mask.remove` gives the numbers. The owner sees
        numbers that are random but for a chance of 2**-40.

        Raises: NotEncodable: the key is too short for the mask.
        """
        self._need_arithmetic()
        bits = self._form.bits + _MASK_EXTRA_BITS
        secret = [secrets.randbits(bits) for _ in range(len(self))]
        pairs = zip(self._ciphertexts, secret, strict=True)
        form = replace(self._form, bits=bits + 1)
        vector = self._computed((self._key.add_plain(c, s) for c, s in pairs), form)
        return vector, Mask(secret, self._form)

    def to_bytes(self, *, packed: bool = False) -> bytes:
        """Return the wire form, safe to send to every party: what was computed is blinded anew.

        Args:
            packed: several numbers share a ciphertext, about ten with a key of 2048 bits. The
                message is shorter and faster to decrypt, but can only be decrypted.
        """
        own = self._packed() if packed and self._form.slots == 1 else self
        ciphertexts: Iterable[mpz] = own._ciphertexts
        if not own._is_fresh:
            ciphertexts = self._key.blind(ciphertexts, to_owner=True)
        form = own._form
        head = _HEADER.pack(MAGIC, form.scale, form.bits, form.slots, len(self))
        return head + self._key.to_bytes(ciphertexts)

    def _packed(self) -> EncryptedVector:
        width = self._form.bits + 1
        form = replace(self._form, slots=self._key.slots(width))
        ciphertexts = self._key.pack(self._ciphertexts, width)
        return EncryptedVector(self._key, ciphertexts, form, count=len(self), is_fresh=False)

    def _computed(self, ciphertexts: Iterable[mpz], form: _Form) -> EncryptedVector:
        """Return a result. Raises: NotEncodable: its numbers may be too large for the key."""
        if not _fits(self._key, form):
            raise NotEncodable(
                reason=f"numbers of up to {form.bits} bits do not fit a key of {self._key.bits};"
                " decrypt before multiplying again"
            )
        return EncryptedVector(self._key, list(ciphertexts), form, is_fresh=False)

    def _aligned(self, other: EncryptedVector) -> tuple[EncryptedVector, EncryptedVector]:
        """Return both at one scale. Raises: ValueError: other key or length."""
        if other._key.n != self._key.n:
            raise ValueError("the vectors were encrypted with different keys")
        if len(other) != len(self):
            raise ValueError(f"vectors of {len(self)} and {len(other)} numbers")
        scale = max(self._form.scale, other._form.scale)
        return self._at_scale(scale), other._at_scale(scale)

    def _at_scale(self, scale: int) -> EncryptedVector:
        """Return the same numbers with at least as many fraction bits."""
        self._need_arithmetic()
        more = scale - self._form.scale
        if not more:
            return self
        form = _Form(scale, self._form.bits + more)
        factor = 1 << more
        return self._computed(
            (self._key.multiply_plain(c, factor) for c in self._ciphertexts), form
        )

    def _broadcast(self, numbers: Numbers | float) -> NDArray[Any]:
        """Return one plain number per encrypted one. Raises: ValueError: there are others."""
        self._need_arithmetic()
        found = np.atleast_1d(_array(numbers))
        if found.shape not in ((1,), (len(self),)):
            raise ValueError(f"plain numbers of shape {found.shape} for {len(self)} encrypted ones")
        return np.broadcast_to(found, (len(self),))

    def _need_arithmetic(self) -> None:
        """Raises: ValueError: the numbers are packed."""
        if self._form.slots != 1:
            raise ValueError("a packed vector can be decrypted, not computed with")

    def _rows(self) -> NDArray[np.uint8]:
        """Return the ciphertexts as bytes (ciphertexts x width)."""
        body = self._key.body(self._ciphertexts)
        return np.frombuffer(body, np.uint8).reshape(len(self._ciphertexts), self._key.width)


class Mask:
    """The random numbers of `EncryptedVector.masked`; they never leave the party that drew them."""

    __slots__ = ("_form", "_secret")

    def __init__(self, secret: list[int], form: _Form) -> None:
        self._secret = secret
        self._form = form

    def __repr__(self) -> str:
        return f"Mask({len(self._secret)} numbers)"

    def remove(self, payload: object) -> Floats:
        """Return the numbers (float64) of the key owner's answer.

        Raises: CodecError: it is something else.
        """
        count = len(self._secret)
        if not isinstance(payload, bytes) or len(payload) < _OPENED.size:
            raise CodecError(reason="no opened numbers where some were due")
        magic, width, found = _OPENED.unpack_from(payload)
        body = payload[_OPENED.size :]
        if magic != _OPENED_MAGIC or found != count or len(body) != width * count:
            raise CodecError(reason=f"not {count} opened numbers")
        values = []
        for place, secret in enumerate(self._secret):
            part = body[place * width : (place + 1) * width]
            number = int.from_bytes(part, "little", signed=True) - secret
            if abs(number) >> self._form.bits:
                raise CodecError(reason="an opened number is larger than can be")
            values.append(_as_float(number, self._form.scale))
        return np.array(values, dtype=np.float64)


def _array(values: Numbers | float) -> NDArray[Any]:
    """Return numbers as int64 or float64. Raises: TypeError: they are none; ValueError: axes."""
    found = np.asarray(values)
    if found.ndim > 1:
        raise ValueError(f"an array of shape {found.shape} where numbers on one axis were due")
    return _typed(found)


def _typed(found: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as int64 or float64. Raises: TypeError. NotEncodable: too large integers."""
    if found.dtype.kind == "f":
        return found.astype(np.float64)
    if found.dtype.kind not in "biu":
        raise TypeError(f"an array of {found.dtype} where numbers were due")
    largest = max(int(found.max()), -int(found.min())) if found.size else 0
    if largest >> INTEGER_LIMIT_BITS:
        raise NotEncodable(reason=f"an integer reaches 2^{INTEGER_LIMIT_BITS}")
    return found.astype(np.int64)


def _plain_form(numbers: NDArray[Any]) -> _Form:
    if numbers.dtype.kind == "f":
        return _Form(VALUE_FRACTION_BITS, VALUE_FRACTION_BITS + VALUE_LIMIT_BITS)
    return _Form(0, INTEGER_LIMIT_BITS)


def _plain(numbers: NDArray[Any], scale: int) -> list[int]:
    """Return checked numbers as integers of that scale."""
    if numbers.dtype.kind == "f":
        # rounded to their own fraction bits, so that sums do not depend on the vector's scale
        more = scale - VALUE_FRACTION_BITS
        return [scaled(value, VALUE_FRACTION_BITS) << more for value in numbers.tolist()]
    return [int(value) << scale for value in numbers.tolist()]


def _factors(numbers: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return factors as integers, and their scale. Raises: NotEncodable, TypeError."""
    found = _typed(numbers)
    if found.dtype.kind == "f":
        encoded = _FACTORS.encode(found, limit_bits=FACTOR_LIMIT_BITS, what="factors")
        return encoded, FACTOR_FRACTION_BITS
    return found, 0


def _fits(key: PublicKey, form: _Form) -> bool:
    """Tell whether numbers of that form fit the key's plaintexts."""
    if form.slots == 1:
        return form.bits <= key.bits - 2
    return form.slots > 0 and form.slots * (form.bits + 1) <= key.bits - 2


def _as_float(number: int, scale: int) -> float:
    """Return number / 2**scale, correctly rounded, infinite if it is beyond float64."""
    try:
        return number / (1 << scale)
    except OverflowError:
        return math.copysign(math.inf, number)


def _ciphertexts(rows: NDArray[np.uint8]) -> list[mpz]:
    return [mpz.from_bytes(row.tobytes(), "little") for row in rows]


def _encrypt_block(key: PublicKey, scale: int, numbers: NDArray[Any]) -> bytes:
    return key.body(key.encrypt(_plain(numbers, scale)))


def _decrypt_block(key: PrivateKey, width: int, rows: NDArray[np.uint8]) -> bytes:
    numbers = key.decrypt(_ciphertexts(rows))
    return b"".join(number.to_bytes(width, "little", signed=True) for number in numbers)
