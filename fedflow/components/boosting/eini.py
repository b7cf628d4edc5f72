"""Prediction with one round trip, whatever the depth: each party rules out leaves (EINI).

| message | from -> to | value |
|---|---|---|
| leaf_sides | guest -> hosts | {leaves, bits, nodes}: which leaves lie left and right of nodes |
| leaf_values | guest -> first host | a ciphertext per row and leaf; of 0 if it is ruled out |
| open_leaf_values | host -> next host | the same, after this host has ruled out more |
| score_sums | last host -> guest | the sums of each row and class, packed |

Of every tree one leaf is left, so the sum is the score. Tags are blocks of rows. Leaves are
numbered in an order that the guest draws. All that leaves a host is blinded anew.

Source: Chen et al. 2021 (EINI); the way of the messages is that of FATE 1.11.
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
from gmpy2 import mpz
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.bins import Split
from fedflow.components.boosting.sums import cells_of, open_slots, pack_slots
from fedflow.components.boosting.trees import LEAF, OWN, BoostedTree, HostTree
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Role
from fedflow.sdk.crypto.encrypted_rows import cost_of
from fedflow.sdk.crypto.randomness import random_permutation
from fedflow.sdk.crypto.schemes import PrivateScheme, PublicScheme
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

LEAST_COMPLEXITY: Final = 10**9  #: ways through a host's nodes that FATE asks for
MOST_LEAVES: Final = 1 << 20  #: of a tree

_CIPHERTEXTS_PER_BLOCK: Final = 32_768  # of one message
_VALUE_BITS: Final = 56  # of the largest leaf value, fewer with very many trees
_EXACT_BITS: Final = 61  # of a sum
_MASK_BITS: Final = 16  # a mask is a whole number of 2**-16, from 1 to below 2

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Bytes = NDArray[np.uint8]


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """Of one split of a host: which leaves lie on either side."""

    tree: Annotated[int, Meta(ge=0)]
    node: int
    left: list[int]
    right: list[int]


class _Sides(msgspec.Struct, frozen=True, kw_only=True):
    leaves: list[Annotated[int, Meta(ge=1, le=MOST_LEAVES)]]  #: of each tree
    bits: Annotated[int, Meta(ge=1, le=_EXACT_BITS)]  #: every |score| is below 2**bits
    nodes: list[_Node]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ruling:
    """A split of this party: a row that goes left cannot reach the leaves on the right."""

    split: Split
    left: NDArray[np.intp]  #: leaves, numbered over all trees
    right: NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Leaves:
    """All leaves of all trees."""

    counts: Sequence[int]  #: of each tree
    classes: Sequence[int]  #: of each tree

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def starts(self) -> list[int]:
        """Return the number of each tree's first leaf."""
        return [sum(self.counts[:tree]) for tree in range(len(self.counts))]

    def blocks(self, rows: int) -> Iterator[tuple[str, slice]]:
        """Yield tag and rows of every message."""
        step = max(1, _CIPHERTEXTS_PER_BLOCK // self.total)
        for number, start in enumerate(range(0, rows, step)):
            yield str(number), slice(start, min(rows, start + step))

    def class_sums(self, width: int) -> list[list[int]]:
        """Return the leaves of each class."""
        found: list[list[int]] = [[] for _ in range(width)]
        for start, count, klass in zip(self.starts, self.counts, self.classes, strict=True):
            found[klass] += range(start, start + count)
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class _Slot:
    """Where a score stands in a plaintext: masked, and raised so that it is not negative."""

    bits: int  #: every |score| is below 2**bits
    is_masked: bool

    @property
    def mask_bits(self) -> int:
        return _MASK_BITS if self.is_masked else 0

    @property
    def raised(self) -> int:
        """Return what is added to a score: more than any masked one."""
        return 1 << (self.bits + self.mask_bits + 1)

    @property
    def width(self) -> int:
        """Return the bits of a slot, with a sign that is never set."""
        return self.raised.bit_length() + 2

    def new_factor(self) -> int:
        """Return what all scores are multiplied by, drawn anew."""
        once = 1 << self.mask_bits
        return once + (secrets.randbelow(once) if self.is_masked else 0)


def open_leaves(rulings: Sequence[_Ruling], features: Floats, *, total: int) -> Mask:
    """Return which leaves these splits leave open for each row, rows x leaves."""
    found = np.ones((len(features), total), dtype=np.bool_)
    for one in rulings:
        left = one.split.goes_left(features[:, one.split.column])[:, None]
        found[:, one.left] &= left
        found[:, one.right] &= ~left
    return found


# --- guest ----------------------------------------------------------------------------------------


def scores_by_eini(
    ctx: Context,
    key: PrivateScheme,
    trees: Sequence[BoostedTree],
    features: Floats,
    *,
    init_score: Floats,
    is_masked: bool,
) -> Floats:
    """Return the score of every row and class, rows x classes, at the guest.

    With `is_masked` all of them are multiplied by a number from 1 to 2 that the last host knows.
    `ctx.params` has the learning rate. Raises: CodecError, PeerFailed.
    """
    guest = _Guest(ctx, key, trees, init_score, is_masked=is_masked)
    guest.tell_sides()
    guest.send_values(features)
    return guest.receive(features)


class _Guest:
    def __init__(
        self,
        ctx: Context,
        key: PrivateScheme,
        trees: Sequence[BoostedTree],
        init_score: Floats,
        *,
        is_masked: bool,
    ) -> None:
        self._ctx = ctx
        self._key = key
        self._trees = trees
        self._hosts = ctx.sites_of(Role.HOST)
        self._width = len(init_score)
        self._numbers = [_numbered(tree) for tree in trees]
        classes = [tree.klass for tree in trees]
        self._leaves = _Leaves(counts=[len(own) for own in self._numbers], classes=classes)
        shares = np.bincount(classes, minlength=self._width)
        values = np.concatenate(
            [
                ctx.params.learning_rate * tree.tables.weights[list(own)]
                + init_score[tree.klass] / shares[tree.klass]
                for tree, own in zip(trees, self._numbers, strict=True)
            ]
        )
        bits = min(_VALUE_BITS, _EXACT_BITS - len(trees).bit_length())
        _, exponent = np.frexp(np.abs(values).max(initial=0.0))
        self._unit = 2.0 ** (int(exponent) - bits)
        self._values = np.rint(values / self._unit).astype(np.int64)
        self._slot = _Slot(bits=bits + len(trees).bit_length(), is_masked=is_masked)
        self._rulings = [
            _Ruling(split=split, left=left, right=right)
            for tree, node, left, right in self._sides(OWN)
            if (split := trees[tree].nodes[node].split) is not None
        ]

    def tell_sides(self) -> None:
        """Tell each host where leaves lie beside its nodes."""
        starts = self._leaves.starts
        for owner, host in enumerate(self._hosts, start=1):
            nodes = [
                _Node(
                    tree=tree,
                    node=node,
                    left=(left - starts[tree]).tolist(),
                    right=(right - starts[tree]).tolist(),
                )
                for tree, node, left, right in self._sides(owner)
            ]
            told = _Sides(leaves=list(self._leaves.counts), bits=self._slot.bits, nodes=nodes)
            self._ctx.federation.send("leaf_sides", msgspec.to_builtins(told), to=host)

    def send_values(self, features: Floats) -> None:
        """Send the encrypted values of all leaves of all rows."""
        key, total = self._key, self._leaves.total
        key.prepare()
        for tag, block in self._leaves.blocks(len(features)):
            rows = self._ctx.workers.fill_rows(
                functools.partial(_encrypt, key),
                (np.where(self._open(features[block]), self._values, 0),),
                width=total * key.public.width,
                cost=total * cost_of(key.public, key.encryption_products()),
            )
            message = key.public.message_of(rows.reshape(-1, key.public.width))
            self._ctx.federation.send("leaf_values", message, to=self._hosts[0], tag=tag)

    def receive(self, features: Floats) -> Floats:
        """Return the scores. Raises: CodecError: one that no leaves give."""
        sender = f"score_sums of {self._hosts[-1]}"
        found = np.empty((len(features), self._width))
        slot = self._slot
        for tag, block in self._leaves.blocks(len(features)):
            rows = block.stop - block.start
            opened = open_slots(
                self._key,
                wait_for(self._ctx, "score_sums", self._hosts[-1], tag=tag),
                count=rows * self._width,
                slot_bits=slot.width,
                workers=self._ctx.workers,
                message=sender,
            )
            sums = [raised - slot.raised for raised in opened]
            least, most = self._bounds(features[block])
            for place, (number, low, high) in enumerate(zip(sums, least, most, strict=True)):
                if not self._is_possible(number, low, high):
                    raise CodecError(reason=f"{sender}: a score that no leaves give")
                row, klass = divmod(place, self._width)
                found[block.start + row, klass] = math.ldexp(number, -slot.mask_bits) * self._unit
        return found

    def _is_possible(self, number: int, low: int, high: int) -> bool:
        once = 1 << self._slot.mask_bits
        twice = 2 * once if self._slot.is_masked else once
        return min(low * once, low * twice) <= number <= max(high * once, high * twice)

    def _bounds(self, features: Floats) -> tuple[list[int], list[int]]:
        """Return the least and the largest score of each row and class, row after row."""
        is_open = self._open(features)
        starts, classes = self._leaves.starts, list(self._leaves.classes)
        limit = np.iinfo(np.int64)
        found = []
        for pick, nothing in ((np.minimum, limit.max), (np.maximum, limit.min)):
            per_tree = pick.reduceat(np.where(is_open, self._values, nothing), starts, axis=1)
            sums = np.zeros((len(features), self._width), dtype=np.int64)
            for tree, klass in enumerate(classes):
                sums[:, klass] += per_tree[:, tree]
            found.append(sums.ravel().tolist())
        return found[0], found[1]

    def _open(self, features: Floats) -> Mask:
        return open_leaves(self._rulings, features, total=self._leaves.total)

    def _sides(self, owner: int) -> Iterator[tuple[int, int, NDArray[np.intp], NDArray[np.intp]]]:
        """Yield tree, node, and the leaves left and right of it, of all nodes of a party."""
        starts = self._leaves.starts
        for number, (tree, order) in enumerate(zip(self._trees, self._numbers, strict=True)):
            places = {leaf: starts[number] + place for place, leaf in enumerate(order)}
            below: dict[int, list[int]] = {}
            for node in reversed(range(len(tree.nodes))):  # children have higher numbers
                one = tree.nodes[node]
                own = one.owner == LEAF
                below[node] = [places[node]] if own else below[one.left] + below[one.right]
            for node, one in enumerate(tree.nodes):
                if one.owner == owner:
                    left, right = (np.array(below[child]) for child in (one.left, one.right))
                    yield number, node, left, right


def _numbered(tree: BoostedTree) -> tuple[int, ...]:
    """Return the leaves of a tree in a new secret order."""
    leaves = np.array([number for number, node in enumerate(tree.nodes) if node.owner == LEAF])
    return tuple(leaves[random_permutation(len(leaves))].tolist())


# --- hosts ----------------------------------------------------------------------------------------


def answer_by_eini(
    ctx: Context,
    key: PublicScheme,
    trees: Sequence[HostTree],
    features: Floats,
    *,
    width: int,
    is_masked: bool,
    is_checked: bool,
) -> None:
    """Rule out leaves at a host, and send on what is left.

    `width` is how many scores a row has. `is_checked` asks for so many ways through this host's
    nodes that the guest cannot try them all. Raises: CodecError, PeerFailed, BadParameter.
    """
    hosts, guest = ctx.sites_of(Role.HOST), ctx.only(Role.GUEST)
    place = hosts.index(ctx.site)
    sides = _told_sides(ctx, trees)
    if is_checked:
        _check_complexity(sides)
    leaves = _Leaves(counts=sides.leaves, classes=[tree.klass for tree in trees])
    rulings = _rulings(sides, trees, leaves.starts)
    name, source = ("open_leaf_values", hosts[place - 1]) if place else ("leaf_values", guest)
    is_last = place + 1 == len(hosts)
    slot = _Slot(bits=sides.bits, is_masked=is_masked)
    factor = slot.new_factor()
    key.prepare(to_owner=is_last)
    for tag, block in leaves.blocks(len(features)):
        payload = wait_for(ctx, name, source, tag=tag)
        rows = block.stop - block.start
        given = key.rows_of(payload, count=rows * leaves.total).reshape(rows, -1)
        is_open = open_leaves(rulings, features[block], total=leaves.total)
        if not is_last:
            closed = ctx.workers.fill_rows(
                functools.partial(_close, key),
                (given, is_open),
                width=leaves.total * key.width,
                cost=leaves.total * cost_of(key, key.blinding_products()),
            )
            message = key.message_of(closed.reshape(-1, key.width))
            ctx.federation.send("open_leaf_values", message, to=hosts[place + 1], tag=tag)
            continue
        sums = ctx.workers.fill_rows(
            functools.partial(_sum, key, leaves.class_sums(width), factor, slot.raised),
            (given, is_open),
            width=width * key.width,
            cost=cost_of(key, leaves.total + 3.0 * width),
        )
        cells = list(cells_of(sums.tobytes(), key.width))
        packed = pack_slots(key, cells, slot_bits=slot.width, workers=ctx.workers)
        ctx.federation.send("score_sums", packed, to=guest, tag=tag)


def _told_sides(ctx: Context, trees: Sequence[HostTree]) -> _Sides:
    """Return where leaves lie. Raises: CodecError: that cannot be."""
    guest = ctx.only(Role.GUEST)
    try:
        sides = read_as(wait_for(ctx, "leaf_sides", guest), _Sides)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"leaf_sides of {guest}: {exc}") from exc
    own = {(tree, node) for tree, one in enumerate(trees) for node in one.splits}
    told = [(one.tree, one.node) for one in sides.nodes]
    if len(sides.leaves) != len(trees) or len(told) != len(own) or set(told) != own:
        raise CodecError(reason=f"leaf_sides of {guest}: not the nodes of this party")
    for one in sides.nodes:
        both = [*one.left, *one.right]
        are_known = all(0 <= leaf < sides.leaves[one.tree] for leaf in both)
        if not (one.left and one.right and are_known) or len(set(both)) < len(both):
            raise CodecError(reason=f"leaf_sides of {guest}: no two sides of a node")
    return sides


