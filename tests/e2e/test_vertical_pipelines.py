"""Longer jobs over the whole range of vertical components, between two servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.site import Site
from tests.e2e.commands import fedflow
from tests.e2e.jobs import Json, upload_data
from tests.e2e.pipelines import Step, pipeline, reader, transform
from tests.e2e.servers import ARBITER, GUEST, HOST, HOST_ID, ROOT, Pair, two_parties

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SCORECARD = ROOT / "examples" / "scorecard"
KEY = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
START: dict[str, Step] = {
    "reader_0": reader(),
    "data_transform_0": transform(),
    "intersection_0": Step(
        module="Intersection",
        data={"data": ["data_transform_0.data"]},
        cache=True,
        params={"intersect_method": "rsa", "rsa_params": {"key_length": 1024}},
    ),
}
LEARNS: Json = {
    "optimizer": "rmsprop",
    "alpha": 0.01,
    "max_iter": 5,
    "batch_size": -1,
    "learning_rate": 0.15,
    "init_param": {"init_method": "zeros"},
    "early_stop": "weight_diff",
    **KEY,
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_parties(tmp_path_factory.mktemp("vertical")) as pair:
        upload_data(pair)
        yield pair
        pair.wait_idle()


def run(pair: Pair, steps: dict[str, Step], *, arbiter: bool = False) -> str:
    job_id = pair.guest.client.submit(*pipeline(steps, arbiter=arbiter)).job_id
    ends = pair.ends(job_id, within_s=240)
    view = pair.guest.client.job(job_id)
    assert set(ends.values()) == {"success"}, (ends, view, view.reason)
    return job_id


def summary(pair: Pair, job_id: str, component: str, site: Site = GUEST) -> Any:
    return pair.of(site).client.summary(job_id, component, site=site)


def test_features_are_engineered_selected_and_learnt_from(pair: Pair) -> None:
    steps = {
        **START,
        "feature_imputation_0": Step(
            module="FeatureImputation",
            data={"data": ["intersection_0.data"]},
            params={"missing_fill_method": "mean"},
        ),
        "feature_scale_0": Step(
            module="FeatureScale",
            data={"data": ["feature_imputation_0.data"]},
            params={"method": "min_max_scale"},
        ),
        "statistic_0": Step(module="DataStatistics", data={"data": ["feature_scale_0.data"]}),
        "binning_0": Step(
            module="HeteroFeatureBinning",
            data={"data": ["feature_scale_0.data"]},
            params={"bin_num": 5, "transform_param": {"transform_type": None}, **KEY},
        ),
        "pearson_0": Step(
            module="HeteroPearson",
            data={"data": ["feature_scale_0.data"]},
            params={"column_indexes": -1, "fixpoint_bit_length": 1024},
        ),
        "selection_0": Step(
            module="HeteroFeatureSelection",
            data={"data": ["feature_scale_0.data"]},
            isometric=["binning_0.model", "statistic_0.model", "pearson_0.model"],
            params={
                "filter_methods": ["manually", "iv_filter", "statistic_filter", "vif_filter"],
                "iv_param": {"metrics": "iv", "filter_type": "threshold", "threshold": 0.1},
                "statistic_param": {
                    "metrics": "coefficient_of_variance",
                    "filter_type": "threshold",
                    "threshold": 0.1,
                },
                "vif_param": {"threshold": 1000.0},
            },
        ),
        "hetero_lr_0": Step(
            module="HeteroLR", data={"train_data": ["selection_0.data"]}, params=LEARNS
        ),
        "evaluation_0": Step(module="Evaluation", data={"data": ["hetero_lr_0.data"]}),
        "scorecard_0": Step(module="Scorecard", data={"data": ["hetero_lr_0.data"]}),
        "local_baseline_0": Step(module="LocalBaseline", data={"train_data": ["selection_0.data"]}),
    }
    job_id = run(pair, steps, arbiter=True)
    assert summary(pair, job_id, "intersection_0")["intersect_num"] == 569
    kept = summary(pair, job_id, "selection_0")["all"]["left_col_names"]
    assert 0 < len(kept) <= 10
    measured = summary(pair, job_id, "evaluation_0")["hetero_lr_0"]["train"]
    assert measured["auc"] > 0.95
    [scores] = pair.guest.client.outputs(job_id, component="scorecard_0", site=GUEST)
    shown = pair.guest.client.tables.preview(scores.table_namespace, scores.table_name)
    assert shown.header[-1] == "credit_score"
    own = summary(pair, job_id, "selection_0", HOST)["all"]["left_col_names"]
    assert 0 < len(own) <= 20


def test_rows_are_sampled_split_weighted_and_joined_again(pair: Pair) -> None:
    steps = {
        **START,
        "sample_0": Step(
            module="FederatedSample",
            data={"data": ["intersection_0.data"]},
            params={
                "mode": "stratified",
                "method": "downsample",
                "fractions": [[0, 0.5], [1, 0.5]],
            },
        ),
        "split_0": Step(
            module="HeteroDataSplit",
            data={"data": ["intersection_0.data"]},
            out=["train_data", "validate_data", "test_data"],
            params={"test_size": 0.3, "validate_size": 0.2, "stratified": True},
        ),
        "weight_0": Step(
            module="SampleWeight",
            data={"data": ["split_0.train_data"]},
            guest={"class_weight": "balanced"},
            host={"need_run": False},
        ),
        "union_0": Step(module="Union", data={"data": ["split_0.train_data", "split_0.test_data"]}),
        "hetero_sshe_lr_0": Step(
            module="HeteroSSHELR",
            data={"train_data": ["split_0.train_data"], "validate_data": ["split_0.validate_data"]},
            params={
                "max_iter": 2,
                "learning_rate": 0.15,
                "init_param": {"init_method": "zeros"},
                **KEY,
            },
        ),
        "hetero_sshe_lr_1": Step(
            module="HeteroSSHELR",
            data={"test_data": ["split_0.test_data"]},
            model=["hetero_sshe_lr_0.model"],
        ),
        "hetero_linr_0": Step(
            module="HeteroLinR",
            data={"train_data": ["weight_0.data"]},
            params={"max_iter": 2, "learning_rate": 0.05, "early_stop": "weight_diff", **KEY},
        ),
        "evaluation_0": Step(
            module="Evaluation",
            data={"data": ["hetero_sshe_lr_0.data", "hetero_sshe_lr_1.data"]},
        ),
        "evaluation_1": Step(
            module="Evaluation",
            data={"data": ["hetero_linr_0.data"]},
            params={"eval_type": "regression"},
        ),
    }
    job_id = run(pair, steps, arbiter=True)
    counts = summary(pair, job_id, "split_0")["data_split_count_info"]
    assert sum(counts[part] for part in ("train", "validate", "test")) == 569
    assert summary(pair, job_id, "split_0", HOST)["data_split_count_info"] == counts
    measured = summary(pair, job_id, "evaluation_0")
    assert set(measured["hetero_sshe_lr_0"]) == {"train", "validate"}
    assert set(measured["hetero_sshe_lr_1"]) == {"predict"}
    assert "r2_score" in summary(pair, job_id, "evaluation_1")["hetero_linr_0"]["train"]


def test_rows_are_put_into_clusters_and_these_measured(pair: Pair, tmp_path: Path) -> None:
    measures = {"eval_type": "clustering", "run_clustering_arbiter_metric": True}
    both = ("data_0", "data_1")
    steps = {
        **START,
        "hetero_kmeans_0": Step(
            module="HeteroKmeans",
            data={"train_data": ["intersection_0.data"]},
            out=both,
            params={"k": 3, "max_iter": 10, "random_stat": 1},
        ),
        "hetero_kmeans_1": Step(
            module="heterokmeans",
            data={"test_data": ["intersection_0.data"]},
            model=["hetero_kmeans_0.model"],
            out=both,
        ),
        "evaluation_0": Step(
            module="Evaluation",
            data={"data": ["hetero_kmeans_0.data_0", "hetero_kmeans_1.data_0"]},
            params=measures,
        ),
    }
    job_id = run(pair, steps, arbiter=True)
    found = {site: summary(pair, job_id, "evaluation_0", site) for site in (GUEST, ARBITER)}
    trained, predicted = found[GUEST]["hetero_kmeans_0"], found[GUEST]["hetero_kmeans_1"]
    assert trained["train"] == predicted["predict"]
    assert 0.3 < trained["train"]["adjusted_rand_score"] < 0.8  # scikit-learn: 0.42 to 0.69
    index = found[ARBITER]["hetero_kmeans_0"]["train"]["davies_bouldin_index"]
    assert 1.4 < index < 2.0  # scikit-learn: 1.53 to 1.87
    metrics = pair.of(ARBITER).client.metrics(job_id, "hetero_kmeans_0", site=ARBITER)
    [dbi] = [metric for metric in metrics if metric.name == "DBI"]
    assert round(dbi.points[-1][1], 6) == index
    files = pair.of(ARBITER).client.download_output(
        job_id, "hetero_kmeans_0", tmp_path, site=ARBITER
    )
    first, second = sorted(path for path in files if path.suffix == ".csv")
    assert len(first.read_text().splitlines()) == 4
    assert len(second.read_text().splitlines()) == 570


def test_a_model_is_cross_validated_and_its_features_chosen_stepwise(pair: Pair) -> None:
    learns = {**LEARNS, "max_iter": 2}
    steps = {
        **START,
        "binning_0": Step(
            module="HeteroFeatureBinning",
            data={"data": ["intersection_0.data"]},
            params={"bin_num": 4, **KEY},
        ),
        "one_hot_0": Step(
            module="OneHotEncoder",
            data={"data": ["binning_0.data"]},
            params={"transform_col_indexes": [0, 1]},
        ),
        "selection_0": Step(
            module="HeteroFeatureSelection",
            data={"data": ["intersection_0.data"]},
            params={
                "filter_methods": ["manually"],
                "manually_param": {"left_col_indexes": [0, 1]},
            },
        ),
        "hetero_lr_0": Step(
            module="HeteroLR",
            data={"train_data": ["one_hot_0.data"]},
            params={**learns, "cv_param": {"need_cv": True, "n_splits": 2, "shuffle": False}},
        ),
        "hetero_lr_1": Step(
            module="HeteroLR",
            data={"train_data": ["selection_0.data"]},
            params={
                **learns,
                "early_stop": "diff",
                "stepwise_param": {
                    "need_stepwise": True,
                    "direction": "backward",
                    "max_step": 1,
                    "nvmin": 2,
                },
            },
        ),
    }
    job_id = run(pair, steps, arbiter=True)
    folds = summary(pair, job_id, "hetero_lr_0")
    assert {"fold_0", "fold_1", "fold_num"} <= set(folds)
    assert "step_0" in summary(pair, job_id, "hetero_lr_1")


def test_a_host_transforms_with_woe_that_the_guest_gave_it(pair: Pair, tmp_path: Path) -> None:
    binning = Step(
        module="HeteroFeatureBinning",
        data={"data": ["intersection_0.data"]},
        params={"bin_num": 5, "bin_indexes": [0, 1], **KEY},
    )
    trained = pair.guest.client.submit(*pipeline({**START, "binning_0": binning}))
    assert set(pair.ends(trained.job_id).values()) == {"success"}
    of = {
        site: (
            *("-m", trained.model_id, "-v", trained.model_version, "-c", "binning_0"),
            *("-r", site.role.value, "-p", site.party_id, "--json"),
        )
        for site in (GUEST, HOST)
    }
    file = tmp_path / "woe.json"
    words = ("model", "woe-extract", *of[GUEST], "-o", str(file), "--host", HOST_ID)
    assert json.loads(fedflow(pair.guest, *words))["columns"] == 2
    given = json.loads(file.read_text())
    columns = {name: found["woeArray"] for name, found in given.items()}
    assert {len(array) for array in columns.values()} == {5}
    words = ("model", "woe-merge", *of[HOST], "-i", str(file))
    assert json.loads(fedflow(pair.host, *words))["columns"] == 2
    loader = {
        "model_id": trained.model_id,
        "model_version": trained.model_version,
        "component_name": "binning_0",
    }
    steps = {
        **START,
        "model_loader_0": Step(module="ModelLoader", out=(), params=loader),
        "binning_0": replace(
            binning,
            model=["model_loader_0.model"],
            host={"transform_param": {"transform_type": "woe"}},
        ),
    }
    job_id = run(pair, steps)
    weights = {weight for array in columns.values() for weight in array}
    for site, expected in ((HOST, weights), (GUEST, {0.0, 1.0, 2.0, 3.0, 4.0})):
        [output] = pair.of(site).client.outputs(job_id, component="binning_0", site=site)
        tables = pair.of(site).client.tables
        shown = tables.preview(output.table_namespace, output.table_name, limit=100)
        first = shown.header.index("x0")
        values = {float(row[first + i]) for row in shown.rows for i in (0, 1)}
        assert len(values) > 2
        assert values <= expected


def test_the_shipped_scorecard_job_runs(pair: Pair) -> None:
    dsl = json.loads((SCORECARD / "dsl.json").read_text())
    conf = json.loads((SCORECARD / "conf.json").read_text())
    for parameters in conf["component_parameters"]["common"].values():
        if "encrypt_param" in parameters:
            parameters["encrypt_param"]["key_length"] = 1024
    job_id = pair.guest.client.submit(dsl, conf).job_id
    ends = pair.ends(job_id, within_s=120)
    assert set(ends.values()) == {"success"}, (ends, pair.guest.client.job(job_id).reason)
    measured = summary(pair, job_id, "evaluation_0")["hetero_lr_0"]
    assert measured["train"]["auc"] > 0.95
    assert measured["validate"]["auc"] > 0.95


def test_wrong_parameters_of_several_components_are_refused_together(pair: Pair) -> None:
    steps = {
        **START,
        "binning_0": Step(
            module="HeteroFeatureBinning",
            data={"data": ["intersection_0.data"]},
            params={"bin_num": 0},
        ),
        "hetero_lr_0": Step(
            module="HeteroLR",
            data={"train_data": ["binning_0.data"]},
            params=LEARNS,
            host={"max_iter": -1},
        ),
    }
    dsl, conf = pipeline(steps)
    answer = pair.guest.post("/v1/job/submit", {"job_dsl": dsl, "job_runtime_conf": conf})
    assert answer["retcode"] != 0
    for part in ("binning_0", "bin_num", "hetero_lr_0", "max_iter", "exactly one arbiter"):
        assert part in str(answer), answer
    assert pair.guest.client.jobs(1).jobs[0].job_id != answer.get("jobId")
