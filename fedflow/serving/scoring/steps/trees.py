"""HeteroSecureBoost online: hosts say which of their nodes send a row left, the guest walks.

All nodes of all trees are looked at, whether a row comes to them or not, so one message is enough.
Of trees that a host has grown alone it says the leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedflow.components.boosting.bins import NEARLY, RIGHT, Split
from fedflow.components.boosting.losses import loss_of
from fedflow.components.boosting.params import HeteroSecureBoostParams
from fedflow.components.boosting.stored import TrainedWith, read_guest, read_host
from fedflow.components.boosting.trees import LEAF, OWN, BoostedTree, HostTree
from fedflow.domain.site import Role
from fedflow.serving.scoring.batch import Batch, Flags, Floats, Places, RowHeader
from fedflow.serving.scoring.host_answer import AnswerShape, HostAnswer, Leaves, answer_of
from fedflow.serving.scoring.predicted import Predicted
from fedflow.serving.scoring.registry import StepSource


def hetero_secureboost(source: StepSource) -> GuestTrees | HostTrees:
    """Return the model. Raises: ValueError, BadData: rows and model do not fit."""
    params = source.params(HeteroSecureBoostParams)
    if params.EINI_inference and params.predicts_by_eini:
        raise ValueError(
            "EINI_inference hides the way of a row from all parties, which online scores do not"
        )
    if source.site.role is Role.GUEST:
        return GuestTrees.of(source, params)
    return HostTrees.of(source)


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeColumns:
    """The columns that one party's trees split, as trees see them."""

    names: tuple[str, ...]
    places: Places  #: among the rows' columns
    trained: TrainedWith

    @staticmethod
    def of(names: tuple[str, ...], header: RowHeader, trained: TrainedWith) -> TreeColumns:
        """Return the columns. Raises: ValueError: the rows lack some."""
        return TreeColumns(names=names, places=header.numeric(names), trained=trained)

    def features(self, batch: Batch) -> Floats:
        """Return the features of all rows, NaN where missing, as `features_of` does.

        Rows with missing values have an error if the trees know none.
        """
        values = batch.features[:, self.places]
        if not self.trained.use_missing:
            batch.fail_missing(np.isnan(values), self.names)
        elif self.trained.zero_as_missing:
            return np.where(values == 0.0, np.nan, values)
        return values


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnNodes:
    """The nodes whose splits one party knows."""

    columns: Places
    points: Floats  #: with what a value may be above and still go left
    missing_left: Flags

    @staticmethod
    def of(splits: Sequence[Split]) -> OwnNodes:
        return OwnNodes(
            columns=np.array([split.column for split in splits], dtype=np.intp),
            points=np.array([split.point for split in splits], dtype=np.float64) + NEARLY,
            missing_left=np.array([split.missing != RIGHT for split in splits], dtype=np.bool_),
        )

    def goes_left(self, features: Floats) -> Flags:
        """Return which nodes send which rows left (rows x nodes), as `Split.goes_left` does."""
        values = features[:, self.columns]
        left: Flags = values <= self.points
        if self.missing_left.any():
            left |= np.isnan(values) & self.missing_left
        return left


@dataclass(frozen=True, kw_only=True, slots=True)
class Forest:
    """Some trees, their nodes numbered through."""

    starts: Places  #: the first node of each tree
    lefts: Places
    rights: Places  #: children; those of a leaf are itself
    depth: int  #: levels of splits

    @staticmethod
    def of(trees: Sequence[Mapping[int, tuple[int, int]]], sizes: Sequence[int]) -> Forest:
        """Return trees of so many nodes, given by the children of their inner nodes."""
        ends = np.cumsum([0, *sizes])
        lefts, rights = np.arange(ends[-1]), np.arange(ends[-1])
        depth = 0
        for start, children in zip(ends.tolist(), trees, strict=False):
            levels = {0: 0}
            for node, (left, right) in sorted(children.items()):  # children have higher numbers
                lefts[start + node], rights[start + node] = start + left, start + right
                levels[left] = levels[right] = levels.get(node, 0) + 1
            depth = max(depth, *levels.values())
        return Forest(starts=ends[:-1], lefts=lefts, rights=rights, depth=depth)

    def leaves(self, goes_left: Flags) -> Places:
        """Return the leaf of every row in each tree (rows x trees)."""
        at = np.tile(self.starts, (len(goes_left), 1))
        for _ in range(self.depth):
            left = np.take_along_axis(goes_left, at, axis=1)
            at = np.where(left, self.lefts[at], self.rights[at])
        return at


