"""The ClientApp: trains and evaluates on this node's data."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from numpy_app import task

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the received model on the own data."""
    x, y = task.load_data(context.node_config)
    model = task.train(
        msg.content["arrays"].to_numpy_ndarrays(),
        x,
        y,
        epochs=context.run_config["local-epochs"],
        learning_rate=context.run_config["learning-rate"],
    )
    loss, _ = task.loss_of(model, x, y)
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Measure the received model on the own data."""
    x, y = task.load_data(context.node_config)
    loss, accuracy = task.loss_of(msg.content["arrays"].to_numpy_ndarrays(), x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(y)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
