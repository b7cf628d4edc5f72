"""HeteroFeatureBinning: the federated statistics equal those of the joined data in the clear."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.components.binning.params import HeteroFeatureBinningParams
from fedflow.domain.models.woe import extract_woe, merge_woe
from fedflow.sdk import Model, check_params
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.binning_parties import (
    GUEST,
    HOST,
    HOST_2,
    assert_equal,
    breast,
    error_of,
    host_bins,
    in_the_clear,
    model_of,
    own_bins,
    results,
    run,
    small,
)

GUEST_IVS = [6.0636, 1.2165, 6.3933, 6.1278, 0.9630, 2.3211, 3.6247, 5.8488, 1.0835, 0.6088]
HOST_IVS = [4.7720, 1.2878, 5.0245, 4.8196, 0.7742, 2.2585, 4.1282, 5.5842, 0.6217, 0.2561]
X0_SPLITS = [-1.04767, -0.784675, -0.612797, -0.46991, -0.26904, -0.053674, 0.2321]
X0_SPLITS += [0.840923, 1.53672, 4.094189]
X0_WOE = [4.223783, 4.223783, 2.793036, 2.793036, 2.811055, 0.419834, -0.306038, -2.862955]
X0_WOE += [-5.266082, -5.248537]


def rows_of(outputs: Any) -> pa.Table:
    (table,) = outputs.data
    return table.read()


# --- the anchors ----------------------------------------------------------------------------------


def test_the_published_figures(tmp_path: Path) -> None:
    """Source of the figures: docs/reference/numerics.md#features."""
    federation = LocalFederation((GUEST, HOST))
    found = run(breast(), tmp_path, federation=federation)
    own, hosts = own_bins(found[GUEST]), host_bins(found[GUEST])
    assert [own[f"x{i}"]["iv"] for i in range(10)] == pytest.approx(GUEST_IVS, abs=6e-5)
    assert [hosts[f"hidden_10000_{i}"]["iv"] for i in range(10)] == pytest.approx(
        HOST_IVS, abs=6e-5
    )
    assert own["x0"]["split_points"] == pytest.approx(X0_SPLITS)
    assert own["x0"]["woe_array"] == pytest.approx(X0_WOE, abs=1e-6)
    assert own["x0"]["iv"] == pytest.approx(6.063551, abs=1e-6)
    assert federation.unread() == []
    splits = own_bins(found[HOST])["x0"]["split_points"]
    values = breast()[HOST]["x0"].to_numpy()
    labels = breast()[GUEST]["y"].to_numpy()
    assert_equal(hosts["hidden_10000_0"], in_the_clear(values, splits, labels == 1))


def test_buckets_of_equal_width_have_the_published_figures(tmp_path: Path) -> None:
    data = {GUEST: breast()[GUEST]}
    found = run(data, tmp_path, method="bucket", local_only=True, bin_indexes=[0])
    entry = own_bins(found[GUEST])["x0"]
    expected = [-1.144792, -0.562683, 0.019426, 0.601535, 1.183644, 1.765753, 2.347862]
    expected += [2.929971, 3.51208, 4.094189]
    assert entry["split_points"] == pytest.approx(expected, abs=1e-6)
    assert entry["iv"] == pytest.approx(5.275254, abs=1e-6)


# --- statistics equal those in the clear ----------------------------------------------------------


@pytest.mark.parametrize("method", ["quantile", "bucket", "optimal"])
def test_one_bin_tells_nothing(method: str, tmp_path: Path) -> None:
    optimal = {"metric_method": "chi-square", "init_bin_nums": 1 if method == "optimal" else 9}
    found = run(small(), tmp_path, method=method, bin_num=1, optimal_binning_param=optimal)
    for entry in (*own_bins(found[GUEST]).values(), *host_bins(found[GUEST]).values()):
        assert entry["bin_nums"] == 1
        assert entry["iv"] == pytest.approx(0)


def test_missing_values_are_a_bin_of_their_own(tmp_path: Path) -> None:
    data = small(missing=True)
    found = run(data, tmp_path, bin_num=4)
    labels = data[GUEST]["y"].to_numpy() == 1
    for name, entry in own_bins(found[GUEST]).items():
        values = data[GUEST][name].to_numpy()
        assert entry["bin_nums"] == 5
        assert_equal(entry, in_the_clear(values, entry["split_points"], labels))
    splits = {name: e["split_points"] for name, e in own_bins(found[HOST]).items()}
    for number, (name, cuts) in enumerate(splits.items()):
        values = data[HOST][name].to_numpy()
        entry = host_bins(found[GUEST])[f"hidden_10000_{number}"]
        assert_equal(entry, in_the_clear(values, cuts, labels))
        assert entry["split_points"] == []
    output = rows_of(found[HOST])["x0"].to_numpy()
    missing = np.isnan(data[HOST]["x0"].to_numpy())
    assert set(output[missing]) == {4}
    assert output[~missing].max() == 3


