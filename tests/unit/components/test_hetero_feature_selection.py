"""HeteroFeatureSelection at guest and hosts, with models by hand and of the real components."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.components.statistics.data_statistics import DataStatistics
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, Outputs, Table, TableKind, TableSchema
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
BOTH = (GUEST, HOST)
DATA = Path(__file__).parents[3] / "examples" / "data"

Params = dict[str, Any]


def table_of(site: Site, columns: str = "abcd", *, anonymous: bool = True) -> Table:
    """Return a few rows of a party; its column number i is `<role>_<party>_x<i>` for others."""
    names = tuple(columns)
    rows = {"id": ["u", "v", "w"], **{n: [1.0, 2.0, float(i)] for i, n in enumerate(names)}}
    schema = TableSchema(
        kind=TableKind.INSTANCES,
        id="id",
        columns=names,
        anonymous=hidden(site, *range(len(names))) if anonymous else (),
    )
    return MemoryTableStore().add(pa.table(rows), schema=schema)


def hidden(site: Site, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{site.role.value}_{site.party_id}_x{i}" for i in numbers)


def results(
    params: Params,
    path: Path,
    *,
    sites: tuple[Site, ...] = BOTH,
    models: Mapping[Site, Mapping[str, Model]] | None = None,
    tables: Mapping[Site, Table] | None = None,
    own: Mapping[Site, Params] | None = None,
    **others: Any,
) -> dict[Site, RunResult]:
    tables = {site: table_of(site) for site in sites} | dict(tables or {})
    inputs = {
        site: Inputs(data={"data": [("i_0", tables[site])]}, model=(models or {}).get(site, {}))
        for site in sites
    }
    given = {site: params | (own or {}).get(site, {}) for site in sites}
    return run_component(
        HeteroFeatureSelection, sites=sites, work_dir=path, params=given, inputs=inputs, **others
    )


def kept_by(outputs: Outputs) -> list[str]:
    (table,) = outputs.data
    assert table is not None
    return list(table.schema.columns)


def selected(found: Mapping[Site, RunResult]) -> dict[Site, str]:
    return {site: "".join(kept_by(outputs)) for site, outputs in outputs_of(found).items()}


def run(params: Params, path: Path, **others: Any) -> dict[Site, str]:
    return selected(results(params, path, **others))


def refused(kind: type[FedflowError], params: Params, path: Path, **others: Any) -> str:
    errors = [r.error for r in results(params, path, **others).values() if r.error is not None]
    mine = [e for e in errors if isinstance(e, kind)]
    assert mine, errors
    assert all(isinstance(e, kind | PeerFailed) for e in errors), errors
    return str(mine[0])


# --- models as other components make them ---------------------------------------------------------


def of_party(site: Site, values: Mapping[str, float]) -> dict[str, Any]:
    columns = {name: {"iv": iv, "iv_array": [iv]} for name, iv in values.items()}
    role = site.role.value
    return {"binning_result": columns, "role": role, "party_id": site.party_id}


def binning(
    own: Sequence[Mapping[str, float]], hosts: Mapping[Site, Sequence[Mapping[str, float]]]
) -> Model:
    """Return the guest's model; one entry per class."""
    mine = [of_party(GUEST, values) for values in own]
    theirs = [[of_party(host, v) for v in classes] for host, classes in hosts.items()]
    param = {
        "binning_result": mine[0],
        "host_results": [results[0] for results in theirs],
        "multi_class_result": {
            "results": mine,
            "labels": ["1", "0"],
            "host_results": [result for results in theirs for result in results],
            "host_party_ids": [host.party_id for host in hosts],
            "has_host_result": bool(hosts),
        },
        "model_name": "binning_model",
    }
    return model("FeatureBinning", param)


def binning_of_host(site: Site) -> Model:
    columns = {name: {"iv": 0.0, "iv_array": []} for name in "abcd"}
    party = {"binning_result": columns, "role": "host", "party_id": site.party_id}
    param = {"binning_result": party, "host_results": [], "model_name": "binning_model"}
    return model("FeatureBinning", param)


