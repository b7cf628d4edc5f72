"""DataTransform, FeatureScale, FeatureImputation, OneHotEncoder and Intersection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import minmax_scale, scale

from benchmarks.accuracy.chain import GUEST, HOST, Chain
from benchmarks.accuracy.data import DataFolder
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.scale import FeatureScale
from fedflow.components.intersection.intersection import Intersection

#: by method, the parameters that make it quick enough for a report
INTERSECTIONS: dict[str, dict[str, Any]] = {
    "rsa": {"rsa_params": {"key_length": 1024}},
    "dh": {"dh_params": {"key_length": 1024}},
    "ecdh": {},
}


def transform(data: DataFolder, folder: Path) -> Iterator[Row]:
    """Text becomes the numbers that pandas reads; missing cells are filled as it fills them."""
    ionosphere = data.pair("ionosphere_scale_hetero", "label")
    text = ionosphere.guest.drop(columns="x2")  # x2 has no value at all
    chain = Chain(folder)
    settings: dict[str, Any] = {"with_label": True, "label_name": "label"}
    for fill in ("mean", "min", "max"):
        table = {"data": chain.raw({GUEST: text})}
        filling: dict[str, Any] = {"missing_fill": True, "missing_fill_method": fill}
        step = chain.run(DataTransform, table, sites=(GUEST,), **settings, **filling)
        frame = step.frame(GUEST).drop(columns="label")
        known = text.set_index("sid")[frame.columns].apply(pd.to_numeric)
        known = known.fillna(getattr(known, fill)())
        rows = Rows(f"DataTransform, missing_fill {fill}", ionosphere.name, "pandas")
        yield rows.worst("cells", known.loc[frame.index], frame)


def tags(data: DataFolder, folder: Path) -> Iterator[Row]:
    """The host's table written as `column:value` pairs is the dense one."""
    breast = data.breast()
    pairs = breast.host.drop(columns="id").apply(lambda c: c.name + ":" + c)
    text = pd.DataFrame({"id": breast.host["id"], "pairs": pairs.agg(";".join, axis=1)})
    settings: dict[str, Any] = {"input_format": "tag", "tag_with_value": True, "delimitor": ";"}
    chain = Chain(folder)
    step = chain.run(DataTransform, {"data": chain.raw({HOST: text})}, sites=(HOST,), **settings)
    known = breast.own("host")
    rows = Rows("DataTransform, tag:value", f"{breast.name} host", "pandas")
    yield rows.worst("cells", known, step.frame(HOST)[list(known)])


def scaling(data: DataFolder, folder: Path) -> Iterator[Row]:
    chain, student = Chain(folder), data.student()
    given = {"data": chain.aligned(student)}
    for method, reference in (("standard_scale", scale), ("min_max_scale", minmax_scale)):
        step = chain.run(FeatureScale, given, method=method)
        for site in (GUEST, HOST):
            frame = student.own(site.role.value)
            found = step.frame(site)[frame.columns]
            label = f"{student.name} {site.role.value}"
            rows = Rows(f"FeatureScale {method}", label, "scikit-learn")
            yield rows.worst("cells", reference(frame.to_numpy(float)), found)


def imputation(data: DataFolder, folder: Path) -> Iterator[Row]:
    chain = Chain(folder)
    text = data.csv("ionosphere_scale_hetero_host")
    first, *columns = text.columns
    values = text[columns].apply(pd.to_numeric)
    table = chain.instances({HOST: pd.concat([text[[first]], values.astype(float)], axis=1)})
    for method in ("mean", "max", "min"):
        step = chain.run(
            FeatureImputation, {"data": table}, sites=(HOST,), missing_fill_method=method
        )
        if method == "mean":
            known = SimpleImputer(strategy="mean").fit_transform(values)
            reference = "scikit-learn SimpleImputer"
        else:
            known, reference = values.fillna(getattr(values, method)()).to_numpy(), "pandas"
        rows = Rows(f"FeatureImputation {method}", "ionosphere_scale_hetero host", reference)
        yield rows.worst("cells", known, step.frame(HOST)[columns])


def one_hot(data: DataFolder, folder: Path) -> Iterator[Row]:
    chain, student = Chain(folder), data.student()
    given = {"data": chain.aligned(student)}
    step = chain.run(OneHotEncoder, given)
    for site in (GUEST, HOST):
        frame = student.own(site.role.value)
        known = pd.get_dummies(frame.astype(object), dtype=int)
        found = step.frame(site)
        columns = [name for name in found if name != student.label]
        rows = Rows("OneHotEncoder", f"{student.name} {site.role.value}", "pandas get_dummies")
        yield rows.one("columns", known.shape[1], len(columns), 0.0)
        yield rows.worst("cells", known, found[columns])


def intersection(data: DataFolder, folder: Path) -> Iterator[Row]:
    """The common ids of two overlapping parts of breast_hetero, by every method."""
    breast = data.breast()
    ids = {GUEST: breast.guest[["id"]].head(400), HOST: breast.host[["id"]].tail(350)}
    expected = set(ids[GUEST]["id"]) & set(ids[HOST]["id"])
    for method, keys in INTERSECTIONS.items():
        chain = Chain(folder / method)
        step = chain.run(
            Intersection, {"data": chain.instances(ids)}, intersect_method=method, **keys
        )
        rows = Rows(f"Intersection {method}", breast.name, "Python sets")
        found = [set(step.frame(site).index) for site in (GUEST, HOST)]
        wrong = sum(len(ids ^ expected) for ids in found)
        yield rows.one("ids in common, at both", 2 * len(expected), sum(map(len, found)), 0.0)
        yield rows.one("ids that are wrong or lacking, at both", 0, wrong, 0.0)


CHECKS = (
    Check(name="intersection", make=intersection, quick=True),
    Check(name="transform", make=transform),
    Check(name="transform-tags", make=tags),
    Check(name="scale", make=scaling),
    Check(name="imputation", make=imputation),
    Check(name="one-hot", make=one_hot),
)
