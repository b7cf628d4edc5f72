"""Models as the real components store them, of two parties whose columns have telling names.

The guest's columns begin with `guestown`, the host's with `hostown`; each component runs in threads
of this process over small keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.base.ids import PartyId
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.boosting.hetero_secureboost import HeteroSecureBoost
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.label_transform import LabelTransform
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.sample_weight import SampleWeight
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.local.local_baseline import LocalBaseline
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.components.sshe.component import HeteroSSHELR
from fedflow.components.stability.population import PSI
from fedflow.components.statistics.data_statistics import DataStatistics
from fedflow.domain.records import Metric
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, TableKind, TableSchema
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
ARBITER = Site(Role.ARBITER, PartyId("10001"))
BOTH = (GUEST, HOST)
ALL = (GUEST, HOST, ARBITER)
GUEST_MARK, HOST_MARK = "guestown", "hostown"

_ROWS = 80
_KEY = {"encrypt_param": {"key_length": 1024}}
_LINEAR = {**_KEY, "max_iter": 2, "init_param": {"init_method": "zeros"}}


@dataclass(frozen=True, kw_only=True)
class Made:
    """What one component stored at all sites."""

    module: str
    models: Mapping[Site, Model]
    metrics: Mapping[Site, list[Metric]]


def columns_of(site: Site, classes: int = 2) -> dict[str, Any]:
    """Return the rows of a party; `nominal` has few whole values, `holes` misses some."""
    generator = np.random.default_rng(3 if site is GUEST else 4)
    labels = np.arange(_ROWS) % classes
    mark = GUEST_MARK if site is GUEST else HOST_MARK
    found: dict[str, Any] = {"id": [f"id{i:04}" for i in range(_ROWS)]}
    if site is GUEST:
        found["y"] = labels
    for name in ("income", "age", "debt"):
        found[f"{mark}_{name}"] = labels * 0.8 + generator.normal(size=_ROWS)
    return found


def _schema(site: Site, names: list[str], **more: Any) -> TableSchema:
    columns = tuple(name for name in names if name not in ("id", "y"))
    hidden = tuple(f"{site.role.value}_{site.party_id}_x{i}" for i in range(len(columns)))
    label = "y" if "y" in names else None
    given = {"kind": TableKind.INSTANCES, "anonymous": hidden, "label": label, **more}
    return TableSchema(id="id", columns=columns, **given)


def made(
    component: type[Any],
    sites: tuple[Site, ...],
    params: Mapping[str, Any],
    *,
    data: Mapping[Site, dict[str, Any]] | None = None,
    models: Mapping[Site, Model] | None = None,
    port: str = "data",
    ports: Mapping[Site, Mapping[str, dict[str, Any]]] | None = None,
    kind: TableKind = TableKind.INSTANCES,
) -> Made:
    """Return what a component stores at each site."""
    inputs = {}
    stores = {site: MemoryTableStore() for site in sites}
    for site in sites:
        rows = {port: (data or {}).get(site) or columns_of(site)} if site is not ARBITER else {}
        given = (ports or {}).get(site, rows)
        tables: dict[str, Any] = {port: [("up_0", None)]} if site is ARBITER else {}
        for name, columns in given.items():
            more = {"kind": kind, "anonymous": ()} if kind is TableKind.RAW else {}
            names = list(columns)
            schema = (
                TableSchema(kind=kind, id="id", columns=tuple(names[1:]))
                if more
                else _schema(site, names)
            )
            tables[name] = [("up_0", stores[site].add(pa.table(columns), schema=schema, name=name))]
        model = {} if models is None else {"model_0": models[site]}
        inputs[site] = Inputs(data=tables, model=model)
    with TemporaryDirectory(prefix="board-models-") as folder:
        results = run_component(
            component,
            sites=sites,
            work_dir=Path(folder),
            params=dict.fromkeys(sites, params),
            inputs=inputs,
            tables=stores,
        )
    outputs = outputs_of(results)
    metrics = {
        site: [
            Metric(namespace=ns, name=name, points=tuple(m.points), meta=dict(m.meta))
            for (ns, name), m in results[site].metrics.items()
        ]
        for site in sites
    }
    stored = {site: out.model for site, out in outputs.items() if out.model is not None}
    return Made(module=component.__name__, models=stored, metrics=metrics)


# --- one per module -------------------------------------------------------------------------------


@cache
def binning(classes: int = 2) -> Made:
    """Return the bins of guest and host."""
    data = {site: columns_of(site, classes) for site in BOTH}
    return made(HeteroFeatureBinning, BOTH, {**_KEY, "bin_num": 4}, data=data)


@cache
def rebinned() -> Made:
    """Return what a run with the bins of another one stores: statistics of its own rows."""
    models = binning().models
    return made(HeteroFeatureBinning, BOTH, {**_KEY, "bin_num": 4}, models=models)


@cache
def selection() -> Made:
    """Return a selection by hand and by information value, the host's columns too."""
    params = {
        "filter_methods": ["percentage_value", "iv_filter"],
        "percentage_value_param": {"upper_pct": 1.0},
        "iv_param": {"metrics": "iv", "filter_type": "top_k", "threshold": 3},
    }
    return made(HeteroFeatureSelection, BOTH, params, models=binning().models)


