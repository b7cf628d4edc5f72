"""What stored models show: made by the real components, at every party."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import pytest

from fedflow.board.presenters.models.registry import SHAPES, sections_of
from fedflow.board.presenters.models.sections import (
    Bars,
    ChoiceSection,
    Dropped,
    Facts,
    Groups,
    HeatMap,
    NoticeSection,
    Section,
    Table,
    Tree,
    plain,
)
from fedflow.board.presenters.models.selected import shown
from fedflow.board.presenters.models.stepwise import stepwise
from fedflow.board.presenters.models.visible import own_param
from fedflow.domain.site import Role, Site
from tests.board import real_models
from tests.board.real_models import ARBITER, EVERY, GUEST, GUEST_MARK, HOST, HOST_MARK, Made

pytestmark = pytest.mark.timeout(600)


def sections(made: Made, site: Site, **choices: str) -> list[Section]:
    model = made.models[site]
    found = sections_of(site.role, model.param_name, model.param, model.meta, choices)
    shown(found, choices)
    return [*found, *stepwise(site.role, made.metrics[site], choices)]


def table(found: list[Section], name: str) -> Table:
    return next(s for s in found if isinstance(s, Table) and s.id == name)


def column(of: Table, title: str) -> list[Any]:
    at = [c.title for c in of.columns].index(title)
    return [plain(row[at]) for row in of.rows]


def facts(found: list[Section], title: str) -> dict[str, Any]:
    one = next(s for s in found if isinstance(s, Facts) and s.title == title)
    return dict(one.pairs)


def choice(found: list[Section], name: str) -> ChoiceSection:
    return next(s for s in found if isinstance(s, ChoiceSection) and s.name == name)


def text_of(found: list[Section]) -> str:
    return json.dumps([asdict(s) for s in found if is_dataclass(s)], default=str)


# --- what nobody else may know --------------------------------------------------------------------


@pytest.mark.parametrize("name", EVERY)
def test_a_page_never_has_the_real_column_names_of_the_other_party(name: str) -> None:
    made = EVERY[name]()
    for site in made.models:
        asked: list[Mapping[str, str]] = [{}, {"party": "1"}, {"stage": "transform"}]
        told = "".join(text_of(sections(made, site, **one)) for one in asked)
        if site.role is not Role.GUEST:
            assert GUEST_MARK not in told, site
        if site.role is not Role.HOST:
            assert HOST_MARK not in told, site


@pytest.mark.parametrize("name", EVERY)
def test_an_arbiter_is_shown_nothing_of_a_model(name: str) -> None:
    made = EVERY[name]()
    if ARBITER in made.models:
        (only,) = sections(made, ARBITER)
        assert isinstance(only, NoticeSection)


def test_a_host_sees_no_statistics_of_labels_even_if_its_share_had_them() -> None:
    guest = real_models.binning().models[GUEST]
    found = sections_of(Role.HOST, guest.param_name, guest.param, guest.meta, {})
    features = table(found, "features")
    assert set(column(features, "IV")) == {None}
    assert set(column(features, "WOE monotonic")) == {None}
    assert set(column(table(found, "bins"), "Event count")) == {None}
    assert not [s for s in found if isinstance(s, Groups | Bars)]
    assert "host_10000" not in text_of(found)


def test_a_guest_sees_no_split_points_of_a_host_even_if_its_share_had_them() -> None:
    stored = real_models.binning().models[GUEST]
    secret = 123456.789
    param = json.loads(json.dumps(stored.param))
    for result in param["host_results"][0]["binning_result"].values():
        result["split_points"] = [secret, secret + 1]
    seen = own_param(Role.GUEST, stored.param_name, param, stored.meta)
    assert str(secret) not in json.dumps(seen)
    found = sections_of(Role.GUEST, stored.param_name, param, stored.meta, {"party": "1"})
    assert str(secret) not in text_of(found)
    assert column(table(found, "bins"), "Bin")[0] == "bin_0"


def test_keys_and_states_of_trainings_are_never_shown() -> None:
    made = real_models.in_shares()
    guest = made.models[GUEST]
    secret = guest.param["cipher"]["private_key"]["p"]
    seen = own_param(Role.GUEST, guest.param_name, guest.param, guest.meta)
    assert secret not in json.dumps(seen)
    for role in Role:
        unknown = sections_of(role, "NeverHeardOfParam", guest.param, guest.meta, {})
        assert secret not in text_of(unknown)


def test_a_host_sees_no_values_of_filters_that_the_guest_decided() -> None:
    stored = real_models.selection().models[HOST]
    param = json.loads(json.dumps(stored.param))
    param["results"][1]["feature_values"] = {f"{HOST_MARK}_income": 0.123456}
    found = sections_of(Role.HOST, stored.param_name, param, stored.meta, {})
    assert "0.123456" not in text_of(found)


# --- what each model shows ------------------------------------------------------------------------


def test_weights_come_with_the_intercept_and_how_far_the_training_came() -> None:
    found = sections(real_models.logistic(), GUEST)
    stored = real_models.logistic().models[GUEST].param
    weights = table(found, "weights")
    assert column(weights, "Feature") == [*stored["weight"], "(intercept)"]
    assert column(weights, "Weight") == [*stored["weight"].values(), stored["intercept"]]
    assert facts(found, "Final model")["Iterations"] == 2
    (bars,) = [s for s in found if isinstance(s, Bars)]
    sizes = [abs(value) for _, value in bars.bars]
    assert sizes == sorted(sizes, reverse=True)
    assert "(intercept)" not in column(
        table(sections(real_models.logistic(), HOST), "weights"), "Feature"
    )


def test_of_several_classes_one_is_chosen() -> None:
    made = real_models.logistic(3)
    found = sections(made, GUEST, label="2")
    assert [text for _, text in choice(found, "label").options] == ["0", "1", "2"]
    models = made.models[GUEST].param["one_vs_rest_result"]["completed_models"]
    assert column(table(found, "weights"), "Weight")[:-1] == list(models[2]["weight"].values())
    assert choice(sections(made, GUEST, label="99"), "label").chosen == "0"


def test_a_host_with_encrypted_weights_is_told_so() -> None:
    (notice,) = [s for s in sections(real_models.in_shares(), HOST) if isinstance(s, NoticeSection)]
    assert "3 weights are encrypted" in notice.text


def test_the_guest_sees_its_bins_with_intervals_and_statistics() -> None:
    stored = real_models.binning().models[GUEST].param["binning_result"]["binning_result"]
    found = sections(real_models.binning(), GUEST, feature=f"{GUEST_MARK}_age")
    one = stored[f"{GUEST_MARK}_age"]
    bins = table(found, "bins")
    assert len(bins.rows) == one["bin_nums"]
    assert column(bins, "Bin")[0] == f"(-∞, {one['split_points'][0]:.6g}]"
    assert column(bins, "Bin")[-1].endswith("+∞)")
    assert column(bins, "WOE") == one["woe_array"]
    assert column(bins, "Event count") == one["event_count_array"]
    features = table(found, "features")
    assert column(features, "IV") == [c["iv"] for c in stored.values()]
    assert column(features, "Anonymous name")[0] == "guest_9999_x0"
    stacked, woe = [s for s in found if isinstance(s, Groups)]
    assert stacked.stacked
    assert woe.line is not None


def test_the_guest_sees_columns_of_a_host_under_anonymous_names_in_numbered_bins() -> None:
    found = sections(real_models.binning(), GUEST, party="1")
    assert [text for _, text in choice(found, "party").options] == ["guest 9999", "host 10000"]
    features = table(found, "features")
    assert column(features, "Feature")[0] == "host_10000_x0"
    assert all(iv > 0 for iv in column(features, "IV"))
    assert column(table(found, "bins"), "Bin")[0] == "bin_0"


def test_a_host_sees_its_cut_points_without_statistics() -> None:
    found = sections(real_models.binning(), HOST)
    assert column(table(found, "features"), "Feature")[0] == f"{HOST_MARK}_income"
    assert set(column(table(found, "features"), "IV")) == {None}
    assert column(table(found, "bins"), "Bin")[0].startswith("(-∞, ")
    assert set(column(table(found, "bins"), "WOE")) == {None}


def test_with_several_classes_each_class_has_its_own_statistics() -> None:
    made = real_models.binning(3)
    labels = made.models[GUEST].param["multi_class_result"]["labels"]
    results = made.models[GUEST].param["multi_class_result"]["results"]
    hosts = made.models[GUEST].param["multi_class_result"]["host_results"]
    for number, label in enumerate(labels):
        found = sections(made, GUEST, label=str(number))
        assert choice(found, "label").options[number] == (str(number), label)
        assert column(table(found, "features"), "IV") == [
            c["iv"] for c in results[number]["binning_result"].values()
        ]
        theirs = sections(made, GUEST, label=str(number), party="1")
        assert column(table(theirs, "features"), "IV") == [
            c["iv"] for c in hosts[number]["binning_result"].values()
        ]


def test_statistics_of_the_rows_of_a_prediction_can_be_chosen() -> None:
    made = real_models.rebinned()
    param = made.models[GUEST].param
    assert param["transform_binning_result"]["binning_result"]
    found = sections(made, GUEST, stage="transform")
    assert [value for value, _ in choice(found, "stage").options] == ["train", "transform"]
    theirs = param["transform_binning_result"]["binning_result"]
    assert column(table(found, "features"), "IV") == [c["iv"] for c in theirs.values()]
    host = sections(made, HOST, stage="transform")
    assert set(column(table(host, "features"), "IV")) == {None}


def test_the_way_through_the_filters_strikes_out_what_was_removed() -> None:
    found = sections(real_models.selection(), GUEST)
    path = table(found, "path")
    assert [c.title for c in path.columns][2].startswith("percentage_value")
    kept = column(path, "Kept")
    struck = [any(isinstance(cell, Dropped) for cell in row) for row in path.rows]
    assert [not one for one in struck] == kept
    theirs = table(sections(real_models.selection(), GUEST, party="0"), "path")
    assert column(theirs, "Feature")[0] == "host_10000_x0"
    counts = facts(found, "Selection")
    assert counts["Kept"] + int(counts["Kept of host 10000"].split(" / ")[0]) == 3


def test_correlations_are_a_map_and_pairs() -> None:
    found = sections(real_models.pearson(), GUEST)
    own, across = [s for s in found if isinstance(s, HeatMap)]
    assert own.values[0][0] == pytest.approx(1.0)
    assert list(across.columns) == [f"host_10000_x{i}" for i in range(3)]
    assert across.rows[0] == f"{GUEST_MARK}_income"
    pairs = table(found, "own-pairs")
    assert len(pairs.rows) == 3
    sizes = column(pairs, "Size")
    assert sizes == sorted(sizes, reverse=True)
    assert all(vif >= 1 for vif in column(table(found, "vif"), "VIF"))


def test_a_part_of_the_name_picks_columns_of_a_map() -> None:
    found = sections(real_models.pearson(), GUEST, columns="AGE")
    own = next(s for s in found if isinstance(s, HeatMap))
    assert list(own.rows) == [f"{GUEST_MARK}_age"]
    assert own.values[0] == [pytest.approx(1.0)]


def test_a_wide_correlation_is_capped() -> None:
    count = 700
    names = [f"c{i}" for i in range(count)]
    param = {"names": names, "local_corr": [0.5] * count * count, "anonymous_map": []}
    found = sections_of(Role.GUEST, "HeteroPearsonModelParam", param, {}, {})
    own = next(s for s in found if isinstance(s, HeatMap))
    assert len(own.rows) == len(own.columns) == 300
    assert [s for s in found if isinstance(s, NoticeSection)]
    assert len(table(found, "own-pairs").rows) == 5000


def test_stability_comes_with_a_verdict_and_bins() -> None:
    found = sections(real_models.stability(), HOST, feature=f"{HOST_MARK}_debt")
    assert set(column(table(found, "psi"), "Verdict")) == {"stable"}
    bins = table(found, "psi-bins")
    assert column(bins, "Bin")[0].startswith("(-inf")
    assert sum(column(bins, "Expected share")) == pytest.approx(1.0)


def test_statistics_are_a_row_per_column() -> None:
    found = table(sections(real_models.statistics(), GUEST), "statistics")
    assert column(found, "Feature")[0] == f"{GUEST_MARK}_income"
    assert "mean" in [c.title for c in found.columns]


def test_models_of_preparing_steps_are_tables() -> None:
    scale = table(sections(real_models.scaled(), HOST), "scale")
    assert all(isinstance(v, float) for v in column(scale, "Mean"))
    missing = table(sections(real_models.filled(), GUEST), "missing")
    assert 0.2 in column(missing, "Share of rows")
    names = table(sections(real_models.transformed(), HOST), "names")
    assert column(names, "Anonymous name")[0] == "host_10000_x0"
    codes = table(sections(real_models.encoded(), GUEST), "codes")
    assert len(codes.rows) == 3
    assert None not in column(codes, "New column")
    labels = table(sections(real_models.relabelled(), GUEST), "labels")
    assert [tuple(row) for row in labels.rows] == [("0", "good"), ("1", "bad")]
    classes = table(sections(real_models.weighted(), GUEST), "classes")
    assert column(classes, "Weight") == [0.5, 2.0]
    assert column(table(sections(real_models.local(), GUEST), "weights"), "Weight")


def test_a_stepwise_training_shows_every_step() -> None:
    found = sections(real_models.stepwise(), GUEST)
    steps = column(table(found, "steps"), "Step")
    assert steps[0] == "stepwise_0"
    assert choice(found, "step").chosen == steps[-1]
    names = column(table(found, "step-columns"), "Feature")
    assert "guest_9999_x0" in names
    assert "host_10000_x0" in names


# --- models of any content ------------------------------------------------------------------------


def test_an_unknown_model_is_a_tree() -> None:
    found = sections_of(Role.HOST, "MyOwnParam", {"a": 1, "deep": {"b": [1]}}, {"m": 1}, {})
    assert [type(s) for s in found] == [Facts, Tree, Tree]
    assert found[1].value == {"a": 1, "deep": {"b": [1]}}  # type: ignore[union-attr]


RUBBISH: list[Any] = [
    {}, [], None, "text", {"weight": [1]}, {"binning_result": 5, "host_results": [None, 7]},
    {"binning_result": {"binning_result": {"a": None, "b": {"split_points": "x", "bin_nums": 9}}}},
    {"results": [{"left_cols": {"left_cols": 3}}], "header": ["a"], "host_col_names": [{}]},
    {"names": ["a"], "local_corr": ["x"], "all_names": [{"names": ["a"]}, {}], "corr": [1]},
    {"feature_psi": [{"feature_name": "a", "interval": ["x"], "psi": [float("nan")]}]},
    {"weight": {"a": "high", "b": float("inf"), "c": True}, "intercept": "none", "iters": None},
    {"need_one_vs_rest": True, "one_vs_rest_result": {"completed_models": [{}, 3]}},
    {"self_values": {"results": [{"values": [1]}]}, "col_map": {"a": 3}, "label_encoder": [1]},
    {"imputer_param": {"missing_replace_value": {"a": {"deep": 1}}, "missing_value_ratio": 3}},
]  # fmt: skip


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_what_is_no_such_model_breaks_nothing(rubbish: Any) -> None:
    for name in SHAPES:
        for role in Role:
            for asked in ({}, {"party": "1", "label": "1", "feature": "a", "step": "b"}):
                shown(sections_of(role, name, rubbish, rubbish, asked), asked)
