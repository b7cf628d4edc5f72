"""One party's network and rows: training, scores, and its numbers as arrays. Imports PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from fedflow.components.nn.definition import Layer, Named
from fedflow.components.nn.folder import made, own_class
from fedflow.components.nn.states import States, as_before
from fedflow.sdk import BadData, BadParameter, Diverged

SCORED_ROWS: Final = 8192  #: that are scored at a time
MOST_PARAMETERS: Final = 1 << 30

Floats = NDArray[np.float64]
Trainer = Callable[[Any, Any, Any, Iterable[Any]], float]

_SEEDED = threading.Lock()  # PyTorch has one generator of first weights per process


@dataclass(frozen=True, kw_only=True, slots=True)
class Examples:
    """Rows as a network gets them."""

    features: torch.Tensor  #: rows x ...
    labels: torch.Tensor | None  #: of two classes or numbers: rows x 1; of classes: rows


def network_of(layers: Iterable[Layer], *, folder: Path | None, seed: int) -> torch.nn.Module:
    """Return a network with first weights by `seed`. Raises: BadParameter: it cannot be made."""
    with _SEEDED, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _sequence(layers, folder=folder, path="nn_define")
    if sum(p.numel() for p in network.parameters()) > MOST_PARAMETERS:
        raise BadParameter(path="nn_define", reason=f"more than {MOST_PARAMETERS} weights")
    return network


def loss_function(loss: Named, *, folder: Path | None) -> Any:
    """Return a loss of outputs and labels. Raises: BadParameter: it cannot be made."""
    if loss.custom is not None:
        kind = own_class(folder, "losses", loss.custom, path="loss")
        return made(kind, loss.custom.arguments, path="loss")
    return made(getattr(torch.nn, loss.name), loss.arguments, path="loss")


class NetworkLearner:
    """A network with its optimizer, whose state stays at this party."""

    def __init__(
        self,
        network: torch.nn.Module,
        *,
        optimizer: Named | None = None,
        loss: Any = None,
        seed: int = 0,
        trainer: Trainer | None = None,
    ) -> None:
        """Without optimizer and loss it can only score. Raises: BadParameter."""
        self.network = network
        self._loss = loss
        self._trainer = trainer or _one_epoch
        self._generator = torch.Generator().manual_seed(seed)
        self._optimizer: Any = None
        if optimizer is not None:
            kind = getattr(torch.optim, optimizer.name)
            parameters = list(network.parameters())
            if not parameters:
                raise BadParameter(path="nn_define", reason="the network has no weights to train")
            given = {name: _argument(value) for name, value in optimizer.arguments.items()}
            self._optimizer = made(kind, {"params": parameters, **given}, path="optimizer")
            # PyTorch imports much at the first step: here, and not within a round's deadline.
            # Without gradients a step changes nothing.
            self._optimizer.zero_grad()
            self._optimizer.step()

    @property
    def states(self) -> dict[str, NDArray[Any]]:
        """Return copies of weights and other numbers by name."""
        return {n: t.detach().numpy().copy() for n, t in self.network.state_dict().items()}

    @property
    def learnt(self) -> list[str]:
        """Return the names of the arrays that are trained; others count or average rows."""
        return [name for name, one in self.network.named_parameters() if one.requires_grad]

    def load(self, means: Mapping[str, Floats]) -> None:
        """Take numbers from a round. Raises: ValueError: they are not of this network."""
        self.restore(as_before(means, self.states))

    def restore(self, states: States) -> None:
        """Take stored numbers. Raises: ValueError: they are not of this network."""
        own = self.states
        if set(own) != set(states) or any(states[n].shape != own[n].shape for n in own):
            raise ValueError("the arrays are not those of this network")
        self.network.load_state_dict(
            {n: torch.from_numpy(np.array(array, own[n].dtype)) for n, array in states.items()}
        )

    def train(
        self,
        examples: Examples,
        *,
        epochs: int,
        batch_size: int,
        shuffle: bool,
        round_: int,
        proximal: float = 0.0,
    ) -> float:
        """Train for some epochs, and return the mean loss of the last one.

        `proximal` times the distance from the weights at the beginning is added to each gradient
        (FedProx), whatever the trainer does.

        Raises: Diverged: a loss is not finite. BadData: outputs and labels do not fit.
        """
        if not proximal:
            return self._train(examples, epochs, batch_size, shuffle=shuffle, round_=round_)
        anchors = [(p, p.detach().clone()) for p in self.network.parameters()]

        def hold(*_: Any) -> None:
            for parameter, anchor in anchors:
                if parameter.grad is not None:
                    parameter.grad.add_(parameter.detach() - anchor, alpha=proximal)

        hook = self._optimizer.register_step_pre_hook(hold)
        try:
            return self._train(examples, epochs, batch_size, shuffle=shuffle, round_=round_)
        finally:
            hook.remove()

    def _train(
        self, examples: Examples, epochs: int, batch_size: int, *, shuffle: bool, round_: int
    ) -> float:
        loss = 0.0
        self.network.train()
        for _ in range(epochs):
            batches = _batches(examples, batch_size, generator=self._generator if shuffle else None)
            try:
                loss = float(self._trainer(self.network, self._optimizer, self._loss, batches))
            except (RuntimeError, ValueError, IndexError, TypeError) as exc:
                where = "the network's outputs and the labels"
                raise BadData(where=where, reason=str(exc)[:500]) from exc
            if not np.isfinite(loss):
                raise Diverged(iteration=round_, reason=f"the loss is {loss}")
        return loss

    def loss_of(self, examples: Examples) -> float:
        """Return the mean loss of labelled rows. Raises: BadData: outputs and labels do not fit."""
        self.network.eval()
        total = 0.0
        try:
            with torch.inference_mode():
                for features, labels in _batches(examples, SCORED_ROWS, generator=None):
                    total += float(self._loss(self.network(features), labels)) * len(features)
        except (RuntimeError, ValueError, IndexError, TypeError) as exc:
            where = "the network's outputs and the labels"
            raise BadData(where=where, reason=str(exc)[:500]) from exc
        return total / max(1, len(examples.features))

    def scores(self, features: torch.Tensor) -> Floats:
        """Return the outputs: rows x outputs. Raises: BadData: the columns do not fit."""
        self.network.eval()
        parts = []
        try:
            with torch.inference_mode():
                for start in range(0, len(features), SCORED_ROWS):
                    found = self.network(features[start : start + SCORED_ROWS])
                    parts.append(found.reshape(len(found), -1).double().numpy())
        except (RuntimeError, ValueError, IndexError, TypeError) as exc:
            raise BadData(where="the network's inputs", reason=str(exc)[:500]) from exc
        return np.concatenate(parts) if parts else np.empty((0, 1))


def examples_of(features: Floats, labels: Floats | None, *, task: str) -> Examples:
    """Return a table's rows. `labels` are numbers; class numbers in `multi`."""
    found = None
    if labels is not None:
        numbers = torch.from_numpy(np.array(labels))
        found = numbers.long() if task == "multi" else numbers.float().reshape(-1, 1)
    return Examples(features=torch.from_numpy(features.astype(np.float32)), labels=found)


