"""DataStatistics, HeteroPearson with VIF, PSI, and HeteroFeatureSelection built upon them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.outliers_influence import variance_inflation_factor

from benchmarks.accuracy import binning
from benchmarks.accuracy.chain import GUEST, HOST, KEY, Chain
from benchmarks.accuracy.data import DataFolder, Floats
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.components.stability.population import PSI
from fedflow.components.statistics.data_statistics import DataStatistics

EMPTY_SHARE = 1e-6  #: what an empty bin counts as in the stability index
PERCENT = 95


def described(frame: pd.DataFrame) -> dict[str, Floats]:
    """Return every statistic of all columns, by pandas and scipy."""
    spread = frame.std(ddof=0)
    return {
        "sum": frame.sum().to_numpy(),
        "mean": frame.mean().to_numpy(),
        "stddev": spread.to_numpy(),
        "variance": frame.var(ddof=0).to_numpy(),
        "min": frame.min().to_numpy(),
        "max": frame.max().to_numpy(),
        "median": frame.quantile(0.5, interpolation="lower").to_numpy(),
        f"{PERCENT}%": np.quantile(frame, PERCENT / 100, axis=0, method="inverted_cdf"),
        "skewness": stats.skew(frame),
        "kurtosis": stats.kurtosis(frame),
        "coefficient_of_variance": (spread / frame.mean().abs().clip(lower=1e-8)).to_numpy(),
    }


def statistics(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Each party's own columns."""
    for vertical in (data.breast(), data.motor(), data.dvisits()):
        chain = Chain(folder / vertical.name)
        params: dict[str, Any] = {"statistics": ["summary", "variance", f"{PERCENT}%"]}
        step = chain.run(DataStatistics, {"data": chain.aligned(vertical)}, **params)
        for site in (GUEST, HOST):
            frame = vertical.own(site.role.value)
            rows = Rows("DataStatistics", f"{vertical.name} {site.role.value}", "pandas, scipy")
            expected = described(frame)
            found = [[step.summary(site)[c][name] for c in frame.columns] for name in expected]
            yield rows.worst(", ".join(expected), list(expected.values()), found)


def pearson(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Correlations within and across the parties, and inflation factors of the own columns."""
    chain, breast = Chain(folder), data.breast()
    settings: dict[str, Any] = {"column_indexes": -1, "fixpoint_bit_length": 1024}
    step = chain.run(HeteroPearson, {"data": chain.aligned(breast)}, **settings)
    guest, host = breast.own("guest"), breast.own("host")
    whole = breast.joined.drop(columns=breast.label).corr().to_numpy()
    width = guest.shape[1]
    rows = Rows("HeteroPearson", breast.name, "pandas")
    yield rows.worst("correlation across", whole[:width, width:], step.summary(GUEST)["corr"])
    for site, frame in ((GUEST, guest), (HOST, host)):
        own = Rows("HeteroPearson", f"{breast.name} {site.role.value}", "pandas")
        yield own.worst("correlation within", frame.corr(), step.summary(site)["local_corr"])
        design = np.column_stack([np.ones(len(frame)), frame])
        known = [variance_inflation_factor(design, i + 1) for i in range(frame.shape[1])]
        vif = Rows("HeteroPearson", own.data, "statsmodels")
        yield vif.worst("VIF", known, step.param(site)["local_vif"])


def stability_index(expected: Floats, actual: Floats, bins: int) -> float:
    """Return the population stability index over quantile bins of `expected`, by pandas."""
    ordered = np.sort(expected)
    inner = [-(-i * len(expected) // bins) - 1 for i in range(1, bins)]
    edges = [-np.inf, *np.unique(ordered[inner]), np.inf]
    shares = [
        pd.Series(pd.cut(side, edges)).value_counts(sort=False, normalize=True).to_numpy()
        for side in (expected, actual)
    ]
    e, a = (np.where(share == 0, EMPTY_SHARE, share) for share in shares)
    return float(((a - e) * np.log(a / e)).sum())


def stability(data: DataFolder, folder: Path) -> Iterator[Row]:
    """The two parties' rows of breast_homo against each other."""
    chain = Chain(folder)
    first, second = (data.csv(f"breast_homo_{role}") for role in ("guest", "host"))
    first, second = (
        f.apply(lambda c: pd.to_numeric(c) if c.name != "id" else c) for f in (first, second)
    )
    tables = [chain.instances({GUEST: frame}, "y") for frame in (first, second)]
    step = chain.run(PSI, {"data": tables}, sites=(GUEST,), max_bin_num=20)
    found = step.summary(GUEST)["psi_scores"]
    known = [stability_index(first[n].to_numpy(), second[n].to_numpy(), 20) for n in found]
    yield Rows("PSI", "breast_homo", "pandas").worst("PSI", known, list(found.values()))


def selection(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Columns that stay, by information value, by inflation factor, by a statistic."""
    chain, breast = Chain(folder), data.breast()
    given = {"data": chain.aligned(breast)}
    bins = chain.run(HeteroFeatureBinning, given, **KEY)
    described_ = chain.run(DataStatistics, given)
    alike = chain.run(HeteroPearson, given, column_indexes=-1, fixpoint_bit_length=1024)
    models = {"b": bins.models(), "s": described_.models(), "p": alike.models()}
    x = breast.joined.drop(columns=breast.label)
    ivs = {
        n: binning.woe_and_iv(v, binning.quantiles(v), breast.labels == 1)[1]
        for n, v in ((name, x[name].to_numpy()) for name in x)
    }
    best = sorted(ivs, key=lambda name: -ivs[name])
    factors: dict[str, float] = {}
    for names in ([n for n in x if "." not in n], [n for n in x if "." in n]):
        design = np.column_stack([np.ones(len(x)), x[names]])
        factors |= {n: variance_inflation_factor(design, i + 1) for i, n in enumerate(names)}
    cases = (
        (
            "iv_filter",
            "2 or more",
            {"iv_param": {"threshold": 2.0}},
            {n for n in x if ivs[n] >= 2.0},
        ),
        (
            "iv_filter",
            "the best 12",
            {"iv_param": {"filter_type": "top_k", "threshold": 12}},
            set(best[:12]),
        ),
        (
            "vif_filter",
            "5 or less",
            {"vif_param": {"threshold": 5.0}},
            {n for n in x if factors[n] <= 5.0},
        ),
        (
            "statistic_filter",
            "skewness 1.5 or more",
            {"statistic_param": {"metrics": "skewness", "threshold": 1.5}},
            {n for n in x if stats.skew(x[n]) >= 1.5},
        ),
    )
    for method, rule, params, expected in cases:
        step = chain.run(
            HeteroFeatureSelection, given, models=models, filter_methods=[method], **params
        )
        tables = step.tables()
        kept = {
            f"{prefix}{name}"
            for site, prefix in ((GUEST, ""), (HOST, "host."))
            for name in tables[site].schema.columns  # type: ignore[union-attr]
        }
        label = f"{method}, {rule}"
        rows = Rows("HeteroFeatureSelection", breast.name, "pandas, statsmodels, scipy")
        yield rows.one(f"{label}: columns that stay", len(expected), len(kept), 0.0)
        yield rows.one(f"{label}: columns decided otherwise", 0, len(expected ^ kept), 0.0)


CHECKS = (
    Check(name="statistics", make=statistics),
    Check(name="pearson", make=pearson, quick=True),
    Check(name="stability", make=stability),
    Check(name="selection", make=selection),
)