def model(name: str, param: dict[str, Any]) -> Model:
    return Model(meta_name=f"{name}Meta", param_name=f"{name}Param", meta={}, param=param)


def ivs(own: list[float], *hosts: list[float]) -> dict[Site, dict[str, Model]]:
    """Return models of all parties with the IVs of columns a, b, c, d."""
    sites = (HOST, HOST_2)[: len(hosts)]
    theirs = {
        site: [dict(zip(hidden(site, *range(len(values))), values, strict=True))]
        for site, values in zip(sites, hosts, strict=True)
    }
    mine = binning([dict(zip("abcd", own, strict=False))], theirs)
    return {
        GUEST: {"binning_0": mine},
        **{site: {"binning_0": binning_of_host(site)} for site in sites},
    }


def statistics(**values: list[float | None]) -> Model:
    found = [{"value_name": n, "col_names": list("abcd"), "values": v} for n, v in values.items()]
    param = {"self_values": {"results": found}, "host_values": {}, "model_name": "statistic_model"}
    return model("Statistic", param)


def trees(site: Site, importances: list[tuple[str, str, float]], *, name: str) -> Model:
    found = [
        {"sitename": where, "fid": 0, "fullname": column, "importance": value, "main": "split"}
        for where, column, value in importances
    ]
    role = site.role.value.capitalize()
    param = {"feature_importances": found, "model_name": name}
    return model(f"HeteroSecureBoostingTree{role}", param)


# --- filters that each party runs by itself -------------------------------------------------------


def test_by_default_everything_stays(tmp_path: Path) -> None:
    assert run({}, tmp_path) == {GUEST: "abcd", HOST: "abcd"}


@pytest.mark.parametrize(
    ("manually", "expected"),
    [
        ({"filter_out_indexes": [0, 1], "filter_out_names": ["d"]}, "c"),
        ({"left_col_indexes": [2], "left_col_names": ["b"]}, "bc"),
        ({"filter_out_indexes": -1}, "a"),
        ({"filter_out_indexes": [], "left_col_names": None}, "abcd"),
    ],
)
def test_columns_are_chosen_by_hand(tmp_path: Path, manually: Params, expected: str) -> None:
    assert run({"manually_param": manually}, tmp_path) == {GUEST: expected, HOST: expected}


def test_names_may_be_anonymous(tmp_path: Path) -> None:
    hosts = {"use_anonymous": True, "manually_param": {"filter_out_names": ["host_10000_x3"]}}
    assert run({}, tmp_path, own={HOST: hosts}) == {GUEST: "abcd", HOST: "abc"}
    hosts = {
        "use_anonymous": True,
        "select_col_indexes": [],
        "select_names": ["host_10000_x0", "host_10000_x2"],
        "manually_param": {"left_col_names": ["host_10000_x2"]},
    }
    assert run({}, tmp_path, own={HOST: hosts}) == {GUEST: "abcd", HOST: "bcd"}
    hosts["select_names"] = ["b", "host_10000_x0", "host_10000_x2"]  # `b` is no anonymous name
    assert run({}, tmp_path, own={HOST: hosts}) == {GUEST: "abcd", HOST: "bcd"}


def test_only_chosen_columns_are_looked_at(tmp_path: Path) -> None:
    params: Params = {
        "select_col_indexes": [1],
        "select_names": ["d"],
        "manually_param": {"filter_out_indexes": -1},
    }
    assert run(params, tmp_path) == {GUEST: "abc", HOST: "abc"}
    nothing = {**params, "select_col_indexes": [], "select_names": []}
    assert run(nothing, tmp_path) == {GUEST: "abcd", HOST: "abcd"}


def test_columns_with_a_frequent_value_go(tmp_path: Path) -> None:
    nan, rows = float("nan"), ["r", "s", "t", "u"]
    columns = {
        "id": rows,
        "a": [1.0, 1.0, 1.0, 2.0],
        "b": [1, 1, 2, 3],
        "c": [nan, nan, None, 1.0],
        "d": ["x", "y", "z", "z"],
        "e": [0.0, -0.0, -0.0, 1.0],
    }
    table = MemoryTableStore().add(columns)
    params = {"filter_methods": ["percentage_value"], "percentage_value_param": {"upper_pct": 0.5}}
    assert run(params, tmp_path, sites=(HOST,), tables={HOST: table}) == {HOST: "bd"}