def examples_of_own(rows: Any, *, count: int, labeled: bool) -> Examples:
    """Return the rows of a party's own data set. Raises: BadData: not one for each of the table."""
    if len(rows) != count:
        raise BadData(where="dataset", reason=f"{len(rows)} rows; the table has {count}")
    pairs = [rows[number] for number in range(count)]
    try:
        features = torch.stack([torch.as_tensor(pair[0], dtype=torch.float32) for pair in pairs])
        labels = torch.stack([torch.as_tensor(pair[1]) for pair in pairs]) if labeled else None
    except (TypeError, ValueError, IndexError, RuntimeError) as exc:
        raise BadData(where="dataset", reason=f"its rows are no tensors: {exc}") from exc
    return Examples(features=features, labels=labels)


def _one_epoch(network: Any, optimizer: Any, loss: Any, batches: Iterable[Any]) -> float:
    """Train once with every batch, and return the mean loss of a row."""
    total, rows = 0.0, 0
    for features, labels in batches:
        optimizer.zero_grad()
        outputs = network(features)
        if labels.ndim == 2 and outputs.shape != labels.shape:
            shapes = f"{tuple(outputs.shape)}, labels {tuple(labels.shape)}"
            raise ValueError(f"outputs have the shape {shapes}")
        found = loss(outputs, labels)
        found.backward()
        optimizer.step()
        total += float(found.detach()) * len(features)
        rows += len(features)
    return total / max(1, rows)


def _batches(
    examples: Examples, size: int, *, generator: torch.Generator | None
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield features and labels of some rows at a time, in a new order with a generator."""
    count = len(examples.features)
    step = count if size == -1 else size
    labels: Any = examples.labels
    order = torch.arange(count) if generator is None else torch.randperm(count, generator=generator)
    for start in range(0, count, step):
        rows = order[start : start + step]
        yield examples.features[rows], labels[rows]


def _sequence(layers: Iterable[Layer], *, folder: Path | None, path: str) -> torch.nn.Sequential:
    found: list[torch.nn.Module] = []
    for number, layer in enumerate(layers):
        where = f"{path}.{number}"
        if layer.custom is not None:
            kind = own_class(folder, "models", layer.custom, path=where)
            one = made(kind, layer.custom.arguments, path=where)
            if not isinstance(one, torch.nn.Module):
                reason = f"{layer.custom.name} is no torch.nn.Module"
                raise BadParameter(path=where, reason=reason)
            found.append(one)
        elif layer.inner:
            found.append(_sequence(layer.inner, folder=folder, path=where))
        else:
            kind = getattr(torch.nn, layer.name)
            given = {name: _argument(value) for name, value in layer.arguments.items()}
            found.append(made(kind, given, path=where))
    return torch.nn.Sequential(*found)


def _argument(value: Any) -> Any:
    """Return lists of JSON as tuples, as PyTorch takes shapes and betas."""
    return tuple(value) if isinstance(value, list) else value
