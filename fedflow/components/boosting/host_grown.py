"""One tree that a host grows from its own columns, with sums that only the guest can read: `mix`.

It begins as a tree of all (`guest_tree`), with one host. Then, per level:

MESSAGES

The guest learns the shape of the tree, its sums and leaves, and no split. The host learns where its
columns are split. Both number nodes in the order in which they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.guest_tree import Cut, GuestTree, SplitChoice
from fedflow.components.boosting.leaves import read_leaves
from fedflow.components.boosting.trees import BoostedTree
from fedflow.components.waiting import wait_for
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
encrypted_splitinfo_host | sealed | host -> guest | packed sums, in an order that the host drew
host_tree_splits | model | guest -> host | [{node, candidates}]: the nodes to split, and how
chosen_candidates | model | host -> guest | int64: of each node the candidate that is used
host_tree_leaves | values | host -> guest | int32: the leaf of every row, at the end
""")

_NO_ROWS = np.arange(0)


class HostGrownTree(GuestTree):
    """The guest's side; that of the host is in `host_tree`."""

    _host_is_alone = True

    def grow(self, klass: int) -> tuple[BoostedTree, NDArray[np.int32]]:
        """Return the tree, and the leaf of every row. Raises: CodecError, PeerFailed."""
        tree, _ = super().grow(klass)
        leaves = read_leaves(
            wait_for(self._ctx, "host_tree_leaves", self._hosts[0].site, tag=self._tag),
            [tree],
            rows=len(self._positions),
            sender=str(self._hosts[0].site),
        )[0]
        trained = leaves[self._given.rows]
        sums = np.zeros((len(tree.nodes), 2 * self._given.gradients.classes + 1), dtype=np.int64)
        for place, values in enumerate((*self._given.gradients.values.T, None)):
            sums[:, place] = np.bincount(trained, weights=values, minlength=len(sums))
        if any(not np.array_equal(sums[leaf], total) for leaf, total in self._leaves.items()):
            raise CodecError(reason="host_tree_leaves: its rows do not have the sums that it sent")
        return BoostedTree(nodes=tree.nodes, klass=klass, grown_by=self._hosts[0].owner), leaves

    def _ask(self, *_: object) -> None:
        """Ask nothing: the host knows where its rows are."""

    def _cut(self, choices: Sequence[SplitChoice], depth: int) -> dict[int, Cut]:
        host, tag = self._hosts[0], f"{self._tag}.{depth}"
        told = [{"node": c.node, "candidates": c.candidates} for c in choices]
        self._ctx.federation.send("host_tree_splits", told, to=host.site, tag=tag)
        masks = host.chosen(choices, depth)
        return {
            choice.node: Cut(choice=choice, place=place, rows=_NO_ROWS, left=_NO_ROWS > 0)
            for choice, place in zip(choices, masks, strict=True)
        }

    def _end(self) -> None:
        """Say nothing: the host knows when the tree is done."""
