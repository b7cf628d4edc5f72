"""Suites of `fate_test` for the horizontal components: jobs like those of FATE's own suites.

A suite has the name of FATE's and exercises what the jobs of that one do. Its tables are made from
the example data: rows of a guest and of a host with the same columns, and the vertical ones.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.e2e.pipelines import GUEST_ID, HOST_ID, Step, reader, transform
from tests.e2e.servers import DATA

Json = dict[str, Any]
Suites = dict[str, dict[str, dict[str, Step]]]  #: suite -> job -> component

FEATURES: Final = 30
_CUT: Final = 6  #: columns of which `homo_levels` has whole numbers


def _tables(name: str) -> dict[str, str]:
    return {GUEST_ID: f"{name}_guest", HOST_ID: f"{name}_host"}


def _rows(name: str = "breast_homo", **params: Any) -> dict[str, Step]:
    given = {"with_label": True, "label_name": "y", "label_type": "int", "output_format": "dense"}
    return {
        "reader_0": reader(_tables(name)),
        "data_transform_0": Step(
            module="DataTransform", data={"data": ["reader_0.data"]}, params={**given, **params}
        ),
    }


def _step(module: str, source: str, model: Sequence[str] = (), **params: Any) -> Step:
    return Step(module=module, data={"data": [f"{source}.data"]}, model=model, params=params)


def _lr(train: str, validate: str = "", model: Sequence[str] = (), **params: Any) -> Step:
    data = {"train_data": [f"{train}.data"]}
    if validate:
        data["validate_data"] = [f"{validate}.data"]
    return Step(module="HomoLR", data=data, model=model, params={**_LEARNER, **params})


def _nn(train: str, **params: Any) -> Step:
    data = {"train_data": [f"{train}.data"], "validate_data": [f"{train}.data"]}
    return Step(module="HomoNN", data=data, params=params)


def _test(module: str, source: str, learner: str) -> Step:
    return Step(module=module, data={"test_data": [f"{source}.data"]}, model=[f"{learner}.model"])


def _evaluation(*learners: str, kind: str = "binary") -> Step:
    data = {"data": [f"{name}.data" for name in learners]}
    return Step(module="Evaluation", data=data, params={"eval_type": kind})


def _net(inputs: int, outputs: int, last: str, *, loss: str, **trainer: Any) -> Json:
    """Return parameters as FATE's confs have them: layers, loss, optimizer and trainer."""
    linear = {"layer": "Linear", "in_features": inputs, "out_features": outputs, "bias": True}
    define: Json = {"0-0": linear}
    if last:
        define["1-1"] = {"layer": last, **({"dim": 1} if last == "Softmax" else {})}
    return {
        "loss": {"loss_fn": loss},
        "optimizer": {"optimizer": "Adam", "lr": 0.05, "config_type": "pytorch"},
        "trainer": {
            "trainer_name": "fedavg_trainer",
            "param": {"epochs": 8, "batch_size": 64, "validation_freqs": 4, **trainer},
        },
        "dataset": {"dataset_name": "table", "param": {}},
        "torch_seed": 100,
        "nn_define": define,
    }


_LEARNER: Final[Json] = {
    "penalty": "L2",
    "tol": 1e-5,
    "alpha": 0.01,
    "optimizer": "sgd",
    "batch_size": -1,
    "learning_rate": 0.15,
    "init_param": {"init_method": "zeros"},
    "max_iter": 3,
    "early_stop": "diff",
    "encrypt_param": {"method": None},
    "cv_param": {"n_splits": 4, "shuffle": True, "random_seed": 33, "need_cv": False},
    "decay": 1,
    "decay_sqrt": True,
}
_CALLBACKS: Final = {
    "callbacks": ["EarlyStopping", "PerformanceEvaluate", "ModelCheckpoint"],
    "validation_freqs": 1,
    "early_stopping_rounds": 1,
    "metrics": ["auc"],
    "save_freq": 1,
}
_LEVELS: Final = {"bin_num": 5, "transform_param": {"transform_cols": -1}}
_VERTICAL: Final = {
    "reader_0": reader(),
    "data_transform_0": transform(),
    "intersection_0": _step("Intersection", "data_transform_0"),
}
_PARTS: Final = ("train_data", "validate_data", "test_data")

