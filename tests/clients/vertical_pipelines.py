"""Scripts of the `pipeline` SDK for the vertical components, and the small tables they read."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.clients.pipeline_scripts import START

ROWS: Final = 120

FEATURES: Final = (
    START
    + """
job = Job()
raw = job.read("reader_0", "breast_hetero_guest", "breast_hetero_host")
raw = job.add(ColumnExpand, "column_expand_0", raw, append_header=["extra"], fill_value=[0.5],
              at_host={"need_run": False}).data
data = job.transform("data_transform_0", raw)
data = job.add(Intersection, "intersection_0", data, intersect_method="rsa",
               rsa_params={"hash_method": "sha256", "final_hash_method": "sha256",
                           "key_length": 1024}).data
data = job.add(FederatedSample, "federated_sample_0", data, mode="stratified", method="downsample",
               fractions=[[0, 0.5], [1, 0.5]], at={"task_type": "hetero"}).data
data = job.add(FeatureImputation, "feature_imputation_0", data, missing_fill_method="mean").data
data = job.add(FeatureScale, "feature_scale_0", data, method="min_max_scale", mode="cap",
               feat_upper=1, feat_lower=0).data
binning = job.add(HeteroFeatureBinning, "hetero_feature_binning_0", data, method="quantile",
                  bin_num=4, bin_indexes=-1, encrypt_param=KEY,
                  transform_param={"transform_cols": -1, "transform_type": "bin_num"})
statistics = job.add(DataStatistics, "statistics_0", data, statistics=["95%", "stddev"],
                     column_indexes=-1)
pearson = job.add(HeteroPearson, "hetero_pearson_0", data, column_indexes=[0, 1, 2, 3],
                  cross_parties=True)
psi = job.add(PSI, "psi_0", {"train_data": data, "validate_data": data}, max_bin_num=5)
selected = job.add(
    HeteroFeatureSelection, "hetero_feature_selection_0", binning.data,
    isometric=[binning.model, statistics.model, pearson.model, psi.model],
    filter_methods=["manually", "unique_value", "iv_filter", "statistic_filter", "psi_filter"],
    manually_param={"filter_out_indexes": [1]}, unique_param={"eps": 1e-6},
    iv_param={"metrics": ["iv", "iv"], "filter_type": ["threshold", "top_k"], "threshold": [0.1, 6],
              "take_high": True, "mul_class_merge_type": "average"},
    statistic_param={"metrics": ["stddev"], "filter_type": "threshold", "take_high": True,
                     "threshold": 0.01},
    psi_param={"metrics": ["psi"], "filter_type": "threshold", "take_high": False,
               "threshold": 0.1})
related = job.add(
    HeteroFeatureSelection, "hetero_feature_selection_1", data,
    isometric=[binning.model, pearson.model], select_col_indexes=[0, 1, 2, 3],
    filter_methods=["vif_filter", "correlation_filter"],
    vif_param={"metrics": ["vif"], "threshold": 200.0, "filter_type": "threshold",
               "take_high": False},
    correlation_param={"threshold": 0.9, "sort_metric": "iv"})
coded = job.add(OneHotEncoder, "one_hot_0", selected.data, transform_col_indexes=-1).data
callbacks = {"callbacks": ["EarlyStopping", "PerformanceEvaluate", "ModelCheckpoint"],
             "validation_freqs": 1, "early_stopping_rounds": 2, "metrics": ["auc", "ks"],
             "use_first_metric_only": False, "save_freq": 1}
model = job.add(HeteroLR, "hetero_lr_0", {"train_data": coded, "validate_data": coded},
                callback_param=callbacks, **QUICK)
job.add(Evaluation, "evaluation_0", model.data, eval_type="binary")
job.add(Scorecard, "scorecard_0", model.data, method="credit")
line = job.fit()
found = {name: summary(line, name) for name in (
    "hetero_feature_binning_0", "statistics_0", "hetero_pearson_0", "psi_0", "hetero_lr_0",
    "hetero_feature_selection_0", "hetero_feature_selection_1", "federated_sample_0",
    "evaluation_0", "one_hot_0")}
tables = {name: rows(line, name) for name in (
    "column_expand_0", "one_hot_0", "hetero_lr_0", "scorecard_0", "hetero_feature_selection_1")}
