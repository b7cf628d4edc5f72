"""The ClientApp: a NumPyClient over scikit-learn's logistic regression."""

from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context
from sklearn.metrics import log_loss

from sklearn_app import task


class Client(NumPyClient):
    """Trains and evaluates on this node's data."""

    def __init__(self, model, data):
        self.model, (self.x, self.y) = model, data

    def fit(self, parameters, config):
        """Return the parameters after some iterations."""
        task.set_parameters(self.model, parameters)
        self.model.fit(self.x, self.y)
        accuracy = float(self.model.score(self.x, self.y))
        return task.parameters_of(self.model), len(self.y), {"train_accuracy": accuracy}

    def evaluate(self, parameters, config):
        """Return the loss of the parameters."""
        task.set_parameters(self.model, parameters)
        loss = log_loss(self.y, self.model.predict_proba(self.x), labels=[0, 1])
        return float(loss), len(self.y), {"accuracy": float(self.model.score(self.x, self.y))}


def client_fn(context: Context):
    """Return the client of this node."""
    data = task.load_data(context.node_config)
    return Client(task.new_model(context.run_config), data).to_client()


app = ClientApp(client_fn=client_fn)
