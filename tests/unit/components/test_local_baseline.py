"""LocalBaseline against scikit-learn: binary, several classes, weights, models, hostile options."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.local.local_baseline import LocalBaseline
from fedflow.sdk import Model, Outputs, Table
from tests.unit.components.one_party import HOST, Party, rows_of

EXAMPLE = Path(__file__).parents[3] / "examples" / "data" / "breast_hetero_guest.csv"
FATE_OPTIONS = {
    "penalty": "l2",
    "tol": 0.0001,
    "C": 1.0,
    "fit_intercept": True,
    "solver": "lbfgs",
    "max_iter": 5,
    "multi_class": "ovr",
}  #: of the official jobs


@pytest.fixture
def party(tmp_path: Path) -> Party:
    return Party(tmp_path)


def fit(x: Any, y: Any, weights: Any = None, **options: Any) -> LogisticRegression:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(**options).fit(x, y, weights)


def breast(party: Party) -> tuple[Table, Any, Any]:
    options = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})
    rows = pyarrow.csv.read_csv(EXAMPLE, convert_options=options)
    x = np.column_stack([rows[name] for name in rows.column_names[2:]])
    columns = {name: rows[name] for name in rows.column_names}
    return party.table(columns), x, rows["y"].to_numpy()


def classes_of_three(party: Party, names: Any = (0, 1, 2)) -> tuple[Table, Any, Any]:
    x, y = make_classification(
        200, 5, n_informative=4, n_redundant=0, n_classes=3, class_sep=0.6, random_state=4
    )
    columns = {"id": [f"i{i}" for i in range(200)], "y": [names[c] for c in y]}
    columns |= {f"x{j}": x[:, j] for j in range(5)}
    return party.table(columns), x, y


def train(party: Party, table: Table, validate: Table | None = None, **params: Any) -> Outputs:
    ports: dict[str, Any] = {"train_data": [("intersection_0", table)]}
    if validate is not None:
        ports["validate_data"] = [("intersection_1", validate)]
    return party.run(LocalBaseline, ports=ports, **params)


def predict(party: Party, table: Table, model: Model | None, **params: Any) -> Outputs:
    ports = {"test_data": [("intersection_0", table)]}
    return party.run(LocalBaseline, ports=ports, model=model, **params)


def test_it_is_scikit_learns_model(party: Party) -> None:
    table, x, y = breast(party)
    outputs = train(party, table, model_opts=FATE_OPTIONS)
    expected = fit(x, y, max_iter=5)
    summary = outputs.summary
    np.testing.assert_allclose(list(summary["coef"].values()), expected.coef_[0], rtol=1e-9)
    assert summary["intercept"] == pytest.approx(expected.intercept_[0], rel=1e-9)
    assert summary["iters"] == int(expected.n_iter_[0])
    assert summary["is_converged"] is (summary["iters"] < 5)
    assert summary["one_vs_rest"] is False
    rows = rows_of(outputs)
    np.testing.assert_allclose(rows["predict_score"], expected.predict_proba(x)[:, 1], rtol=1e-9)
    assert rows["predict_result"] == expected.predict(x).tolist()
    assert rows["label"] == y.tolist()
    assert set(rows["type"]) == {"train"}


def test_the_model_holds_fates_fields_and_predicts(party: Party) -> None:
    table, _, _ = breast(party)
    outputs = train(party, table, model_opts=FATE_OPTIONS)
    model = outputs.model
    assert model is not None
    assert (model.meta_name, model.param_name) == ("LocalBaselineMeta", "LocalBaselineParam")
    assert model.meta["optimizer"] == "lbfgs"
    assert model.meta["predict_param"] == {"threshold": 0.5}
    assert model.param["weight"] == outputs.summary["coef"]
    assert model.param["need_one_vs_rest"] is False
    assert model.param["best_iteration"] == -1
    again = predict(party, table, model, predict_param={"threshold": 0.9})
    scores = np.array(rows_of(outputs)["predict_score"])
    assert rows_of(again)["predict_score"] == scores.tolist()
    assert rows_of(again)["predict_result"] == (scores > 0.9).astype(int).tolist()
    assert set(rows_of(again)["type"]) == {"predict"}
    assert again.model is None


@pytest.mark.parametrize("way", ["ovr", "multinomial", "auto"])
def test_several_classes_are_scikit_learns(party: Party, way: str) -> None:
    table, x, y = classes_of_three(party, ("a", "b", "c"))
    outputs = train(party, table, model_opts={"multi_class": way})
    if way == "ovr":
        each = np.column_stack([fit(x, y == c).predict_proba(x)[:, 1] for c in range(3)])
        expected = each / each.sum(axis=1, keepdims=True)
    else:
        expected = fit(x, y).predict_proba(x)
    rows = rows_of(outputs)
    details = [list(ast.literal_eval(text).values()) for text in rows["predict_detail"]]
    np.testing.assert_allclose(details, expected, rtol=1e-6)
    np.testing.assert_allclose(rows["predict_score"], expected.max(axis=1), rtol=1e-6)
    assert rows["predict_result"] == [("a", "b", "c")[c] for c in expected.argmax(axis=1)]
    assert list(outputs.summary) == ["a", "b", "c", "one_vs_rest"]
    assert outputs.summary["one_vs_rest"] is True
    assert set(outputs.summary["a"]) == {"coef", "intercept", "is_converged", "iters"}
    assert outputs.model is not None
    assert len(outputs.model.param["one_vs_rest_result"]["completed_models"]) == 3
    again = predict(party, table, outputs.model)
    assert rows_of(again)["predict_detail"] == rows["predict_detail"]


@pytest.mark.parametrize(
    ("given", "keywords"),
    [
        ({"penalty": "none"}, {"C": np.inf}),
        ({"penalty": None}, {"C": np.inf}),
        ({"penalty": "l1", "solver": "liblinear", "C": 0.5, "random_state": 1},
         {"l1_ratio": 1.0, "solver": "liblinear", "C": 0.5, "random_state": 1}),
        ({"penalty": "elasticnet", "solver": "saga", "l1_ratio": 0.3, "random_state": 2},
         {"l1_ratio": 0.3, "solver": "saga", "random_state": 2}),
        ({"fit_intercept": False, "tol": 1e-8}, {"fit_intercept": False, "tol": 1e-8}),
        ({"class_weight": "balanced"}, {"class_weight": "balanced"}),
        ({"class_weight": {"1": 3.0}}, {"class_weight": {0: 1.0, 1: 3.0}}),
    ],
)  # fmt: skip
def test_options_mean_what_they_mean_there(
    party: Party, given: dict[str, Any], keywords: dict[str, Any]
) -> None:
    table, x, y = breast(party)
    outputs = train(party, table, model_opts={"max_iter": 200, **given})
    expected = fit(x, y, max_iter=200, **keywords)
    got = list(outputs.summary["coef"].values())
    np.testing.assert_allclose(got, expected.coef_[0], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("lowest", [0, -0.5])
def test_weights_of_rows_count(lowest: float, party: Party) -> None:
    _, x, y = breast(party)
    weights = np.random.default_rng(1).uniform(lowest, 4, len(y))
    columns = {"id": [str(i) for i in range(len(y))], "y": y, "weight": weights}
    table = party.table({**columns, **{f"x{j}": x[:, j] for j in range(x.shape[1])}})
    outputs = train(party, table)
    expected = fit(x, y, weights)
    got = list(outputs.summary["coef"].values())
    np.testing.assert_allclose(got, expected.coef_[0], rtol=1e-6)


def test_validation_rows_are_scored_too(party: Party) -> None:
    table, _, _ = breast(party)
    validate = party.table({name: table.read().column(name) for name in table.schema.names})
    kinds = rows_of(train(party, table, validate))["type"]
    assert kinds == ["train"] * 569 + ["validate"] * 569


def test_a_party_without_labels_does_nothing(tmp_path: Path) -> None:
    host = Party(tmp_path, site=HOST)
    table = host.table({"id": ["a"], "x": [1.0]})
    assert train(host, table) == Outputs()
    assert predict(host, table, None) == Outputs()
    assert host.run(LocalBaseline, ports={"train_data": [("intersection_0", None)]}) == Outputs()
    assert train(host, table, need_run=False) == Outputs(data=(table,), passed=True)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"__class__": "os.system"}, "unknown field"),
        ({"callback": 1}, "unknown field"),
        ({"solver": "newton"}, "model_opts.solver"),
        ({"penalty": "l1"}, "model_opts.penalty"),
        ({"penalty": "l3"}, "penalty"),
        ({"dual": True}, "model_opts.dual"),
        ({"C": 0}, "C"),
        ({"C": "1"}, "C"),
        ({"max_iter": 0}, "max_iter"),
        ({"penalty": "elasticnet", "solver": "saga"}, "l1_ratio"),
        ({"solver": "liblinear", "multi_class": "multinomial"}, "multi_class"),
        ({"class_weight": {"1": -1}}, "class_weight"),
    ],
)
def test_other_options_are_refused_before_the_start(
    party: Party, options: dict[str, Any], what: str
) -> None:
    table, _, _ = breast(party)
    with pytest.raises(BadParameter, match=what):
        train(party, table, model_opts=options)


def test_other_models_are_refused(party: Party) -> None:
    with pytest.raises(BadParameter, match="model_name"):
        train(party, party.table({"id": ["a"], "y": [1]}), model_name="SVC")


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({"y": [1, 1], "x": [1.0, 2.0]}, "all 2 labels are equal"),
        ({"y": [1, None], "x": [1.0, 2.0]}, "1 rows have no label"),
        ({"y": [1, 0], "x": [1.0, float("nan")]}, "column 'x' has 1 missing"),
        ({"y": [1, 0]}, "has no features"),
    ],
)
def test_unusable_data_are_refused(party: Party, columns: dict[str, Any], what: str) -> None:
    table = party.table({"id": ["a", "b"], **columns})
    with pytest.raises(BadData, match=what):
        train(party, table)


def test_a_model_must_fit(party: Party) -> None:
    table, _, _ = breast(party)
    model = train(party, table).model
    assert model is not None
    other = party.table({"id": ["a"], "y": [1], "x0": [1.0]})
    with pytest.raises(BadData, match="lacks the model's columns"):
        predict(party, other, model)
    with pytest.raises(BadParameter, match="needs a trained model"):
        predict(party, other, None)
    for change in ({"weight": {}}, {"weight": {"x0": "a"}}, {"classes": [0, 1], "header": 1}):
        param = {**model.param, **change}
        broken = Model(meta_name=model.meta_name, param_name=model.param_name, meta={}, param=param)
        with pytest.raises(BadData, match="not of LocalBaseline"):
            predict(party, table, broken)
    ports: dict[str, Any] = {"train_data": [("a", table)], "test_data": [("b", table)]}
    with pytest.raises(BadParameter, match="train_data together with test_data"):
        party.run(LocalBaseline, ports=ports)