def test_statistics_are_compared_one_after_the_other(tmp_path: Path) -> None:
    found = statistics(mean=[1, 2, 3, 4], skewness=[9, 9, 1, None])
    params: Params = {
        "filter_methods": ["statistic_filter"],
        "statistic_param": {
            "metrics": ["mean", "skewness"],
            "take_high": [True, False],
            "threshold": [2, 5],
        },
    }
    models = {site: {"statistics_0": found} for site in BOTH}
    assert run(params, tmp_path, models=models) == {GUEST: "c", HOST: "c"}
    params["statistic_param"]["host_thresholds"] = [[3], [10]]
    assert run(params, tmp_path, models=models) == {GUEST: "c", HOST: "c"}
    params["statistic_param"]["host_thresholds"] = [[1], [10]]
    assert run(params, tmp_path, models=models) == {GUEST: "c", HOST: "abc"}
    params["statistic_param"]["metrics"] = "kurtosis"
    assert "kurtosis" in refused(BadParameter, params, tmp_path, models=models)


OLDER: Params = {
    "filter_methods": ["unique_value", "coefficient_of_variation_value_thres", "outlier_cols"],
    "unique_param": {"eps": 0.5},
    "variance_coe_param": {"value_threshold": 0.3},
    "outlier_param": {"percentile": 0.5, "upper_threshold": 6},
}


@pytest.mark.parametrize("with_model", [False, True])
def test_older_filters_need_no_model(tmp_path: Path, with_model: bool) -> None:
    columns = {
        "id": ["u", "v", "w"],
        "a": [1.0, 1.0, 1.25],  # hardly varies
        "b": [10.0, 11.0, 9.5],  # varies little for its mean
        "c": [1.0, 7.0, 9.0],  # high median
        "d": [1.0, 4.0, None],
    }
    table = MemoryTableStore().add(columns)
    models = {}
    if with_model:
        inputs = Inputs(data={"data": [("i_0", table)]}, model={})
        made = run_component(
            DataStatistics,
            sites=[HOST],
            work_dir=tmp_path,
            params={HOST: {"statistics": "50%"}},
            inputs={HOST: inputs},
        )
        found = outputs_of(made)[HOST].model
        assert found is not None
        models = {HOST: {"statistics_0": found}}
    outputs = results(OLDER, tmp_path, sites=(HOST,), tables={HOST: table}, models=models)[HOST]
    assert outputs.outputs is not None
    assert selected({HOST: outputs}) == {HOST: "d"}
    assert outputs.outputs.summary == {
        "unique_value": {
            "last_col_nums": 4,
            "left_col_nums": 3,
            "left_col_names": ["b", "c", "d"],
        },
        "coefficient_of_variation_value_thres": {
            "last_col_nums": 3,
            "left_col_nums": 2,
            "left_col_names": ["c", "d"],
        },
        "outlier_cols": {"last_col_nums": 2, "left_col_nums": 1, "left_col_names": ["d"]},
        "all": {"last_col_nums": 4, "left_col_nums": 1, "left_col_names": ["d"]},
    }


def test_psi_keeps_low_values_and_one_column_at_least(tmp_path: Path) -> None:
    scores = {"a": 0.3, "b": 0.1, "c": 0.2, "d": 0.05}
    models = {
        s: {"psi_0": model("PSI", {"total_score": scores, "model_name": "psi"})} for s in BOTH
    }
    params: Params = {"filter_methods": ["psi_filter"], "psi_param": {"threshold": 0.15}}
    assert run(params, tmp_path, models=models) == {GUEST: "bd", HOST: "bd"}
    params["psi_param"]["threshold"] = -0.1
    assert run(params, tmp_path, models=models) == {GUEST: "d", HOST: "d"}