def test_a_column_without_any_value_is_one_bin(tmp_path: Path) -> None:
    data = small()
    empty = pa.array([None] * 60, pa.float64())
    data[HOST] = data[HOST].set_column(1, "x0", empty)
    found = run(data, tmp_path)
    assert host_bins(found[GUEST])["hidden_10000_0"]["event_count_array"] == [30]
    assert own_bins(found[HOST])["x0"]["split_points"] == []
    assert set(rows_of(found[HOST])["x0"].to_pylist()) == {0}


def test_values_of_a_column_that_had_none_are_in_its_one_bin(tmp_path: Path) -> None:
    data = small()
    empty = pa.array([None] * 60, pa.float64())
    without = {
        GUEST: data[GUEST].set_column(2, "x0", empty),
        HOST: data[HOST].set_column(1, "x0", empty),
    }
    fitted = run(without, tmp_path)
    models = {site: model_of(outputs) for site, outputs in fitted.items()}
    found = run(data, tmp_path, models=models)
    host = host_bins(found[GUEST], prefix="transform_")["hidden_10000_0"]
    assert host["event_count_array"] == host["non_event_count_array"] == [30]
    assert own_bins(found[GUEST], "transform_")["x0"]["event_count_array"] == [30]
    assert set(rows_of(found[HOST])["x0"].to_pylist()) == {0}


def test_more_classes_are_each_against_the_rest_in_descending_order(tmp_path: Path) -> None:
    data = small(classes=3)
    found = run(data, tmp_path, bin_num=3)
    param = model_of(found[GUEST]).param
    multi = param["multi_class_result"]
    assert multi["labels"] == list(found[GUEST].summary) == ["2", "1", "0"]
    assert multi["host_party_ids"] == ["10000"]
    assert param["binning_result"] == multi["results"][0]
    assert param["host_results"] == [multi["host_results"][0]]
    labels = data[GUEST]["y"].to_numpy()
    splits = own_bins(found[HOST])["x1"]["split_points"]
    for number, label in enumerate([2, 1, 0]):
        own = multi["results"][number]["binning_result"]["x1"]
        values = data[GUEST]["x1"].to_numpy()
        assert_equal(own, in_the_clear(values, own["split_points"], labels == label))
        entry = multi["host_results"][number]["binning_result"]["hidden_10000_1"]
        assert_equal(entry, in_the_clear(data[HOST]["x1"].to_numpy(), splits, labels == label))


def test_two_hosts_with_their_own_parameters(tmp_path: Path) -> None:
    data = small()
    data[HOST_2] = data[HOST].select(["id", "x2", "x0"])
    params = {HOST: {"bin_num": 3, "bin_indexes": [1]}, HOST_2: {"method": "bucket"}}
    federation = LocalFederation((GUEST, HOST, HOST_2))
    found = run(data, tmp_path, params=params, federation=federation)
    assert list(host_bins(found[GUEST], 0)) == ["hidden_10000_1"]
    assert list(host_bins(found[GUEST], 1)) == ["hidden_10001_0", "hidden_10001_1"]
    assert host_bins(found[GUEST], 0)["hidden_10000_1"]["bin_nums"] == 3
    labels = data[GUEST]["y"].to_numpy() == 1
    splits = own_bins(found[HOST_2])["x0"]["split_points"]
    assert_equal(
        host_bins(found[GUEST], 1)["hidden_10001_1"],
        in_the_clear(data[HOST]["x0"].to_numpy(), splits, labels),
    )
    summary = found[GUEST].summary["0"]
    ivs = [iv for _, iv in summary["iv"]]
    assert ivs == sorted(ivs, reverse=True)
    assert len(ivs) == len(summary["woe"]) == len(summary["monotonic"]) == 5
    assert set(summary["split_points"]) == {"x0", "x1"}
    assert set(found[HOST_2].summary) == {"x2", "x0"}
    assert federation.unread() == []


