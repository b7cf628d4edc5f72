"""Spellings, cases and types that FATE's parameter classes take, and what they mean.

Source: `check` of the classes of FATE v1.11.4 (`federatedml/param`), asked with about 50 values per
parameter. A row is a parameter's path, a value that is written, and what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from fedflow.components.registry import ComponentRegistry, load_registry
from fedflow.sdk import BadParameter, Params, check_params

UPPER_HASHES = [(name.upper(), name) for name in ("sha256", "sha384", "sha512")]
TREES = ("HeteroSecureBoost", "HeteroFastSecureBoost")
LINEAR = ("HeteroLR", "HeteroLinR", "HeteroPoisson", "HeteroSSHELR", "HeteroSSHELinR")

DATA_TRANSFORM: list[tuple[str, Any, Any]] = [
    ("input_format", "DENSE", "dense"),
    ("data_type", "Float64", "float64"),
    ("missing_fill_method", "MEAN", "mean"),
    ("outlier_replace_method", "Designated", "designated"),
    ("label_type", "INT", "int"),
    ("output_format", "Sparse", "sparse"),
    ("need_run", 0, False),
    ("tag_with_value", 1, True),
    ("outlier_replace", 1.0, True),
    ("label_name", None, ""),
]

ACCEPTED: dict[str, list[tuple[str, Any, Any]]] = {
    "DataTransform": [*DATA_TRANSFORM, ("with_match_id", 1, True), ("match_id_name", None, "")],
    "DataIO": DATA_TRANSFORM,
    "Intersection": [
        ("intersect_method", "DH", "DH"),  # its case stays, `method` has the lower one
        ("join_method", "INNER_JOIN", "inner_join"),
        ("sample_id_generator", "Host", "host"),
        ("cardinality_method", "whatever", "whatever"),  # without cardinality_only
        *[("rsa_params.hash_method", *pair) for pair in UPPER_HASHES],
        ("rsa_params.final_hash_method", "MD5", "md5"),
        ("rsa_params.random_base_fraction", 0, None),
        ("rsa_params.random_base_fraction", 1, 1.0),
        *[("dh_params.hash_method", *pair) for pair in UPPER_HASHES],
        ("dh_params.hash_method", "NONE", "none"),
        ("dh_params.hash_method", "md5", "md5"),
        *[("ecdh_params.hash_method", *pair) for pair in UPPER_HASHES],
        ("ecdh_params.curve", "Curve25519", "curve25519"),
        ("intersect_preprocess_params.encrypt_method", "RSA", "rsa"),
        ("intersect_preprocess_params.hash_method", "MD5", "md5"),
        ("intersect_preprocess_params.preprocess_method", "SHA1", "sha1"),
        ("intersect_preprocess_params.random_state", 0, None),
        ("intersect_preprocess_params.filter_owner", "HOST", "host"),
    ],
    "FederatedSample": [("mode", "Random", "Random"), ("need_run", 1, True)],
    "FeatureScale": [("method", "STANDARD_SCALE", "STANDARD_SCALE"), ("method", None, None)],
    "FeatureImputation": [
        ("col_missing_fill_method", [], None),
        ("missing_impute", 0, None),
        ("missing_fill_method", "MEAN", "MEAN"),
    ],
    "ColumnExpand": [("method", "MANUAL", "manual")],
    "SampleWeight": [
        ("class_weight", "BALANCED", "balanced"),
        ("class_weight", {}, None),
        ("class_weight", {"1": -2}, {"1": -2.0}),
        ("sample_weight_name", "", None),
        ("sample_weight_name", 0, None),
    ],
    "DataStatistics": [("statistics", "describe", "describe"), ("statistics", ["95%"], ["95%"])],
    "HeteroFeatureBinning": [
        ("method", "Quantile", "Quantile"),
        ("bin_num", 1, 1),
        ("need_run", 0, False),
        ("skip_static", 1, True),
        ("transform_param.transform_type", None, None),
        ("optimal_binning_param.metric_method", "chi-square", "chi_square"),
        ("optimal_binning_param.metric_method", "Chi-Square", "chi_square"),
        ("optimal_binning_param.metric_method", "chi_square", "chi_square"),
        ("optimal_binning_param.init_bin_nums", 1, 1),
        ("optimal_binning_param.max_bin", 10, 10),
        ("optimal_binning_param.adjustment_factor", 0.5, 0.5),
    ],
    "HeteroFeatureSelection": [
        ("filter_methods", ["MANUALLY"], ["MANUALLY"]),
        ("iv_param.host_thresholds", 0.1, [0.1]),
        ("iv_param.host_thresholds", [[0.1, 0.2]], [[0.1, 0.2]]),
        ("correlation_param.sort_metric", "IV", "IV"),
        ("correlation_param.select_federated", 0, False),
        ("use_anonymous", 0, False),
        ("need_run", 1, True),
    ],
    "OneHotEncoder": [("need_run", 0, False)],
    "PSI": [("max_bin_num", 1, 1), ("dense_missing_val", "NA", "NA")],
    "Scorecard": [("factor", 0, 0.0), ("method", "CREDIT", "CREDIT")],
    "PositiveUnlabeled": [("strategy", "PROBABILITY", "PROBABILITY")],
    "LocalBaseline": [("predict_param.threshold", 2, 2.0)],
    "Evaluation": [
        ("eval_type", "BINARY", "BINARY"),
        ("metrics", [], None),
        ("metrics", ["AUC"], ["AUC"]),
        ("pos_label", "1", "1"),
        ("run_clustering_arbiter_metric", 1, True),
    ],
    "SecureInformationRetrieval": [
        ("key_size", 0, None),
        ("dh_params.hash_method", "SHA1", "sha1"),
        ("oblivious_transfer_protocol", "ot_hauck", "ot_hauck"),
    ],
    **{
        module: [
            ("penalty", None, None),
            ("penalty", "NONE", "NONE"),
            ("penalty", "l2", "l2"),
            ("optimizer", "SGD", "SGD"),
            ("early_stop", "Weight_Diff", "Weight_Diff"),
            ("tol", -1, -1.0),
            ("alpha", -0.1, -0.1),
            ("learning_rate", 1, 1.0),
            ("learning_rate", 0, 0.0),
            ("use_first_metric_only", 0, False),
            ("init_param.init_method", "ZEROS", "ZEROS"),
            ("init_param.init_const", 1, 1.0),
            ("predict_param.threshold", -1, -1.0),
            ("encrypt_param.method", "paillier", "paillier"),
            ("encrypt_param.method", "IPCL", "IPCL"),
            ("cv_param.need_cv", 0, False),
            ("cv_param.n_splits", 1, 1),  # without need_cv
            ("cv_param.mode", None, None),
            ("stepwise_param.score_name", "bic", "bic"),
            ("stepwise_param.direction", "BOTH", "BOTH"),
            ("callback_param.callbacks", "PerformanceEvaluate", ["PerformanceEvaluate"]),
            ("callback_param.metrics", [], []),
            ("encrypted_mode_calculator_param.re_encrypted_rate", "1", "1"),
        ]
        for module in LINEAR
    },
    **{
        module: [
            ("task_type", "Classification", "Classification"),
            ("objective_param.objective", None, None),
            ("objective_param.objective", "Cross_Entropy", "Cross_Entropy"),
            ("objective_param.params", [], []),
            ("learning_rate", 1, 1.0),
            ("learning_rate", -0.5, -0.5),
            ("subsample_feature_rate", 1, 1.0),
            ("subsample_feature_rate", 0, 0.0),
            ("n_iter_no_change", 0, False),
            ("tol", -1, -1.0),
            ("binning_error", 1, 1.0),
            ("run_goss", 1, True),
            ("use_missing", 1, True),
            ("zero_as_missing", 0, False),
            ("sparse_optimization", "any", "any"),  # without effect, and FATE asks nothing
            ("cipher_compress", 0, 0),
            ("cipher_compress_error", 15, 15),
            ("new_ver", False, False),
            ("complete_secure", True, True),
            ("complete_secure", 2, 2),
            ("boosting_strategy", "Layered", "Layered"),
            ("work_mode", "std", "std"),
            ("work_mode", None, None),
            ("multi_mode", "Single_Output", "Single_Output"),
            ("EINI_inference", 0, False),
            ("EINI_random_mask", True, True),
            ("random_seed", None, None),
            ("metrics", [], []),
            ("use_first_metric_only", 1, True),
            ("encrypt_param.method", "PAILLIER", "PAILLIER"),
            ("encrypt_param.method", "IPCL", "IPCL"),
            ("predict_param.threshold", 1, 1.0),
            ("tree_param.criterion_method", "XGBoost", "XGBoost"),
            ("tree_param.criterion_params", {"l1": 1, "l2": 0.2}, {"l1": 1.0, "l2": 0.2}),
            ("tree_param.criterion_params", [1, 0], [1.0, 0.0]),
            ("tree_param.feature_importance_type", "Gain", "Gain"),
            ("tree_param.min_sample_split", -1, -1),
            ("tree_param.min_leaf_node", 0, 0),
            ("tree_param.min_child_weight", 1, 1.0),
            ("tree_param.use_missing", 1, True),
            ("tree_param.n_iter_no_change", True, True),
            ("tree_param.tol", 0.001, 0.001),
            ("tree_param.deterministic", True, True),
            ("cv_param.need_cv", 0, False),
            ("callback_param.callbacks", "ModelCheckpoint", ["ModelCheckpoint"]),
            ("callback_param.metrics", [], []),
            ("encrypted_mode_calculator_param.re_encrypted_rate", "1", "1"),
        ]
        for module in TREES
    },
    "HeteroKmeans": [("tol", 0, 0.0), ("random_stat", None, None)],
}

REFUSED: dict[str, list[tuple[str, Any]]] = {
    "DataTransform": [
        ("input_format", "svmlight"),
        ("input_format", 1),
        ("data_type", "float32"),
        ("with_label", 1),
        ("missing_fill", 0),
        ("need_run", "false"),  # FATE takes any text for true
    ],
    "Intersection": [
        ("intersect_method", "ecc"),
        ("sync_intersect_ids", 1),
        ("rsa_params.hash_method", "md5"),
        ("ecdh_params.hash_method", "none"),
        ("dh_params.key_length", 512),
        ("rsa_params.random_base_fraction", 1.5),
        ("join_method", "outer_join"),
    ],
    "FeatureScale": [("scale_col_indexes", 0), ("method", "robust"), ("need_run", 1)],
    "ColumnExpand": [("method", "auto")],
    "SampleWeight": [("class_weight", "even"), ("normalize", 1), ("need_run", 1)],
    "DataStatistics": [("statistics", ["describe"]), ("statistics", "average")],
    "HeteroKmeans": [("k", 1), ("max_iter", 0), ("tol", -0.1), ("random_stat", -1), ("k", 2.5)],
    "HeteroFeatureBinning": [
        ("bin_num", 0),
        ("bin_num", 10.0),
        ("bin_num", "10"),
        ("optimal_binning_param.metric_method", "chi square"),
        ("local_only", 1),
    ],
    "HeteroFeatureSelection": [("filter_methods", ["iv"]), ("manually_param.left_col_names", "x")],
    "Evaluation": [("eval_type", "rank"), ("metrics", ["x"]), ("need_run", 1)],
    "PSI": [("max_bin_num", 0), ("max_bin_num", 2.0)],
    **{
        module: [
            ("penalty", "L3"),
            ("optimizer", "adamm"),
            ("max_iter", "30"),
            ("max_iter", 30.0),
            ("batch_size", "all"),
            ("learning_rate", "0.1"),
            ("tol", None),
            ("alpha", True),
            ("decay_sqrt", 1),
            ("init_param.init_method", None),
            ("init_param.fit_intercept", 1),
            ("encrypt_param.method", "IterativeAffine"),
            ("encrypt_param.method", None),  # FATE's check passes, its training fails
            ("encrypt_param.key_length", 512),
            ("callback_param.use_first_metric_only", 1),
            ("predict_param.threshold", "0.5"),
        ]
        for module in LINEAR
    },
    **{
        module: [
            ("task_type", "clustering"),
            ("objective_param.objective", "lse"),  # of numbers, beside two classes
            ("objective_param.objective", "hinge"),
            ("learning_rate", "0.3"),
            ("num_trees", 0),
            ("subsample_feature_rate", 1.5),
            ("bin_num", 1),
            ("bin_num", 2.0),
            ("top_rate", 0),
            ("other_rate", -0.5),
            ("complete_secure", -1),
            ("use_missing", "true"),
            ("boosting_strategy", "fast"),
            ("multi_mode", "vector"),
            ("encrypt_param.method", "IterativeAffine"),
            ("encrypt_param.method", None),
            ("encrypt_param.key_length", 512),
            ("tree_param.criterion_method", "gini"),
            ("tree_param.criterion_params", [1, 2, 3]),
            ("tree_param.max_depth", 0),
            ("tree_param.min_child_weight", -1),
            ("tree_param.max_split_nodes", 0),
            ("tree_param.feature_importance_type", "cover"),
        ]
        for module in TREES
    },
}


DOUBTFUL: dict[str, list[tuple[str, Any, str]]] = {
    "Intersection": [
        ("intersect_method", "RAW", "Replaced"),
        ("join_role", "host", "NoEffect"),
        ("raw_params", {"use_hash": True}, "NoEffect"),
        ("random_bit", 64, "NoEffect"),
    ],
    "HeteroFeatureBinning": [
        ("bin_num", 1, "Unusual"),
        ("encrypt_param.method", "ipcl", "Replaced"),
        ("optimal_binning_param.max_bin", 5, "NoEffect"),
    ],
    "PSI": [("dense_missing_val", "NA", "NoEffect"), ("max_bin_num", 1, "Unusual")],
    "Scorecard": [("factor", 0, "Unusual")],
    "Union": [("allow_missing", True, "NoEffect")],
    "Evaluation": [("metrics", ["auc", "rmse"], "NoEffect")],
    "LocalBaseline": [
        ("predict_param.threshold", 2, "Unusual"),
        ("model_opts.n_jobs", 4, "NoEffect"),
    ],
    **{
        module: [
            ("tol", -1, "Unusual"),
            ("alpha", -0.1, "Unusual"),
            ("learning_rate", 0, "Unusual"),
            ("encrypt_param.method", "IPCL", "Replaced"),
            ("predict_param.threshold", -1, "Unusual"),
            ("encrypted_mode_calculator_param.mode", "fast", "NoEffect"),
        ]
        for module in LINEAR
    },
    **{
        module: [
            ("learning_rate", 0, "Unusual"),
            ("encrypt_param.method", "IPCL", "Replaced"),
            ("encrypt_param.method", "OU", "OtherAssumption"),
            ("zero_as_missing", True, "NoEffect"),
            ("cipher_compress", False, "NoEffect"),
            ("predict_param.threshold", 2, "Unusual"),
            ("encrypted_mode_calculator_param.mode", "fast", "NoEffect"),
        ]
        for module in TREES
    },
}


@pytest.fixture(scope="module")
def registry() -> ComponentRegistry:
    return load_registry(found=[])


def rows(table: Mapping[str, list[Any]]) -> list[Any]:
    found = [(module, *row) for module, each in table.items() for row in each]
    return [pytest.param(*row, id=f"{row[0]}.{row[1]}={row[2]!r}") for row in found]


def read(registry: ComponentRegistry, module: str, path: str, value: Any) -> Params:
    given: dict[str, Any] = {path: value}
    if "." in path:
        block, name = path.split(".")
        given = {block: {name: value}}
    return check_params(registry.find(module).params, given, path=module)


@pytest.mark.parametrize(("module", "path", "written", "meant"), rows(ACCEPTED))
def test_what_fate_accepts_means_the_same(
    module: str, path: str, written: Any, meant: Any, registry: ComponentRegistry
) -> None:
    found: Any = msgspec.to_builtins(read(registry, module, path, written))
    for name in path.split("."):
        found = found[name]
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(("module", "path", "written"), rows(REFUSED))
def test_what_fate_refuses_stays_refused(
    module: str, path: str, written: Any, registry: ComponentRegistry
) -> None:
    with pytest.raises(BadParameter) as refused:
        read(registry, module, path, written)
    assert refused.value.message.startswith(f"{module}.{path}")


@pytest.mark.parametrize(("module", "path", "written", "code"), rows(DOUBTFUL))
def test_what_is_doubtful_is_said_with_its_path(
    module: str, path: str, written: Any, code: str, registry: ComponentRegistry
) -> None:
    (doubt,) = read(registry, module, path, written).doubts()
    assert path.startswith(doubt.field)
    assert doubt.code == code


def test_measuring_that_no_callback_does_is_doubtful(registry: ComponentRegistry) -> None:
    for callbacks, fields in (([], ["callback_param.validation_freqs"]), (["EarlyStopping"], [])):
        block = {"callbacks": callbacks, "validation_freqs": 2, "early_stopping_rounds": None}
        if callbacks:
            block["early_stopping_rounds"] = 1
        params = registry.find("HeteroLR").params
        found = check_params(params, {"callback_param": block}, path="$").doubts()
        assert [one.field for one in found] == fields


def test_weights_by_class_beside_a_column_are_doubtful(registry: ComponentRegistry) -> None:
    given = {"class_weight": "balanced", "sample_weight_name": "w"}
    (doubt,) = check_params(registry.find("SampleWeight").params, given, path="$").doubts()
    assert doubt.field == "class_weight"
