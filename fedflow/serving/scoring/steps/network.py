"""HomoNN online: a network that each party has whole. PyTorch is imported with such a model."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedflow.components.nn.definition import own_classes
from fedflow.components.nn.params import HomoNNParams
from fedflow.components.nn.predicting import THRESHOLD, OutputMeaning
from fedflow.components.nn.stored import PARAM, TrainedNetwork
from fedflow.sdk import BadData
from fedflow.serving.scoring.batch import Batch, Flags, Floats, Places
from fedflow.serving.scoring.predicted import Predicted
from fedflow.serving.scoring.registry import StepSource

if TYPE_CHECKING:
    from fedflow.components.nn.learner import NetworkLearner


def homo_nn(source: StepSource) -> NetworkScorer:
    """Return the model.

    Raises: ValueError, BadData, BadParameter: PyTorch is missing, a class of the party's own is not
        there, or the network does not fit the rows.
    """
    params = source.params(HomoNNParams)
    if params.dataset.own is not None:
        reason = f"its rows are made by {params.dataset.own.module}, which reads whole tables"
        raise ValueError(reason)
    if importlib.util.find_spec("torch") is None:
        raise ValueError("PyTorch is not installed here; `pip install fedflow[nn]` brings it")
    from fedflow.components.nn.learner import NetworkLearner, network_of  # with PyTorch

    stored = TrainedNetwork.of(source.stored(PARAM))
    meaning = stored.meaning
    if source.nn_folder is None and (own := own_classes(stored.layers)):
        reason = (
            f"its layer {own[0].name} is the party's own; the setting nn_folder names its folder"
        )
        raise ValueError(reason)
    learner = NetworkLearner(network_of(stored.layers, folder=source.nn_folder, seed=0))
    learner.restore(stored.states)
    width = _width(learner, columns=len(stored.header))
    if meaning.task == "binary" and width == 1 and not meaning.is_certain:
        raise ValueError(
            "last layer and loss are the party's own, so nothing says whether an output is a"
            " probability; end the network with a Sigmoid"
        )
    return NetworkScorer(
        columns=stored.header,
        places=source.header.numeric(stored.header),
        learner=learner,
        meaning=meaning,
        width=width,
        predicted=Predicted(mean=_same, labels=_labels(meaning, width), threshold=THRESHOLD),
    )


def _width(learner: NetworkLearner, *, columns: int) -> int:
    """Return how many outputs a row has. Raises: BadData: the network is of other columns."""
    return int(_outputs(learner, np.zeros((1, columns))).shape[1])


def _labels(meaning: OutputMeaning, width: int) -> tuple[int, ...]:
    """Return the classes. Raises: BadData: the outputs are not of this task."""
    meaning.read(np.zeros((1, width)))
    if meaning.task == "regression":
        return ()
    return (0, 1) if meaning.task == "binary" else tuple(range(width))


def _outputs(learner: NetworkLearner, features: Floats) -> Floats:
    from fedflow.components.nn.learner import examples_of

    return learner.scores(examples_of(features, None, task="").features)


def _same(values: Floats) -> Floats:
    """Return what `NetworkScorer.local` gives: it is what is predicted."""
    return values


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkScorer:
    """A network and its columns."""

    columns: tuple[str, ...]
    places: Places  #: of these among the rows' columns
    learner: NetworkLearner
    meaning: OutputMeaning
    width: int  #: outputs of a row
    predicted: Predicted

    def local(self, batch: Batch) -> Floats:
        """Return what is predicted: one number per row, or one per row and class."""
        used = batch.features[:, self.places]
        batch.fail_missing(np.isnan(used), self.columns)
        outputs = self._outputs(batch, np.where(batch.failed[:, None], 0.0, used))
        odd: Flags = np.any(~np.isfinite(outputs), axis=1)
        batch.fail(odd, "an output of the network is no finite number")
        return self.meaning.read(np.where(odd[:, None], 0.0, outputs))

    def _outputs(self, batch: Batch, features: Floats) -> Floats:
        """Return the outputs; a row that a layer of the party's own refuses has an error."""
        try:
            return _outputs(self.learner, features)
        except BadData:
            pass
        found = np.zeros((len(features), self.width))
        for row in range(len(features)):
            try:
                found[row] = _outputs(self.learner, features[row : row + 1])
            except BadData as exc:
                batch.errors.setdefault(row, str(exc.fields["reason"]))
        return found