@pytest.mark.parametrize("metric", ["iv", "gini", "ks", "chi_square"])
def test_optimal_bins_of_a_host_are_those_that_the_guest_would_make(
    metric: str, tmp_path: Path
) -> None:
    data = small(rows=150, missing=True)
    data[GUEST] = data[GUEST].append_column("z", data[HOST]["x0"])
    optimal = {"metric_method": metric, "init_bin_nums": 20, "min_bin_pct": 0.1}
    found = run(data, tmp_path, method="optimal", bin_num=4, optimal_binning_param=optimal)
    own, host = own_bins(found[GUEST])["z"], host_bins(found[GUEST])["hidden_10000_0"]
    assert own_bins(found[HOST])["x0"]["split_points"] == own["split_points"]
    assert len(own["split_points"]) == 4
    for key in ("event_count_array", "woe_array", "iv", "optimal_metric_array", "bin_nums"):
        assert host[key] == own[key]
    labels = data[GUEST]["y"].to_numpy() == 1
    values = data[GUEST]["z"].to_numpy()
    assert_equal(own, in_the_clear(values, own["split_points"], labels))


def test_a_guest_with_labels_only_gets_the_hosts_statistics(tmp_path: Path) -> None:
    data = small()
    data[GUEST] = data[GUEST].select(["id", "y"])
    found = run(data, tmp_path)
    assert own_bins(found[GUEST]) == {}
    assert len(found[GUEST].summary["0"]["iv"]) == 3
    assert rows_of(found[GUEST]).equals(data[GUEST])


# --- which columns, and how they are cut ----------------------------------------------------------


def test_categories_and_split_points_by_hand(tmp_path: Path) -> None:
    data = small()
    host = {
        "category_names": ["x2"],
        "split_points_by_index": {"0": [0.0, 9.0]},
        "split_points_by_col_name": {"x1": [-1.0, 0.5, 9.0]},
        "method": "optimal",
    }
    found = run(data, tmp_path, params={HOST: host})
    splits = {name: entry["split_points"] for name, entry in own_bins(found[HOST]).items()}
    values = sorted(set(data[HOST]["x2"].to_pylist()))
    assert splits == {"x0": [0.0, 9.0], "x1": [-1.0, 0.5, 9.0], "x2": values}
    output = rows_of(found[HOST])
    assert [values[i] for i in output["x2"].to_pylist()] == data[HOST]["x2"].to_pylist()
    np.testing.assert_array_equal(output["x0"], (data[HOST]["x0"].to_numpy() > 0).astype(int))


def test_only_the_chosen_columns_are_binned_and_transformed(tmp_path: Path) -> None:
    data = small()
    transform = {"transform_cols": [1], "transform_names": None, "transform_type": "woe"}
    params = {
        GUEST: {"transform_param": transform},
        HOST: {"bin_indexes": None, "bin_names": ["x1"], "transform_param": {"transform_cols": -1}},
    }
    found = run(data, tmp_path, params=params)
    entry = own_bins(found[GUEST])["x1"]
    output = rows_of(found[GUEST])
    bins = np.searchsorted(entry["split_points"][:-1], data[GUEST]["x1"].to_numpy())
    np.testing.assert_array_equal(output["x1"], np.array(entry["woe_array"])[bins])
    assert output["x0"].equals(data[GUEST]["x0"])
    assert output["y"].equals(data[GUEST]["y"])
    host = rows_of(found[HOST])
    assert host["x0"].equals(data[HOST]["x0"])
    assert pa.types.is_int64(host["x1"].type)
    meta = model_of(found[GUEST]).meta
    assert meta["cols"] == ["x0", "x1"]
    assert meta["transform_param"] == {"transform_cols": [1], "transform_type": "woe"}
    (table,) = found[HOST].data
    assert table is not None
    assert table.schema.anonymous == ("hidden_10000_0", "hidden_10000_1", "hidden_10000_2")


def test_no_transform_gives_the_table_itself(tmp_path: Path) -> None:
    data = small()
    found = run(data, tmp_path, transform_param={"transform_type": None})
    assert rows_of(found[GUEST]).equals(data[GUEST])
    assert rows_of(found[HOST]).equals(data[HOST])