def test_horizontal_trees_are_the_same_at_all_parties(tmp_path: Path) -> None:
    found = trees(GUEST, [("guest:9999", "a", 5), ("guest:9999", "c", 1)], name="homo_sbt")
    params: Params = {"filter_methods": ["homo_sbt_filter"], "sbt_param": {"threshold": 0.03}}
    models = {site: {"trees_0": found} for site in BOTH}
    assert run(params, tmp_path, models=models) == {GUEST: "ac", HOST: "ac"}


# --- filters that the guest runs for all ----------------------------------------------------------


def iv_params(**values: Any) -> Params:
    return {"filter_methods": ["iv_filter"], "iv_param": values}


def test_the_guest_filters_all_parties_by_iv(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9], [0.3, 0.05, 0.6, 0.01], [0.8, 0.7, 0.0, 0.04])
    sites = (GUEST, HOST, HOST_2)

    def left(**values: Any) -> tuple[str, ...]:
        found = run(iv_params(**values), tmp_path, sites=sites, models=models)
        return tuple(found[site] for site in sites)

    assert left(threshold=0.2) == ("bcd", "ac", "ab")
    assert left(threshold=0.2, host_thresholds=[0.5, 0.75]) == ("bcd", "c", "a")
    assert left(threshold=0.95) == ("d", "c", "a")  # the best of each party is put back
    assert left(filter_type="top_k", threshold=4) == ("d", "c", "ab")
    assert left(filter_type="top_percentile", threshold=0.5) == ("bd", "ac", "ab")
    assert left(threshold=0.2, select_federated=False) == ("bcd", "abcd", "abcd")
    assert left(threshold=[0.04, 0.2], metrics=["iv", "iv"]) == ("bcd", "ac", "ab")


@pytest.mark.parametrize(("merge", "expected"), [("average", "ab"), ("max", "abc"), ("min", "a")])
def test_ivs_of_classes_are_merged(tmp_path: Path, merge: str, expected: str) -> None:
    classes = [{"a": 1.0, "b": 1.5, "c": 1.2}, {"a": 2.0, "b": 0.6, "c": 0.2}]
    theirs = [dict(zip(hidden(HOST, 0, 1, 2), c.values(), strict=True)) for c in classes]
    models = {GUEST: {"b_0": binning(classes, {HOST: [*theirs]})}, HOST: {}}
    tables = {site: table_of(site, "abc") for site in BOTH}
    params = iv_params(threshold=1.0, mul_class_merge_type=merge)
    found = run(params, tmp_path, models=models, tables=tables)
    assert found == {GUEST: expected, HOST: expected}


def test_older_forms_of_the_iv_filter(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9], [0.3, 0.05, 0.6, 0.01])
    params: Params = {"filter_methods": ["iv_top_k"], "iv_top_k_param": {"k": 3}}
    assert run(params, tmp_path, models=models) == {GUEST: "bd", HOST: "c"}
    params = {
        "filter_methods": "iv_percentile",
        "iv_percentile_param": {"percentile_threshold": 0.6},
    }
    assert run(params, tmp_path, models=models) == {GUEST: "bcd", HOST: "ac"}
    params = {
        "filter_methods": ["iv_value_thres"],
        "iv_value_param": {"value_threshold": 0.4, "local_only": True},
    }
    assert run(params, tmp_path, models=models) == {GUEST: "bd", HOST: "abcd"}


def test_columns_that_were_not_binned_stay(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5], [0.3])
    assert run(iv_params(threshold=0.4), tmp_path, models=models) == {GUEST: "bcd", HOST: "bcd"}
    # None of the host's columns was binned, as with `local_only` in binning
    models = ivs([0.1, 0.5], [])
    assert run(iv_params(threshold=0.4), tmp_path, models=models) == {GUEST: "bcd", HOST: "abcd"}


def test_each_filter_sees_what_the_one_before_has_left(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9], [0.3, 0.05, 0.6, 0.01])
    params = {
        "filter_methods": ["manually", "iv_filter"],
        "manually_param": {"filter_out_names": ["c", "d"]},
        "iv_param": {"filter_type": "top_k", "threshold": 2},
    }
    assert run(params, tmp_path, models=models) == {GUEST: "b", HOST: "a"}