models = {name: sorted(line.get_component(name).get_model_param()) for name in (
    "data_transform_0", "feature_imputation_0", "feature_scale_0", "hetero_feature_binning_0",
    "statistics_0", "hetero_pearson_0", "psi_0", "hetero_feature_selection_0", "one_hot_0",
    "hetero_lr_0")}

predict = job.predict(
    ["column_expand_0", "data_transform_0", "intersection_0", "feature_imputation_0",
     "feature_scale_0", "hetero_feature_binning_0", "hetero_feature_selection_0", "one_hot_0",
     "hetero_lr_0"], "breast_hetero_guest", "breast_hetero_host")
show(found=found, tables=tables, models=models, job=line.get_train_job_id(),
     predicted=rows(predict, "hetero_lr_0"), again=summary(predict, "evaluation_1"))
"""
)

BINARY: Final = (
    START
    + """
job = Job()
raw = job.read("reader_0", "small_guest", "small_host")
whole = job.transform("data_transform_0", raw, label_name="b", label_type="int")
whole = job.add(Intersection, "intersection_0", whole, intersect_method="ecdh").data
split = job.add(HeteroDataSplit, "hetero_data_split_0", whole, train_size=0.6, validate_size=0.2,
                test_size=0.2, stratified=True, random_state=1, need_run=True).data
whole = job.add(HeteroFeatureSelection, "hetero_feature_selection_0", whole,
                filter_methods=["manually"],
                manually_param={"left_col_names": ["a", "c"]}, at_host={
                    "manually_param": {"left_col_names": ["h0"]}}).data
together = job.add(Union, "union_0", [split.train_data, split.validate_data],
                   allow_missing=False).data
weighted = job.add(SampleWeight, "sample_weight_0", together, class_weight="balanced",
                   at_host={"need_run": False}).data
first = job.add(HeteroLR, "hetero_lr_0",
                {"train_data": split.train_data, "validate_data": split.validate_data},
                optimizer="sgd", **{**QUICK, "max_iter": 1})
warm = job.add(HeteroLR, "hetero_lr_1", {"train_data": split.train_data}, model=first.model,
               optimizer="sgd", **QUICK)
job.add(HeteroLR, "hetero_lr_2", {"train_data": split.train_data}, optimizer="sgd", **QUICK)
tested = job.add(HeteroLR, "hetero_lr_3", {"test_data": split.test_data}, model=warm.model)
job.add(HeteroLR, "hetero_lr_4", {"train_data": weighted}, optimizer="nesterov_momentum_sgd",
        early_stop="weight_diff", **QUICK)
job.add(HeteroLR, "hetero_lr_5", {"train_data": whole}, **{**QUICK, "max_iter": 1}, cv_param={
    "n_splits": 2, "shuffle": False, "random_seed": 103, "need_cv": True})
job.add(HeteroLR, "hetero_lr_6", {"train_data": whole}, **QUICK,
        stepwise_param={"score_name": "AIC", "direction": "backward", "need_stepwise": True,
                        "max_step": 2, "nvmin": 2})
shared = job.add(HeteroSSHELR, "hetero_sshe_lr_0", {"train_data": split.train_data},
                 reveal_strategy="respectively", reveal_every_iter=False, early_stop="diff",
                 optimizer="sgd", **QUICK)
local = job.add(LocalBaseline, "local_baseline_0", {"train_data": split.train_data},
                model_name="LogisticRegression", model_opts={"max_iter": 50}, at={"need_run": True},
                at_host={"need_run": False})
job.add(LocalBaseline, "local_baseline_1", {"test_data": split.test_data}, model=local.model,
        at={"need_run": True}, at_host={"need_run": False})
renamed = job.add(LabelTransform, "label_transform_0", split.train_data,
                  label_encoder={"0": 5, "1": 7}, label_list=[0, 1], at_host={"need_run": False})
other = job.add(HeteroLR, "hetero_lr_7", {"train_data": renamed.data}, **QUICK)
job.add(LabelTransform, "label_transform_1", other.data, model=renamed.model,
        at_host={"need_run": False})
