"""One tree, as a host takes part in it; `guest_tree` lists the messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.bins import BinnedColumns, Split
from fedflow.components.boosting.bits import bits_of
from fedflow.components.boosting.sums import HostTreeSums, SlotLayout
from fedflow.components.boosting.trees import HostTree
from fedflow.components.samples.alignment import checked_rows
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role
from fedflow.sdk.crypto import random_permutation
from fedflow.sdk.crypto.schemes import PublicScheme
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

LEAST_BITS: Final = 8  #: of a derivative
MOST_BITS: Final = 30

Rows = NDArray[np.intp]


class _TreePlan(msgspec.Struct, frozen=True, kw_only=True):
    rows: int
    bits: int


class _Won(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose split this host has won, and which of its candidates are equally good."""

    node: int
    rows: int
    candidates: list[int]


class HostTreeBuilder:
    """Takes part in one tree at a host."""

    def __init__(
        self,
        ctx: Context,
        tag: str,
        *,
        binned: BinnedColumns,
        columns: Sequence[int],
        key: PublicScheme,
        depth: int,
    ) -> None:
        """`columns` may be split in this tree; `depth` is how often at most."""
        self._ctx = ctx
        self._tag = tag
        self._binned = binned
        self._candidates = binned.candidates(columns)
        self._key = key
        self._depth = depth
        self._guest = ctx.only(Role.GUEST)
        self._order = random_permutation(len(self._candidates))
        self._splits: dict[int, Split] = {}

    def build(self, klass: int) -> HostTree:
        """Return this host's splits. Raises: CodecError, PeerFailed."""
        layout, rows = self._plan()
        if not layout.rows:  # the guest splits its own columns only
            return HostTree(klass=klass)
        ciphertexts = self._gradients(layout)
        count = {"count": len(self._candidates)}
        self._ctx.federation.send("candidates", count, to=self._guest, tag=self._tag)
        sums = HostTreeSums(
            self._key,
            self._binned,
            self._candidates,
            layout=layout,
            workers=self._ctx.workers,
        )
        for depth in range(self._depth + 1):
            nodes = self._queue(depth, most=layout.rows)
            if not nodes:
                return HostTree(splits=self._splits, klass=klass)
            if depth == self._depth:
                break
            positions = self._positions(depth, rows=layout.rows, nodes=nodes)
            inside = np.flatnonzero(positions >= 0)
            found = sums.of_nodes(
                ciphertexts[inside],
                self._binned.numbers[rows[inside]],
                positions[inside].astype(np.intp),
                count=nodes,
            )
            ordered = [own[number] for own in found for number in self._order.tolist()]
            self._send("encrypted_splitinfo_host", sums.pack(ordered), depth)
            self._take(depth)
        raise CodecError(reason=f"tree_node_queue: the guest goes on past depth {self._depth}")

    def _plan(self) -> tuple[SlotLayout, Rows]:
        """Return how sums are laid out, and the rows that train the tree."""
        value = wait_for(self._ctx, "tree_plan", self._guest, tag=self._tag)
        try:
            plan = read_as(value, _TreePlan)
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"tree_plan of {self._guest}: {exc}") from exc
        total = len(self._binned.numbers)
        if plan.rows == 0:
            return SlotLayout(rows=0, bits=LEAST_BITS), np.arange(0)
        if not 1 <= plan.rows <= total or not LEAST_BITS <= plan.bits <= MOST_BITS:
            raise CodecError(reason=f"tree_plan of {self._guest}: impossible numbers")
        layout = SlotLayout(rows=plan.rows, bits=plan.bits)
        if plan.rows == total:
            return layout, np.arange(total)
        told = wait_for(self._ctx, "sampled_rows", self._guest, tag=self._tag)
        rows = checked_rows(told, of=total, count=plan.rows, message="sampled_rows")
        return layout, rows.astype(np.intp)

    def _gradients(self, layout: SlotLayout) -> NDArray[np.uint8]:
        """Return the ciphertexts of all training rows, rows x width."""
        found = np.empty((layout.rows, self._key.width), dtype=np.uint8)
        for number, block in layout.blocks():
            tag = f"{self._tag}.{number}"
            payload = wait_for(self._ctx, "encrypted_grad_and_hess", self._guest, tag=tag)
            found[block] = self._key.rows_of(payload, count=block.stop - block.start)
        return found

    def _queue(self, depth: int, *, most: int) -> int:
        """Return how many nodes to sum up."""
        value = self._wait("tree_node_queue", depth)
        nodes = value.get("nodes") if isinstance(value, dict) else None
        if type(nodes) is not int or not 0 <= nodes <= min(most, 1 << depth):
            raise CodecError(reason=f"tree_node_queue of {self._guest}: no possible number")
        return nodes

    def _positions(self, depth: int, *, rows: int, nodes: int) -> NDArray[np.int32]:
        found = self._wait("node_positions", depth)
        if not isinstance(found, np.ndarray) or found.dtype != np.int32 or found.shape != (rows,):
            raise CodecError(reason=f"node_positions of {self._guest}: not a node per row")
        if len(found) and (found.min() < -1 or found.max() >= nodes):
            raise CodecError(reason=f"node_positions of {self._guest}: an unknown node")
        return found

    def _take(self, depth: int) -> None:
        """Remember the splits that this host has won, and say where rows go."""
        try:
            won = read_as(self._wait("dispatch_node_host", depth), list[_Won])
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: {exc}") from exc
        if not won:
            return
        told = self._wait("dispatch_rows", depth)
        rows = checked_rows(
            told,
            of=len(self._binned.numbers),
            count=sum(one.rows for one in won),
            message="dispatch_rows",
        ).astype(np.intp)
        ends = np.cumsum([one.rows for one in won])[:-1]
        cuts = [self._split(one, own) for one, own in zip(won, np.split(rows, ends), strict=True)]
        masks = np.array([mask for mask, _ in cuts], dtype=np.int64)
        self._send("chosen_candidates", masks, depth)
        left = [own for _, own in cuts]
        self._send("dispatch_node_host_result", bits_of(np.concatenate(left)), depth)

    def _split(self, won: _Won, rows: Rows) -> tuple[int, NDArray[np.bool_]]:
        """Return the first of the equal candidates, and which rows go left of it."""
        masks = won.candidates
        if not masks or min(masks) < 0 or max(masks) >= len(self._order):
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: an unknown candidate")
        if won.node in self._splits or won.node < 0 or won.rows < 0:
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: a node is repeated")
        mask = min(masks, key=lambda mask: int(self._order[mask]))
        number = int(self._order[mask])
        self._splits[won.node] = self._binned.split_of(self._candidates, number)
        return mask, self._binned.left_rows(self._candidates, number, rows)

    def _wait(self, name: str, depth: int) -> object:
        return wait_for(self._ctx, name, self._guest, tag=f"{self._tag}.{depth}")

    def _send(self, name: str, value: object, depth: int) -> None:
        self._ctx.federation.send(name, value, to=self._guest, tag=f"{self._tag}.{depth}")
