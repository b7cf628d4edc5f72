"""Components on tables of a Spark cluster give what they give on tables of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.features.column_expand import ColumnExpand
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.label_transform import LabelTransform
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.sample_weight import SampleWeight
from fedflow.components.features.scale import FeatureScale
from fedflow.components.sampling.data_split import HomoDataSplit
from fedflow.components.sampling.federated_sample import FederatedSample
from fedflow.components.stability.population import PSI
from fedflow.components.statistics.data_statistics import DataStatistics
from fedflow.domain.site import Role, Site
from fedflow.sdk import BadData, Inputs, Table, TableKind, TableSchema, TableStore
from fedflow.spark.tables.jobs import Cluster
from fedflow.spark.tables.table import SparkTable
from fedflow.testing.run import RunResult, run_component
from fedflow.testing.tables import local_store, spark_store

pytestmark = [pytest.mark.spark, pytest.mark.heavy, pytest.mark.timeout(600)]

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
SIZES = (400, 1, 250, 349)  #: rows of the blocks that tables are written in


@pytest.fixture(scope="module")
def cluster(local_spark: SparkSession) -> Cluster:
    return Cluster(spark=local_spark, errors=nullcontext, partitions=2)


@pytest.fixture
def stores(cluster: Cluster, tmp_path: Path) -> tuple[TableStore, TableStore]:
    """Return a store of this machine, and one whose tables Spark works on."""
    return local_store(tmp_path / "local"), spark_store(tmp_path / "spark", cluster=cluster)


def raw_rows() -> pa.Table:
    random = np.random.default_rng(11)
    count = sum(SIZES)
    columns = {"id": [f"u{i}" for i in range(count)], "y": random.integers(0, 2, count).astype(str)}
    for name in ("a", "b"):
        columns[name] = np.round(random.normal(size=count), 4).astype(str)
    columns["c"] = np.where(
        random.random(count) < 0.1, "", random.integers(0, 4, count).astype(str)
    )
    return pa.table(columns)


def stored(store: TableStore, rows: pa.Table, **schema: Any) -> Table:
    first, *others = rows.column_names
    given = {"kind": TableKind.RAW, "id": first, "columns": tuple(others)} | schema
    with store.create(TableSchema(**given)) as writer:
        start = 0
        for size in SIZES:
            writer.write(rows.slice(start, size))
            start += size
        return writer.close()


def run(
    module: Any, store: TableStore, tables: Mapping[str, Table], folder: Path, **params: Any
) -> RunResult:
    inputs = Inputs(data={port: [("up", table)] for port, table in tables.items()}, model={})
    return run_component(
        module, sites=[GUEST], work_dir=folder, params={GUEST: params}, tables={GUEST: store},
        inputs={GUEST: inputs}, timeout_s=200,
    )[GUEST]  # fmt: skip


def bits_of(column: pa.ChunkedArray) -> pa.Array:
    """Return numbers as their bits: NaN equals no other number."""
    whole = column.combine_chunks()
    return whole.view(pa.int64()) if pa.types.is_floating(whole.type) else whole


def both(
    module: Any, stores: tuple[TableStore, TableStore], inputs: Mapping[str, tuple[Table, Table]],
    folder: Path, **params: Any,
) -> tuple[Table, Table] | None:  # fmt: skip
    """Run a component on both engines, compare all that it makes, and return the first output."""
    results = []
    for engine, store in enumerate(stores):
        tables = {port: pair[engine] for port, pair in inputs.items()}
        result = run(module, store, tables, folder / str(engine), **params)
        if result.error is not None:
            raise result.error
        assert result.outputs is not None
        results.append(result.outputs)
    here, there = results
    assert here.summary == there.summary
    assert here.model == there.model
    for one, other in zip(here.data, there.data, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one.schema == other.schema
            assert one.read().schema == other.read().schema
            for mine, theirs in zip(one.read().columns, other.read().columns, strict=True):
                assert bits_of(mine).equals(bits_of(theirs))
    if not here.data or here.data[0] is None or there.data[0] is None:
        return None
    return here.data[0], there.data[0]


def test_a_pipeline_of_one_party_is_equal_bit_by_bit(
    stores: tuple[TableStore, TableStore], tmp_path: Path
) -> None:
    raw = (stored(stores[0], raw_rows()), stored(stores[1], raw_rows()))
    wider = both(ColumnExpand, stores, {"data": raw}, tmp_path, append_header=["d"], fill_value=2.5)
    assert wider is not None
    how: dict[str, Any] = {"with_label": True, "label_name": "y"}
    made = both(DataTransform, stores, {"data": wider}, tmp_path, **how)
    assert made is not None
    assert isinstance(made[1], SparkTable)
    both(
        DataTransform, stores, {"data": raw}, tmp_path, **how, missing_fill=True,
        missing_fill_method="mean", outlier_replace=True, outlier_impute=[3],
        outlier_replace_method="min",
    )  # fmt: skip
    both(DataStatistics, stores, {"data": made}, tmp_path)
    filled = both(FeatureImputation, stores, {"data": made}, tmp_path, missing_fill_method="max")
    assert filled is not None
    both(FeatureScale, stores, {"data": filled}, tmp_path, method="standard_scale")
    both(
        FeatureScale, stores, {"data": filled}, tmp_path, method="min_max_scale", mode="cap",
        feat_upper=0.9, feat_lower=0.1,
    )  # fmt: skip
    both(OneHotEncoder, stores, {"data": filled}, tmp_path, transform_col_names=["c"],
         transform_col_indexes=[])  # fmt: skip
    both(LabelTransform, stores, {"data": filled}, tmp_path, label_encoder={"0": 1, "1": 0})
    both(SampleWeight, stores, {"data": filled}, tmp_path, class_weight="balanced")
    for transform in ("bin_num", "woe"):
        both(
            HeteroFeatureBinning, stores, {"data": made}, tmp_path, local_only=True,
            transform_param={"transform_cols": -1, "transform_type": transform},
        )  # fmt: skip
    both(
        HeteroFeatureBinning, stores, {"data": filled}, tmp_path, local_only=True, method="optimal"
    )
    both(HomoDataSplit, stores, {"data": filled}, tmp_path, test_size=0.3, random_state=1)
    both(
        FederatedSample, stores, {"data": filled}, tmp_path, task_type="homo", mode="random",
        method="upsample", fractions=1.5, random_state=3,
    )  # fmt: skip
    both(PSI, stores, {"train_data": made, "validate_data": filled}, tmp_path)


def test_tagged_rows_are_equal_and_wrong_ones_are_told_alike(
    stores: tuple[TableStore, TableStore], tmp_path: Path
) -> None:
    random = np.random.default_rng(2)
    count = sum(SIZES)
    texts = [f"{i % 2} {random.integers(9)}:{i} 9:1" for i in range(count)]
    how: dict[str, Any] = {"input_format": "sparse", "delimitor": " ", "with_label": True}

    def tables(texts: list[str]) -> tuple[Table, Table]:
        rows = pa.table({"id": [f"u{i}" for i in range(count)], "x0": texts})
        return stored(stores[0], rows), stored(stores[1], rows)

    assert both(DataTransform, stores, {"data": tables(texts)}, tmp_path, **how) is not None
    for row, wrong in ((899, "1 3:oops"), (400, "q 1:2"), (150, "1 2:x 3:y")):
        texts[row] = wrong
        pair = tables(texts)
        said = []
        for engine, store in enumerate(stores):
            result = run(DataTransform, store, {"data": pair[engine]}, tmp_path, **how)
            assert isinstance(result.error, BadData)
            said.append(result.error.message)
        assert said[0].split(":", 1)[1] == said[1].split(":", 1)[1]
        assert said[0].endswith(f"first in row {row + 1}.")
