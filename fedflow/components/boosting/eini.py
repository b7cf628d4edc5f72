"""Scores by EINI: no party learns the way of a row through the trees, and one round trip suffices.

| message | from -> to | value |
|---|---|---|
| guest_predict_data | guest -> host | {masked, regions, nodes}: what lies below its splits |
| guest_position_vec | guest -> first host | a ciphertext per row and column |
| inter_host_data | host -> next host | the same, blinded anew; what its splits close is 0 |
| host_merge_result | last host -> guest | sums per row and class, several in a ciphertext |

`regions.py` tells what the columns are. Rows go in blocks, tags are `<tag>.<block>`.

Source: Chen et al. 2021 (EINI), arXiv:2105.09540.
"""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from gmpy2 import mpz
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.regions import RowValues, TreeRegions
from fedflow.components.boosting.trees import BoostedTree, HostTree
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Role
from fedflow.sdk.crypto.ciphertexts import unpack
from fedflow.sdk.crypto.encrypted_rows import DECRYPTION_COST, cost_of
from fedflow.sdk.crypto.schemes import PrivateScheme, PublicScheme
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

LEAST_WAYS: Final = 10**9  #: through a host's splits, which `EINI_complexity_check` asks for

_CELLS_PER_BLOCK: Final = 32_768  #: ciphertexts of a message, unless a row has more
_SUM_BITS: Final = 61  #: every |sum| is below 2**this
_SLOT_BITS: Final = 64
_MASK_BITS: Final = 32  #: a mask is a multiple of 2**-32
_MOST_FRACTION_BITS: Final = 48


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """A host's node: columns `first` to `middle` lie left of its split, those to `end` right."""

    node: int
    first: Annotated[int, Meta(ge=0)]
    middle: int
    end: int


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a host has to know of the trees; columns are counted over all of them."""

    masked: bool
    regions: list[Annotated[int, Meta(ge=0, le=1 << 20)]]  #: columns per tree
    nodes: list[list[_Node]]  #: per tree, of this host

    def classes(self, klasses: Sequence[int], width: int) -> NDArray[np.intp]:
        """Return the class of every column; with a mask one more for each class follows."""
        found = np.repeat(np.array(klasses, dtype=np.intp), self.regions)
        return np.concatenate((found, np.arange(width))) if self.masked and len(found) else found


# --- guest ----------------------------------------------------------------------------------------


def scores_of(
    ctx: Context,
    trees: Sequence[BoostedTree],
    features: Floats,
    make_key: Callable[[Context], PrivateScheme],
    *,
    init_score: Floats,
    tag: str,
) -> Floats:
    """Return the scores (rows x width) at the guest; with a mask all are larger by one factor.

    Raises: BadData: not finite. BadParameter: a tree of one host alone. CodecError, PeerFailed.
    """
    if any(tree.grown_by for tree in trees):
        raise _grown_alone()
    rate, masked = ctx.params.learning_rate, ctx.params.EINI_random_mask
    scale = _scale(trees, init_score, rate)
    regions = [TreeRegions.of(tree, rate=rate, scale=scale) for tree in trees]
    hosts = ctx.sites_of(Role.HOST)
    for owner, host in enumerate(hosts, start=1):
        plan = _plan(regions, owner, masked=masked)
        ctx.federation.send(
            "guest_predict_data", msgspec.to_builtins(plan), to=host, tag=f"{tag}.0"
        )
    columns = len(plan.classes([tree.klass for tree in trees], len(init_score)))
    key = make_key(ctx)
    public = key.public
    key.prepare()
    scores = np.empty((len(features), len(init_score)))
    waiting: list[tuple[int, slice, RowValues]] = []

    def receive() -> None:
        number, rows, block = waiting.pop(0)
        if not columns:
            scores[rows] = block.base
            return
        payload = wait_for(ctx, "host_merge_result", hosts[-1], tag=f"{tag}.{number}")
        sums = _opened(ctx, key, payload, masked=masked, shape=block.low.shape)
        if not block.allow(sums, mask_bits=_MASK_BITS if masked else None):
            raise CodecError(reason=f"host_merge_result of {hosts[-1]}: sums that no leaves have")
        unit = 2.0 ** -(scale + _MASK_BITS * masked)
        scores[rows] = sums.astype(np.float64) * unit + (0.0 if masked else block.base)

    for number, rows in _blocks(len(features), columns):
        block = RowValues.of(regions, features[rows], init_score, rate=rate, scale=scale)
        if columns:
            cells = ctx.workers.fill_rows(
                functools.partial(_encrypt, key),
                (block.columns(masked=masked),),
                width=columns * public.width,
                cost=columns * cost_of(public, key.encryption_products()),
            )
            message = public.message_of(cells.reshape(-1, public.width))
            ctx.federation.send("guest_position_vec", message, to=hosts[0], tag=f"{tag}.{number}")
        waiting.append((number, rows, block))
        if len(waiting) > 1:  # the hosts work on one block while the next is encrypted
            receive()
    while waiting:
        receive()
    return scores


def _plan(regions: Sequence[TreeRegions], owner: int, *, masked: bool) -> _Plan:
    """Return what a host is told."""
    nodes, start = [], 0
    for one in regions:
        nodes.append(
            [
                _Node(node=node, first=start + first, middle=start + middle, end=start + end)
                for node, first, middle, end in one.of_owner(owner)
            ]
        )
        start += one.columns
    return _Plan(masked=masked, regions=[one.columns for one in regions], nodes=nodes)


def _scale(trees: Sequence[BoostedTree], init_score: Floats, rate: float) -> int:
    """Return the fraction bits with which no sum reaches 2**_SUM_BITS. Raises: BadData."""
    with np.errstate(over="ignore"):
        largest = sum(float(np.abs(rate * tree.tables.weights).max()) for tree in trees)
    largest += float(np.abs(init_score).max())
    if not math.isfinite(largest):
        raise BadData(where="the model", reason="scores of its trees are not finite")
    return min(_MOST_FRACTION_BITS, _SUM_BITS - 1 - math.frexp(largest)[1])


def _opened(
    ctx: Context, key: PrivateScheme, payload: object, *, masked: bool, shape: tuple[int, ...]
) -> NDArray[np.object_]:
    """Return the sums of rows and classes as integers. Raises: CodecError."""
    slot_bits, count = _slot_bits(masked=masked), math.prod(shape)
    slots = key.public.slots(slot_bits)
    rows = key.public.rows_of(payload, count=-(-count // slots))
    width = slots * slot_bits // 8 + 1
    opened = ctx.workers.fill_rows(
        functools.partial(_open, key, slots * slot_bits),
        (rows,),
        width=width,
        cost=DECRYPTION_COST * (key.public.width / 512) ** 3,
    )
    plain = [int.from_bytes(row.tobytes(), "little", signed=True) for row in opened]
    return np.array(unpack(plain, slot_bits, slots=slots, count=count), dtype=object).reshape(shape)


# --- host -----------------------------------------------------------------------------------------


def _check_ways(trees: Sequence[HostTree]) -> None:
    """Do nothing if a guest cannot find out from sums how this host's splits decide.

    A tree with k splits of this host has at least k + 1 leaves below them, whatever the guest says.

    Raises: BadParameter: the product over the trees is below `LEAST_WAYS`.
    """
    ways = math.prod(len(tree.splits) + 1 for tree in trees)
    if ways < LEAST_WAYS:
        reason = f"this host's splits allow {ways} ways through the trees, below {LEAST_WAYS}"
        raise BadParameter(path="EINI_complexity_check", reason=reason)


def answer_guest(
    ctx: Context,
    trees: Sequence[HostTree],
    features: Floats,
    receive_key: Callable[[Context], PublicScheme],
    *,
    width: int,
    depth: int,
    tag: str,
) -> None:
    """Close, at a host, the leaves that rows do not come to, and hand on, or add up at the last.

    Raises: BadParameter: another mask than the guest's, a tree of one host alone, or too few ways
        for `EINI_complexity_check`. CodecError, PeerFailed.
    """
    if any(tree.is_alone for tree in trees):
        raise _grown_alone()
    if ctx.params.EINI_complexity_check:
        _check_ways(trees)
    guest, hosts = ctx.only(Role.GUEST), ctx.sites_of(Role.HOST)
    place = hosts.index(ctx.site)
    before, name = (hosts[place - 1], "inter_host_data") if place else (guest, "guest_position_vec")
    told = wait_for(ctx, "guest_predict_data", guest, tag=f"{tag}.0")
    plan = _read_plan(told, trees, depth=depth)
    masked = ctx.params.EINI_random_mask
    if plan.masked != masked:
        raise BadParameter(path="EINI_random_mask", reason="the guest has another value")
    classes = plan.classes([tree.klass for tree in trees], width)
    columns = len(classes)
    if not columns:
        return
    key, slot_bits = receive_key(ctx), _slot_bits(masked=masked)
    factor = (1 << _MASK_BITS) + secrets.randbits(_MASK_BITS) if masked else 1
    is_last = ctx.site == hosts[-1]
    key.prepare(to_owner=is_last)
    for number, rows in _blocks(len(features), columns):
        own_tag = f"{tag}.{number}"
        count = rows.stop - rows.start
        payload = wait_for(ctx, name, before, tag=own_tag)
        cells = key.rows_of(payload, count=count * columns).reshape(count, -1)
        is_open = _open_columns(plan, trees, features[rows], columns)
        if not is_last:
            found = ctx.workers.fill_rows(
                functools.partial(_hand_on, key),
                (cells, is_open),
                width=columns * key.width,
                cost=columns * cost_of(key, key.blinding_products()),
            )
            message = key.message_of(found.reshape(-1, key.width))
            ctx.federation.send("inter_host_data", message, to=hosts[place + 1], tag=own_tag)
            continue
        sums = ctx.workers.fill_rows(
            functools.partial(_add_up, key, classes, width),
            (cells, is_open),
            width=width * key.width,
            cost=cost_of(key, columns),
        )
        slots = key.slots(slot_bits)
        padded = np.zeros((-(-count * width // slots) * slots, key.width), dtype=np.uint8)
        padded[:, 0] = 1  # a ciphertext of 0
        padded[: count * width] = sums.reshape(-1, key.width)
        packed = ctx.workers.fill_rows(
            functools.partial(_pack, key, slot_bits, factor),
            (padded.reshape(-1, slots * key.width),),
            width=key.width,
            cost=cost_of(key, slots * slot_bits + key.blinding_products(to_owner=True)),
        )
        ctx.federation.send("host_merge_result", key.message_of(packed), to=guest, tag=own_tag)


def _read_plan(value: object, trees: Sequence[HostTree], *, depth: int) -> _Plan:
    """Return what the guest says of the trees. Raises: CodecError: they are not this host's."""
    try:
        plan = read_as(value, _Plan)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"guest_predict_data: no columns of EINI_inference: {exc}") from exc
    if not len(plan.regions) == len(plan.nodes) == len(trees):
        raise CodecError(reason="guest_predict_data: not the trees of this party")
    start = 0
    for tree, count, nodes in zip(trees, plan.regions, plan.nodes, strict=True):
        end = start + count
        is_known = count <= 1 << depth and [one.node for one in nodes] == sorted(tree.splits)
        if not is_known or not all(start <= n.first < n.middle < n.end <= end for n in nodes):
            raise CodecError(reason="guest_predict_data: columns that no splits of this party have")
        start = end
    return plan


