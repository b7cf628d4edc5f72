"""Scores by EINI: no party learns the way of a row through the trees, and one round trip suffices.

MESSAGES

`regions.py` tells what the columns are. Rows go in blocks, tags are `<tag>.<block>`.

Source: Chen et al. 2021 (Fed-EINI), arXiv:2105.09540.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.regions import RowValues, TreeRegions
from fedflow.components.boosting.sums import open_packed
from fedflow.components.boosting.trees import BoostedTree
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, BadParameter, Context, Role
from fedflow.sdk.crypto.ciphertexts import unpack
from fedflow.sdk.crypto.encrypted_rows import cost_of
from fedflow.sdk.crypto.schemes import PrivateScheme
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
guest_predict_data | model | guest -> host | {masked, regions, nodes}: what lies below its splits
guest_position_vec | ciphertext | guest -> first host | a ciphertext per row and column
inter_host_data | ciphertext | host -> next host | the same, blinded; what its splits close is 0
host_merge_result | sealed | last host -> guest | sums per row and class, several in a ciphertext
""")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_CELLS_PER_BLOCK: Final = 32_768  #: ciphertexts of a message, unless a row has more
_SUM_BITS: Final = 61  #: every |sum| is below 2**this
_SLOT_BITS: Final = 64
MASK_BITS: Final = 32  #: a mask is a multiple of 2**-32
_MOST_FRACTION_BITS: Final = 48


class NodeColumns(msgspec.Struct, frozen=True, kw_only=True):
    """A host's node: columns `first` to `middle` lie left of its split, those to `end` right."""

    node: int
    first: Annotated[int, Meta(ge=0)]
    middle: int
    end: int


class EiniPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a host has to know of the trees; columns are counted over all of them."""

    masked: bool
    regions: list[Annotated[int, Meta(ge=0, le=1 << 20)]]  #: columns per tree
    nodes: list[list[NodeColumns]]  #: per tree, of this host

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
        raise grown_alone()
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
        if not block.allow(sums, mask_bits=MASK_BITS if masked else None):
            raise CodecError(reason=f"host_merge_result of {hosts[-1]}: sums that no leaves have")
        unit = 2.0 ** -(scale + MASK_BITS * masked)
        scores[rows] = sums.astype(np.float64) * unit + (0.0 if masked else block.base)

    for number, rows in blocks_of(len(features), columns):
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


def _plan(regions: Sequence[TreeRegions], owner: int, *, masked: bool) -> EiniPlan:
    """Return what a host is told."""
    nodes, start = [], 0
    for one in regions:
        nodes.append(
            [
                NodeColumns(node=node, first=start + first, middle=start + middle, end=start + end)
                for node, first, middle, end in one.of_owner(owner)
            ]
        )
        start += one.columns
    return EiniPlan(masked=masked, regions=[one.columns for one in regions], nodes=nodes)


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
    slot_bits, count = slot_bits_of(masked=masked), math.prod(shape)
    plain = open_packed(key, payload, count=count, slot_bits=slot_bits, workers=ctx.workers)
    slots = key.public.slots(slot_bits)
    return np.array(unpack(plain, slot_bits, slots=slots, count=count), dtype=object).reshape(shape)


# --- both -----------------------------------------------------------------------------------------


def grown_alone() -> BadParameter:
    reason = "a host has grown a tree alone (mix): predict without it"
    return BadParameter(path="EINI_inference", reason=reason)


def slot_bits_of(*, masked: bool) -> int:
    return _SLOT_BITS + MASK_BITS * masked


def blocks_of(rows: int, columns: int) -> Iterator[tuple[int, slice]]:
    """Yield number and rows of every block, which all parties cut alike."""
    step = max(1, _CELLS_PER_BLOCK // max(1, columns))
    for number, start in enumerate(range(0, rows, step)):
        yield number, slice(start, min(rows, start + step))


# --- on the workers -------------------------------------------------------------------------------


def _encrypt(key: PrivateScheme, values: Ints) -> bytes:
    return key.public.body(key.encrypt(values.ravel().tolist()))