def _rulings(sides: _Sides, trees: Sequence[HostTree], starts: Sequence[int]) -> list[_Ruling]:
    return [
        _Ruling(
            split=trees[one.tree].splits[one.node],
            left=np.array(one.left) + starts[one.tree],
            right=np.array(one.right) + starts[one.tree],
        )
        for one in sides.nodes
    ]


def _check_complexity(sides: _Sides) -> None:
    """Raises: BadParameter: the guest could try all ways through this host's nodes."""
    below: dict[int, set[int]] = {}
    for one in sides.nodes:
        below.setdefault(one.tree, set()).update(one.left, one.right)
    ways = math.prod(len(leaves) for leaves in below.values())
    if ways < LEAST_COMPLEXITY:
        reason = f"this host's splits have {ways} ways through all trees, fewer than 1e9"
        raise BadParameter(path="EINI_complexity_check", reason=reason)


# --- on the workers -------------------------------------------------------------------------------


def _encrypt(key: PrivateScheme, values: Ints) -> bytes:
    return key.public.body(key.encrypt(values.ravel().tolist()))


def _close(key: PublicScheme, given: Bytes, is_open: Mask) -> bytes:
    """Return the ciphertexts blinded anew, those of closed leaves with a 0. Raises: CodecError."""
    cells = key.read_rows(given.reshape(-1, key.width))
    left = (cell if keep else mpz(1) for cell, keep in zip(cells, is_open.ravel(), strict=True))
    return key.body(key.blind(left))


def _sum(
    key: PublicScheme,
    classes: Sequence[Sequence[int]],
    factor: int,
    raised: int,
    given: Bytes,
    is_open: Mask,
) -> bytes:
    """Return the sum of the open leaves of each class, times `factor`, plus `raised`.

    Not blinded yet. Raises: CodecError: a ciphertext is none.
    """
    total = is_open.shape[1]
    cells = key.read_rows(given.reshape(-1, key.width))
    found: list[mpz] = []
    for row, own in enumerate(is_open):
        for leaves in classes:
            kept = [cells[row * total + leaf] for leaf in leaves if own[leaf]]
            one = key.total(kept) if kept else mpz(1)
            found.append(key.add_plain(key.multiply_plain(one, factor), raised))
    return key.body(found)
