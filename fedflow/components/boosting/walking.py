"""The way of rows through trees whose splits several parties own.

MESSAGES

All trees go on together: a level costs one exchange with each host that is asked. Tags are
`<tag>.<level>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.bits import bits_of, read_bits
from fedflow.components.boosting.leaves import leaves_alone, read_leaves
from fedflow.components.boosting.trees import MOST_ROWS, BoostedTree, HostTree
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
guest_predict_data | model | guest -> host | [{tree, node, rows}]: where rows are; null: the end
guest_predict_rows | rows | guest -> host | int32 numbers of these rows, node after node
host_predict_data | rows | host -> guest | which of them go left, 8 per byte
host_leaves | values | host -> guest | int32: the leaf of every row in each tree of its own
""")

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


class _NodeRows(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a host, and how many rows have come to it."""

    tree: Annotated[int, Meta(ge=0)]
    node: int
    rows: Annotated[int, Meta(ge=1, le=MOST_ROWS)]


def leaves_of(
    ctx: Context, trees: Sequence[BoostedTree], features: Floats, *, tag: str
) -> list[NDArray[np.int32]]:
    """Return the leaf of every row in each tree, at the guest. Raises: CodecError, PeerFailed."""
    hosts = ctx.sites_of(Role.HOST)
    positions = [np.zeros(len(features), dtype=np.int32) for _ in trees]
    everywhere = np.arange(len(features))
    waiting = [everywhere for _ in trees]
    for owner, host in enumerate(hosts, start=1):
        own = [number for number, tree in enumerate(trees) if tree.grown_by == owner]
        if not own:
            continue
        found = read_leaves(
            wait_for(ctx, "host_leaves", host, tag=tag),
            [trees[number] for number in own],
            rows=len(features),
            sender=str(host),
        )
        for number, leaves in zip(own, found, strict=True):
            positions[number], waiting[number] = leaves.copy(), everywhere[:0]
    level = 0
    while True:
        for tree, at, rows in zip(trees, positions, waiting, strict=True):
            tree.down(at, features, rows)
        waiting = [
            rows[tree.tables.owners[at[rows]] > 0]
            for tree, at, rows in zip(trees, positions, waiting, strict=True)
        ]
        questions = [
            _NodeQuestion(ctx, host, number, trees, positions, waiting)
            for number, host in enumerate(hosts, start=1)
        ]
        if not any(question.asked for question in questions):
            break
        for question in questions:
            question.send(f"{tag}.{level}")
        for question in questions:
            question.answer(f"{tag}.{level}")
        level += 1
    ctx.federation.send("guest_predict_data", None, to=hosts, tag=f"{tag}.{level}")
    return positions


class _NodeQuestion:
    """What a host is asked at one level: which rows of its nodes go left."""

    def __init__(
        self,
        ctx: Context,
        site: Site,
        number: int,
        trees: Sequence[BoostedTree],
        positions: Sequence[NDArray[np.int32]],
        waiting: Sequence[Rows],
    ) -> None:
        self._ctx = ctx
        self._site = site
        self._trees = trees
        self._positions = positions
        self.asked: list[_NodeRows] = []
        self._rows: list[Rows] = []
        for index, (tree, at, rows) in enumerate(zip(trees, positions, waiting, strict=True)):
            own = rows[tree.tables.owners[at[rows]] == number]
            own = own[np.argsort(at[own], kind="stable")]
            nodes, counts = np.unique(at[own], return_counts=True)
            for node, count in zip(nodes.tolist(), counts.tolist(), strict=True):
                self.asked.append(_NodeRows(tree=index, node=node, rows=count))
            self._rows.append(own)

    def send(self, tag: str) -> None:
        send = self._ctx.federation.send
        send("guest_predict_data", msgspec.to_builtins(self.asked), to=self._site, tag=tag)
        if self.asked:
            rows = np.concatenate(self._rows).astype(np.int32)
            send("guest_predict_rows", rows, to=self._site, tag=tag)

    def answer(self, tag: str) -> None:
        """Move the rows as the host says. Raises: CodecError."""
        if not self.asked:
            return
        name = "host_predict_data"
        left = read_bits(
            wait_for(self._ctx, name, self._site, tag=tag),
            count=sum(len(rows) for rows in self._rows),
            message=f"{name} of {self._site}",
        )
        parts = np.split(left, np.cumsum([len(rows) for rows in self._rows])[:-1])
        for tree, at, rows, part in zip(
            self._trees, self._positions, self._rows, parts, strict=True
        ):
            tree.answer(at, rows, part)


def answer_guest(
    ctx: Context, trees: Sequence[HostTree], features: Floats, *, depth: int, tag: str
) -> None:
    """Say, at a host, which rows go left at its nodes, until the guest has all that it needs.

    `depth` is how deep a tree is at most. Raises: CodecError, PeerFailed.
    """
    guest = ctx.only(Role.GUEST)
    if alone := [tree for tree in trees if tree.is_alone]:
        leaves = np.stack([leaves_alone(tree, features) for tree in alone])
        ctx.federation.send("host_leaves", leaves, to=guest, tag=tag)
    for level in range(depth + 1):
        own_tag = f"{tag}.{level}"
        value = wait_for(ctx, "guest_predict_data", guest, tag=own_tag)
        if value is None:
            return
        try:
            asked = read_as(value, list[_NodeRows])
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"guest_predict_data of {guest}: {exc}") from exc
        if not asked:
            continue
        rows = _rows(wait_for(ctx, "guest_predict_rows", guest, tag=own_tag), asked, len(features))
        ends = np.cumsum([one.rows for one in asked])[:-1]
        left = [
            _left(trees, one, features, own)
            for one, own in zip(asked, np.split(rows, ends), strict=True)
        ]
        bits = bits_of(np.concatenate(left))
        ctx.federation.send("host_predict_data", bits, to=guest, tag=own_tag)
    raise CodecError(reason=f"guest_predict_data of {guest}: more than {depth} levels")


def _rows(value: object, asked: Sequence[_NodeRows], total: int) -> Rows:
    count = sum(one.rows for one in asked)
    if not isinstance(value, np.ndarray) or value.dtype != np.int32 or value.shape != (count,):
        raise CodecError(reason="guest_predict_rows: not the numbers of the rows")
    if count and (value.min() < 0 or value.max() >= total):
        raise CodecError(reason="guest_predict_rows: an unknown row")
    return value.astype(np.intp)


def _left(
    trees: Sequence[HostTree], asked: _NodeRows, features: Floats, rows: Rows
) -> NDArray[np.bool_]:
    is_known = asked.tree < len(trees)
    split = trees[asked.tree].splits.get(asked.node) if is_known else None
    if split is None:
        raise CodecError(reason="guest_predict_data: a node that is not this party's")
    return split.goes_left(features[rows, split.column])


def add_scores(
    scores: Floats,
    trees: Sequence[BoostedTree],
    leaves: Sequence[NDArray[np.int32]],
    *,
    learning_rate: float,
) -> None:
    """Add what the leaves of some trees weigh to the scores (rows x width), in place."""
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, training refuses
        for tree, at in zip(trees, leaves, strict=True):
            weights = tree.tables.weights
            own = slice(tree.klass, tree.klass + weights.shape[1])
            scores[:, own] += learning_rate * weights[at]
