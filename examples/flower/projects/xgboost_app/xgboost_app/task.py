"""The data, and the parameters of the trees."""

import csv

import numpy as np
import xgboost as xgb


def load_data(node_config):
    """Return the file that this node may read: id, label, features."""
    with open(node_config["data-path"], newline="") as file:
        rows = list(csv.reader(file))
    numbers = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
    return xgb.DMatrix(numbers[:, 1:], label=numbers[:, 0])


def params_of(run_config):
    """Return xgboost's parameters: those of the config that begin with `params.`."""
    prefix = "params."
    chosen = {key: value for key, value in run_config.items() if key.startswith(prefix)}
    return {key.removeprefix(prefix).replace("-", "_"): value for key, value in chosen.items()}


def loaded(array, params):
    """Return the model of which an array has the bytes."""
    booster = xgb.Booster(params=params)
    booster.load_model(bytearray(array.tobytes()))
    return booster
