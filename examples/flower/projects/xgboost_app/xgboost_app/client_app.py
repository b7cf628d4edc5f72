"""The ClientApp: adds trees that are learnt from this node's data."""

import numpy as np
import xgboost as xgb
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from xgboost_app import task

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Return the trees of this round alone."""
    data = task.load_data(context.node_config)
    params = task.params_of(context.run_config)
    rounds = context.run_config["local-epochs"]
    if msg.content["config"]["server-round"] == 1:
        booster = xgb.train(params, data, num_boost_round=rounds)
    else:
        booster = task.loaded(msg.content["arrays"]["0"].numpy(), params)
        for _ in range(rounds):
            booster.update(data, booster.num_boosted_rounds())
        booster = booster[booster.num_boosted_rounds() - rounds : booster.num_boosted_rounds()]
    model = np.frombuffer(booster.save_raw("json"), dtype=np.uint8)
    metrics = MetricRecord({"num-examples": data.num_row()})
    content = RecordDict({"arrays": ArrayRecord([model]), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Measure the model of all nodes on the own data."""
    data = task.load_data(context.node_config)
    booster = task.loaded(msg.content["arrays"]["0"].numpy(), task.params_of(context.run_config))
    auc = float(booster.eval_set([(data, "valid")]).rpartition(":")[2])
    metrics = MetricRecord({"auc": auc, "num-examples": data.num_row()})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
