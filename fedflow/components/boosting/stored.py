"""A model of boosted trees as it is stored: at the guest whole, at a host its own splits.

Source of the names: docs/reference/models.md#fields. `gain`, `progress` and, at a host, the missing
places of other parties' nodes are fedflow's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from fedflow.components.boosting.bins import LEFT, RIGHT, Split
from fedflow.components.boosting.params import (
    CLASSIFICATION,
    LAYERED,
    MIX,
    MOST_DEPTH,
    SINGLE_OUTPUT,
    STD,
    HeteroSecureBoostParams,
    ObjectiveParam,
)
from fedflow.components.boosting.rounds import BoostingProgress
from fedflow.components.boosting.trees import LEAF, OWN, BoostedTree, HostTree, TreeNode
from fedflow.components.training.watch import WatchState
from fedflow.sdk import BadData, Context, Model, Role, Site
from fedflow.sdk.decoding import read_as

GUEST_PARAM: Final = "HeteroSecureBoostingTreeGuestParam"
HOST_PARAM: Final = "HeteroSecureBoostingTreeHostParam"

_MODEL_NAMES: Final = {
    STD: "hetero_sbt",
    LAYERED: "hetero_fast_sbt_layered",
    MIX: "hetero_fast_sbt_mix",
}

Floats = NDArray[np.float64]


class Importance(msgspec.Struct, frozen=True, kw_only=True):
    """How important a column is in all trees."""

    sitename: str
    fid: int
    fullname: str
    importance: float
    importance2: float
    main: str  #: what `importance` is: split or gain


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of other parties' splits: `fid` and `bid` are the number of the node."""

    id: int
    sitename: str = ""
    fid: int = -1
    bid: float = -1
    weight: float = 0.0
    is_leaf: bool = False
    left_nodeid: int = -1
    right_nodeid: int = -1
    missing_dir: int = RIGHT
    mo_weight: list[float] = msgspec.field(default_factory=list)
    gain: float = 0.0  #: of a split, at the guest


class _Tree(msgspec.Struct, frozen=True, kw_only=True):
    tree_: list[_Node]
    split_maskdict: dict[str, float] = msgspec.field(default_factory=dict)
    missing_dir_maskdict: dict[str, int] = msgspec.field(default_factory=dict)
    leaf_count: dict[str, int] = msgspec.field(default_factory=dict)
    grown_alone: bool = False  #: by the host that its first node names


class _Progress(msgspec.Struct, frozen=True, kw_only=True):
    rounds: int = 0
    converged: bool = False
    ended: bool = False
    best: int = -1
    watch: WatchState = msgspec.field(default_factory=WatchState)
    history: dict[str, dict[str, list[float]]] = msgspec.field(default_factory=dict)


class _StoredTrees(msgspec.Struct, frozen=True, kw_only=True):
    """What prediction, and training that goes on, need."""

    trees_: list[_Tree]
    tree_dim: int
    feature_name_fid_mapping: dict[str, str]
    losses: list[float] = msgspec.field(default_factory=list)
    init_score: list[float] = msgspec.field(default_factory=list)
    classes_: list[int | float | str | bool] = msgspec.field(default_factory=list)
    progress: _Progress = msgspec.field(default_factory=_Progress)


class _StoredObjective(msgspec.Struct, frozen=True, kw_only=True):
    objective: str
    param: list[float] = msgspec.field(default_factory=list)


class _StoredTreeMeta(msgspec.Struct, frozen=True, kw_only=True):
    max_depth: Annotated[int, Meta(ge=1, le=MOST_DEPTH)]


