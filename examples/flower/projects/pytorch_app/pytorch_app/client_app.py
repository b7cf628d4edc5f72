"""The ClientApp: trains and evaluates the network on this node's data."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from pytorch_app import task

app = ClientApp()


@app.train()
def train(msg: Message, context: Context) -> Message:
    """Train the received network on the own data."""
    x, y = task.load_data(context.node_config)
    model = task.new_model(context.run_config)
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loss = task.train(
        model,
        x,
        y,
        epochs=context.run_config["local-epochs"],
        learning_rate=context.run_config["learning-rate"],
    )
    metrics = MetricRecord({"train_loss": loss, "num-examples": len(y)})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics})
    return Message(content=content, reply_to=msg)


@app.evaluate()
def evaluate(msg: Message, context: Context) -> Message:
    """Measure the received network on the own data."""
    x, y = task.load_data(context.node_config)
    model = task.new_model(context.run_config)
    model.load_state_dict(msg.content["arrays"].to_torch_state_dict())
    loss, accuracy = task.loss_of(model, x, y)
    metrics = MetricRecord({"eval_loss": loss, "eval_acc": accuracy, "num-examples": len(y)})
    return Message(content=RecordDict({"metrics": metrics}), reply_to=msg)
