"""Feature steps online equal those of a predict job: binning, encoding, imputation, selection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.serving import UnservableModel
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.features.column_expand import ColumnExpand
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.domain.models.woe import extract_woe, merge_woe
from fedflow.serving.scoring.pipeline import build
from tests.unit.components.hetero_lr_parties import GUEST, HOST
from tests.unit.serving.scoring_parties import (
    PARTIES,
    THREE,
    Node,
    Pipeline,
    Rows,
    assert_same,
    check_parity,
    labels_of,
    numbers_of,
    table_of,
)
from tests.unit.serving.test_scoring_linear import TRAINED, read_node

KEY = {"encrypt_param": {"key_length": 1024}}


def lr(sites: Any = PARTIES) -> Node:
    more = {} if len(sites) == 2 else {"early_stop": "weight_diff"}
    return Node(name="hetero_lr_0", cls=HeteroLR, params={**TRAINED, **more})


def with_categories(rows: Rows, *, seed: int, unseen: bool = False) -> Rows:
    """Add a column of whole numbers, `kind`, and one of words, `word`, to every party's rows."""
    generator = np.random.default_rng(seed)
    kinds, words = [0, 1, 2, -7], ["red", "green", "blue", ""]
    if unseen:
        kinds, words = [*kinds, 3, 99, None], [*words, "black", "Red", " red"]  # type: ignore[list-item]
    for given in rows.values():
        for row in given:
            row["kind"] = kinds[int(generator.integers(len(kinds)))]
            row["word"] = words[int(generator.integers(len(words)))]
    return rows


@pytest.mark.parametrize("sites", [PARTIES, THREE], ids=["one host", "two hosts"])
def test_all_steps_in_a_row(sites: Any, tmp_path: Path) -> None:
    fill = {"missing_fill": False, "exclusive_data_type": {"kind": "int", "word": "str"}}
    pipeline = Pipeline(
        [
            read_node(**fill),
            Node(
                name="imputation_0",
                cls=FeatureImputation,
                params={
                    "missing_fill_method": "mean",
                    "col_missing_fill_method": {"word": "designated", "x1": "max"},
                    "default_value": "green",
                },
            ),
            Node(
                name="onehot_0",
                cls=OneHotEncoder,
                params={
                    "transform_col_indexes": None,
                    "transform_col_names": ["kind", "word"],
                },
            ),
            Node(
                name="binning_0",
                cls=HeteroFeatureBinning,
                params={
                    "bin_indexes": None,
                    "bin_names": ["x0", "x1", "x2"],
                    "bin_num": 4,
                    "transform_param": {"transform_type": "bin_num", "transform_cols": [0, 2]},
                    **KEY,
                },
                at={
                    GUEST: {
                        "transform_param": {"transform_type": "woe", "transform_cols": [0, 1, 2]}
                    },
                    HOST: {
                        "bin_num": 45,
                        "category_names": ["x2"],
                        "transform_param": {"transform_type": "bin_num", "transform_cols": -1},
                    },
                },
            ),
            Node(
                name="selection_0",
                cls=HeteroFeatureSelection,
                params={
                    "filter_methods": ["manually"],
                    "manually_param": {"filter_out_names": ["x3", "word_blue"]},
                },
            ),
            Node(name="scale_0", cls=FeatureScale),
            lr(sites),
        ],
        tmp_path,
        sites=sites,
    )
    rows = with_categories(numbers_of(80, seed=1, sites=sites, missing=0.1), seed=1)
    pipeline.train(rows, labels_of(numbers_of(80, seed=1, sites=sites)))
    fresh = numbers_of(1000, seed=2, sites=sites, missing=0.2)
    check_parity(pipeline, with_categories(fresh, seed=2, unseen=True))


def test_binning_with_missing_values_and_scaled_bins(tmp_path: Path) -> None:
    binning: dict[str, Any] = {
        "bin_num": 5,
        "transform_param": {"transform_type": "woe"},
        **KEY,
    }
    pipeline = Pipeline(
        [
            read_node(missing_fill=False),
            Node(
                name="binning_0",
                cls=HeteroFeatureBinning,
                params=binning,
                at={HOST: {"transform_param": {"transform_type": "bin_num"}, "method": "bucket"}},
            ),
            Node(name="scale_0", cls=FeatureScale, params={"method": "min_max_scale"}),
            lr(),
        ],
        tmp_path,
    )
    rows = numbers_of(60, seed=1, missing=0.15)
    for row in rows[GUEST]:
        row["x1"] = row["x1"] if row["x1"] is not None else 0.0  # none is missing in training
    pipeline.train(rows, labels_of(rows))
    check_parity(pipeline, numbers_of(500, seed=3, missing=0.3))


def test_a_host_gets_woe_only_by_a_merge(tmp_path: Path) -> None:
    asks = {"transform_param": {"transform_type": "woe"}, **KEY, "bin_num": 4}
    keeps = {"transform_param": {"transform_type": "bin_num"}}
    pipeline = Pipeline(
        [
            read_node(),
            Node(name="binning_0", cls=HeteroFeatureBinning, params=asks, at={HOST: keeps}),
            lr(),
        ],
        tmp_path,
    )
    rows = numbers_of(60, seed=1)
    pipeline.train(rows, labels_of(rows))
    pipeline.nodes[1].at = {}
    with pytest.raises(UnservableModel, match=r"binning_0 cannot be served.*no woe of columns x0"):
        build(pipeline.deployed(HOST))
    models = pipeline.models["binning_0"]
    arrays = extract_woe(models[GUEST].param, HOST.party_id)
    models[HOST] = replace(models[HOST], param=merge_woe(models[HOST].param, arrays))
    check_parity(pipeline, numbers_of(200, seed=4))