@pytest.mark.parametrize("filter_name", ["hetero_sbt_filter", "hetero_fast_sbt_filter"])
@pytest.mark.parametrize("model_name", ["hetero_sbt", "hetero_fast_sbt_layered", ""])
def test_features_that_vertical_trees_use_stay(
    tmp_path: Path, filter_name: str, model_name: str
) -> None:
    used = [("guest:9999", "b", 7.0), ("host:10000", "host_10000_x2", 2.0), ("guest:9999", "a", 1)]
    models = {
        GUEST: {"trees_0": trees(GUEST, used, name=model_name)},
        HOST: {"trees_0": trees(HOST, [], name=model_name)},
    }
    params: Params = {"filter_methods": [filter_name], "sbt_param": {"threshold": 0.03}}
    assert run(params, tmp_path, models=models) == {GUEST: "ab", HOST: "c"}
    params["sbt_param"] |= {"select_federated": False, "filter_type": "top_k", "threshold": 1}
    assert run(params, tmp_path, models=models) == {GUEST: "b", HOST: "abcd"}


def pearson(site: Site) -> Model:
    """a and b are alike, c is like the host's first column, which is like its last and d."""
    local = np.eye(4)
    local[0, 1] = local[1, 0] = 0.8
    cross = np.zeros((4, 4))
    cross[2, 0] = cross[3, 0] = -0.9
    param = {
        "names": list("abcd"),
        "shapes": [4, 4],
        "local_corr": local.ravel().tolist(),
        "corr": cross.ravel().tolist(),
        "all_names": [{"names": list("abcd")}, {"names": list(hidden(HOST, 0, 1, 2, 3))}],
        "local_vif": [6.0, 5.0, 1.0, 9.0],
        "model_name": "HeteroPearson",
    }
    return model("HeteroPearsonModel", param)


def test_columns_like_better_ones_go(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9], [0.3, 0.05, 0.6, 0.01])
    for site in BOTH:
        models[site]["pearson_0"] = pearson(site)
    params: Params = {
        "filter_methods": ["correlation_filter"],
        "correlation_param": {"threshold": 0.7},
    }
    # d, the best, removes the host's a, which removes c nevertheless; b removes a
    assert run(params, tmp_path, models=models) == {GUEST: "bd", HOST: "bcd"}
    params["correlation_param"]["select_federated"] = False
    assert run(params, tmp_path, models=models) == {GUEST: "bcd", HOST: "abcd"}
    vif = {"filter_methods": ["vif_filter"]}
    assert run(vif, tmp_path, models=models) == {GUEST: "bc", HOST: "bc"}


def test_correlations_are_of_one_host(tmp_path: Path) -> None:
    models = ivs([1.0], [1.0], [1.0])
    models[GUEST]["pearson_0"] = pearson(GUEST)
    params = {"filter_methods": ["correlation_filter"]}
    message = refused(BadParameter, params, tmp_path, models=models, sites=(GUEST, HOST, HOST_2))
    assert "correlation_param.select_federated: works with one host, there are 2" in message


# --- models, outputs ------------------------------------------------------------------------------