@dataclass(frozen=True, kw_only=True, slots=True)
class HostTrees:
    """A host's part: its splits, and the trees that it has grown alone."""

    columns: TreeColumns
    asked: OwnNodes  #: of trees that all have grown, in the order of trees and nodes
    alone: OwnNodes
    alone_nodes: Places  #: of `alone` in `forest`
    forest: Forest  #: the trees that it has grown alone

    @staticmethod
    def of(source: StepSource) -> HostTrees:
        """Return the host's part of a stored model. Raises: ValueError, BadData."""
        found = read_host(source.stored(), where=source.component)
        alone = [tree for tree in found.trees if tree.is_alone]
        asked = [tree for tree in found.trees if not tree.is_alone]
        sizes = [_size(tree) for tree in alone]
        starts = np.cumsum([0, *sizes])[:-1].tolist()
        return HostTrees(
            columns=TreeColumns.of(found.columns, source.header, found.trained),
            asked=OwnNodes.of([split for tree in asked for split in _in_order(tree)]),
            alone=OwnNodes.of([split for tree in alone for split in _in_order(tree)]),
            alone_nodes=np.array(
                [
                    start + node
                    for start, t in zip(starts, alone, strict=True)
                    for node in sorted(t.splits)
                ],
                dtype=np.intp,
            ),
            forest=Forest.of([tree.links for tree in alone], sizes),
        )

    @property
    def predicted(self) -> Predicted:
        """Return nothing of use: a host has no scores."""
        return Predicted(mean=lambda scores: scores)

    def partial(self, batch: Batch) -> HostAnswer:
        """Return which nodes send which rows left, and leaves of own trees."""
        features = self.columns.features(batch)
        goes = np.zeros((len(features), len(self.forest.lefts)), dtype=np.bool_)
        goes[:, self.alone_nodes] = self.alone.goes_left(features)
        leaves = self.forest.leaves(goes) - self.forest.starts
        return answer_of(
            batch.failed,
            goes_left=self.asked.goes_left(features),
            leaves=leaves.astype(np.int32),
        )

    def local(self, batch: Batch) -> Flags:
        """Return nothing. Raises: ValueError: a host has no scores."""
        raise ValueError("only the guest has scores")

    @property
    def is_sum(self) -> bool:
        """Tell whether scores are sums of parts: no, leaves need all sides."""
        return False

    def shape(self, host: int) -> AnswerShape:
        """Return how much this host says of each row."""
        return AnswerShape(bits=len(self.asked.columns), leaves=len(self.forest.starts))

    def check(self, host: int, answer: HostAnswer) -> None:
        """Do nothing: a host gets no answers."""

    def merged(self, values: Flags, answers: Sequence[HostAnswer]) -> Floats:
        """Return nothing. Raises: ValueError: a host has no scores."""
        raise ValueError("only the guest has scores")


def _in_order(tree: HostTree) -> list[Split]:
    return [split for _, split in sorted(tree.splits.items())]