@pytest.mark.parametrize("method", ["min", "max", "mean", "designated"])
def test_marks_are_filled_and_outliers_replaced(method: str, tmp_path: Path) -> None:
    designated = {"default_value": -3, "outlier_replace_value": 4}
    read = read_node(
        data_type="int",
        exclusive_data_type={"x1": "float", "X2": "float64", "word": "str"},
        missing_fill=False,
        outlier_replace=True,
        outlier_replace_method="designated",
        outlier_impute=["5", "red"] if method in ("min", "designated") else None,
        **designated,
    )
    fill = Node(
        name="imputation_0",
        cls=FeatureImputation,
        params={
            "missing_fill_method": method,
            "col_missing_fill_method": {"word": "designated"},
            "default_value": 2,
            "missing_impute": [0, "green", -1.5],
        },
    )
    encode = {"transform_col_indexes": None, "transform_col_names": ["word", "x3"]}
    pipeline = Pipeline(
        [read, fill, Node(name="onehot_0", cls=OneHotEncoder, params=encode), lr()], tmp_path
    )
    rows = with_whole_numbers(numbers_of(60, seed=1), seed=1)
    pipeline.train(rows, labels_of(numbers_of(60, seed=1)))
    check_parity(pipeline, with_whole_numbers(numbers_of(300, seed=2, missing=0.1), seed=2))


def with_whole_numbers(rows: Rows, *, seed: int) -> Rows:
    """Make x0 and x3 whole, and add words; some values are marks."""
    generator = np.random.default_rng(seed)
    for given in rows.values():
        for row in given:
            row["x0"] = int(generator.integers(-6, 7))
            row["x1"] = float(generator.choice([row["x1"] or 1.0, -1.5, 5.0, 0.25]))
            row["x3"] = [None, 0, 1, 2, 5, "NA"][int(generator.integers(6))]
            row["word"] = ["red", "green", "blue", ""][int(generator.integers(4))]
    return rows


def test_steps_that_did_not_run_pass_rows_on(tmp_path: Path) -> None:
    off = {"need_run": False}
    nodes = [
        read_node(),
        Node(name="imputation_0", cls=FeatureImputation, params=off),
        Node(name="onehot_0", cls=OneHotEncoder, params=off),
        Node(name="binning_0", cls=HeteroFeatureBinning, params={**off, **KEY}),
        Node(name="selection_0", cls=HeteroFeatureSelection, params=off),
        Node(name="scale_0", cls=FeatureScale, params=off),
        lr(),
    ]
    pipeline = Pipeline(nodes, tmp_path)
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    check_parity(pipeline, numbers_of(50, seed=5))


def test_fractions_in_a_column_of_categories_are_an_error_of_their_row(tmp_path: Path) -> None:
    encode = {"transform_col_indexes": [0]}
    pipeline = Pipeline(
        [
            read_node(missing_fill=False),
            Node(name="onehot_0", cls=OneHotEncoder, params=encode),
            lr(),
        ],
        tmp_path,
    )
    rows = numbers_of(40, seed=1)
    for given in rows.values():
        for number, row in enumerate(given):
            row["x0"] = float(number % 3)
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(6, seed=6)
    for given in fresh.values():
        for row, value in zip(given, (0, 1.0, 2.5, None, "2", 7), strict=True):
            row["x0"] = value
    scores = pipeline.online().score(fresh)
    assert scores[2].error == "column 'x0' holds no whole number; bin it first"
    fine = [0, 1, 3, 4, 5]
    assert_same([scores[number] for number in fine], pipeline.predict(table_of(fresh, fine)))


def test_steps_with_models_of_other_columns_are_refused(tmp_path: Path) -> None:
    pipeline = Pipeline([read_node(), Node(name="scale_0", cls=FeatureScale), lr()], tmp_path)
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    scale = pipeline.models["scale_0"][GUEST]
    columns = dict(scale.param["col_scale_param"])
    columns["other"] = columns["x0"]
    pipeline.models["scale_0"][GUEST] = replace(
        scale, param={**scale.param, "col_scale_param": columns}
    )
    with pytest.raises(UnservableModel, match=r"scale_0 cannot .* lack its columns other"):
        build(pipeline.deployed(GUEST))


def test_columns_of_one_value_are_not_asked_for(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [
            Node(
                name="expand_0",
                cls=ColumnExpand,
                at={
                    GUEST: {"append_header": ["e0", "e1"], "fill_value": [2, 0.125]},
                    HOST: {"append_header": ["e0"], "fill_value": -1},
                },
            ),
            read_node(),
            Node(name="scale_0", cls=FeatureScale),
            Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED),
        ],
        tmp_path,
    )
    rows = numbers_of(60, seed=1, missing=0.1)
    pipeline.train(rows, labels_of(rows))
    check_parity(pipeline, numbers_of(200, seed=2, missing=0.2))
    guest = pipeline.online().models[GUEST]
    assert guest.inputs == ("x0", "x1", "x2", "x3")
    row = {"x0": 1.0, "x1": 2.0, "x2": 3.0, "x3": 4.0}
    plain, given = (guest.local(guest.read([one])) for one in (row, {**row, "e0": 99.0}))
    assert plain.values.tolist() == given.values.tolist()