def test_the_model_has_fates_fields(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9], [0.3, 0.05, 0.6, 0.01])
    params = iv_params(threshold=0.2) | {"select_col_indexes": [0, 1, 2]}
    outputs = outputs_of(results(params, tmp_path, models=models))
    mine = outputs[GUEST].model
    assert mine is not None
    assert (mine.meta_name, mine.param_name) == ("FeatureSelectionMeta", "FeatureSelectionParam")
    assert mine.meta["filter_metas"] == [
        {
            "metrics": "iv",
            "filter_type": "threshold",
            "take_high": True,
            "threshold": 0.2,
            "select_federated": True,
            "filter_out_names": ["a"],
        }
    ]
    assert mine.meta["cols"] == ["a", "b", "c"]
    assert {name for name in mine.meta if name.endswith("_meta")} == {
        "unique_meta",
        "iv_value_meta",
        "iv_percentile_meta",
        "iv_top_k_meta",
        "variance_coe_meta",
        "outlier_meta",
        "manually_meta",
        "pencentage_value_meta",
    }
    first, second, third = hidden(HOST, 0, 1, 2)
    assert mine.param == {
        "results": [
            {
                "filter_name": "iv_filter",
                "feature_values": {"a": 0.1, "b": 0.5, "c": 0.2},
                "host_feature_values": [{"feature_values": {first: 0.3, second: 0.05, third: 0.6}}],
                "left_cols": {
                    "original_cols": ["a", "b", "c"],
                    "left_cols": {"a": False, "b": True, "c": True},
                },
                "host_left_cols": [
                    {
                        "original_cols": [first, second, third],
                        "left_cols": {first: True, second: False, third: True},
                    }
                ],
            }
        ],
        "final_left_cols": {
            "original_cols": ["a", "b", "c", "d"],
            "left_cols": {"a": False, "b": True, "c": True, "d": True},
        },
        "col_names": ["a", "b", "c"],
        "host_col_names": [{"col_names": [first, second, third], "party_id": "10000"}],
        "header": ["a", "b", "c", "d"],
        "col_name_to_anonym_dict": dict(zip("abcd", hidden(GUEST, 0, 1, 2, 3), strict=True)),
        "model_name": "HeteroFeatureSelection",
    }
    theirs = outputs[HOST].model
    assert theirs is not None
    (result,) = theirs.param["results"]
    assert result["feature_values"] == {}  # a host gets no value
    assert result["left_cols"]["left_cols"] == {"a": True, "b": False, "c": True}
    json.dumps([mine.param, mine.meta, theirs.param, theirs.meta], allow_nan=False)
    assert outputs[HOST].summary == {
        "iv_filter": {"last_col_nums": 3, "left_col_nums": 2, "left_col_names": ["a", "c"]},
        "all": {"last_col_nums": 4, "left_col_nums": 3, "left_col_names": ["a", "c", "d"]},
    }


def test_the_output_has_all_else_as_it_was(tmp_path: Path) -> None:
    rows = pa.table({"id": ["u", "v"], "y": [0, 1], "w": [1.0, 2.0], "b": [1, 2], "a": [3, 4]})
    schema = TableSchema(
        kind=TableKind.INSTANCES,
        id="id",
        label="y",
        weight="w",
        columns=("b", "a"),
        anonymous=("guest_9999_x5", "guest_9999_x2"),
    )
    table = MemoryTableStore().add(rows, schema=schema)
    params = {"manually_param": {"left_col_names": ["a"]}}
    found = results(params, tmp_path, sites=(GUEST,), tables={GUEST: table})
    outputs = outputs_of(found)[GUEST]
    (out,) = outputs.data
    assert out is not None
    assert out.schema == schema.select(["a"])
    assert out.schema.anonymous == ("guest_9999_x2",)
    assert out.read().equals(rows.select(["id", "y", "w", "a"]))
    assert found[GUEST].progress == (1.0,)


def test_a_model_selects_again_without_a_message(tmp_path: Path) -> None:
    params = {"manually_param": {"left_col_names": ["b", "d"]}}
    first = outputs_of(results(params, tmp_path))[HOST].model
    assert first is not None
    again: Params = {"only": [HOST], "models": {HOST: {"selection_0": first}}}
    given = {"filter_methods": ["iv_filter"]}  # the model's columns count, not the parameters
    more = {HOST: table_of(HOST, "dcba5")}
    assert run(given, tmp_path, tables=more, **again) == {HOST: "bd"}
    fewer = {HOST: table_of(HOST, "abc")}
    message = refused(BadData, given, tmp_path, tables=fewer, **again)
    assert "1 columns of the model are missing: d" in message
    broken = model("FeatureSelection", {"header": ["a"]})
    again["models"] = {HOST: {"selection_0": broken}}
    refused(BadData, given, tmp_path, **again)


def test_need_run_false_passes_the_data(tmp_path: Path) -> None:
    found = results({"need_run": False, "filter_methods": ["iv_filter"]}, tmp_path)
    for outputs in outputs_of(found).values():
        assert outputs.passed
        assert outputs.model is None
    assert selected(found) == {GUEST: "abcd", HOST: "abcd"}


