"""Every vertical component, driven by the unmodified `pipeline` SDK of fate-client 1.11.3."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.conftest import PATIENCE_S, SCORES, Deployment
from tests.clients.vertical_pipelines import (
    BINARY,
    CLUSTERS,
    FEATURES,
    OTHERS,
    ROWS,
    TREES,
    small_tables,
)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def small(deployment: Deployment) -> Deployment:
    """Give servers on which each party has its small table."""
    deployment.upload_texts("small", small_tables())
    return deployment


def test_features_are_made_chosen_and_coded_for_a_model_that_is_deployed(
    deployment: Deployment,
) -> None:
    seen = deployment.guest.python(FEATURES, timeout_s=PATIENCE_S)
    found, tables, models = seen["found"], seen["tables"], seen["models"]

    assert tables["column_expand_0"][0]["columns"][-1] == "extra"
    assert found["federated_sample_0"]["original_count"] == {"0": 212, "1": 357}
    binned = dict(found["hetero_feature_binning_0"]["0"]["iv"])
    assert len(binned) == 11 + 20
    assert {"x0", "extra", "host_10000_x0"} <= set(binned)
    statistics = found["statistics_0"]
    assert set(statistics) == {f"x{i}" for i in range(10)} | {"extra"}
    assert statistics["x0"]["min"] == 0.0
    assert statistics["x0"]["max"] == 1.0
    assert {"95%", "stddev"} <= set(statistics["x0"])
    assert found["hetero_pearson_0"]["num_remote_features"] == 4
    assert found["hetero_pearson_0"]["corr"][0][0] == pytest.approx(0.97, abs=0.03)
    assert set(found["psi_0"]["psi_scores"].values()) == {0.0}

    chosen = found["hetero_feature_selection_0"]
    assert list(chosen) == [
        "manually", "unique_value", "iv_filter", "statistic_filter", "psi_filter", "all",
    ]  # fmt: skip
    assert "x1" not in chosen["manually"]["left_col_names"]
    assert "extra" not in chosen["unique_value"]["left_col_names"]
    assert 0 < chosen["all"]["left_col_nums"] < 9
    apart = found["hetero_feature_selection_1"]["correlation_filter"]["left_col_names"]
    assert len(set(apart) & {"x0", "x2"}) <= 1
    coded = tables["one_hot_0"][0]["columns"]
    assert len(coded) == 2 + found["one_hot_0"]["transferred_dimension"]

    learner = found["hetero_lr_0"]
    assert set(learner["coef"]) == set(coded[2:])
    assert set(learner["validation_metrics"]) == {"train", "validate"}
    assert set(found["evaluation_0"]["hetero_lr_0"]) == {"train", "validate"}
    assert tables["hetero_lr_0"][0]["columns"][1:] == SCORES
    assert tables["scorecard_0"][0]["columns"][-1] == "credit_score"
    assert len(deployment.losses(seen["job"], "hetero_lr_0", role="arbiter")) == 2
    assert {"weight", "intercept", "lossHistory", "bestIteration"} <= set(models["hetero_lr_0"])
    assert all(models.values())

    assert seen["predicted"] == [{"columns": ["id", *SCORES], "rows": 569}]
    assert seen["again"]["hetero_lr_0"]["predict"]["auc"] > 0.95


def test_a_two_class_table_is_split_weighted_relabelled_and_learnt_in_every_way(
    small: Deployment,
) -> None:
    seen = small.guest.python(BINARY, timeout_s=PATIENCE_S)
    found, tables = seen["found"], seen["tables"]

    counts = found["hetero_data_split_0"]["data_split_count_info"]
    assert counts == {"train": 72, "validate": 24, "test": 24, "original": ROWS}
    assert sorted(table["rows"] for table in tables["hetero_data_split_0"]) == [24, 24, 72]
    assert found["union_0"]["Total"] == tables["union_0"][0]["rows"] == 96

    warm, direct = found["hetero_lr_1"]["coef"], found["hetero_lr_2"]["coef"]
    assert warm == pytest.approx(direct, abs=1e-5)
    assert seen["weights"] == pytest.approx(warm, abs=1e-9)
    assert found["hetero_sshe_lr_0"]["coef"] == pytest.approx(direct, abs=1e-4)
    assert found["hetero_lr_4"]["coef"] != found["hetero_lr_0"]["coef"]
    assert tables["hetero_lr_3"] == [{"columns": ["id", *SCORES], "rows": 24}]
    assert small.losses(seen["job"], "hetero_sshe_lr_0", role="guest")

    folds = found["hetero_lr_5"]
    assert folds["fold_num"] == 2
    assert set(folds["fold_0"]["coef"]) == {"a", "c"}
    assert tables["hetero_lr_5"][0]["rows"] == 2 * ROWS
    steps = found["hetero_lr_6"]
    assert steps["step_0"]["direction"] == "backward"
    assert steps["step_0"]["number_in"] == len(steps["step_0"]["all_features"]) + 1 == 3

    assert found["local_baseline_0"]["is_converged"]
    assert tables["local_baseline_1"][0]["rows"] == 24
    assert found["label_transform_0"]["label_encoder"] == {"0": 5, "1": 7}
    assert tables["label_transform_1"] == [{"columns": ["id", *SCORES], "rows": 72}]
    assert 0 < found["positive_unlabeled_0"]["count of converted unlabeled"] <= 5
    assert set(found["evaluation_0"]) == {
        "hetero_lr_0", "hetero_lr_3", "hetero_sshe_lr_0", "local_baseline_0",
    }  # fmt: skip


def test_classes_numbers_and_counts_are_learnt(small: Deployment) -> None:
    seen = small.guest.python(OTHERS, timeout_s=PATIENCE_S)
    found, tables = seen["found"], seen["tables"]

    for name in ("hetero_lr_0", "hetero_sshe_lr_0"):
        assert set(found[name]) == {"0", "1", "2"}
        assert tables[name] == [{"columns": ["id", *SCORES], "rows": ROWS}]
    assert set(found["evaluation_0"]["hetero_lr_0"]["train"]) >= {"accuracy", "precision"}

    linear, shared = found["hetero_linr_0"], found["hetero_sshe_linr_0"]
    assert linear["coef"] == pytest.approx(shared["coef"], abs=1e-4)
    assert set(linear["validation_metrics"]) == {"train", "validate"}
    assert "exposure" in linear["coef"]
    assert "exposure" not in found["hetero_poisson_0"]["coef"]
    assert seen["poisson"]["iters"] == 2
    assert set(found["evaluation_1"]) == {
        "hetero_linr_0", "hetero_sshe_linr_0", "hetero_poisson_0",
    }  # fmt: skip

    assert sorted(table["rows"] for table in tables["homo_data_split_0"]) == [36, 84]
    weighted = tables["sample_weight_0"][0]["columns"]
    assert "weight" in weighted
    assert "exposure" not in weighted
    sums = seen["sums"]
    guest, host = (text.splitlines() for text in small_tables())
    for name, theirs in (("b", "h0"), ("v", "h1")):
        columns = guest[0].split(",").index(name), host[0].split(",").index(theirs)
        own, other = (
            {row.split(",")[0]: float(row.split(",")[column]) for row in text[1:]}
            for text, column in zip((guest, host), columns, strict=True)
        )
        added = dict(zip(map(str, sums["id"]), map(float, sums[name]), strict=True))
        assert added == pytest.approx({i: value + other[i] for i, value in own.items()})

    assert found["retrieval_0"]["coverage"] == 1.0
    assert tables["retrieval_0"] == [{"columns": ["id", "h0"], "rows": ROWS}]


def test_trees_of_both_strategies_are_grown_deployed_and_predict(deployment: Deployment) -> None:
    seen = deployment.guest.python(TREES, timeout_s=PATIENCE_S)
    found = seen["found"]
    std, layered, fast = names = list(seen["scores"])

    for name in names:
        assert seen["tables"][name] == [{"columns": ["id", *SCORES], "rows": 569}]
        assert len(found[name]["loss_history"]) == 3
        assert found[name]["loss_history"] == sorted(found[name]["loss_history"], reverse=True)
        assert found[name]["feature_importance"]
        measured = found[name]["validation_metrics"]["train"]
        assert set(measured) == {"auc", "ks"}
        assert measured["auc"][-1] > 0.97
        assert found["evaluation_0"][name]["train"]["auc"] == pytest.approx(measured["auc"][-1])
        assert len(deployment.losses(seen["job"], name, role="guest")) == 3
        assert {"treeNum", "trees", "losses", "featureImportances"} <= set(seen["trees"][name])
    assert found[std]["validation_metrics"]["train"]["auc"][-1] > 0.98
    assert seen["scores"][layered] == seen["scores"][fast]
    assert seen["scores"][std] != seen["scores"][layered]
    for name in (std, layered):
        predicted = seen["predicted"][name]
        assert predicted["rows"] == seen["tables"][name]
        (measured,) = (each for each in predicted["measured"][name].values())
        assert measured["auc"] == pytest.approx(found["evaluation_0"][name]["train"]["auc"])


def test_rows_are_put_into_clusters(small: Deployment) -> None:
    seen = small.guest.python(CLUSTERS, timeout_s=PATIENCE_S)
    assert seen["found"]["evaluation_0"]
    for name in ("hetero_kmeans_0", "hetero_kmeans_1"):
        assert [table["rows"] for table in seen["tables"][name]] == [ROWS]
    assert seen["model"]["countOfClusters"] == 3


pytestmark = pytest.mark.timeout(600)
