"""The network and the data."""

import csv

import torch
from torch import nn


def load_data(node_config):
    """Return (features, labels) of the file that this node may read: id, label, features."""
    with open(node_config["data-path"], newline="") as file:
        rows = list(csv.reader(file))
    numbers = torch.tensor([[float(cell) for cell in row[1:]] for row in rows[1:]])
    return numbers[:, 1:], numbers[:, :1]


def new_model(config):
    """Return the network."""
    torch.manual_seed(0)
    hidden = config["hidden"]
    return nn.Sequential(nn.Linear(config["features"], hidden), nn.ReLU(), nn.Linear(hidden, 1))


def train(model, x, y, *, epochs, learning_rate):
    """Train the network; return its last loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    for _ in range(epochs):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def loss_of(model, x, y):
    """Return (mean loss, accuracy)."""
    with torch.no_grad():
        out = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(out, y)
        return float(loss), float(((out > 0) == (y > 0.5)).float().mean())