class TrainedWith(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that decide what trees mean: those of their training count."""

    task_type: str
    objective_meta: _StoredObjective
    learning_rate: float
    use_missing: bool
    zero_as_missing: bool
    tree_meta: _StoredTreeMeta
    multi_mode: str = SINGLE_OUTPUT

    @property
    def depth(self) -> int:
        """Return how many levels of splits a tree has at most."""
        return self.tree_meta.max_depth

    def into(self, params: HeteroSecureBoostParams) -> HeteroSecureBoostParams:
        """Return `params` with these, but for the depth."""
        missing = {"use_missing": self.use_missing, "zero_as_missing": self.zero_as_missing}
        objective = ObjectiveParam(
            objective=self.objective_meta.objective, params=self.objective_meta.param
        )
        return msgspec.structs.replace(
            params,
            task_type=self.task_type,
            objective_param=objective,
            learning_rate=self.learning_rate,
            multi_mode=self.multi_mode,
            tree_param=msgspec.structs.replace(params.tree_param, **missing),
            **missing,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ensemble:
    """What guest and hosts have in common."""

    trained: TrainedWith
    columns: tuple[str, ...]
    anonymous: tuple[str, ...]
    per_round: int  #: trees
    progress: BoostingProgress


@dataclass(frozen=True, kw_only=True, slots=True)
class GuestEnsemble(Ensemble):
    """The guest's part of a model."""

    trees: Sequence[BoostedTree]
    init_score: Floats
    classes: tuple[Any, ...] = ()  #: label values in order
    importances: Sequence[Importance] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class HostEnsemble(Ensemble):
    """A host's part of a model."""

    trees: Sequence[HostTree]


def guest_model(
    found: GuestEnsemble, params: HeteroSecureBoostParams, sites: Sequence[Site]
) -> Model:
    """Return the guest's objects; `sites` are the guest and the hosts in order."""
    names = [_sitename(site) for site in sites]
    trees = [_stored_tree(tree, names) for tree in found.trees]
    param = _param(found, params, trees)
    param["init_score"] = found.init_score.tolist()
    param["losses"] = list(found.progress.losses)
    param["num_classes"] = len(found.classes)
    param["classes_"] = list(found.classes)
    param["feature_importances"] = msgspec.to_builtins(found.importances)
    return Model(
        meta_name="HeteroSecureBoostingTreeGuestMeta",
        param_name=GUEST_PARAM,
        meta=_meta(params, found.trained),
        param=param,
    )


def host_model(found: HostEnsemble, params: HeteroSecureBoostParams, site: Site) -> Model:
    """Return a host's objects."""
    trees = [
        msgspec.structs.replace(
            _own_splits(_own_nodes(tree, site), tree.splits), grown_alone=tree.is_alone
        )
        for tree in found.trees
    ]
    return Model(
        meta_name="HeteroSecureBoostingTreeHostMeta",
        param_name=HOST_PARAM,
        meta=_meta(params, found.trained),
        param=_param(found, params, trees),
    )


def trained_with(params: HeteroSecureBoostParams, *, depth: int) -> TrainedWith:
    """Return what decides what trees of `params` mean; `depth` is that of the deepest."""
    return TrainedWith(
        task_type=params.task,
        objective_meta=_StoredObjective(
            objective=params.objective_param.kind, param=list(params.objective_param.params or ())
        ),
        learning_rate=params.learning_rate,
        use_missing=params.uses_missing,
        zero_as_missing=params.zero_is_missing,
        tree_meta=_StoredTreeMeta(max_depth=depth),
        multi_mode=params.multi_mode.lower(),
    )


def read_guest(model: Model, *, where: str, sites: Sequence[Site]) -> GuestEnsemble:
    """Return what `guest_model` stored; `sites` are the guest and the hosts in this job's order.

    Raises: BadData: it is no such model, or damaged, or a host that has splits takes no part.
    """
    stored = _stored(model, GUEST_PARAM, where=where)
    trained = _trained(model, where=where)
    classes = tuple(stored.classes_)
    is_count = len(classes) > 1 if trained.task_type == CLASSIFICATION else not classes
    width = len(classes) if len(classes) > 2 else 1
    of_trees = trained.into(HeteroSecureBoostParams()).classes_of_trees(width)
    if len(of_trees) != stored.tree_dim or not is_count or len(set(classes)) < len(classes):
        raise BadData(where=where, reason="the model's classes are damaged")
    owners = {_sitename(site): owner for owner, site in enumerate(sites)}
    trees = []
    for number, tree in enumerate(stored.trees_):
        own = of_trees[number % len(of_trees)]
        trees.append(
            BoostedTree(
                nodes=_nodes(tree, where=where, owners=owners, classes=len(own)),
                klass=own.start,
                grown_by=_grower(tree, where=where, owners=owners),
            )
        )
    init_score = np.array(stored.init_score, dtype=np.float64)
    if init_score.shape != (width,) or not np.isfinite(init_score).all():
        raise BadData(where=where, reason="the model has no first scores")
    columns, anonymous = _columns(stored, model, where=where)
    _check_splits((node.split for tree in trees for node in tree.nodes), len(columns), where=where)
    return GuestEnsemble(
        trained=trained,
        columns=columns,
        anonymous=anonymous,
        per_round=stored.tree_dim,
        progress=_progress(stored),
        trees=trees,
        init_score=init_score,
        classes=classes,
    )


def read_host(model: Model, *, where: str) -> HostEnsemble:
    """Return what `host_model` stored. Raises: BadData: it is no such model, or damaged."""
    stored = _stored(model, HOST_PARAM, where=where)
    for tree in stored.trees_:
        if {str(node.id) for node in tree.tree_} != set(tree.split_maskdict):
            raise BadData(where=where, reason="a tree has nodes without a split, or splits of none")
    trees = [
        HostTree(
            splits=_splits_of(tree, where=where),
            klass=number % stored.tree_dim,
            links=_links_of(tree, where=where) if tree.grown_alone else {},
            is_alone=tree.grown_alone,
        )
        for number, tree in enumerate(stored.trees_)
    ]
    columns, anonymous = _columns(stored, model, where=where)
    splits = (split for tree in trees for split in tree.splits.values())
    _check_splits(splits, len(columns), where=where)
    return HostEnsemble(
        trained=_trained(model, where=where),
        columns=columns,
        anonymous=anonymous,
        per_round=stored.tree_dim,
        progress=_progress(stored),
        trees=trees,
    )


# --- writing --------------------------------------------------------------------------------------


def read_share(ctx: Context, model: Model, *, where: str) -> GuestEnsemble | HostEnsemble:
    """Return what this party stored. Raises: BadData: as `read_guest` and `read_host`."""
    if ctx.site.role is Role.GUEST:
        return read_guest(model, where=where, sites=(ctx.site, *ctx.sites_of(Role.HOST)))
    return read_host(model, where=where)


def _sitename(site: Site) -> str:
    return f"{site.role.value}:{site.party_id}"


def _own_nodes(tree: HostTree, site: Site) -> list[_Node]:
    """Return a host's nodes; their children are known in trees that it has grown alone."""
    found = []
    for number, split in sorted(tree.splits.items()):
        left, right = tree.links.get(number, (-1, -1))
        found.append(
            _Node(
                id=number,
                sitename=_sitename(site),
                fid=split.column,
                bid=0,
                left_nodeid=left,
                right_nodeid=right,
                missing_dir=split.missing,
            )
        )
    return found


def _stored_tree(tree: BoostedTree, names: Sequence[str]) -> _Tree:
    nodes, own, leaves = [], {}, {}
    for number, node in enumerate(tree.nodes):
        if node.split is not None:
            own[number] = node.split
        if node.owner == LEAF:
            leaves[str(number)] = node.rows
        site = names[tree.grown_by if node.owner == LEAF else node.owner]
        nodes.append(_stored_node(number, node, site))
    found = _own_splits(nodes, own)
    is_alone = tree.grown_by != OWN
    return msgspec.structs.replace(found, leaf_count=leaves, grown_alone=is_alone)


def _stored_node(number: int, node: TreeNode, site: str) -> _Node:
    split = node.split
    is_leaf = node.owner == LEAF
    mask = -1 if is_leaf else number
    of_classes = list(node.weights)
    return _Node(
        id=number,
        sitename=site,
        fid=split.column if split else mask,
        bid=0 if split else mask,
        weight=of_classes[0] if len(of_classes) == 1 else 0.0,
        mo_weight=of_classes if len(of_classes) > 1 else [],
        is_leaf=is_leaf,
        left_nodeid=node.left,
        right_nodeid=node.right,
        missing_dir=split.missing if split else RIGHT,
        gain=node.gain,
    )


def _own_splits(nodes: list[_Node], splits: Mapping[int, Split]) -> _Tree:
    return _Tree(
        tree_=nodes,
        split_maskdict={str(n): split.point for n, split in splits.items()},
        missing_dir_maskdict={str(n): split.missing for n, split in splits.items()},
    )


def _param(
    found: Ensemble, params: HeteroSecureBoostParams, trees: Sequence[_Tree]
) -> dict[str, Any]:
    progress = found.progress
    stored = _Progress(
        rounds=progress.rounds,
        converged=progress.converged,
        ended=progress.ended,
        best=progress.best,
        watch=progress.watch,
        history={part: {n: list(v) for n, v in m.items()} for part, m in progress.history.items()},
    )
    return {
        "tree_num": len(trees),
        "trees_": msgspec.to_builtins(trees),
        "tree_dim": found.per_round,
        "feature_name_fid_mapping": {str(n): name for n, name in enumerate(found.columns)},
        "anonymous_name_mapping": dict(zip(found.anonymous, found.columns, strict=True)),
        "best_iteration": progress.best,
        "tree_plan": [],
        "model_name": _MODEL_NAMES[params.strategy],
        "progress": msgspec.to_builtins(stored),
    }


def _meta(params: HeteroSecureBoostParams, trained: TrainedWith) -> dict[str, Any]:
    tree = params.tree_param
    return {
        "tree_meta": {
            "criterion_meta": {
                "criterion_method": tree.criterion_method,
                "criterion_param": list(tree.penalties),
            },
            "max_depth": trained.depth,
            "min_sample_split": tree.min_sample_split,
            "min_impurity_split": tree.min_impurity_split,
            "min_leaf_node": tree.min_leaf_node,
            "use_missing": params.uses_missing,
            "zero_as_missing": params.zero_is_missing,
        },
        "learning_rate": params.learning_rate,
        "num_trees": params.num_trees,
        "quantile_meta": {"quantile_method": "quantile", "bin_num": params.bin_num},
        "objective_meta": {
            "objective": params.objective_param.kind,
            "param": list(params.objective_param.params or ()),
        },
        "task_type": params.task,
        "multi_mode": trained.multi_mode,
        "n_iter_no_change": params.n_iter_no_change,
        "tol": params.tol,
        "use_missing": params.uses_missing,
        "zero_as_missing": params.zero_is_missing,
        "work_mode": params.strategy,
        "boosting_strategy": params.strategy,
        "module": "HeteroSecureBoost",
    }


# --- reading --------------------------------------------------------------------------------------


def _stored(model: Model, name: str, *, where: str) -> _StoredTrees:
    foreign = "the model is not one of HeteroSecureBoost at this role"
    if model.param_name != name:
        raise BadData(where=where, reason=f"{foreign} but a {model.param_name}")
    try:
        stored = read_as(dict(model.param), _StoredTrees)
    except msgspec.ValidationError as exc:
        raise BadData(where=where, reason=f"{foreign} ({exc})") from exc
    if stored.tree_dim < 1 or len(stored.trees_) % stored.tree_dim:
        raise BadData(where=where, reason=f"{foreign}: it has incomplete rounds")
    return stored


def _trained(model: Model, *, where: str) -> TrainedWith:
    try:
        found = read_as(dict(model.meta), TrainedWith)
        found.into(HeteroSecureBoostParams()).check()
    except (msgspec.ValidationError, ValueError) as exc:
        raise BadData(where=where, reason=f"the model's meta is damaged ({exc})") from exc
    return found


def _columns(
    stored: _StoredTrees, model: Model, *, where: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the columns, and those that other parties know."""
    mapping = stored.feature_name_fid_mapping
    if set(mapping) != {str(n) for n in range(len(mapping))}:
        raise BadData(where=where, reason="the model's columns are not numbered through")
    names = tuple(mapping[str(n)] for n in range(len(mapping)))
    if len(set(names)) < len(names):
        raise BadData(where=where, reason="the model names a column twice")
    known = model.param.get("anonymous_name_mapping")
    of_names = {str(name): str(a) for a, name in known.items()} if isinstance(known, dict) else {}
    return names, tuple(of_names.get(name, name) for name in names)


def _nodes(
    tree: _Tree, *, where: str, owners: Mapping[str, int], classes: int
) -> tuple[TreeNode, ...]:
    """Return the nodes of a tree whose leaves have a weight per class. Raises: BadData."""
    splits = _splits_of(tree, where=where)
    inner = [node for node in tree.tree_ if not node.is_leaf]
    children = [child for node in inner for child in (node.left_nodeid, node.right_nodeid)]
    if not tree.tree_ or sorted(children) != list(range(1, len(tree.tree_))):
        raise BadData(where=where, reason="the nodes of a tree are damaged")
    nodes = []
    for number, one in enumerate(tree.tree_):
        owner = LEAF if one.is_leaf else owners.get(one.sitename)
        if owner is None:
            reason = f"a tree has a split of {one.sitename!r}, which takes no part"
            raise BadData(where=where, reason=reason)
        is_below = one.is_leaf or number < min(one.left_nodeid, one.right_nodeid)
        weights = tuple(one.mo_weight if classes > 1 else [one.weight]) if one.is_leaf else ()
        fits = one.id == number and is_below and len(weights) == (classes if one.is_leaf else 0)
        fits = fits and all(map(math.isfinite, (*one.mo_weight, one.weight, one.gain)))
        if not fits or (number in splits) != (owner == OWN):
            raise BadData(where=where, reason=f"node {number} of a tree is damaged")
        nodes.append(
            TreeNode(
                owner=owner,
                split=splits.get(number),
                left=one.left_nodeid,
                right=one.right_nodeid,
                weights=weights,
                rows=tree.leaf_count.get(str(number), 0) if one.is_leaf else 0,
                gain=one.gain,
            )
        )
    return tuple(nodes)


def _grower(tree: _Tree, *, where: str, owners: Mapping[str, int]) -> int:
    """Return the number of the host that has grown a tree, OWN if all have. Raises: BadData."""
    if not tree.grown_alone:
        return OWN
    owner = owners.get(tree.tree_[0].sitename, OWN)
    if owner == OWN:
        reason = f"a tree is of {tree.tree_[0].sitename!r}, which takes no part"
        raise BadData(where=where, reason=reason)
    return owner


def _links_of(tree: _Tree, *, where: str) -> dict[int, tuple[int, int]]:
    """Return the children of each node of a tree that a host has grown."""
    links = {node.id: (node.left_nodeid, node.right_nodeid) for node in tree.tree_}
    if any(not node < child for node, children in links.items() for child in children):
        raise BadData(where=where, reason="the children of a node of a tree are damaged")
    return links


def _splits_of(tree: _Tree, *, where: str) -> dict[int, Split]:
    """Return the own splits of a stored tree by node."""
    columns = {node.id: node.fid for node in tree.tree_}
    found = {}
    for key, point in tree.split_maskdict.items():
        side = tree.missing_dir_maskdict.get(key, RIGHT)
        number = int(key) if key.isdecimal() else -1
        if number not in columns or not math.isfinite(point) or side not in (LEFT, RIGHT):
            raise BadData(where=where, reason=f"the split of node {key} of a tree is damaged")
        found[number] = Split(column=columns[number], point=point, missing=side)
    return found


def _check_splits(splits: Any, columns: int, *, where: str) -> None:
    if any(split is not None and not 0 <= split.column < columns for split in splits):
        raise BadData(where=where, reason="a tree splits a column that the model does not name")


def _progress(stored: _StoredTrees) -> BoostingProgress:
    own = stored.progress
    return BoostingProgress(
        rounds=len(stored.trees_) // stored.tree_dim,
        converged=own.converged,
        ended=own.ended,
        losses=tuple(stored.losses),
        best=own.best,
        watch=own.watch,
        history=own.history,
    )