def _size(tree: HostTree) -> int:
    """Return the number of nodes of a tree that this host has grown. Raises: ValueError."""
    children = sorted(child for pair in tree.links.values() for child in pair)
    if children != list(range(1, len(children) + 1)) or set(tree.links) != set(tree.splits):
        raise ValueError("the nodes of a tree that it has grown alone are damaged")
    return len(children) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNodes:
    """What one host says of each row, and where it belongs."""

    asked: Places  #: its nodes in trees that all have grown
    trees: Places  #: those that it has grown alone

    @staticmethod
    def of(owner: int, trees: Sequence[BoostedTree], starts: Sequence[int]) -> HostNodes:
        asked = [
            start + np.flatnonzero(tree.tables.owners == owner)
            for start, tree in zip(starts, trees, strict=True)
            if tree.grown_by != owner
        ]
        own = [number for number, tree in enumerate(trees) if tree.grown_by == owner]
        return HostNodes(
            asked=np.concatenate([*asked, np.zeros(0, dtype=np.intp)]).astype(np.intp),
            trees=np.array(own, dtype=np.intp),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LeafWeights:
    """What leaves add to scores."""

    start: Floats  #: scores before the first tree
    weights: Floats  #: nodes x classes of a tree; 0 where no leaf is
    per_round: int  #: trees
    learning_rate: float

    def scores(self, leaves: Places) -> Floats:
        """Return the scores of rows whose leaf is known in each tree: rows x width."""
        found = self.weights[leaves]
        rows, trees, classes = found.shape
        rounds = trees // self.per_round
        of_rounds = found.reshape(rows, rounds, self.per_round * classes)
        scores: Floats = self.start + self.learning_rate * of_rounds.sum(axis=1)
        return scores


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestTrees:
    """The guest's part: all nodes, its own splits, and what leaves weigh."""

    columns: TreeColumns
    forest: Forest
    own: OwnNodes
    own_nodes: Places  #: of `own` in `forest`
    hosts: Sequence[HostNodes]
    leaves: LeafWeights
    predicted: Predicted

    @staticmethod
    def of(source: StepSource, params: HeteroSecureBoostParams) -> GuestTrees:
        """Return the guest's part of a stored model. Raises: ValueError, BadData."""
        sites = (source.guest, *source.hosts)
        found = read_guest(source.stored(), where=source.component, sites=sites)
        trees = found.trees
        sizes = [len(tree.nodes) for tree in trees]
        starts = np.cumsum([0, *sizes])[:-1].tolist()
        splits = {
            start + number: node.split
            for start, tree in zip(starts, trees, strict=True)
            for number, node in enumerate(tree.nodes)
            if node.owner == OWN and node.split is not None
        }
        loss = loss_of(found.trained.into(params), found.classes)
        classes = len(found.init_score) // found.per_round
        nothing = np.zeros((0, classes))
        return GuestTrees(
            columns=TreeColumns.of(found.columns, source.header, found.trained),
            forest=Forest.of([_children(tree) for tree in trees], sizes),
            own=OwnNodes.of(list(splits.values())),
            own_nodes=np.array(list(splits), dtype=np.intp),
            hosts=[HostNodes.of(n, trees, starts) for n in range(1, len(source.hosts) + 1)],
            leaves=LeafWeights(
                start=found.init_score,
                weights=np.concatenate([nothing, *(tree.tables.weights for tree in trees)]),
                per_round=found.per_round,
                learning_rate=found.trained.learning_rate,
            ),
            predicted=Predicted(
                mean=loss.mean, labels=found.classes, threshold=params.predict_param.threshold
            ),
        )

    def partial(self, batch: Batch) -> HostAnswer:
        """Return nothing. Raises: ValueError: the guest has no part to give."""
        raise ValueError("the guest asks hosts for their part, and has none to give")

    def local(self, batch: Batch) -> Flags:
        """Return which own nodes send which rows left: rows x nodes of all trees."""
        goes = np.zeros((len(batch.features), len(self.forest.lefts)), dtype=np.bool_)
        goes[:, self.own_nodes] = self.own.goes_left(self.columns.features(batch))
        return goes

    @property
    def is_sum(self) -> bool:
        """Tell whether scores are sums of parts: no, leaves need all sides."""
        return False

    def shape(self, host: int) -> AnswerShape:
        """Return how much a host says of each row."""
        nodes = self.hosts[host]
        return AnswerShape(bits=len(nodes.asked), leaves=len(nodes.trees))

    def check(self, host: int, answer: HostAnswer) -> None:
        """Do nothing if a host's leaves are leaves of its trees. Raises: ValueError."""
        trees = self.hosts[host].trees
        starts = self.forest.starts[trees]
        ends = np.append(self.forest.starts, len(self.forest.lefts))[trees + 1]
        leaves = answer.leaves[~answer.failed]
        if (leaves < 0).any() or (leaves >= ends - starts).any():
            raise ValueError("it has leaves that are no nodes")
        if (self.forest.lefts[leaves + starts] != leaves + starts).any():
            raise ValueError("it has leaves that are inner nodes")

    def merged(self, values: Flags, answers: Sequence[HostAnswer]) -> Floats:
        """Return the scores of all rows, with what all hosts say in their order."""
        goes = values.copy()
        for nodes, answer in zip(self.hosts, answers, strict=True):
            goes[:, nodes.asked] = answer.goes_left
        at = self.forest.leaves(goes)
        for nodes, answer in zip(self.hosts, answers, strict=True):
            known: Leaves = np.where(answer.failed[:, None], 0, answer.leaves)
            at[:, nodes.trees] = known + self.forest.starts[nodes.trees]
        return self.leaves.scores(at)


def _children(tree: BoostedTree) -> dict[int, tuple[int, int]]:
    return {n: (one.left, one.right) for n, one in enumerate(tree.nodes) if one.owner != LEAF}
