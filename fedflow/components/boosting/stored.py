"""A model of boosted trees as it is stored: at the guest whole, at a host its own splits.

Source of the names: docs/reference/models.md#fields. `owner`, `progress` and, at a host, the
missing places of other parties' nodes are fedflow's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.components.boosting.bins import LEFT, RIGHT, Split
from fedflow.components.boosting.params import LAYERED, HeteroSecureBoostParams
from fedflow.components.boosting.rounds import BoostingProgress
from fedflow.components.boosting.trees import LEAF, OWN, BoostedTree, HostTree, TreeNode
from fedflow.components.training.watch import WatchState
from fedflow.sdk import BadData, Model, Site
from fedflow.sdk.decoding import read_as

GUEST_PARAM: Final = "HeteroSecureBoostingTreeGuestParam"
HOST_PARAM: Final = "HeteroSecureBoostingTreeHostParam"

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
    """Fields of other parties' splits: `fid` and `bid` are the number of the candidate."""

    id: int
    sitename: str = ""
    owner: int = LEAF
    fid: int = -1
    bid: float = -1
    weight: float = 0.0
    is_leaf: bool = False
    left_nodeid: int = -1
    right_nodeid: int = -1
    missing_dir: int = RIGHT
    mo_weight: list[float] = msgspec.field(default_factory=list)


class _Tree(msgspec.Struct, frozen=True, kw_only=True):
    tree_: list[_Node]
    split_maskdict: dict[str, float] = msgspec.field(default_factory=dict)
    missing_dir_maskdict: dict[str, int] = msgspec.field(default_factory=dict)
    leaf_count: dict[str, int] = msgspec.field(default_factory=dict)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Ensemble:
    """What guest and hosts have in common."""

    columns: tuple[str, ...]
    anonymous: tuple[str, ...]
    width: int  #: trees per round
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
        meta=_meta(params),
        param=param,
    )


def host_model(found: HostEnsemble, params: HeteroSecureBoostParams, site: Site) -> Model:
    """Return a host's objects."""
    trees = [
        _own_splits(
            [
                _Node(id=n, sitename=_sitename(site), fid=s.column, bid=0, missing_dir=s.missing)
                for n, s in sorted(tree.splits.items())
            ],
            tree.splits,
        )
        for tree in found.trees
    ]
    return Model(
        meta_name="HeteroSecureBoostingTreeHostMeta",
        param_name=HOST_PARAM,
        meta=_meta(params),
        param=_param(found, params, trees),
    )


def read_guest(model: Model, *, where: str, hosts: int) -> GuestEnsemble:
    """Return what `guest_model` stored. Raises: BadData: it is no such model, or damaged."""
    stored = _stored(model, GUEST_PARAM, where=where)
    width = stored.tree_dim
    trees = [
        BoostedTree(nodes=_nodes(tree, where=where, hosts=hosts), klass=number % width)
        for number, tree in enumerate(stored.trees_)
    ]
    init_score = np.array(stored.init_score, dtype=np.float64)
    if init_score.shape != (width,) or not np.isfinite(init_score).all():
        raise BadData(where=where, reason="the model has no first scores")
    columns, anonymous = _columns(stored, model)
    _check_splits((node.split for tree in trees for node in tree.nodes), len(columns), where=where)
    return GuestEnsemble(
        columns=columns,
        anonymous=anonymous,
        width=width,
        progress=_progress(stored),
        trees=trees,
        init_score=init_score,
        classes=tuple(stored.classes_),
    )


def read_host(model: Model, *, where: str) -> HostEnsemble:
    """Return what `host_model` stored. Raises: BadData: it is no such model, or damaged."""
    stored = _stored(model, HOST_PARAM, where=where)
    trees = [
        HostTree(splits=_splits_of(tree, where=where), klass=number % stored.tree_dim)
        for number, tree in enumerate(stored.trees_)
    ]
    columns, anonymous = _columns(stored, model)
    splits = (split for tree in trees for split in tree.splits.values())
    _check_splits(splits, len(columns), where=where)
    return HostEnsemble(
        columns=columns,
        anonymous=anonymous,
        width=stored.tree_dim,
        progress=_progress(stored),
        trees=trees,
    )


