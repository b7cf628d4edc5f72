"""Scripts of the `pipeline` SDK for the horizontal components, and the tables they read."""

from __future__ import annotations

from typing import Final

import numpy as np

from tests.clients.pipeline_scripts import START

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
callbacks = {"callbacks": ["EarlyStopping", "PerformanceEvaluate"], "validation_freqs": 1,
             "early_stopping_rounds": 5, "metrics": ["auc", "ks"]}
learner = job.add(HomoLR, "homo_lr_0", {"train_data": data, "validate_data": data}, max_iter=5,
                  learning_rate=0.5, alpha=0.01, optimizer="sgd", batch_size=-1,
                  init_param=ZEROS, callback_param=callbacks)
job.add(Evaluation, "evaluation_0", learner.data, eval_type="binary")
line = job.fit()
names = ["homo_lr_0", "evaluation_0", "homo_data_split_0", "homo_feature_binning_0",
         "homo_feature_binning_1", "homo_one_hot_0", "homo_one_hot_1", "homo_one_hot_2"]
tables = {name: rows(line, name) for name in (*names, "homo_feature_binning_2")
          if name != "evaluation_0"}
predict = job.predict(["data_transform_0", "homo_lr_0"], "homo_guest", "homo_host")
show(predicted=rows(predict, "homo_lr_0"), again=summary(predict, "evaluation_1"),
     weights=line.get_component("homo_lr_0").get_model_param(),
     found={name: summary(line, name) for name in names}, tables=tables,
     binned=line.get_component("homo_feature_binning_0").get_model_param())
"""
)

NETWORK: Final = (
    """
import sys
sys.path.append(sys.argv[1])  # PyTorch: the SDK has HomoNN only with it
"""
    + HOMO_START
    + """
import torch
from pipeline import fate_torch_hook
from pipeline.component import HomoNN
from pipeline.component.nn import DatasetParam, TrainerParam

fate_torch_hook(torch)
job = HomoJob()
data = job.transform("data_transform_0", job.read("reader_0", "homo_guest", "homo_host"),
                     label_name="y")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1),
                            torch.nn.Sigmoid())
trainer = TrainerParam(trainer_name="fedavg_trainer", epochs=20, batch_size=32,
                       validation_freqs=20)
network = HomoNN(name="homo_nn_0", model=model, loss=torch.nn.BCELoss(), trainer=trainer,
                 optimizer=torch.optim.Adam(model.parameters(), lr=0.05),
                 dataset=DatasetParam(dataset_name="table"), torch_seed=100)
job.line.add_component(network, data=Data(train_data=data.data, validate_data=data.data))
job.add(HomoNN, "homo_nn_1", {"test_data": data.data}, model=network.output.model)
job.add(Evaluation, "evaluation_0", network.output.data, eval_type="binary")
line = job.fit()
predict = job.predict(["data_transform_0", "homo_nn_0"], "homo_guest", "homo_host")
show(found={name: summary(line, name) for name in ("homo_nn_0", "evaluation_0")},
     tables={name: rows(line, name) for name in ("homo_nn_0", "homo_nn_1")},
     model=line.get_component("homo_nn_0").get_model_param(), job=line.get_train_job_id(),
     predicted=rows(predict, "homo_nn_0"), again=summary(predict, "evaluation_1"))
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