job.add(PositiveUnlabeled, "positive_unlabeled_0", [first.data, split.train_data],
        strategy="quantity", threshold=5)
job.add(Evaluation, "evaluation_0", [first.data, tested.data, shared.data, local.data],
        eval_type="binary")
line = job.fit()
names = ["hetero_lr_%d" % number for number in range(8) if number != 3]
names += ["hetero_data_split_0", "union_0", "hetero_sshe_lr_0", "local_baseline_0", "evaluation_0",
          "label_transform_0", "positive_unlabeled_0"]
show(found={name: summary(line, name) for name in names}, job=line.get_train_job_id(),
     tables={name: rows(line, name) for name in (
         "hetero_data_split_0", "union_0", "hetero_lr_3", "hetero_lr_5", "label_transform_1",
         "positive_unlabeled_0", "local_baseline_1")},
     weights=line.get_component("hetero_lr_1").get_model_param()["weight"])
"""
)

OTHERS: Final = (
    START
    + """
job = Job()
raw = job.read("reader_0", "small_guest", "small_host")
classes = job.transform("data_transform_0", raw, label_name="y", label_type="int")
classes = job.add(Intersection, "intersection_0", classes).data
ovr = job.add(HeteroLR, "hetero_lr_0", {"train_data": classes}, multi_class="ovr", **QUICK)
shared = job.add(HeteroSSHELR, "hetero_sshe_lr_0", {"train_data": classes}, optimizer="sgd",
                 **{**QUICK, "max_iter": 1})
job.add(Evaluation, "evaluation_0", [ovr.data, shared.data], eval_type="multi")
numbers = job.transform("data_transform_1", raw, label_name="v", label_type="float")
numbers = job.add(Intersection, "intersection_1", numbers).data
linear = job.add(HeteroLinR, "hetero_linr_0", {"train_data": numbers, "validate_data": numbers},
                 optimizer="sgd", early_stop="weight_diff", decay=0.0, decay_sqrt=False,
                 callback_param={"callbacks": ["PerformanceEvaluate"], "validation_freqs": 1},
                 **QUICK)
revealed = job.add(HeteroSSHELinR, "hetero_sshe_linr_0", {"train_data": numbers}, optimizer="sgd",
                   early_stop="weight_diff", decay=0.0, decay_sqrt=False,
                   reveal_every_iter=True, **QUICK)
counts = job.transform("data_transform_2", raw, label_name="n", label_type="int")
counts = job.add(Intersection, "intersection_2", counts).data
poisson = job.add(HeteroPoisson, "hetero_poisson_0", {"train_data": counts},
                  optimizer="rmsprop", exposure_colname="exposure", **QUICK)
job.add(Evaluation, "evaluation_1", [linear.data, revealed.data, poisson.data],
        eval_type="regression")
job.add(SecureInformationRetrieval, "retrieval_0", classes, security_level=0.5,
        oblivious_transfer_protocol="OT_Hauck", non_committing_encryption="aes",
        commutative_encryption="CommutativeEncryptionPohligHellman", target_cols=["h0"])
job.add(HomoDataSplit, "homo_data_split_0", numbers, test_size=0.3, train_size=0.7)
job.add(FeldmanVerifiableSum, "sum_0", classes, sum_cols=[0, 1], q_n=4)
job.add(SampleWeight, "sample_weight_0", numbers, sample_weight_name="exposure", normalize=True,
        at_host={"need_run": False})
line = job.fit()
names = ["hetero_lr_0", "hetero_sshe_lr_0", "evaluation_0", "hetero_linr_0", "hetero_sshe_linr_0",
         "hetero_poisson_0", "evaluation_1", "retrieval_0"]
show(found={name: summary(line, name) for name in names}, job=line.get_train_job_id(),
     tables={name: rows(line, name) for name in (
         "hetero_lr_0", "hetero_sshe_lr_0", "hetero_poisson_0", "homo_data_split_0",
         "sample_weight_0", "retrieval_0")},
     sums=values(line, "sum_0"),
     poisson=line.get_component("hetero_poisson_0").get_model_param())
"""
)

TREES: Final = (
    START
    + """
from pipeline.component import HeteroFastSecureBoost, HeteroSecureBoost

