"""What a site may see of its own stored model, and what nobody is shown.

The components already store at each party only what it may know (`docs/components.md`); this is the
second lock. It is applied before anything is drawn, searched or downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.board.presenters.models.decoding import items, mapping, objects
from fedflow.domain.site import Role

#: keys, shares of hidden weights, numbers of networks, states of trainings: for the worker alone
SECRET: Final = frozenset(
    {
        "cipher",
        "private_key",
        "training_state",
        "resume_state",
        "optimizer_state",
        "model_bytes",
        "extra_data_bytes",
    }
)
_STATISTICS: Final = (
    "woe_array", "iv_array", "event_count_array", "non_event_count_array", "event_rate_array",
    "non_event_rate_array", "optimal_metric_array",
)  # fmt: skip
_BINNING: Final = "FeatureBinningParam"
_SELECTION: Final = "FeatureSelectionParam"
_BOOSTED: Final = frozenset(
    {"HeteroSecureBoostingTreeGuestParam", "HeteroSecureBoostingTreeHostParam"}
)

Json = Mapping[str, Any]


def own_param(role: Role, param_name: str, param: Any, meta: Any) -> Json:
    """Return the part of a model's param object that its site may see; nothing at the arbiter."""
    if role is Role.ARBITER or not isinstance(param, Mapping):
        return {}
    found = mapping(_without_secrets(param))
    if param_name == _BINNING:
        return _binning(role, found)
    if param_name == _SELECTION and role is Role.HOST:
        return _host_selection(found, meta)
    if param_name in _BOOSTED:
        return _boosted(role, found)
    return found


def own_meta(role: Role, meta: Any) -> Json:
    """Return the part of a model's meta object that its site may see; nothing at the arbiter."""
    if role is Role.ARBITER or not isinstance(meta, Mapping):
        return {}
    return mapping(_without_secrets(meta))


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_secrets(v) for k, v in value.items() if k not in SECRET}
    if isinstance(value, list | tuple) and any(isinstance(v, dict | list | tuple) for v in value):
        return [_without_secrets(v) for v in value]
    return value  # lists of a million numbers among them


# --- binning --------------------------------------------------------------------------------------


def _binning(role: Role, param: Json) -> Json:
    """Return a host's bins without what depends on labels, or a guest's without hosts' cuts."""
    found = dict(param)
    for prefix in ("", "transform_"):
        own, hosts = f"{prefix}binning_result", f"{prefix}host_results"
        several = f"{prefix}multi_class_result"
        if role is Role.HOST:
            found[own] = _party(param.get(own), _unlabelled)
            found[hosts] = []
            found[several] = {}
        elif role is Role.GUEST:
            found[hosts] = [_party(one, _uncut) for one in items(param, hosts)]
            classes = mapping(param, several)
            theirs = [_party(one, _uncut) for one in items(classes, "host_results")]
            found[several] = {**classes, "host_results": theirs} if classes else {}
    return found


def _party(result: Any, change: Any) -> Json:
    bins = mapping(result, "binning_result")
    return {**mapping(result), "binning_result": {k: change(mapping(v)) for k, v in bins.items()}}


def _unlabelled(column: Json) -> Json:
    hidden: dict[str, Any] = {name: [] for name in _STATISTICS}
    return {**column, **hidden, "iv": None, "is_woe_monotonic": None}


def _uncut(column: Json) -> Json:
    return {**column, "split_points": []}


# --- selection ------------------------------------------------------------------------------------


def _host_selection(param: Json, meta: Any) -> Json:
    """Return a host's selection without values of steps that the guest decided."""
    decided = [bool(step.get("select_federated")) for step in objects(meta, "filter_metas")]
    results = []
    for number, result in enumerate(objects(param, "results")):
        asked = number < len(decided) and decided[number]
        hidden: dict[str, Any] = {"feature_values": {}} if asked else {}
        results.append({**result, **hidden, "host_feature_values": [], "host_left_cols": []})
    return {**param, "results": results, "host_col_names": []}


# --- boosted trees --------------------------------------------------------------------------------


def _boosted(role: Role, param: Json) -> Json:
    """Return trees without what depends on labels at a host, or without hosts' splits elsewhere.

    `progress` is the state of the training.
    """
    hidden = {"progress"}
    change = _own_places
    if role is Role.HOST:
        hidden |= {"losses", "init_score", "num_classes", "classes_", "feature_importances"}
        change = _own_nodes
    found = {name: value for name, value in param.items() if name not in hidden}
    return {**found, "trees_": [change(mapping(one)) for one in items(param, "trees_")]}


def _own_places(tree: Json) -> Json:
    """Return a guest's tree with the thresholds of its own splits alone."""
    theirs = {
        str(node.get("id"))
        for node in objects(tree, "tree_")
        if str(node.get("sitename", "")).startswith("host")
    }
    names = ("split_maskdict", "missing_dir_maskdict")
    own = {
        name: {k: v for k, v in mapping(tree, name).items() if k not in theirs} for name in names
    }
    return {**tree, **own}


def _own_nodes(tree: Json) -> Json:
    """Return a host's tree with its own splits alone, without the weights and rows of leaves."""
    own = mapping(tree, "split_maskdict")
    nodes = [
        {**node, "weight": 0.0, "mo_weight": []}
        for node in objects(tree, "tree_")
        if str(node.get("id")) in own
    ]
    return {**tree, "tree_": nodes, "leaf_count": {}}
