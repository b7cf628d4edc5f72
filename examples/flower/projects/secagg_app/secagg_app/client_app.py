"""The ClientApp: the mod masks each update."""

from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Context

from secagg_app import task


class Client(NumPyClient):
    """Trains and evaluates on this node's data."""

    def __init__(self, data, config):
        self.x, self.y = data
        self.config = config

    def fit(self, parameters, config):
        """Return the parameters after some steps."""
        model = task.train(
            parameters,
            self.x,
            self.y,
            epochs=self.config["local-epochs"],
            learning_rate=self.config["learning-rate"],
        )
        return model, len(self.y), {}

    def evaluate(self, parameters, config):
        """Return the loss of the parameters."""
        loss, accuracy = task.loss_of(parameters, self.x, self.y)
        return loss, len(self.y), {"accuracy": accuracy}


def client_fn(context: Context):
    """Return the client of this node."""
    return Client(task.load_data(context.node_config), context.run_config).to_client()


app = ClientApp(client_fn=client_fn, mods=[secaggplus_mod])
