"""One tree, as a host takes part in it; `guest_tree` lists the messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.bins import BinnedColumns, Split
from fedflow.components.boosting.bits import bits_of
from fedflow.components.boosting.sums import HostTreeSums, SlotLayout
from fedflow.components.boosting.tree_clock import TreeClock
from fedflow.components.boosting.trees import MOST_ROWS, HostTree
from fedflow.components.samples.alignment import checked_rows
from fedflow.components.training.part_seconds import EXCHANGE, PACKING, SUMS
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadParameter, Context, Role
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
    classes: int = 1  #: of a leaf
    alone: bool = False  #: this host grows the tree


class _NodeSplit(msgspec.Struct, frozen=True, kw_only=True):
    """A node to split, and which of this host's candidates are equally good."""

    node: Annotated[int, Meta(ge=0)]
    candidates: list[int]


class _Won(_NodeSplit, frozen=True, kw_only=True):
    """One with so many rows."""

    rows: Annotated[int, Meta(ge=1, le=MOST_ROWS)]


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
        classes: int,
        clock: TreeClock,
    ) -> None:
        """`columns` may be split in this tree, whose leaves have so many classes."""
        self._ctx = ctx
        self._tag = tag
        self._binned = binned
        self._columns = columns
        self._clock = clock
        self._key = key
        self._depth: int = ctx.params.levels.depth
        self._classes = classes
        self._guest = ctx.only(Role.GUEST)
        self._splits: dict[int, Split] = {}

    def build(self, klass: int) -> HostTree:
        """Return this host's splits. Raises: CodecError, BadParameter, PeerFailed."""
        plan = self._plan()
        if not plan.rows:  # others grow it
            return HostTree(klass=klass)
        layout = SlotLayout.of(self._key, rows=plan.rows, bits=plan.bits, classes=self._classes)
        self._rows = self._training_rows(plan.rows)
        self._candidates = self._binned.frequent_candidates(
            self._columns, rows=self._rows, least=self._ctx.params.min_candidate_rows
        )
        self._order = random_permutation(len(self._candidates))
        self._ciphertexts = self._gradients(layout)
        count = {"count": len(self._candidates)}
        self._ctx.federation.send("candidates", count, to=self._guest, tag=self._tag)
        self._sums = HostTreeSums(
            self._key,
            self._binned,
            self._candidates,
            layout=layout,
            workers=self._ctx.workers,
        )
        return self._grow_alone(klass) if plan.alone else self._grow(klass)

    def _grow(self, klass: int) -> HostTree:
        for depth in range(self._depth + 1):
            nodes = self._queue(depth, most=len(self._rows))
            if not nodes:
                return HostTree(splits=self._splits, klass=klass)
            if depth == self._depth:
                break
            with self._clock.level(depth):
                self._offer(self._positions(depth, nodes=nodes), nodes, depth)
                self._take(depth)
        raise CodecError(reason=f"tree_node_queue: the guest goes on past depth {self._depth}")

    def _offer(self, nodes: NDArray[np.integer], count: int, depth: int) -> None:
        """Send the sums of all candidates; `nodes` has the node of each training row, or -1."""
        ciphertexts, rows = self._ciphertexts, self._rows
        inside = np.flatnonzero(nodes >= 0)
        if len(inside) < len(rows):
            ciphertexts, rows, nodes = ciphertexts[inside], rows[inside], nodes[inside]
        with self._clock.parts.of(SUMS):
            found = self._sums.of_nodes(
                ciphertexts,
                self._binned.numbers[rows],
                nodes.astype(np.intp),
                count=count,
            )
        ordered = [cell for own in found for n in self._order.tolist() for cell in own[n]]
        with self._clock.parts.of(PACKING):
            packed = self._sums.pack(ordered)
        self._send("encrypted_splitinfo_host", packed, depth)

    def _grow_alone(self, klass: int) -> HostTree:
        """Grow the whole tree here; `host_grown` lists the messages."""
        positions = np.zeros(len(self._binned.numbers), dtype=np.int32)
        links: dict[int, tuple[int, int]] = {}
        level, computed, count = [0], [0], 1
        for depth in range(self._depth):
            places = np.full(count, -1, dtype=np.intp)
            places[computed] = np.arange(len(computed))
            with self._clock.level(depth):
                self._offer(places[positions[self._rows]], len(computed), depth)
                splits = self._told_splits(level, depth)
            if not splits:
                break
            level, computed, chosen = [], [], []
            for split in splits:
                inside = np.flatnonzero(positions == split.node)
                mask, left = self._split(split.node, split.candidates, inside)
                links[split.node] = count, count + 1
                positions[inside] = np.where(left, count, count + 1)
                trained = positions[self._rows]
                is_left = (trained == count).sum() < (trained == count + 1).sum()
                computed.append(count if is_left else count + 1)
                level += [count, count + 1]
                chosen.append(mask)
                count += 2
            self._send("chosen_candidates", np.array(chosen, dtype=np.int64), depth)
        send = self._ctx.federation.send
        send("host_tree_leaves", positions[None], to=self._guest, tag=self._tag)
        return HostTree(splits=self._splits, klass=klass, links=links, is_alone=True)

    def _told_splits(self, level: Sequence[int], depth: int) -> list[_NodeSplit]:
        try:
            splits = read_as(self._wait("host_tree_splits", depth), list[_NodeSplit])
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"host_tree_splits of {self._guest}: {exc}") from exc
        nodes = [split.node for split in splits]
        if nodes != [node for node in level if node in nodes]:
            raise CodecError(reason=f"host_tree_splits of {self._guest}: not nodes of this level")
        return splits

    def _plan(self) -> _TreePlan:
        """Return how many rows train the tree, and how their sums are laid out.

        Raises: CodecError. BadParameter: the guest has leaves of other classes.
        """
        value = wait_for(self._ctx, "tree_plan", self._guest, tag=self._tag)
        try:
            plan = read_as(value, _TreePlan)
        except msgspec.ValidationError as exc:
            raise CodecError(reason=f"tree_plan of {self._guest}: {exc}") from exc
        total = len(self._binned.numbers)
        if plan.rows and not (1 <= plan.rows <= total and LEAST_BITS <= plan.bits <= MOST_BITS):
            raise CodecError(reason=f"tree_plan of {self._guest}: impossible numbers")
        if plan.rows and plan.classes != self._classes:
            told = f"{self._guest} has leaves of {plan.classes} classes, {self._classes} here"
            raise BadParameter(path=f"{self._ctx.component}.multi_mode", reason=told)
        return plan

    def _training_rows(self, count: int) -> Rows:
        """Return the rows that train the tree."""
        total = len(self._binned.numbers)
        if count == total:
            return np.arange(total)
        told = wait_for(self._ctx, "sampled_rows", self._guest, tag=self._tag)
        return checked_rows(told, of=total, count=count, message="sampled_rows").astype(np.intp)

    def _gradients(self, layout: SlotLayout) -> NDArray[np.uint8]:
        """Return the ciphertexts of all training rows, rows x (groups width)."""
        width = layout.groups * self._key.width
        found = np.empty((layout.rows, width), dtype=np.uint8)
        for number, block in layout.blocks():
            tag = f"{self._tag}.{number}"
            with self._clock.parts.of(EXCHANGE):
                payload = wait_for(self._ctx, "encrypted_grad_and_hess", self._guest, tag=tag)
            rows = block.stop - block.start
            cells = self._key.rows_of(payload, count=rows * layout.groups)
            found[block] = cells.reshape(rows, width)
        return found

    def _queue(self, depth: int, *, most: int) -> int:
        """Return how many nodes to sum up."""
        value = self._wait("tree_node_queue", depth)
        nodes = value.get("nodes") if isinstance(value, dict) else None
        if type(nodes) is not int or not 0 <= nodes <= min(most, 1 << depth):
            raise CodecError(reason=f"tree_node_queue of {self._guest}: no possible number")
        return nodes

    def _positions(self, depth: int, *, nodes: int) -> NDArray[np.int32]:
        found, rows = self._wait("node_positions", depth), len(self._rows)
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
        if max(one.node for one in won) > (2 << depth) - 2:
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: no node of this level")
        parts = zip(won, np.split(rows, ends), strict=True)
        cuts = [self._split(one.node, one.candidates, own) for one, own in parts]
        masks = np.array([mask for mask, _ in cuts], dtype=np.int64)
        self._send("chosen_candidates", masks, depth)
        left = [own for _, own in cuts]
        self._send("dispatch_node_host_result", bits_of(np.concatenate(left)), depth)

    def _split(self, node: int, masks: Sequence[int], rows: Rows) -> tuple[int, NDArray[np.bool_]]:
        """Return the first of the equal candidates, and which rows of the node go left of it."""
        if not masks or min(masks) < 0 or max(masks) >= len(self._order):
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: an unknown candidate")
        if node in self._splits:
            raise CodecError(reason=f"dispatch_node_host of {self._guest}: a node is repeated")
        mask = min(masks, key=lambda mask: int(self._order[mask]))
        number = int(self._order[mask])
        self._splits[node] = self._binned.split_of(self._candidates, number)
        return mask, self._binned.left_rows(self._candidates, number, rows)

    def _wait(self, name: str, depth: int) -> object:
        with self._clock.parts.of(EXCHANGE):
            return wait_for(self._ctx, name, self._guest, tag=f"{self._tag}.{depth}")

    def _send(self, name: str, value: object, depth: int) -> None:
        self._ctx.federation.send(name, value, to=self._guest, tag=f"{self._tag}.{depth}")
