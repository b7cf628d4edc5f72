"""Scores of linear models online equal those of a predict job."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.features.data_transform import DataIO, DataTransform
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from tests.unit.components.hetero_lr_parties import BASE, GUEST, HOST
from tests.unit.serving.scoring_parties import (
    PARTIES,
    THREE,
    Node,
    Pipeline,
    Rows,
    assert_equal_scores,
    assert_same,
    check_parity,
    labels_of,
    numbers_of,
    table_of,
)

TRAINED = {**BASE, "max_iter": 2}
ONLY_DENSE = {"need_run": True}
LABELLED = {GUEST: {"with_label": True, "label_name": "y", "label_type": "int"}}
FILLED = {"missing_fill": True, "missing_fill_method": "mean"}


def read_node(**params: Any) -> Node:
    labels = {GUEST: {**LABELLED[GUEST], **params.pop("label", {})}}
    return Node(name="datatransform_0", cls=DataTransform, params={**FILLED, **params}, at=labels)


@pytest.mark.parametrize("sites", [PARTIES, THREE], ids=["one host", "two hosts"])
def test_logistic_regression_behind_scaling(sites: Any, tmp_path: Path) -> None:
    more = {} if sites is PARTIES else {"early_stop": "weight_diff"}
    pipeline = Pipeline(
        [
            read_node(),
            Node(
                name="scale_0",
                cls=FeatureScale,
                params={"method": "min_max_scale"},
                at={HOST: {"method": "standard_scale", "feat_upper": 2.0}},
            ),
            Node(name="hetero_lr_0", cls=HeteroLR, params={**TRAINED, **more}),
        ],
        tmp_path,
        sites=sites,
    )
    rows = numbers_of(60, seed=1, sites=sites, missing=0.1)
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(1000, seed=2, sites=sites, missing=0.2)
    scores = check_parity(pipeline, fresh, singles=1000)
    assert len({score.label for score in scores}) == 2


def test_wrong_values_are_the_error_of_their_row_alone(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [read_node(), Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED)], tmp_path
    )
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    online = pipeline.online()
    fresh = numbers_of(30, seed=3)
    wrong = ["word", True, math.inf, -math.inf, [1.0], {"a": 1}, 10**400, "inf", "1_0", "0x1", b"1"]
    bad = set(range(len(wrong)))
    given = table_of(fresh, range(30))
    given[GUEST] = [
        {**row, "x1": wrong[number]} if number in bad else row
        for number, row in enumerate(given[GUEST])
    ]
    given[HOST] = [
        {**row, "x2": "word"} if number == 20 else row for number, row in enumerate(given[HOST])
    ]
    given[GUEST][21] = "no object"  # type: ignore[call-overload]
    scores = online.score(given)
    errors = {number: s.error for number, s in enumerate(scores) if s.error is not None}
    assert set(errors) == bad | {20, 21}
    assert all(str(errors[number]).startswith("column 'x1'") for number in bad)
    assert errors[20] == "host 10000 cannot score this row"
    assert all(scores[number].score is None for number in errors)
    assert "word" not in str(errors)
    good = [number for number in range(30) if number not in errors]
    expected = pipeline.predict(table_of(fresh, good))
    assert_same([scores[number] for number in good], expected)
    assert_equal_scores(scores, online.one_by_one(given))


def test_texts_are_read_as_those_of_a_file(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [
            read_node(
                missing_impute=["-9999", "none"],
                outlier_replace=True,
                outlier_replace_method="max",
                outlier_impute=["7", "8.5"],
                output_format="sparse",
                exclusive_data_type={"x3": "int"},
            ),
            Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED),
        ],
        tmp_path,
    )
    rows = numbers_of(40, seed=1)
    for given in rows.values():
        for number, row in enumerate(given):
            row["x3"] = number % 5
            row["x0"] = -9999 if number % 7 == 0 else 7 if number % 9 == 0 else row["x0"]
    pipeline.train(rows, labels_of(rows))
    texts = [" 1.5", "NA", "none", "-9999.0", "", "nan", "NULL", "7.0", "8.5", "1e-9", "-3", None]
    whole = ["3", "4.0", None, "", "-9999", "2", "7", "1", "0", "5", "6", "NA"]
    fresh = numbers_of(len(texts), seed=4)
    for given in fresh.values():
        for row, text, number in zip(given, texts, whole, strict=True):
            row["x0"], row["x3"] = text, number
    offline = pipeline.predict(fresh)
    online = pipeline.online()
    assert_same(online.score(fresh), offline)
    plain = table_of(fresh, range(len(texts)))
    plain[GUEST] = [
        {**row, "x0": _plain(row["x0"]), "x3": _plain(row["x3"])} for row in plain[GUEST]
    ]
    assert_same(online.score(plain), offline)
    theirs = [np.float64(1.5), np.int32(7), Decimal("8.5"), np.float32("nan"), None]
    for row, value in zip(plain[HOST], theirs, strict=False):
        row["x0"] = value
    texts_of_them = ["1.5", "7", "8.5", "nan", ""]
    for row, text in zip(fresh[HOST], texts_of_them, strict=False):
        row["x0"] = text
    assert_same(online.score(plain), pipeline.predict(fresh))
    odd = online.models[GUEST].read([{**plain[GUEST][0], "x3": 2.5}, {"x3": 2**60}])
    assert set(odd.errors) == {0, 1}


def _plain(text: str | None) -> object:
    try:
        return float(text or "nan")
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"input_format": "tag", "tag_with_value": True}, ("a", "b", "c", "d")),
        ({"input_format": "tag"}, ("red", "green", "blue", "x")),
        ({"input_format": "sparse"}, ("x0", "x1", "x2", "x3")),
    ],
    ids=["tags with values", "tags", "svmlight"],
)
def test_rows_of_tags_have_0_where_they_have_none(
    params: dict[str, Any], names: tuple[str, ...], tmp_path: Path
) -> None:
    alone = params == {"input_format": "tag"}  # a tag counts 1
    pipeline = Pipeline(
        [read_node(**params), Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED)], tmp_path
    )
    rows = some_of(numbers_of(40, seed=1), names, alone=alone)
    pipeline.train(as_texts(rows, alone=alone), labels_of(rows))
    fresh = some_of(numbers_of(200, seed=2), names, alone=alone)
    texts = as_texts(fresh, alone=alone)
    texts[GUEST] = [{"y": 0, **row} for row in texts[GUEST]]
    offline = pipeline.predict(texts)
    for row in fresh[GUEST]:
        row["unknown"] = 5.0
    assert_same(pipeline.online().score(fresh), offline)


def some_of(rows: Rows, names: tuple[str, ...], *, alone: bool) -> Rows:
    """Return rows that have some of the values, under other names."""
    generator = np.random.default_rng(7)
    return {
        site: [
            {
                name: 1 if alone else value
                for name, value in zip(names, row.values(), strict=True)
                if generator.random() < 0.6
            }
            for row in given
        ]
        for site, given in rows.items()
    }


def as_texts(rows: Rows, *, alone: bool) -> Rows:
    """Return rows as uploaded ones: one text of tags, or of tags or numbers and values."""

    def text(row: dict[str, Any]) -> str:
        named = {name.removeprefix("x") or name: value for name, value in row.items()}
        return ",".join(row if alone else (f"{name}:{value}" for name, value in named.items()))

    return {site: [{"items": text(row)} for row in given] for site, given in rows.items()}


def test_the_older_module_of_raw_rows(tmp_path: Path) -> None:
    node = Node(name="dataio_0", cls=DataIO, params=FILLED, at=LABELLED)
    pipeline = Pipeline([node, Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED)], tmp_path)
    rows = numbers_of(40, seed=1, missing=0.1)
    pipeline.train(rows, labels_of(rows))
    check_parity(pipeline, numbers_of(100, seed=2, missing=0.1))


def test_missing_values_that_nothing_fills_are_refused_by_row(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [
            read_node(missing_fill=False),
            Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED),
        ],
        tmp_path,
    )
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(5, seed=5)
    offline = pipeline.predict(fresh)
    given = table_of(fresh, range(5))
    del given[GUEST][2]["x0"]
    given[HOST][3]["x1"] = None
    scores = pipeline.online().score(given)
    assert scores[2].error == "no value of x0"
    assert scores[3].error == "host 10000 cannot score this row"
    fine = [0, 1, 4]
    kept = {name: [values[n] for n in fine] for name, values in offline.items()}
    assert_same([scores[number] for number in fine], kept)


def test_several_classes(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [read_node(), Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED)], tmp_path
    )
    rows = numbers_of(45, seed=1)
    pipeline.train(rows, [label * 10 for label in labels_of(rows, classes=3)])
    fresh = numbers_of(200, seed=6, missing=0.1)
    scores = check_parity(pipeline, fresh)
    assert {score.label for score in scores} <= {0, 10, 20}


def test_threshold_of_the_parameters(tmp_path: Path) -> None:
    params = {**TRAINED, "predict_param": {"threshold": 0.8}}
    pipeline = Pipeline(
        [read_node(), Node(name="hetero_lr_0", cls=HeteroLR, params=params)], tmp_path
    )
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(200, seed=7)
    scores = pipeline.online().score(fresh)
    assert_same(scores, pipeline.predict(fresh))
    assert [s.label for s in scores] == [int(s.score > 0.8) for s in scores]  # type: ignore[operator]


def test_linear_regression_on_a_column_of_each_party(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [
            read_node(label={"label_type": "float"}),
            Node(name="hetero_linr_0", cls=HeteroLinR, params=TRAINED),
        ],
        tmp_path,
    )
    rows = numbers_of(40, seed=1, width=1)
    pipeline.train(rows, [label * 1.5 for label in labels_of(rows)])
    fresh = numbers_of(300, seed=8, width=1, missing=0.1)
    scores = check_parity(pipeline, fresh)
    assert scores[0].label is None


def test_poisson_regression_with_exposure(tmp_path: Path) -> None:
    pipeline = Pipeline(
        [
            read_node(),
            Node(
                name="hetero_poisson_0",
                cls=HeteroPoisson,
                params={**TRAINED, "exposure_colname": "x3"},
            ),
        ],
        tmp_path,
    )
    rows = numbers_of(40, seed=1)
    for row in rows[GUEST]:
        row["x3"] = abs(row["x3"])
    pipeline.train(rows, labels_of(rows))
    fresh = numbers_of(100, seed=9)
    for number, row in enumerate(fresh[GUEST]):
        row["x3"] = 0.0 if number == 3 else abs(row["x3"])
    online = pipeline.online()
    assert_same(online.score(fresh), pipeline.predict(fresh))
    fresh[GUEST][4]["x3"] = -1.0
    assert online.score(fresh)[4].error == "its exposure is negative"
