"""One tree, as the guest grows it with the hosts.

MESSAGES

Tags are `<round>.<class>`, of what is done per level `<round>.<class>.<depth>`. Of two siblings the
hosts sum up the one with fewer rows; the other one is the rest of their parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.bins import BinnedColumns
from fedflow.components.boosting.bits import read_bits
from fedflow.components.boosting.criterion import ROWS, TIE, Criterion, Gradients
from fedflow.components.boosting.sums import SlotLayout, encrypt_gradients, open_sums
from fedflow.components.boosting.tree_clock import TreeClock
from fedflow.components.boosting.trees import OWN, BoostedTree, Levels, TreeNode
from fedflow.components.boosting.zeros import EncryptedZeros
from fedflow.components.training.part_seconds import ENCRYPTION, EXCHANGE, OPENING, PartSeconds
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.crypto.schemes import PrivateScheme
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
tree_plan | settings | guest -> hosts | {rows, bits, classes, alone}: a tree begins; no rows: alone
sampled_rows | rows | guest -> hosts | int64 numbers of the rows that train it, if not all do
encrypted_grad_and_hess | ciphertext | guest -> hosts | of these rows; tag `<tree>.<block>`
candidates | counts | host -> guest | {count}: how many splits the host offers
tree_node_queue | settings | guest -> hosts | {nodes}: how many nodes to sum up, 0: the tree is done
node_positions | rows | guest -> hosts | int32: the node of each training row, -1: none of these
encrypted_splitinfo_host | sealed | host -> guest | packed sums, in an order that the host drew
dispatch_node_host | model | guest -> host | [{node, rows, candidates}]: the splits that it has won
dispatch_rows | rows | guest -> host | int64 numbers of all rows in these nodes, node after node
chosen_candidates | model | host -> guest | int64: of each node the candidate that is used
dispatch_node_host_result | rows | host -> guest | which of these rows go left, 8 per byte
""")

MOST_CANDIDATES: Final = 1 << 24  #: of a host, so that a wrong number cannot fill the memory

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeRows:
    """What one tree is trained on."""

    gradients: Gradients  #: of the rows below
    rows: Rows  #: ascending
    columns: Sequence[int]  #: of the guest, that may be split
    is_followed: bool = False  #: by another tree of about as many rows


@dataclass(frozen=True, kw_only=True, slots=True)
class _Open:
    """A node that may still be split."""

    number: int
    total: Ints  #: its sums
    parent: int = -1
    sibling: int = -1
    is_computed: bool = True  #: hosts sum it up; else it is the rest of its parent


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitChoice:
    """The split of a node: whose, and which candidates are equally good."""

    node: int
    owner: int
    candidates: list[int]
    left: Ints  #: sums left of each of them (candidates x sums)
    gain: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """How a node is split: by which of the candidates, and what follows for its rows."""

    choice: SplitChoice
    place: int  #: among the choice's candidates
    rows: Rows  #: all that are in the node
    left: NDArray[np.bool_]  #: which of them go left


