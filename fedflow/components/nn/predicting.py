"""What a network's outputs say: probabilities, classes or numbers; measures and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.evaluation.recorder import Recorder
from fedflow.components.nn.definition import Layer, Named, last_layer
from fedflow.components.samples.decoding import Instances, label_numbers
from fedflow.components.samples.predictions import (
    sigmoid,
    write_class_predictions,
    write_predictions,
    write_values,
)
from fedflow.components.training.measures import record_measures
from fedflow.components.training.params import CallbackParam
from fedflow.sdk import BadData, Context, Table

Floats = NDArray[np.float64]

THRESHOLD: Final = 0.5
MAX_CLASSES: Final = 10_000
_NEAR: Final = 1e-3
_WITHIN_ONE: Final = frozenset({"Sigmoid", "Hardsigmoid", "Softmax", "Softmin"})
_SUMMING: Final = frozenset({"Softmax", "Softmin"})  #: layers whose outputs sum up to 1
_OF_PROBABILITIES: Final = "BCELoss"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scored:
    """A data set and what the network says of it."""

    kind: str  #: train, validate or predict
    data: Instances
    values: Floats  #: probabilities of class 1, or of each class (rows x classes), or numbers


def read_targets(data: Instances, *, task: str) -> Floats:
    """Return the labels as numbers: 0 and 1, class numbers from 0, or any.

    Raises: BadData: no labels, or others; LabelTransform makes class numbers of them.
    """
    numbers = label_numbers(data)
    where = f"table {data.table.namespace}.{data.table.name}"
    if task == "binary" and not np.isin(numbers, (0, 1)).all():
        raise BadData(where=where, reason="its labels are not all 0 or 1")
    if task == "multi":
        whole = (numbers >= 0) & (numbers < MAX_CLASSES) & (numbers == np.floor(numbers))
        if not whole.all():
            reason = "its labels are no class numbers from 0; LabelTransform makes them"
            raise BadData(where=where, reason=reason)
    return numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputMeaning:
    """What a network's outputs are, by its last layer and its loss.

    A row's prediction so never depends on the rows beside it, but for a network whose last layer
    and loss are the party's own and have one output: see `is_certain`.
    """

    task: str  #: binary, multi or regression
    last: Layer
    loss: Named

    @staticmethod
    def of(layers: tuple[Layer, ...], loss: Named, *, task: str) -> OutputMeaning:
        """Return the meaning of the outputs of these layers."""
        return OutputMeaning(task=task, last=last_layer(layers), loss=loss)

    @property
    def is_certain(self) -> bool:
        """Tell whether one output of a row, of two classes, is known to be a probability or not."""
        return self.last.custom is None or self.loss.custom is None

    def read(self, outputs: Floats) -> Floats:
        """Return probabilities or numbers of outputs, rows x outputs.

        Outputs that are no probabilities go through a sigmoid or softmax. Raises: BadData: they
        are too many or too few for the task, or not finite.
        """
        if not np.isfinite(outputs).all():
            raise BadData(where="the network's outputs", reason="they are not all finite")
        width, task = outputs.shape[1], self.task
        if width != 1 and task == "regression":
            raise BadData(where="the network's outputs", reason=f"{width} of a row; 1 is a number")
        if width == 1 and task == "multi":
            raise BadData(where="the network's outputs", reason="1 of a row; classes have one each")
        if width not in (1, 2) and task == "binary":
            raise BadData(where="the network's outputs", reason=f"{width} of a row; 2 classes")
        if task == "regression":
            return outputs[:, 0]
        if width == 1:
            return outputs[:, 0] if self._one_is_probability(outputs) else sigmoid(outputs[:, 0])
        sums_up = self._sum_up(outputs)
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        found: Floats = powers / powers.sum(axis=1, keepdims=True)
        found = np.where(sums_up[:, None], outputs, found)
        return found[:, 1] if task == "binary" else found

    def _one_is_probability(self, outputs: Floats) -> bool:
        if self.last.custom is None:
            return self.last.name in _WITHIN_ONE or self.loss.name == _OF_PROBABILITIES
        if self.loss.custom is None:
            return self.loss.name == _OF_PROBABILITIES
        return bool(outputs.size and outputs.min() >= 0 and outputs.max() <= 1)

    def _sum_up(self, outputs: Floats) -> NDArray[np.bool_]:
        """Return which rows are probabilities of classes."""
        if self.last.custom is None:
            return np.full(len(outputs), self.last.name in _SUMMING)
        near = np.abs(outputs.sum(axis=1) - 1) <= _NEAR
        return np.asarray(near & (outputs >= 0).all(axis=1), dtype=np.bool_)


def measure(ctx: Context, scored: Scored, *, task: str, name: str) -> dict[str, float]:
    """Record the measures of a data set with labels, and return those that are one number."""
    true: NDArray[Any] = label_numbers(scored.data)
    predicted: NDArray[Any] = scored.values
    if task == "binary":
        true = true > 0
    elif task == "multi":
        true, predicted = true.astype(np.int64), scored.values.argmax(axis=1)
    chosen = set(CallbackParam().measures_of(task))
    recorder = Recorder(ctx, name, scored.kind)
    found = record_measures(recorder, task, chosen, true=true, predicted=predicted)
    if found:
        recorder.scalars(found)
    return found


def write_scored(ctx: Context, parts: Sequence[Scored], *, task: str) -> Table:
    """Return the table of predictions."""
    rows: list[tuple[str, Instances, Any]] = [(one.kind, one.data, one.values) for one in parts]
    if task == "regression":
        return write_values(ctx, rows)
    if task == "binary":
        return write_predictions(ctx, rows, classes=(0, 1), threshold=THRESHOLD)
    classes = tuple(range(parts[0].values.shape[1]))
    return write_class_predictions(ctx, rows, classes=classes)