# --- parties that take no part --------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {GUEST: {"local_only": True}},
        {GUEST: {"skip_static": True}},
        {GUEST: {"need_run": False}},
        {HOST: {"local_only": True}},
        {HOST: {"skip_static": True}},
        {HOST: {"need_run": False}},
        {GUEST: {"need_run": False}, HOST: {"need_run": False}},
    ],
)
def test_a_party_may_keep_out_of_the_statistics(params: Any, tmp_path: Path) -> None:
    data = small()
    federation = LocalFederation((GUEST, HOST))
    found = run(data, tmp_path, params=params, federation=federation)
    assert federation.unread() == []
    for site in (GUEST, HOST):
        passed = params.get(site, {}).get("need_run") is False
        assert found[site].passed == passed
        assert rows_of(found[site]).equals(data[site]) == passed
        if not passed:
            assert all(e["split_points"] for e in own_bins(found[site]).values())
    if not found[GUEST].passed:
        param = model_of(found[GUEST]).param
        assert param["host_results"] == []
        assert param["multi_class_result"]["has_host_result"] is False
        with_statistics = "skip_static" not in params.get(GUEST, {})
        assert bool(own_bins(found[GUEST])["x0"]["woe_array"]) == with_statistics


def test_optimal_binning_of_a_host_needs_the_guest(tmp_path: Path) -> None:
    params = {GUEST: {"local_only": True}, HOST: {"method": "optimal"}}
    error = error_of({HOST: results(small(), tmp_path, params=params)[HOST]}, HOST)
    assert isinstance(error, BadParameter)
    assert "method" in str(error)


# --- with a model ---------------------------------------------------------------------------------


def test_a_model_cuts_other_rows_and_measures_them(tmp_path: Path) -> None:
    data = small(rows=80, missing=True)
    first = {site: rows.slice(0, 50) for site, rows in data.items()}
    rest = {site: rows.slice(50) for site, rows in data.items()}
    fitted = run(first, tmp_path / "1", bin_num=4, params={GUEST: {"transform_param": WOE}})
    models = {site: model_of(found) for site, found in fitted.items()}
    federation = LocalFederation((GUEST, HOST))
    found = run(rest, tmp_path / "2", models=models, federation=federation)
    assert federation.unread() == []
    labels = rest[GUEST]["y"].to_numpy() == 1
    entry, old = own_bins(found[GUEST], "transform_")["x0"], own_bins(fitted[GUEST])["x0"]
    assert own_bins(found[GUEST])["x0"] == old
    assert entry["split_points"] == old["split_points"]
    values = rest[GUEST]["x0"].to_numpy()
    assert_equal(entry, in_the_clear(values, old["split_points"], labels))
    splits = own_bins(fitted[HOST])["x1"]["split_points"]
    hosts = host_bins(found[GUEST], prefix="transform_")
    assert_equal(hosts["hidden_10000_1"], in_the_clear(rest[HOST]["x1"].to_numpy(), splits, labels))
    bins = np.searchsorted(old["split_points"][:-1], np.nan_to_num(values))
    bins[np.isnan(values)] = 4
    expected = np.array(old["woe_array"])[bins]
    np.testing.assert_array_equal(rows_of(found[GUEST])["x0"], expected)


WOE = {"transform_type": "woe"}


@pytest.mark.parametrize("labels", [None, [7] * 60, [None] * 60])
def test_rows_without_known_labels_are_cut_but_not_measured(labels: Any, tmp_path: Path) -> None:
    data = small()
    fitted = run(data, tmp_path / "1", params={GUEST: {"transform_param": WOE}})
    models = {site: model_of(found) for site, found in fitted.items()}
    if labels is None:
        data[GUEST] = data[GUEST].drop_columns(["y"])
    else:
        data[GUEST] = data[GUEST].set_column(1, "y", pa.array(labels, pa.int64()))
    federation = LocalFederation((GUEST, HOST))
    found = run(data, tmp_path / "2", models=models, federation=federation)
    assert federation.unread() == []
    assert found[GUEST].model == models[GUEST]
    for name in ("x0", "x1"):
        assert rows_of(found[GUEST])[name].equals(rows_of(fitted[GUEST])[name])
    assert rows_of(found[HOST]).equals(rows_of(fitted[HOST]))


def test_a_missing_value_that_the_model_never_saw_has_no_woe(tmp_path: Path) -> None:
    data = {GUEST: small()[GUEST]}
    fitted = run(data, tmp_path / "1", transform_param=WOE, local_only=True)
    holes = {GUEST: data[GUEST].set_column(2, "x0", pa.array([None] * 60, pa.float64()))}
    found = run(holes, tmp_path / "2", models={GUEST: model_of(fitted[GUEST])})
    assert set(rows_of(found[GUEST])["x0"].to_pylist()) == {0.0}


