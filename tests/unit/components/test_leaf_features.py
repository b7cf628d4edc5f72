"""SBTFeatureTransformer: the leaves of boosted trees as features of the guest."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.boosting import leaf_features
from fedflow.components.boosting.leaf_features import SBTFeatureTransformer
from fedflow.domain.site import Site
from fedflow.sdk import Inputs, Model
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, run_component
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    Twin,
    data_of,
    models_of,
    run,
    trees_of,
    with_weights,
)
from tests.unit.components.hetero_lr_parties import Data, schema_of

DATA = data_of(rows=50, widths={GUEST: 2, HOST: 2, HOST_2: 2}, missing=0.1)
PARAMS: dict[str, Any] = {"use_missing": True}


@functools.cache
def models(strategy: str = "std") -> dict[Site, Model]:
    with tempfile.TemporaryDirectory() as folder:
        more = {"boosting_strategy": strategy, "num_trees": 3 if strategy == "mix" else 2}
        return models_of(run(DATA, Path(folder), **PARAMS, **more))


def transformed(
    data: Data, work_dir: Path, given: Mapping[Site, Mapping[str, Model]], **params: Any
) -> dict[Site, RunResult]:
    inputs = {}
    for site, rows in data.tables.items():
        table = MemoryTableStore().add(rows, schema=schema_of(rows))
        inputs[site] = Inputs(data={"data": [("upstream", table)]}, model=given[site])
    return run_component(
        SBTFeatureTransformer,
        sites=tuple(data.tables),
        work_dir=work_dir,
        params=dict.fromkeys(data.tables, params),
        inputs=inputs,
    )


def of_trees(strategy: str = "std") -> dict[Site, dict[str, Model]]:
    return {site: {"hetero_secureboost_0": model} for site, model in models(strategy).items()}


def table_of(results: Mapping[Site, RunResult]) -> pa.Table:
    outputs = results[GUEST].outputs
    if outputs is None:
        raise results[GUEST].error or AssertionError("no outputs")
    assert outputs.data[0] is not None
    return outputs.data[0].read()


def weights_of(table: pa.Table) -> list[np.ndarray[Any, Any]]:
    """Return per tree what the leaves weigh that rows reach, by their columns."""
    stored = models()[GUEST].param["trees_"]
    found = []
    for place, tree in enumerate(stored):
        own = [n for n in table.column_names if n.startswith(f"sbt_tree_{place}_leaf_")]
        cells = np.column_stack([table[name].to_numpy() for name in own])
        assert (cells.sum(axis=1) == 1).all()
        nodes = {node["id"]: node["weight"] for node in tree["tree_"]}
        found.append(cells @ np.array([nodes[int(n.rpartition("_")[2])] for n in own]))
    return found


def test_a_row_has_a_1_for_the_leaf_of_each_tree(tmp_path: Path) -> None:
    results = transformed(DATA, tmp_path, of_trees())
    table = table_of(results)
    twin = Twin([2, 2, 2])
    for tree, found in zip(trees_of(models()), weights_of(table), strict=True):
        np.testing.assert_allclose(found, twin.scores(tree, DATA.features), atol=1e-12)
    assert table.column_names[:2] == ["id", "y"]
    assert table["y"].to_pylist() == DATA.tables[GUEST]["y"].to_pylist()
    leaves = sum(name.startswith("sbt_tree_") for name in table.column_names)
    assert table.num_columns == 2 + leaves
    outputs = results[GUEST].outputs
    assert outputs is not None
    assert outputs.summary == {"original_dimension": 2, "transferred_dimension": leaves}
    for host in (HOST, HOST_2):
        there = results[host].outputs
        assert there is not None
        assert not there.data


def test_a_later_job_needs_the_own_model_alone(tmp_path: Path) -> None:
    first = transformed(DATA, tmp_path / "1", of_trees())
    own = {site: {"sbt_0": model} for site, model in models_of(first).items()}
    later = transformed(DATA, tmp_path / "2", own)
    assert table_of(later).equals(table_of(first))


def test_trees_that_a_host_has_grown_alone_have_leaves_too(tmp_path: Path) -> None:
    table = table_of(transformed(DATA, tmp_path, of_trees("mix")))
    for place in range(3):
        own = [n for n in table.column_names if n.startswith(f"sbt_tree_{place}_leaf_")]
        assert len(own) > 1
        assert (sum(table[name].to_numpy() for name in own) == 1).all()


def test_weights_stay_and_blocks_are_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = table_of(transformed(DATA, tmp_path / "1", of_trees()))
    monkeypatch.setattr(leaf_features, "BLOCK_CELLS", 100)
    weighted = with_weights(DATA)
    table = table_of(transformed(weighted, tmp_path / "2", of_trees()))
    assert table.drop_columns(["weight"]).equals(whole)
    assert table["weight"].to_pylist() == weighted.tables[GUEST]["weight"].to_pylist()


def test_models_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none: dict[Site, dict[str, Model]] = {site: {} for site in DATA.tables}
    error = transformed(DATA, tmp_path / "1", none)[GUEST].error
    assert isinstance(error, BadParameter)
    assert "isometric_model" in str(error)
    both = {s: {**given, "other": given["hetero_secureboost_0"]} for s, given in of_trees().items()}
    assert "there are 2" in str(transformed(DATA, tmp_path / "2", both)[GUEST].error)
    own = {
        site: {"sbt_0": Model(meta_name="M", param_name="SBTTransformerParam", meta={}, param={})}
        for site in DATA.tables
    }
    assert isinstance(transformed(DATA, tmp_path / "3", own)[GUEST].error, BadData)
    monkeypatch.setattr(leaf_features, "MOST_COLUMNS", 3)
    error = transformed(DATA, tmp_path / "4", of_trees())[GUEST].error
    assert isinstance(error, BadData)
    assert "a table takes 3 of them" in str(error)


def test_a_taken_name_is_told(tmp_path: Path) -> None:
    taken = table_of(transformed(DATA, tmp_path / "1", of_trees())).column_names[-1]
    guest = DATA.tables[GUEST]
    tables = {**DATA.tables, GUEST: guest.rename_columns(["id", taken, *guest.column_names[2:]])}
    store, inputs = MemoryTableStore(), {}
    for site, rows in tables.items():
        schema = schema_of(DATA.tables[site])
        if site is GUEST:
            schema = replace(schema, label=taken)
        inputs[site] = Inputs(
            data={"data": [("upstream", store.add(rows, schema=schema))]}, model=of_trees()[site]
        )
    results = run_component(
        SBTFeatureTransformer, sites=tuple(tables), work_dir=tmp_path / "2", inputs=inputs
    )
    assert "rename it" in str(results[GUEST].error)