# --- what cannot be done --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("iv_filter", "HeteroFeatureBinning"),
        ("iv_top_k", "HeteroFeatureBinning"),
        ("statistic_filter", "DataStatistics"),
        ("psi_filter", "PSI"),
        ("vif_filter", "HeteroPearson"),
        ("correlation_filter", "HeteroPearson"),
        ("hetero_sbt_filter", "HeteroSecureBoost"),
        ("homo_sbt_filter", "HomoSecureBoost"),
    ],
)
def test_a_missing_model_is_named(tmp_path: Path, name: str, maker: str) -> None:
    message = refused(BadParameter, {"filter_methods": [name]}, tmp_path)
    assert f"filter_methods: {name} compares what models of other components say" in message
    other = {site: {"other_0": model("Other", {})} for site in BOTH}
    message = refused(BadParameter, {"filter_methods": [name]}, tmp_path, models=other)
    assert f"{name} needs the model of {maker}" in message


def test_two_models_of_a_kind_are_refused(tmp_path: Path) -> None:
    one = statistics(mean=[1, 2, 3, 4])
    models = {HOST: {"statistics_0": one, "statistics_1": one}}
    message = refused(BadParameter, {}, tmp_path, sites=(HOST,), models=models)
    assert "two models of DataStatistics" in message


def test_a_model_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for param in ({}, {"total_score": [1]}, {"total_score": {"a": "x"}}):
        models = {HOST: {"psi_0": model("PSI", param)}}
        params = {"filter_methods": ["psi_filter"]}
        message = refused(BadData, params, tmp_path, sites=(HOST,), models=models)
        assert "model of PSI" in message