def test_a_host_transforms_with_woe_only_by_a_model_that_has_it(tmp_path: Path) -> None:
    data = small()
    params = check_params(
        HeteroFeatureBinningParams, {"transform_param": WOE}, path="hetero_feature_binning_0"
    )
    assert params.transform_param.kind == "woe"
    error = results(data, tmp_path / "1", transform_param=WOE)[HOST].error
    assert isinstance(error, BadParameter)
    fitted = run(data, tmp_path / "2")
    models = {site: model_of(found) for site, found in fitted.items()}
    models[HOST] = with_woe(models[HOST], with_arrays=False)
    error = results(data, tmp_path / "3", models=models)[HOST].error
    assert isinstance(error, BadData)
    assert "no woe of columns x0, x1, x2" in str(error)
    models[HOST] = with_woe(models[HOST], with_arrays=True)
    found = run(data, tmp_path / "4", models=models)
    expected = rows_of(fitted[HOST])["x0"].to_numpy() * 0.5
    np.testing.assert_array_equal(rows_of(found[HOST])["x0"], expected)


def test_what_the_guest_knows_lets_a_host_transform_with_woe(tmp_path: Path) -> None:
    data = small()
    fitted = run(data, tmp_path / "1", bin_num=4)
    models = {site: model_of(found) for site, found in fitted.items()}
    arrays = extract_woe(models[GUEST].param)
    models[HOST] = replace(models[HOST], param=merge_woe(models[HOST].param, arrays))
    kept = run(data, tmp_path / "2", models=models)
    assert rows_of(kept[HOST]).equals(rows_of(fitted[HOST]))
    found = run(data, tmp_path / "3", models=models, params={HOST: {"transform_param": WOE}})
    bins = rows_of(fitted[HOST])["x1"].to_numpy()
    known = host_bins(fitted[GUEST])["hidden_10000_1"]["woe_array"]
    np.testing.assert_array_equal(rows_of(found[HOST])["x1"], np.array(known)[bins])
    assert rows_of(found[GUEST]).equals(rows_of(fitted[GUEST]))


def with_woe(model: Model, *, with_arrays: bool) -> Model:
    """Return a host's model as somebody has changed it by hand."""
    entries = {
        name: {**e, "woe_array": [i * 0.5 for i in range(e["bin_nums"])] if with_arrays else []}
        for name, e in model.param["binning_result"]["binning_result"].items()
    }
    meta = {**model.meta, "transform_param": {"transform_cols": [0, 1, 2], "transform_type": "woe"}}
    binning_result = {**model.param["binning_result"], "binning_result": entries}
    return replace(model, meta=meta, param={**model.param, "binning_result": binning_result})


@pytest.mark.parametrize(
    "change",
    [
        {"header": None},
        {"header": ["a"]},
        {"binning_result": {"binning_result": {"x0": {"split_points": [2.0, 1.0]}}}},
        {"multi_class_result": []},
    ],
)
def test_a_model_of_another_form_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    data = small()
    fitted = run(data, tmp_path / "1")
    models = {site: model_of(found) for site, found in fitted.items()}
    models[GUEST] = replace(models[GUEST], param={**models[GUEST].param, **change})
    error = error_of(results(data, tmp_path / "2", models=models), GUEST)
    assert isinstance(error, BadData)
    assert "FeatureBinningParam" in str(error)


def test_columns_of_the_model_that_are_missing_are_named(tmp_path: Path) -> None:
    data = small()
    fitted = run(data, tmp_path / "1")
    models = {site: model_of(found) for site, found in fitted.items()}
    data[HOST] = data[HOST].drop_columns(["x1"])
    error = error_of(results(data, tmp_path / "2", models=models), HOST)
    assert isinstance(error, BadData)
    assert "1 columns of the model are missing: x1" in str(error)


# --- small bins, processes ------------------------------------------------------------------------


def test_small_bins_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    outputs_of(results(small(), tmp_path, params={HOST: {"bin_num": 30}}))
    assert any("fewer than 5 rows" in record.getMessage() for record in caplog.records)


def test_other_workers_give_the_same_as_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.cores.forked.FORK_FROM", 10)
    one = run(small(), tmp_path / "1")
    two = run(small(), tmp_path / "2", cores=2)
    assert model_of(one[GUEST]) == model_of(two[GUEST])
    far = {site: PicklingWorkers() for site in (GUEST, HOST)}
    three = run(small(), tmp_path / "3", workers=far)
    assert model_of(one[GUEST]) == model_of(three[GUEST])
    assert max(call.pickled_bytes for each in far.values() for call in each.calls) < 4_096
