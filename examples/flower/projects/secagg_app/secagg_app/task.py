"""The model and the data."""

import csv

import numpy as np


def load_data(node_config):
    """Return (features, labels) of the file that this node may read: id, label, features."""
    with open(node_config["data-path"], newline="") as file:
        rows = list(csv.reader(file))
    numbers = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
    return numbers[:, 1:], numbers[:, 0]


def new_model(features):
    """Return weights and bias, all zero."""
    return [np.zeros(features), np.zeros(1)]


def predict(model, x):
    """Return the probability of label 1, one per row."""
    return 1 / (1 + np.exp(-(x @ model[0] + model[1])))


def loss_of(model, x, y):
    """Return (mean log loss, accuracy)."""
    p = np.clip(predict(model, x), 1e-9, 1 - 1e-9)
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return float(loss), float(np.mean((p > 0.5) == y))


def train(model, x, y, *, epochs, learning_rate):
    """Return the model after some steps of gradient descent."""
    weights, bias = (part.copy() for part in model)
    for _ in range(epochs):
        error = predict([weights, bias], x) - y
        weights -= learning_rate * (x.T @ error) / len(y)
        bias -= learning_rate * error.mean()
    return [weights, bias]