@pytest.mark.parametrize(
    ("params", "kept", "path"),
    [
        ({"select_names": ["e"], "select_col_indexes": None}, "abcd", "select_names"),
        ({"select_col_indexes": [4]}, "abcd", "select_col_indexes"),
        ({"manually_param": {"filter_out_names": ["e", "a"]}}, "bcd", "filter_out_names"),
        ({"manually_param": {"left_col_indexes": [1, 7]}}, "b", "left_col_indexes"),
    ],
)
def test_columns_that_do_not_exist_are_left_out_with_a_warning(
    tmp_path: Path, params: Params, kept: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert run(params, tmp_path) == {GUEST: kept, HOST: kept}
    assert "UnknownColumn" in caplog.text
    assert path in caplog.text


def test_a_negative_index_is_refused(tmp_path: Path) -> None:
    refused(BadParameter, {"select_col_indexes": [-2]}, tmp_path)


def test_thresholds_fit_the_hosts(tmp_path: Path) -> None:
    params = iv_params(host_thresholds=[0.1, 0.2])
    message = refused(BadParameter, params, tmp_path, models=ivs([1.0], [1.0]))
    assert "iv_param.host_thresholds: has 2 thresholds for 1 hosts" in message


def test_parties_agree_on_the_filters_of_all(tmp_path: Path) -> None:
    own = {HOST: {"filter_methods": ["iv_top_k"]}}
    params = iv_params(threshold=0.1)
    message = refused(BadParameter, params, tmp_path, models=ivs([1.0], [1.0]), own=own)
    assert "other federated filters" in message


@pytest.mark.parametrize("names", [None, {}, [1], ["a", "a"], [""], ["a" * 501], "host_10000_x0"])
def test_what_are_no_names_is_refused(tmp_path: Path, names: object) -> None:
    fed = LocalFederation(BOTH, receive_timeout_s=60.0)
    fed.at(HOST).send("host_select_cols", names, to=GUEST, tag="0")
    found = results(iv_params(), tmp_path, models=ivs([1.0], [1.0]), federation=fed, only=[GUEST])
    assert isinstance(found[GUEST].error, CodecError)


@pytest.mark.parametrize("left", [[], ["host_10000_x9"], ["a"], None])
def test_a_host_refuses_columns_that_it_did_not_send(tmp_path: Path, left: object) -> None:
    fed = LocalFederation(BOTH, receive_timeout_s=60.0)
    guest = fed.at(GUEST)
    step = {"filter": "iv_filter", "metric": "iv", "type": "threshold"}
    guest.send("filters", [step], to=HOST)
    guest.send("result_left_cols", left, to=HOST, tag="0")
    found = results(iv_params(), tmp_path, models=ivs([1.0], [1.0]), federation=fed, only=[HOST])
    assert isinstance(found[HOST].error, CodecError)


def test_columns_with_one_anonymous_name_are_refused(tmp_path: Path) -> None:
    table = table_of(HOST, "ab")
    schema = replace(table.schema, anonymous=("host_10000_x0", "host_10000_x0"))
    tables = {HOST: MemoryTableStore().add(table.read(), schema=schema)}
    models = ivs([1.0], [1.0])
    assert "one anonymous name" in refused(
        BadData, iv_params(), tmp_path, models=models, tables=tables
    )


def test_a_guest_without_hosts_filters_alone(tmp_path: Path) -> None:
    models = ivs([0.1, 0.5, 0.2, 0.9])
    found = run(iv_params(threshold=0.3), tmp_path, models=models, sites=(GUEST,))
    assert found == {GUEST: "bd"}


def test_values_of_the_guest_need_a_guest(tmp_path: Path) -> None:
    assert "exactly one guest" in refused(BadParameter, iv_params(), tmp_path, sites=(HOST,))


# --- after the real components --------------------------------------------------------------------


def real(module: type[Any], tables: Mapping[Site, Table], path: Path, **params: Any) -> Any:
    inputs = {s: Inputs(data={"data": [("i_0", t)]}, model={}) for s, t in tables.items()}
    given = dict.fromkeys(tables, params)
    made = run_component(module, sites=list(tables), work_dir=path, params=given, inputs=inputs)
    return {site: outputs.model for site, outputs in outputs_of(made).items()}


def test_the_cascade_on_the_example(tmp_path: Path) -> None:
    tables: dict[Site, Table] = {}
    for site in BOTH:
        rows = pyarrow.csv.read_csv(DATA / f"breast_hetero_{site.role.value}.csv")
        tables[site] = MemoryTableStore().add(rows)
    bins = real(HeteroFeatureBinning, tables, tmp_path, encrypt_param={"key_length": 1024})
    stats = real(DataStatistics, tables, tmp_path, statistics=["95%", "stddev"])
    alike = real(HeteroPearson, tables, tmp_path, column_indexes=-1, fixpoint_bit_length=1024)
    models = {s: {"b_0": bins[s], "s_0": stats[s], "p_0": alike[s]} for s in BOTH}

    def left(**params: Any) -> dict[Site, list[str]]:
        found = results(params, tmp_path, models=models, tables=tables)
        return {s: kept_by(outputs) for s, outputs in outputs_of(found).items()}

    # of all columns the guest's x2, x3, x0, x7 and the host's x7 have the 5 highest IVs
    top = left(filter_methods=["iv_filter"], iv_param={"filter_type": "top_k", "threshold": 5})
    assert top == {GUEST: ["x0", "x2", "x3", "x7"], HOST: ["x7"]}
    low = left(filter_methods=["vif_filter"])
    assert low[GUEST] == ["x1", "x4", "x8"]
    best = left(
        filter_methods=["iv_filter", "correlation_filter"],
        iv_param={"threshold": 4.5},
        correlation_param={"threshold": 0.9},
    )
    # the guest's x2 is the best: x0, x3 and the host's x0, x2, x3 are like it, as is the host's x7
    # like the guest's
    assert best == {GUEST: ["x2", "x7"], HOST: ["x13"]}
    quantiles = left(
        filter_methods=["outlier_cols", "coefficient_of_variation_value_thres", "unique_value"],
        outlier_param={"percentile": 0.95, "upper_threshold": 2.0},
        variance_coe_param={"value_threshold": 0.3},
    )
    for site, table in tables.items():
        columns = {n: np.sort(table.read((n,)).column(0).to_numpy()) for n in table.schema.columns}
        expected = [n for n, v in columns.items() if v[540] <= 2.0]  # rank ceil(0.95 * 569)
        assert quantiles[site] == expected