FOREST = dict(task_type="classification", objective_param={"objective": "cross_entropy"},
              num_trees=3, learning_rate=0.3, bin_num=32, tree_param={"max_depth": 3},
              encrypt_param=KEY, validation_freqs=1)
LAYERS = dict(guest_depth=1, host_depth=2)
job = Job()
raw = job.read("reader_0", "breast_hetero_guest", "breast_hetero_host")
data = job.transform("data_transform_0", raw)
data = {"train_data": job.add(Intersection, "intersection_0", data).data}
models = [
    job.add(HeteroSecureBoost, "hetero_secureboost_0", data, **FOREST),
    job.add(HeteroSecureBoost, "hetero_secureboost_1", data, boosting_strategy="layered", **LAYERS,
            **FOREST),
    job.add(HeteroFastSecureBoost, "hetero_fast_secureboost_0", data, work_mode="layered", **LAYERS,
            **FOREST)]
job.add(Evaluation, "evaluation_0", [model.data for model in models], eval_type="binary")
line = job.fit()
names = ["hetero_secureboost_0", "hetero_secureboost_1", "hetero_fast_secureboost_0"]
found = {name: summary(line, name) for name in (*names, "evaluation_0")}
tables = {name: rows(line, name) for name in names}
scores = {name: list(map(float, line.get_component(name).get_output_data()["predict_score"]))
          for name in names}
trees = {name: line.get_component(name).get_model_param() for name in names}
predicted = {}
for name in names[:2]:
    predict = job.predict(["data_transform_0", "intersection_0", name], "breast_hetero_guest",
                          "breast_hetero_host")
    predicted[name] = {"rows": rows(predict, name), "measured": summary(predict, "evaluation_1")}
show(found=found, tables=tables, scores=scores, predicted=predicted, job=line.get_train_job_id(),
     trees={name: sorted(model) for name, model in trees.items()})
"""
)

CLUSTERS: Final = (
    START
    + """
from pipeline.component import HeteroKmeans

job = Job()
raw = job.read("reader_0", "small_guest", "small_host")
data = job.transform("data_transform_0", raw, label_name="y", label_type="int")
data = job.add(Intersection, "intersection_0", data).data
trained = job.add(HeteroKmeans, "hetero_kmeans_0", {"train_data": data}, k=3, max_iter=10,
                  random_stat=4)
again = job.add(HeteroKmeans, "hetero_kmeans_1", {"test_data": data}, model=trained.model)
job.add(Evaluation, "evaluation_0", [trained.data.data[0], again.data.data[0]],
        eval_type="clustering")
line = job.fit()
show(found={name: summary(line, name) for name in ("hetero_kmeans_0", "evaluation_0")},
     tables={name: rows(line, name) for name in ("hetero_kmeans_0", "hetero_kmeans_1")},
     model=line.get_component("hetero_kmeans_0").get_model_param())
"""
)


def small_tables() -> tuple[str, str]:
    """Return CSV texts of a guest's and a host's table, `ROWS` common ids, with a fixed seed.

    The guest has labels of each kind as columns: `b` (two classes), `y` (three), `v` (a number),
    `n` (a count), beside the features `a` and `c` and the positive `exposure`.
    """
    rng = np.random.default_rng(5)
    mine, theirs = rng.normal(size=(ROWS, 2)), rng.normal(size=(ROWS, 3))
    score = mine @ (1.0, -0.5) + theirs @ (0.8, 0.0, -0.4)
    exposure = rng.uniform(0.5, 2.0, ROWS)
    columns = {
        "b": (score > 0).astype(int),
        "y": np.digitize(score, (-0.6, 0.6)),
        "v": score.round(4),
        "n": rng.poisson(exposure * np.exp(0.3 * score)),
        "exposure": exposure.round(4),
        "a": mine[:, 0].round(4),
        "c": mine[:, 1].round(4),
    }
    guest = [",".join(("id", *columns))]
    guest += [f"{i}," + ",".join(str(cells[i]) for cells in columns.values()) for i in range(ROWS)]
    host = ["id,h0,h1,h2"]
    host += [f"{i}," + ",".join(f"{cell:.4f}" for cell in theirs[i]) for i in range(ROWS)]
    return "\n".join(guest) + "\n", "\n".join(host) + "\n"
