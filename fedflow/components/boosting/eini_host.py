"""A host's part of prediction by EINI (`eini.py`): it closes leaves under encryption."""

from __future__ import annotations

import functools
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.boosting.eini import (
    MASK_BITS,
    EiniPlan,
    blocks_of,
    grown_alone,
    slot_bits_of,
)
from fedflow.components.boosting.sums import pack_slots
from fedflow.components.boosting.trees import HostTree
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Role
from fedflow.sdk.crypto.encrypted_rows import cost_of
from fedflow.sdk.crypto.schemes import PublicScheme
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

LEAST_WAYS: Final = 10**9  #: through a host's splits, which `EINI_complexity_check` asks for


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
        raise grown_alone()
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
    key, slot_bits = receive_key(ctx), slot_bits_of(masked=masked)
    factor = (1 << MASK_BITS) + secrets.randbits(MASK_BITS) if masked else 1
    is_last = ctx.site == hosts[-1]
    if not is_last:
        key.prepare()
    for number, rows in blocks_of(len(features), columns):
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
        packed = pack_slots(
            key,
            sums.reshape(-1, key.width),
            slot_bits=slot_bits,
            workers=ctx.workers,
            factor=factor,
        )
        ctx.federation.send("host_merge_result", packed, to=guest, tag=own_tag)


def _read_plan(value: object, trees: Sequence[HostTree], *, depth: int) -> EiniPlan:
    """Return what the guest says of the trees. Raises: CodecError: they are not this host's."""
    try:
        plan = read_as(value, EiniPlan)
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
    plan: EiniPlan, trees: Sequence[HostTree], features: Floats, columns: int
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


# --- on the workers -------------------------------------------------------------------------------


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
