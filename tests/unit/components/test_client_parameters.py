"""What the clients of FATE 1.x send as parameters of a component is accepted.

`data/sdk_parameters.json` has every parameter of the SDK's components with the SDK's own default
(but for Intersection's method, whose default is not offered, and its `random_bit`, which FATE
refuses beside that in `rsa_params`; and HeteroPearson's `column_indexes`, whose default FATE
refuses as well).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fedflow.components.boosting.params import HeteroSecureBoostParams
from fedflow.components.intersection.params import IntersectionParams
from fedflow.components.linear.params import HeteroLRParams
from fedflow.components.registry import ComponentRegistry, load_registry
from fedflow.sdk import check_params

SENT: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "sdk_parameters.json").read_text()
)
REQUIRED = {"job_id", "component_name", "column_indexes"}  #: parameters that cannot be left out
MIN_TEST_LEARNER = {
    "penalty": "L2",
    "tol": 0.0001,
    "alpha": 0.01,
    "optimizer": "rmsprop",
    "batch_size": -1,
    "learning_rate": 0.15,
    "init_param": {"init_method": "zeros", "fit_intercept": True},
    "max_iter": 30,
    "early_stop": "diff",
    "encrypt_param": {"key_length": 1024},
    "cv_param": {"n_splits": 5, "shuffle": False, "random_seed": 103, "need_cv": False},
    "validation_freqs": 3,
}  #: what `flow test min` sends for HeteroLR
MIN_TEST_TREES = {
    "task_type": "classification",
    "objective_param": {"objective": "cross_entropy"},
    "num_trees": 3,
    "validation_freqs": 1,
    "encrypt_param": {"method": "paillier"},
    "tree_param": {"max_depth": 3},
}  #: and for HeteroSecureBoost


@pytest.fixture(scope="module")
def registry() -> ComponentRegistry:
    return load_registry(found=[])


@pytest.mark.parametrize("module", sorted(SENT))
def test_every_parameter_of_the_sdk_is_known_with_its_default(
    module: str, registry: ComponentRegistry
) -> None:
    spec = registry.find(module)
    check_params(spec.params, SENT[module], path=module)
    for name, value in SENT[module].items():  # alone too: the SDK sends what a script names
        if name not in REQUIRED:
            rest = {k: v for k, v in SENT[module].items() if k in REQUIRED}
            check_params(spec.params, {**rest, name: value}, path=module)


def test_the_min_test_asks_for_nothing_that_is_missing() -> None:
    params = check_params(HeteroLRParams, MIN_TEST_LEARNER, path="hetero_lr_0")
    assert params.callbacks.callbacks == ["PerformanceEvaluate"]
    assert params.callbacks.validation_freqs == 3
    assert params.callbacks.measures == ["auc", "ks"]
    trees = check_params(HeteroSecureBoostParams, MIN_TEST_TREES, path="hetero_secureboost_0")
    assert trees.callbacks.validation_freqs == 1
    assert not list(trees.doubts())


def test_the_sdks_defaults_ask_for_nothing_that_is_missing() -> None:
    rsa = check_params(
        IntersectionParams, {**SENT["Intersection"], "intersect_method": "rsa"}, path="$"
    )
    assert rsa.method == "rsa"


@pytest.mark.parametrize("module", sorted(SENT))
def test_the_sdks_defaults_are_no_doubt(module: str, registry: ComponentRegistry) -> None:
    params = check_params(registry.find(module).params, SENT[module], path=module)
    assert {one.code for one in params.doubts()} <= {"ShortKey"}  # FATE's keys have 1024 bits


def test_every_module_names_its_parameters_as_fate_does(registry: ComponentRegistry) -> None:
    names = {
        "Reader": "ReaderParam",
        "SecureAddExample": "SecureAddExampleParam",
        "DataTransform": "DataTransformParam",
        "DataIO": "DataIOParam",
        "Intersection": "IntersectParam",
        "HeteroLR": "HeteroLogisticParam",
        "HeteroLinR": "LinearParam",
        "HeteroPoisson": "PoissonParam",
        "HomoLR": "HomoLogisticParam",
        "DataStatistics": "StatisticsParam",
        "HeteroPearson": "PearsonParam",
        "HeteroFeatureSelection": "FeatureSelectionParam",
        "HeteroFeatureBinning": "HeteroFeatureBinningParam",
        "OneHotEncoder": "OneHotEncoderParam",
        "PSI": "PSIParam",
        "HeteroSSHELR": "HeteroSSHELRParam",
        "HeteroSSHELinR": "HeteroSSHELinRParam",
        "FeatureScale": "ScaleParam",
        "FeatureImputation": "FeatureImputationParam",
        "LabelTransform": "LabelTransformParam",
        "Union": "UnionParam",
        "SampleWeight": "SampleWeightParam",
        "FederatedSample": "SampleParam",
        "HeteroDataSplit": "DataSplitParam",
        "HomoFeatureBinning": "HomoFeatureBinningParam",
        "HomoOneHotEncoder": "HomoOneHotParam",
        "HomoNN": "HomoNNParam",
        "FeldmanVerifiableSum": "FeldmanVerifiableSumParam",
        "HomoDataSplit": "DataSplitParam",
        "HeteroKmeans": "KmeansParam",
        "HeteroSecureBoost": "HeteroSecureBoostParam",
        "HeteroFastSecureBoost": "HeteroFastSecureBoostParam",
        "LocalBaseline": "LocalBaselineParam",
        "PositiveUnlabeled": "PositiveUnlabeledParam",
        "Scorecard": "ScorecardParam",
        "SecureInformationRetrieval": "SecureInformationRetrievalParam",
        "Evaluation": "EvaluateParam",
        "CacheLoader": "CacheLoaderParam",
    }
    assert {module: registry.find(module).param_name for module in SENT} == names