@cache
def logistic(classes: int = 2) -> Made:
    """Return weights, for several classes one set per class."""
    data = {site: columns_of(site, classes) for site in BOTH}
    return made(HeteroLR, ALL, _LINEAR, data=data, port="train_data")


@cache
def stepwise() -> Made:
    """Return a linear regression whose columns were chosen step by step."""
    params = {**_LINEAR, "stepwise_param": {"need_stepwise": True, "max_step": 2}}
    return made(HeteroLinR, ALL, params, port="train_data")


@cache
def boosted(classes: int = 2, *, holes: bool = False, **params: Any) -> Made:
    """Return two rounds of boosted trees, measured after each; with `holes`, rows miss values."""
    data = {site: columns_of(site, classes) for site in BOTH}
    for number, columns in enumerate(data.values()):
        name = list(columns)[-1]
        if holes:
            columns[name] = np.where(np.arange(_ROWS) % 5 == number, np.nan, columns[name])
    asked = {
        **_KEY, "num_trees": 2, "n_iter_no_change": False, "validation_freqs": 1,
        "tree_param": {"max_depth": 3}, "use_missing": holes, **params,
    }  # fmt: skip
    return made(HeteroSecureBoost, BOTH, asked, data=data, port="train_data")


@cache
def in_shares() -> Made:
    """Return weights that the host has under the guest's key only."""
    params = {
        **_LINEAR, "reveal_strategy": "encrypted_reveal_in_host", "reveal_every_iter": False,
    }  # fmt: skip
    return made(HeteroSSHELR, BOTH, params, port="train_data")


@cache
def pearson() -> Made:
    """Return correlations within and between the parties."""
    return made(HeteroPearson, BOTH, {"column_indexes": -1, "fixpoint_bit_length": 1024})


@cache
def stability() -> Made:
    """Return how two tables differ, at each party."""
    ports = {
        site: {"train_data": columns_of(site), "validate_data": columns_of(site)} for site in BOTH
    }
    return made(PSI, BOTH, {"max_bin_num": 4}, ports=ports)


@cache
def statistics() -> Made:
    """Return statistics of the own columns."""
    return made(DataStatistics, BOTH, {"statistics": "summary", "column_indexes": -1})


@cache
def scaled() -> Made:
    """Return what columns were scaled by."""
    return made(FeatureScale, BOTH, {"method": "standard_scale"})


@cache
def filled() -> Made:
    """Return what missing cells were filled with."""
    data = {site: columns_of(site) for site in BOTH}
    for columns in data.values():
        name = list(columns)[-1]
        columns[name] = np.where(np.arange(_ROWS) % 5 == 0, np.nan, columns[name])
    return made(FeatureImputation, BOTH, {"missing_fill_method": "mean"}, data=data)


@cache
def transformed() -> Made:
    """Return what a raw table became."""
    data = {
        site: {k: [str(v) for v in values] for k, values in columns_of(site).items() if k != "y"}
        for site in BOTH
    }
    return made(DataTransform, BOTH, {"missing_fill": True}, data=data, kind=TableKind.RAW)


@cache
def encoded() -> Made:
    """Return which values became which columns."""
    data = {
        site: {
            "id": columns_of(site)["id"],
            f"{mark}_colour": [f"{mark} {i % 3}" for i in range(_ROWS)],
        }
        for site, mark in ((GUEST, GUEST_MARK), (HOST, HOST_MARK))
    }
    return made(OneHotEncoder, BOTH, {"transform_col_indexes": -1}, data=data)


@cache
def relabelled() -> Made:
    """Return which label became which."""
    return made(LabelTransform, (GUEST,), {"label_encoder": {"0": "good", "1": "bad"}})


@cache
def weighted() -> Made:
    """Return how classes were weighted."""
    return made(SampleWeight, (GUEST,), {"class_weight": {"0": 0.5, "1": 2.0}})


@cache
def local() -> Made:
    """Return the weights of a model of the guest alone."""
    params = {"model_name": "LogisticRegression"}
    return made(LocalBaseline, (GUEST,), params, port="train_data")


EVERY: Mapping[str, Callable[[], Made]] = {
    one.__name__: one  # type: ignore[attr-defined]
    for one in (
        binning, rebinned, selection, logistic, stepwise, in_shares, pearson, stability, statistics,
        scaled, filled, transformed, encoded, relabelled, weighted, local, boosted,
    )
}  # fmt: skip
