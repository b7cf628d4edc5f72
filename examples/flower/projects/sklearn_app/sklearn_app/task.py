"""The model and the data."""

import csv
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore", ConvergenceWarning)  # a round trains for a few iterations only


def load_data(node_config):
    """Return (features, labels) of the file that this node may read: id, label, features."""
    with open(node_config["data-path"], newline="") as file:
        rows = list(csv.reader(file))
    numbers = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
    return numbers[:, 1:], numbers[:, 0].astype(np.int64)


def new_model(config):
    """Return a model that goes on from the parameters that it is given."""
    model = LogisticRegression(
        l1_ratio=1.0 if config["penalty"] == "l1" else 0.0,
        max_iter=config["local-epochs"],
        warm_start=True,
    )
    model.classes_ = np.array([0, 1])
    model.coef_ = np.zeros((1, config["features"]))
    model.intercept_ = np.zeros(1)
    return model


def parameters_of(model):
    """Return the model's arrays."""
    return [model.coef_, model.intercept_]


def set_parameters(model, parameters):
    """Put arrays into the model."""
    model.coef_, model.intercept_ = parameters