SHORT: Final[Suites] = {
    "homo_logistic_regression": {
        "train": {
            **_rows(),
            "feature_scale_0": _step("FeatureScale", "data_transform_0", method="standard_scale"),
            "learner_0": _lr("feature_scale_0", "feature_scale_0", validation_freqs=1),
            "evaluation_0": _evaluation("learner_0"),
        },
    },
    "homo_onehot": {
        "aligned": {
            **_rows("homo_levels"),
            "homo_onehot_0": _step("HomoOneHotEncoder", "data_transform_0", need_alignment=True),
            "feature_scale_0": _step("FeatureScale", "homo_onehot_0", method="min_max_scale"),
            "learner_0": _lr("feature_scale_0", learning_rate=0.5),
            "evaluation_0": _evaluation("learner_0"),
        },
    },
}
LONG: Final[Suites] = {
    "homo_logistic_regression": {
        "cv": {
            **_rows(),
            "learner_0": _lr("data_transform_0", cv_param={"n_splits": 3, "need_cv": True}),
        },
        "sparse": {
            **_rows(output_format="sparse"),
            "learner_0": _lr("data_transform_0"),
            "evaluation_0": _evaluation("learner_0"),
        },
        "classes": {
            **_rows("homo_classes"),
            "learner_0": _lr("data_transform_0", multi_class="ovr", optimizer="adam"),
            "evaluation_0": _evaluation("learner_0", kind="multi"),
        },
        "warm": {
            **_rows(),
            "learner_0": _lr("data_transform_0", callback_param={"callbacks": ["ModelCheckpoint"]}),
            "learner_1": _lr("data_transform_0", model=["learner_0.model"]),
            "evaluation_0": _evaluation("learner_0", "learner_1"),
        },
        "early": {
            **_rows(),
            "learner_0": _lr("data_transform_0", "data_transform_0", callback_param=_CALLBACKS),
            "learner_1": _test("HomoLR", "data_transform_0", "learner_0"),
            "evaluation_0": _evaluation("learner_0", "learner_1"),
        },
        "proximal": {
            **_rows(),
            "learner_0": _lr("data_transform_0", aggregate_iters=2, batch_size=64, max_iter=6),
            "evaluation_0": _evaluation("learner_0"),
        },
    },
    "homo_nn": {
        "binary": {
            **_rows(),
            "learner_0": _nn("data_transform_0", **_net(FEATURES, 1, "Sigmoid", loss="BCELoss")),
            "learner_1": _test("HomoNN", "data_transform_0", "learner_0"),
            "evaluation_0": _evaluation("learner_0", "learner_1"),
        },
        "seldom": {
            **_rows(),
            "learner_0": _nn(
                "data_transform_0",
                **_net(FEATURES, 1, "Sigmoid", loss="BCELoss", aggregate_every_n_epoch=2),
            ),
            "evaluation_0": _evaluation("learner_0"),
        },
        "multi": {
            **_rows("homo_classes"),
            "learner_0": _nn(
                "data_transform_0", **_net(FEATURES, 4, "Softmax", loss="CrossEntropyLoss")
            ),
            "evaluation_0": _evaluation("learner_0", kind="multi"),
        },
        "regression": {
            **_rows("homo_numbers", label_type="float"),
            "learner_0": _nn("data_transform_0", **_net(FEATURES - 1, 1, "", loss="MSELoss")),
            "evaluation_0": _evaluation("learner_0", kind="regression"),
        },
    },
    "homo-feature-binning": {
        "summary": {
            **_rows(),
            "learner_0": _step(
                "HomoFeatureBinning", "data_transform_0", method="virtual_summary", **_LEVELS
            ),
        },
        "query": {
            **_rows(),
            "learner_0": _step(
                "HomoFeatureBinning", "data_transform_0", method="recursive_query", **_LEVELS
            ),
        },
        "some": {
            **_rows(),
            "learner_0": _step(
                "HomoFeatureBinning", "data_transform_0", bin_indexes=[1, 2], bin_names=["x5"]
            ),
        },
        "categories": {
            **_rows("homo_levels"),
            "learner_0": _step(
                "HomoFeatureBinning",
                "data_transform_0",
                category_indexes=[0, 1],
                category_names=["x2"],
                transform_param={"transform_cols": [0, 1], "transform_type": "bin_num"},
            ),
        },
        "missing": {
            **_rows("homo_gaps", missing_fill=False),
            "learner_0": _step("HomoFeatureBinning", "data_transform_0", **_LEVELS),
        },
        "again": {
            **_rows(output_format="sparse"),
            "learner_0": _step("HomoFeatureBinning", "data_transform_0", **_LEVELS),
            "learner_1": _step(
                "HomoFeatureBinning", "data_transform_0", ["learner_0.model"], **_LEVELS
            ),
        },
    },
    "homo_onehot": {
        "alone": {
            **_rows("homo_levels"),
            "homo_onehot_0": _step("HomoOneHotEncoder", "data_transform_0", need_alignment=False),
        },
        "chosen": {
            **_rows("homo_levels"),
            "homo_onehot_0": _step(
                "HomoOneHotEncoder",
                "data_transform_0",
                transform_col_indexes=[0, 1],
                transform_col_names=["x3"],
            ),
            "homo_onehot_1": _step(
                "HomoOneHotEncoder", "data_transform_0", ["homo_onehot_0.model"]
            ),
            "learner_0": _lr("homo_onehot_1"),
            "evaluation_0": _evaluation("learner_0"),
        },
    },
    "data_split": {
        "homo": {
            **_rows(),
            "split_0": Step(
                module="HomoDataSplit",
                data={"data": ["data_transform_0.data"]},
                out=_PARTS,
                params={"test_size": 0.3, "validate_size": 0.2, "stratified": True},
            ),
        },
        "homo_numbers": {
            **_rows("homo_numbers", label_type="float"),
            "split_0": Step(
                module="HomoDataSplit",
                data={"data": ["data_transform_0.data"]},
                out=_PARTS,
                params={"stratified": True, "split_points": [-0.5, 0.5], "test_size": 40},
            ),
        },
        "hetero": {
            **_VERTICAL,
            "split_0": Step(
                module="HeteroDataSplit",
                data={"data": ["intersection_0.data"]},
                out=_PARTS,
                params={"test_size": 0.3, "validate_size": 0.2, "random_state": 1},
            ),
        },
        "hetero_ports": {
            **_VERTICAL,
            "split_0": Step(
                module="HeteroDataSplit",
                data={"data": ["intersection_0.data"]},
                out=_PARTS,
                params={"test_size": 0.2, "train_size": 0.6, "stratified": True},
            ),
            "linr_0": Step(
                module="HeteroLinR",
                data={"train_data": ["split_0.train_data"], "validate_data": ["split_0.test_data"]},
                params={
                    "max_iter": 1,
                    "optimizer": "sgd",
                    "early_stop": "weight_diff",
                    "encrypt_param": {"key_length": 1024},
                },
            ),
            "linr_1": Step(
                module="HeteroLinR",
                data={"test_data": ["split_0.validate_data"]},
                model=["linr_0.model"],
            ),
        },
    },
}
PREDICTED: Final = {  #: job -> the components of its predict job
    "train": ("reader_0", "data_transform_0", "feature_scale_0", "learner_0"),
    "binary": ("reader_0", "data_transform_0", "learner_0"),
    "summary": ("reader_0", "data_transform_0", "learner_0"),
    "aligned": ("reader_0", "data_transform_0", "homo_onehot_0", "feature_scale_0", "learner_0"),
}


def write_tables(folder: Path) -> None:
    """Write the horizontal tables of the suites as CSV."""
    for role in ("guest", "host"):
        with (DATA / f"breast_homo_{role}.csv").open(encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        made = {
            "breast_homo": (header, rows),
            "homo_classes": (
                header,
                [[i, str(int(y) + 2 * (float(x[-1]) > 0)), *x] for i, y, *x in rows],
            ),
            "homo_numbers": (header[:-1], [[i, x[-1], *x[:-1]] for i, _, *x in rows]),
            "homo_levels": (
                header[: 2 + _CUT],
                [[i, y, *(str(round(float(v))) for v in x[:_CUT])] for i, y, *x in rows],
            ),
            "homo_gaps": (
                header,
                [[i, y, "" if n % 9 == 0 else x[0], *x[1:]] for n, (i, y, *x) in enumerate(rows)],
            ),
        }
        for name, (columns, lines) in made.items():
            with (folder / f"{name}_{role}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([columns, *lines])