# --- writing --------------------------------------------------------------------------------------


def _sitename(site: Site) -> str:
    return f"{site.role.value}:{site.party_id}"


def _stored_tree(tree: BoostedTree, names: Sequence[str]) -> _Tree:
    nodes, own, leaves = [], {}, {}
    for number, node in enumerate(tree.nodes):
        if node.split is not None:
            own[number] = node.split
        if node.owner == LEAF:
            leaves[str(number)] = node.rows
        nodes.append(_stored_node(number, node, names))
    found = _own_splits(nodes, own)
    return msgspec.structs.replace(found, leaf_count=leaves)


def _stored_node(number: int, node: TreeNode, names: Sequence[str]) -> _Node:
    split = node.split
    is_leaf = node.owner == LEAF
    return _Node(
        id=number,
        sitename=names[OWN if is_leaf else node.owner],
        owner=node.owner,
        fid=split.column if split else node.mask,
        bid=0 if split else node.mask,
        weight=node.weight,
        is_leaf=is_leaf,
        left_nodeid=node.left,
        right_nodeid=node.right,
        missing_dir=split.missing if split else RIGHT,
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
    layered = params.strategy == LAYERED
    return {
        "tree_num": len(trees),
        "trees_": msgspec.to_builtins(trees),
        "tree_dim": found.width,
        "feature_name_fid_mapping": {str(n): name for n, name in enumerate(found.columns)},
        "anonymous_name_mapping": dict(zip(found.anonymous, found.columns, strict=True)),
        "best_iteration": progress.best,
        "tree_plan": [],
        "model_name": "hetero_fast_sbt_layered" if layered else "hetero_sbt",
        "progress": msgspec.to_builtins(stored),
    }


def _meta(params: HeteroSecureBoostParams) -> dict[str, Any]:
    tree = params.tree_param
    return {
        "tree_meta": {
            "criterion_meta": {
                "criterion_method": tree.criterion_method,
                "criterion_param": list(tree.penalties),
            },
            "max_depth": params.levels.depth,
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


def _columns(stored: _StoredTrees, model: Model) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the columns, and those that other parties know."""
    mapping = stored.feature_name_fid_mapping
    names = tuple(mapping[str(n)] for n in range(len(mapping)) if str(n) in mapping)
    known = model.param.get("anonymous_name_mapping")
    of_names = {str(name): str(a) for a, name in known.items()} if isinstance(known, dict) else {}
    return names, tuple(of_names.get(name, name) for name in names)


def _nodes(tree: _Tree, *, where: str, hosts: int) -> tuple[TreeNode, ...]:
    splits = _splits_of(tree, where=where)
    nodes = []
    for number, one in enumerate(tree.tree_):
        children = (one.left_nodeid, one.right_nodeid)
        is_leaf = one.owner == LEAF
        fits = one.id == number and math.isfinite(one.weight) and LEAF <= one.owner <= hosts
        fits = fits and (is_leaf or all(number < c < len(tree.tree_) for c in children))
        if not fits or (one.owner == OWN and number not in splits):
            raise BadData(where=where, reason=f"node {number} of a tree is damaged")
        nodes.append(
            TreeNode(
                owner=one.owner,
                split=splits[number] if one.owner == OWN else None,
                mask=-1 if one.owner in (LEAF, OWN) else one.fid,
                left=one.left_nodeid,
                right=one.right_nodeid,
                weight=one.weight,
                rows=tree.leaf_count.get(str(number), 0) if is_leaf else 0,
            )
        )
    if not nodes:
        raise BadData(where=where, reason="a tree has no nodes")
    return tuple(nodes)


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
