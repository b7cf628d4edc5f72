"""HeteroSecureBoost against xgboost and lightgbm, and against one party that has all columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from sklearn.metrics import accuracy_score, r2_score, roc_auc_score, root_mean_squared_error

from benchmarks.accuracy.boosters import (
    BINARY,
    CLASSES,
    LAYERED,
    LIGHTGBM,
    MIX,
    NUMBERS,
    STD,
    XGBOOST,
    Boosting,
    installed,
    lightgbm_scores,
    xgboost_own,
    xgboost_scores,
)
from benchmarks.accuracy.chain import KEY, Chain, Step
from benchmarks.accuracy.data import DataFolder, Floats, Vertical
from benchmarks.accuracy.linear import RANKING, evaluated, ks_of
from benchmarks.accuracy.rows import Check, Row, Rows
from fedflow.components.boosting.hetero_secureboost import HeteroSecureBoost

NAME = "HeteroSecureBoost"
DRAWS = 0.01  #: tolerance of measures with other rows drawn
SAME_LEAVES = 1e-9  #: tolerance of scores of the same trees
STRATEGY = 0.01  #: tolerance of another strategy's AUC, as in FATE's quality benchmark
ALONE = "one party, in the clear"
SHORT_TEST = "FATE's min_test_task, which warns below"

EVALUATIONS = {
    BINARY: {},
    CLASSES: {"eval_type": "multi"},
    NUMBERS: {"eval_type": "regression"},
}
LONG_NAMES = {"R2": "r2_score", "RMSE": "root_mean_squared_error"}  #: Evaluation's


def trained(chain: Chain, data: Vertical, how: Boosting, **params: object) -> Step:
    """Return what both parties trained."""
    tables = {"train_data": chain.aligned(data)}
    return chain.run(HeteroSecureBoost, tables, **how.params, **params, **KEY)


def found_measures(chain: Chain, step: Step, how: Boosting) -> dict[str, float]:
    """Return what Evaluation says: AUC and KS, accuracy, or R2 and RMSE."""
    found = evaluated(chain, step, **EVALUATIONS[how.kind])
    names = {BINARY: ("AUC", "KS"), CLASSES: ("accuracy",), NUMBERS: ("R2", "RMSE")}[how.kind]
    return {name: found[LONG_NAMES.get(name, name.lower())] for name in names}


def measures(labels: Floats, predicted: Floats, kind: str) -> dict[str, float]:
    """Return the same of a plaintext tool's predictions, by scikit-learn."""
    if kind == BINARY:
        return {"AUC": roc_auc_score(labels, predicted), "KS": ks_of(labels, predicted)}
    if kind == CLASSES:
        return {"accuracy": accuracy_score(labels, predicted.argmax(axis=1))}
    rmse = root_mean_squared_error(labels, predicted)
    return {"R2": r2_score(labels, predicted), "RMSE": rmse}


def against_tools(
    data: Vertical, how: Boosting, found: Mapping[str, float], *, name: str
) -> Iterator[Row]:
    """Yield the rows of the plaintext tools that are installed."""
    x, y, guest = data.features, data.labels, len(data.guest_columns)
    draws = ", other draws" if how.goss else ""
    tools = {}
    if installed(XGBOOST):
        tools[XGBOOST] = xgboost_scores(x, y, how, guest=guest)
    if installed(LIGHTGBM) and how.strategy == STD and not (how.goss or how.vectors):
        tools[LIGHTGBM] = lightgbm_scores(x, y, how)
    for tool, predicted in tools.items():
        rows = Rows(name, data.name, f"{tool}, the same bins{draws}")
        for measure, value in measures(y, predicted, how.kind).items():
            yield rows.one(measure, value, found[measure], DRAWS if draws else RANKING)


def against_own_bins(
    data: Vertical,
    how: Boosting,
    found: Mapping[str, float],
    *,
    measure: str,
    tolerance: float,
    at_least: bool = False,
) -> Iterator[Row]:
    """Yield the row of xgboost as it is, with the same numbers of parameters, if installed."""
    if installed(XGBOOST):
        predicted = xgboost_own(data.features, data.labels, how)
        expected = measures(data.labels, predicted, how.kind)[measure]
        rows = Rows(named(how), data.name, "xgboost, its own bins")
        yield rows.one(measure, expected, found[measure], tolerance, at_least=at_least)


def gathered(data: Vertical) -> Vertical:
    """Return the same rows with all columns at the guest; the host has one of equal values."""
    key = data.guest.columns[0]
    others = data.host.set_index(data.host.columns[0]).add_prefix("host_")
    guest = data.guest.join(others, on=key, how="inner")
    return Vertical(data.name, guest, guest[[key]].assign(nothing="0"), data.label)


def alone(chain: Chain, data: Vertical, how: Boosting, step: Step, *, name: str) -> Row:
    """Return how far the scores are from those of the same training by one party."""
    single = trained(chain, gathered(data), how, complete_secure=how.rounds)
    ids = data.joined.index
    expected, found = (one.column("predict_score", ids) for one in (single, step))
    rows = Rows(name, data.name, ALONE)
    return rows.worst("predict_score", expected, found, SAME_LEAVES, relative=False)