class GuestTree:
    """Grows one tree at the guest."""

    _host_is_alone = False  #: a host grows it

    def __init__(
        self,
        ctx: Context,
        tag: str,
        *,
        binned: BinnedColumns,
        given: TreeRows,
        zeros: EncryptedZeros,
        levels: Levels,
        clock: TreeClock,
    ) -> None:
        self._ctx = ctx
        self._tag = tag
        self._binned = binned
        self._given = given
        self._criterion: Criterion = ctx.params.criterion
        self._levels = levels
        self._zeros = zeros
        self._clock = clock
        self._candidates = binned.candidates(given.columns)
        self._nodes: list[TreeNode] = [TreeNode()]
        self._leaves: dict[int, Ints] = {}  #: their sums
        self._positions = np.zeros(len(binned.numbers), dtype=np.int32)
        hosts = ctx.sites_of(Role.HOST) if len(levels.hosts) else ()
        total = len(self._positions)
        self._hosts = [
            _Host(ctx, owner, tag, key=zeros.key, given=given, total=total, seconds=clock.parts)
            for owner in ([levels.host] if levels.host else range(1, len(hosts) + 1))
        ]

    def grow(self, klass: int) -> tuple[BoostedTree, NDArray[np.int32]]:
        """Return the tree, and the leaf of every row. Raises: CodecError, PeerFailed."""
        self._begin()
        level = [_Open(number=0, total=self._given.gradients.total)]
        leaves = self._leaves
        for depth in range(self._levels.depth):
            with self._clock.level(depth):
                cuts = self._cut(self._choose(level, depth), depth)
                leaves.update({n.number: n.total for n in level if n.number not in cuts})
                split = [node for node in level if node.number in cuts]
                level = [child for node in split for child in self._split(node, cuts[node.number])]
            if not level:
                break
        leaves.update({node.number: node.total for node in level})
        self._end()
        return self._finished(klass), self._positions

    def _begin(self) -> None:
        if not self._hosts:
            return
        sites = [host.site for host in self._hosts]
        gradients, rows = self._given.gradients, self._given.rows
        layout = self._hosts[0].layout
        send = self._ctx.federation.send
        plan = {
            "rows": layout.rows,
            "bits": layout.bits,
            "classes": layout.classes,
            "alone": self._host_is_alone,
        }
        send("tree_plan", plan, to=sites, tag=self._tag)
        if len(rows) < len(self._positions):
            send("sampled_rows", rows.astype(np.int64), to=sites, tag=self._tag)
        key = self._hosts[0].key
        for number, block in layout.blocks():
            part = replace(gradients, values=gradients.values[block])
            zeros = self._zeros.take((block.stop - block.start) * layout.groups)
            with self._clock.parts.of(ENCRYPTION):
                ciphertexts = encrypt_gradients(key, part, layout, self._ctx.workers, zeros=zeros)
            message = key.public.message_of(ciphertexts.reshape(-1, key.public.width))
            tag = f"{self._tag}.{number}"
            send("encrypted_grad_and_hess", message, to=sites, tag=tag)
        if self._given.is_followed:
            self._zeros.begin(len(rows) * layout.groups)
        for host in self._hosts:
            host.receive_count()

    def _end(self) -> None:
        for host in self._hosts:
            host.end()

    # --- choosing

    def _choose(self, level: Sequence[_Open], depth: int) -> list[SplitChoice]:
        """Return the best splits of every node that has one."""
        offers: list[tuple[int, Ints]] = []
        hosts = self._hosts if depth in self._levels.hosts else []
        nodes = self._indexes(level)
        if hosts:
            self._ask(hosts, level, nodes, depth)
        if depth in self._levels.guest:
            offers.append((OWN, self._own_sums(level, nodes)))
        for host in hosts:
            offers.append((host.owner, host.sums(level, depth)))
        total = np.stack([node.total for node in level])
        units = self._given.gradients.units
        gains = [
            (owner, sums, self._criterion.gains(sums, total, units=units)) for owner, sums in offers
        ]
        chosen = []
        for place, node in enumerate(level):
            best = max((float(g[place].max(initial=-np.inf)) for _, _, g in gains), default=-np.inf)
            if best == -np.inf:
                continue
            owner, sums, equal = next(
                (owner, sums[place], found)
                for owner, sums, g in gains
                if len(found := np.flatnonzero(g[place] >= best - TIE))
            )
            choice = SplitChoice(
                node=node.number,
                owner=owner,
                candidates=equal.tolist(),
                left=sums[equal],
                gain=best,
            )
            chosen.append(choice)
        return chosen

    def _indexes(self, level: Sequence[_Open]) -> Rows:
        """Return the place in `level` of every training row, -1 if its node is a leaf."""
        places = np.full(len(self._nodes), -1, dtype=np.intp)
        places[[node.number for node in level]] = np.arange(len(level))
        return places[self._positions[self._given.rows]]

    def _own_sums(self, level: Sequence[_Open], nodes: Rows) -> Ints:
        inside = np.flatnonzero(nodes >= 0)
        return self._binned.sums(
            self._candidates,
            self._given.gradients.select(inside),
            nodes[inside],
            rows=self._given.rows[inside],
            count=len(level),
        )

    def _ask(self, hosts: Sequence[_Host], level: Sequence[_Open], nodes: Rows, depth: int) -> None:
        computed = [place for place, node in enumerate(level) if node.is_computed]
        numbers = np.full(len(level) + 1, -1, dtype=np.int32)  # the last one is for place -1
        numbers[computed] = np.arange(len(computed))
        sites = [host.site for host in hosts]
        tag = f"{self._tag}.{depth}"
        send = self._ctx.federation.send
        send("tree_node_queue", {"nodes": len(computed)}, to=sites, tag=tag)
        send("node_positions", numbers[nodes], to=sites, tag=tag)

    # --- splitting

    def _cut(self, choices: Sequence[SplitChoice], depth: int) -> dict[int, Cut]:
        """Return how each node is split; hosts are asked where the rows of theirs go."""
        by_owner: dict[int, list[SplitChoice]] = {}
        for choice in choices:
            by_owner.setdefault(choice.owner, []).append(choice)
        rows = {c.node: np.flatnonzero(self._positions == c.node) for c in choices}
        hosts = self._hosts if depth in self._levels.hosts else []
        for host in hosts:
            host.dispatch(by_owner.get(host.owner, []), rows, depth)
        cuts = [self._own_cut(choice, rows[choice.node]) for choice in by_owner.get(OWN, [])]
        for host in hosts:
            cuts += host.cuts(by_owner.get(host.owner, []), rows, depth)
        return {cut.choice.node: cut for cut in cuts}

    def _own_cut(self, choice: SplitChoice, rows: Rows) -> Cut:
        left = self._binned.left_rows(self._candidates, choice.candidates[0], rows)
        return Cut(choice=choice, place=0, rows=rows, left=left)

    def _split(self, node: _Open, cut: Cut) -> list[_Open]:
        """Give a node its children, move its rows there, and return them."""
        left, right = len(self._nodes), len(self._nodes) + 1
        choice = cut.choice
        number = choice.candidates[cut.place]
        own = self._binned.split_of(self._candidates, number) if choice.owner == OWN else None
        self._nodes[node.number] = TreeNode(
            owner=choice.owner,
            split=own,
            left=left,
            right=right,
            gain=choice.gain,
        )
        self._nodes += [TreeNode(), TreeNode()]
        self._positions[cut.rows] = np.where(cut.left, left, right)
        to_left = choice.left[cut.place]
        rest = node.total - to_left
        is_left = bool(to_left[ROWS] < rest[ROWS])  # the smaller one; if equal, the right one
        return [
            _Open(
                number=left, total=to_left, parent=node.number, sibling=right, is_computed=is_left
            ),
            _Open(
                number=right, total=rest, parent=node.number, sibling=left, is_computed=not is_left
            ),
        ]

    def _finished(self, klass: int) -> BoostedTree:
        leaves, numbers = self._leaves, sorted(self._leaves)
        total = np.stack([leaves[number] for number in numbers])
        weights = self._criterion.weights(total, units=self._given.gradients.units)
        for number, own, sums in zip(numbers, weights.tolist(), total, strict=True):
            self._nodes[number] = TreeNode(weights=tuple(own), rows=int(sums[ROWS]))
        return BoostedTree(nodes=tuple(self._nodes), klass=klass)