def _open_columns(
    plan: _Plan, trees: Sequence[HostTree], features: Floats, columns: int
) -> NDArray[np.bool_]:
    """Return which columns own splits leave open (rows x columns)."""
    is_open = np.ones((len(features), columns), dtype=np.bool_)
    for tree, nodes in zip(trees, plan.nodes, strict=True):
        for one in nodes:
            split = tree.splits[one.node]
            left = split.goes_left(features[:, split.column])[:, None]
            is_open[:, one.first : one.middle] &= left
            is_open[:, one.middle : one.end] &= ~left
    return is_open


# --- both -----------------------------------------------------------------------------------------


def _grown_alone() -> BadParameter:
    reason = "a host has grown a tree alone (mix): predict without it"
    return BadParameter(path="EINI_inference", reason=reason)


def _slot_bits(*, masked: bool) -> int:
    return _SLOT_BITS + _MASK_BITS * masked


def _blocks(rows: int, columns: int) -> Iterator[tuple[int, slice]]:
    """Yield number and rows of every block, which all parties cut alike."""
    step = max(1, _CELLS_PER_BLOCK // max(1, columns))
    for number, start in enumerate(range(0, rows, step)):
        yield number, slice(start, min(rows, start + step))


# --- on the workers -------------------------------------------------------------------------------


def _encrypt(key: PrivateScheme, values: Ints) -> bytes:
    return key.public.body(key.encrypt(values.ravel().tolist()))


def _cells(key: PublicScheme, rows: Bytes) -> list[mpz]:
    """Return all ciphertexts of rows. What is closed is checked too: an error tells no split."""
    return key.read_rows(rows.reshape(-1, key.width))


def _hand_on(key: PublicScheme, rows: Bytes, is_open: NDArray[np.bool_]) -> bytes:
    cells = zip(_cells(key, rows), is_open.ravel().tolist(), strict=True)
    return key.body(key.blind(cell if kept else mpz(1) for cell, kept in cells))


def _add_up(
    key: PublicScheme,
    classes: NDArray[np.intp],
    width: int,
    rows: Bytes,
    is_open: NDArray[np.bool_],
) -> bytes:
    cells, columns, sums = _cells(key, rows), len(classes), []
    for row, kept in enumerate(is_open):
        for klass in range(width):
            own = np.flatnonzero(kept & (classes == klass)).tolist()
            sums.append(key.total([cells[row * columns + column] for column in own]))
    return key.body(sums)


def _pack(key: PublicScheme, slot_bits: int, factor: int, rows: Bytes) -> bytes:
    packed = key.pack(_cells(key, rows), slot_bits)
    if factor > 1:
        packed = [key.multiply_plain(one, factor) for one in packed]
    return key.body(key.blind(packed, to_owner=True))


def _open(key: PrivateScheme, bits: int, rows: Bytes) -> bytes:
    """Return the plaintexts. Raises: CodecError: not a ciphertext, or too large."""
    opened = key.open(key.public.read_rows(rows), limit_bits=bits)
    return b"".join(one.to_bytes(bits // 8 + 1, "little", signed=True) for one in opened)