def named(how: Boosting) -> str:
    """Return the component and what distinguishes its settings."""
    more = [f"{how.rounds} rounds", *([how.strategy] if how.strategy != STD else [])]
    more += [name for name, is_on in (("GOSS", how.goss), ("vectors", how.vectors)) if is_on]
    return ", ".join([NAME, *more])


def compared(chain: Chain, data: Vertical, how: Boosting) -> tuple[Mapping[str, float], list[Row]]:
    """Return the measures of a training, and how they compare with those in the clear."""
    step = trained(chain, data, how)
    found = found_measures(chain, step, how)
    rows = [alone(chain, data, how, step, name=named(how))] if how.strategy == STD else []
    return found, [*rows, *against_tools(data, how, found, name=named(how))]


def breast(data: DataFolder, folder: Path) -> Iterator[Row]:
    pair, how = data.breast(), Boosting(kind=BINARY, rounds=3)
    found, rows = compared(Chain(folder), pair, how)
    yield from rows
    yield from against_own_bins(pair, how, found, measure="AUC", tolerance=RANKING)
    short_test = Rows(named(how), pair.name, SHORT_TEST)
    yield short_test.one("AUC", 0.98, found["AUC"], 0.0, at_least=True)


def breast_50(data: DataFolder, folder: Path) -> Iterator[Row]:
    pair, how = data.breast(), Boosting(kind=BINARY, rounds=50, learning_rate=0.1)
    found, rows = compared(Chain(folder), pair, how)
    yield from rows
    yield from against_own_bins(pair, how, found, measure="AUC", tolerance=0.001)


def vehicle(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from several_classes(data, folder / "3", rounds=3)
    yield from several_classes(data, folder / "vectors", rounds=3, vectors=True)


def vehicle_50(data: DataFolder, folder: Path) -> Iterator[Row]:
    yield from several_classes(data, folder / "50", rounds=50)
    yield from several_classes(data, folder / "vectors", rounds=50, vectors=True)


def several_classes(
    data: DataFolder, folder: Path, *, rounds: int, vectors: bool = False
) -> Iterator[Row]:
    """Four classes; xgboost's own steps are half as long, so it fits less in as many rounds."""
    pair, how = data.vehicle(), Boosting(kind=CLASSES, rounds=rounds, vectors=vectors)
    found, rows = compared(Chain(folder), pair, how)
    yield from rows
    yield from against_own_bins(pair, how, found, measure="accuracy", tolerance=0.0, at_least=True)


def numbers(data: DataFolder, folder: Path) -> Iterator[Row]:
    how = Boosting(kind=NUMBERS, rounds=3)
    for pair, tolerance in ((data.student(), 0.04), (data.motor(), 0.01)):
        found, rows = compared(Chain(folder / pair.name), pair, how)
        yield from rows
        yield from against_own_bins(pair, how, found, measure="RMSE", tolerance=tolerance)


def missing(data: DataFolder, folder: Path) -> Iterator[Row]:
    """1,338 empty cells, a column of none but them included."""
    pair, how = data.ionosphere(), Boosting(kind=BINARY, rounds=5, use_missing=True)
    yield from compared(Chain(folder), pair, how)[1]


def credit(data: DataFolder, folder: Path) -> Iterator[Row]:
    """All strategies on 30,000 rows, and what the host's columns add."""
    pair, std = data.whole_credit(), Boosting(kind=BINARY, rounds=5)
    found, rows = compared(Chain(folder / STD), pair, std)
    yield from rows
    yield from against_own_bins(pair, std, found, measure="AUC", tolerance=RANKING)
    if installed(XGBOOST):
        own = pair.joined[pair.guest_columns].to_numpy()
        expected = roc_auc_score(pair.labels, xgboost_scores(own, pair.labels, std, guest=0))
        guest = Rows(named(std), pair.name, "xgboost, the guest's columns alone")
        yield guest.one("AUC", expected, found["AUC"], 0.0, at_least=True)
    short_test = Rows(named(std), pair.name, SHORT_TEST)
    yield short_test.one("AUC", 0.69, found["AUC"], 0.0, at_least=True)
    others = {
        MIX: replace(std, strategy=MIX),
        LAYERED: replace(std, strategy=LAYERED),
        "goss": replace(std, goss=(0.2, 0.1)),
    }
    for name, how in others.items():
        other, rows = compared(Chain(folder / name), pair, how)
        yield from rows
        yield Rows(named(how), pair.name, named(std)).one(
            "AUC", found["AUC"], other["AUC"], STRATEGY
        )


CHECKS = (
    Check(name="trees-breast", make=breast, quick=True),
    Check(name="trees-breast-50", make=breast_50),
    Check(name="trees-vehicle", make=vehicle),
    Check(name="trees-vehicle-50", make=vehicle_50),
    Check(name="trees-numbers", make=numbers),
    Check(name="trees-missing", make=missing),
    Check(name="trees-credit", make=credit),
)