class _Host:
    """A host, as the guest sees it while a tree grows."""

    def __init__(
        self,
        ctx: Context,
        owner: int,
        tag: str,
        *,
        key: PrivateScheme,
        given: TreeRows,
        total: int,
        seconds: PartSeconds,
    ) -> None:
        """`total` is how many rows there are, whether they train the tree or not."""
        self.owner = owner
        self.site: Site = ctx.sites_of(Role.HOST)[owner - 1]
        self.key = key
        self._ctx = ctx
        self._tag = tag
        self._seconds = seconds
        self._gradients = given.gradients
        self.layout = SlotLayout.of(
            key.public,
            rows=len(given.rows),
            bits=self._gradients.bits,
            classes=self._gradients.classes,
        )
        self._places = np.full(total, -1, dtype=np.intp)  # of all rows in those
        self._places[given.rows] = np.arange(len(given.rows))
        self._count = 0
        self._known: dict[int, Ints] = {}  #: sums of nodes by number, of the last level
        self._asked = 0  #: levels

    def receive_count(self) -> None:
        """Learn how many candidates there are. Raises: CodecError."""
        value = self._wait("candidates", self._tag)
        count = value.get("count") if isinstance(value, dict) else None
        if type(count) is not int or not 0 <= count <= MOST_CANDIDATES:
            raise CodecError(reason=f"candidates of {self.site}: not a possible number")
        self._count = count

    def sums(self, level: Sequence[_Open], depth: int) -> Ints:
        """Return the sums left of its candidates in every node (nodes x candidates x sums).

        Raises: CodecError: they cannot be.
        """
        self._asked = depth + 1
        computed = [node for node in level if node.is_computed]
        tag = f"{self._tag}.{depth}"
        payload = self._wait("encrypted_splitinfo_host", tag)
        with self._seconds.of(OPENING):
            opened = open_sums(
                self.key,
                payload,
                count=len(computed) * self._count,
                layout=self.layout,
                workers=self._ctx.workers,
                sender=str(self.site),
            )
        found = opened.reshape(len(computed), self._count, opened.shape[1])
        sums = {node.number: own for node, own in zip(computed, found, strict=True)}
        for node in level:
            if not node.is_computed:
                sums[node.number] = self._known[node.parent] - sums[node.sibling]
        for node in level:
            left = sums[node.number]
            if not (self.layout.fits(left) and self.layout.fits(node.total - left)):
                raise CodecError(
                    reason=f"encrypted_splitinfo_host of {self.site}: not sums of the node's rows"
                )
        self._known = sums
        return np.stack([sums[node.number] for node in level])

    def dispatch(self, won: Sequence[SplitChoice], rows: dict[int, Rows], depth: int) -> None:
        """Tell the host which splits it has won; `rows` are those of each node."""
        tag = f"{self._tag}.{depth}"
        told = [
            {"node": c.node, "rows": len(rows[c.node]), "candidates": c.candidates} for c in won
        ]
        send = self._ctx.federation.send
        send("dispatch_node_host", told, to=self.site, tag=tag)
        if won:
            numbers = np.concatenate([rows[c.node] for c in won]).astype(np.int64)
            send("dispatch_rows", numbers, to=self.site, tag=tag)

    def cuts(self, won: Sequence[SplitChoice], rows: dict[int, Rows], depth: int) -> list[Cut]:
        """Return how the host splits the nodes that it has won. Raises: CodecError."""
        if not won:
            return []
        tag = f"{self._tag}.{depth}"
        places = self.chosen(won, depth)
        name = "dispatch_node_host_result"
        left = read_bits(
            self._wait(name, tag),
            count=sum(len(rows[choice.node]) for choice in won),
            message=f"{name} of {self.site}",
        )
        ends = np.cumsum([len(rows[choice.node]) for choice in won])[:-1]
        return [
            self._cut(choice, place, rows[choice.node], part)
            for choice, place, part in zip(won, places, np.split(left, ends), strict=True)
        ]

    def chosen(self, won: Sequence[SplitChoice], depth: int) -> list[int]:
        """Return which of its equal candidates the host uses, per node: their places.

        Raises: CodecError.
        """
        if not won:
            return []
        tag = f"{self._tag}.{depth}"
        masks = self._wait("chosen_candidates", tag)
        if not isinstance(masks, np.ndarray) or masks.dtype != np.int64:
            raise CodecError(reason=f"chosen_candidates of {self.site}: not numbers")
        if masks.shape != (len(won),):
            raise CodecError(reason=f"chosen_candidates of {self.site}: not one per node")
        pairs = list(zip(won, masks.tolist(), strict=True))
        if any(mask not in choice.candidates for choice, mask in pairs):
            raise CodecError(reason=f"chosen_candidates of {self.site}: it was not asked for")
        return [choice.candidates.index(mask) for choice, mask in pairs]

    def _cut(self, choice: SplitChoice, place: int, rows: Rows, left: NDArray[np.bool_]) -> Cut:
        trained = self._places[rows[left]]
        trained = trained[trained >= 0]
        if not np.array_equal(self._gradients.select(trained).total, choice.left[place]):
            raise CodecError(
                reason=f"dispatch_node_host_result of {self.site}: its rows do not have the sums"
                " that it has sent"
            )
        return Cut(choice=choice, place=place, rows=rows, left=left)

    def end(self) -> None:
        """Say that the tree is done."""
        tag = f"{self._tag}.{self._asked}"
        self._ctx.federation.send("tree_node_queue", {"nodes": 0}, to=self.site, tag=tag)

    def _wait(self, name: str, tag: str) -> object:
        with self._seconds.of(EXCHANGE):
            return wait_for(self._ctx, name, self.site, tag=tag)
