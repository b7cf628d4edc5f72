"""Scripts of the `pipeline` SDK for the horizontal components, and the tables they read.

HomoNN is submitted as DSL and conf: the SDK has it only where PyTorch is installed. What is here is
what fate-client 1.11.3.post1 sends with PyTorch 2.13.0.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.clients.vertical_pipelines import START

Json = dict[str, Any]

ROWS: Final = 90  #: of each party

HOMO_START: Final = (
    START
    + """
from pipeline.component import HomoDataSplit, HomoFeatureBinning, HomoOneHotEncoder

class HomoJob(Job):
    def transform(self, name, data, **given):
        found = DataTransform(name=name, with_label=True, output_format="dense", **given)
        self.line.add_component(found, data=Data(data=data))
        return found.output
"""
)

PREPARED: Final = (
    HOMO_START
    + """
job = HomoJob()
raw = job.read("reader_0", "homo_guest", "homo_host")
made = job.transform("data_transform_0", raw, label_name="y")
data = made.data
split = job.add(HomoDataSplit, "homo_data_split_0", data, stratified=True, test_size=0.2,
                validate_size=0.2)
binning = job.add(HomoFeatureBinning, "homo_feature_binning_0", data, bin_num=5,
                  category_names=["colour"], sample_bins=1000,
                  transform_param={"transform_cols": -1, "transform_type": "bin_num"})
exact = job.add(HomoFeatureBinning, "homo_feature_binning_1", data, method="recursive_query",
                bin_num=5, error=0, max_iter=100, transform_param={"transform_type": None})
again = job.add(HomoFeatureBinning, "homo_feature_binning_2", data, model=binning.model)
coded = job.add(HomoOneHotEncoder, "homo_one_hot_0", binning.data, transform_col_indexes=-1)
more = job.add(HomoOneHotEncoder, "homo_one_hot_1", data, transform_col_indexes=[3],
               need_alignment=True)
alone = job.add(HomoOneHotEncoder, "homo_one_hot_2", data, transform_col_names=["colour"],
                transform_col_indexes=[], need_alignment=False)
line = job.fit()
names = ["homo_data_split_0", "homo_feature_binning_0", "homo_feature_binning_1",
         "homo_one_hot_0", "homo_one_hot_1", "homo_one_hot_2"]
tables = {name: rows(line, name) for name in (*names, "homo_feature_binning_2")}
show(found={name: summary(line, name) for name in names}, tables=tables,
     binned=line.get_component("homo_feature_binning_0").get_model_param())
"""
)


def homo_tables() -> tuple[str, str]:
    """Return CSV texts of two parties' rows with the same columns, with a fixed seed.

    `y` has two classes, `colour` is a number of a category, of which each party lacks one.
    """
    rng = np.random.default_rng(11)
    texts = []
    for party, colours in enumerate(((1, 2, 3), (2, 3, 4))):
        x = rng.normal(size=(ROWS, 3)).round(4)
        y = (x @ (1.0, -0.7, 0.3) > 0).astype(int)
        colour = rng.choice(colours, ROWS)
        rows = [
            f"{party}_{i},{y[i]}," + ",".join(str(cell) for cell in x[i]) + f",{colour[i]}"
            for i in range(ROWS)
        ]
        texts.append("\n".join(("id,y,x0,x1,x2,colour", *rows)) + "\n")
    return texts[0], texts[1]


def homo_nn_job(*, epochs: int, model: str = "nn") -> tuple[Json, Json]:
    """Return DSL and conf of a HomoNN job as FATE's SDK sends them: train, validate and predict."""
    define = {
        "0-0": {
            "bias": True,
            "device": None,
            "dtype": None,
            "in_features": 4,
            "out_features": 1,
            "layer": "Linear",
            "initializer": {},
        },
        "1-1": {"layer": "Sigmoid", "initializer": {}},
    }
    parameters = {
        "loss": {
            "weight": None,
            "size_average": None,
            "reduce": None,
            "reduction": "mean",
            "loss_fn": "BCELoss",
        },
        "optimizer": {
            "lr": 0.05,
            "betas": [0.9, 0.999],
            "eps": 1e-08,
            "weight_decay": 0,
            "amsgrad": False,
            "optimizer": "Adam",
            "config_type": "pytorch",
        },
        "trainer": {
            "trainer_name": "fedavg_trainer",
            "param": {"epochs": epochs, "batch_size": 32, "validation_freqs": epochs},
        },
        "torch_seed": 100,
        "nn_define": define,
    }
    transformed = {"input": {"data": {"data": ["reader_0.data"]}}, "module": "DataTransform"}
    dsl = {
        "components": {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
            "data_transform_0": {**transformed, "output": {"data": ["data"], "model": ["model"]}},
            "homo_nn_0": {
                "module": "HomoNN",
                "input": {
                    "data": {
                        "train_data": ["data_transform_0.data"],
                        "validate_data": ["data_transform_0.data"],
                    }
                },
                "output": {"data": ["data"], "model": ["model"]},
            },
            "homo_nn_1": {
                "module": "HomoNN",
                "input": {
                    "data": {"test_data": ["data_transform_0.data"]},
                    "model": ["homo_nn_0.model"],
                },
                "output": {"data": ["data"], "model": ["model"]},
            },
            "evaluation_0": {
                "module": "Evaluation",
                "input": {"data": {"data": ["homo_nn_0.data"]}},
                "output": {"data": ["data"]},
            },
        }
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "job_parameters": {"common": {"job_type": "train"}},
        "component_parameters": {
            "common": {
                "data_transform_0": {"with_label": True, "label_name": "y"},
                "homo_nn_0": parameters,
                "homo_nn_1": parameters,
                "evaluation_0": {"eval_type": "binary"},
            },
            "role": {
                role: {"0": {"reader_0": {"table": {"name": name, "namespace": "experiment"}}}}
                for role, name in (("guest", "homo_guest"), ("host", "homo_host"))
            },
        },
    }
    return dsl, conf
