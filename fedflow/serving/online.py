"""What a model must do to be served; `serving/scoring` builds such models from shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Features = Mapping[str, Any]  #: values of one row by the names of its columns


class OnlineBatch(Protocol):
    """Rows as a model has read them."""

    @property
    def features(self) -> NDArray[np.float64]:
        """Return rows x `inputs`; NaN where a value is missing or text."""

    @property
    def errors(self) -> Mapping[int, str]:
        """Return the rows that cannot be read, and why, by index."""


class OnlineScore(Protocol):
    """What a model says about one row."""

    @property
    def score(self) -> float | list[float] | None:
        """Return the score; a list has one value per class."""

    @property
    def label(self) -> Any:
        """Return the predicted label, None if the model has none."""

    @property
    def credit_score(self) -> float | None:
        """Return the points of a scorecard, None without one."""

    @property
    def error(self) -> str | None:
        """Return why there is no score."""


class ServableModel(Protocol):
    """One party's share of a model version, ready to score rows. Thread-safe."""

    @property
    def role(self) -> str:
        """Return guest, host or local."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return the columns that the first steps need."""

    @property
    def text_inputs(self) -> frozenset[str]:
        """Return those of `inputs` that hold text."""

    @property
    def labels(self) -> tuple[Any, ...]:
        """Return the classes, in the order of scores; none: numbers are predicted."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the ids of the parties whose parts are needed."""

    @property
    def scores_alone(self) -> bool:
        """Tell whether this party has the whole model, as of horizontal training."""

    @property
    def digest(self) -> str:
        """Return the digest of the version, common to all its parties."""

    def without(self, host: str) -> bytes | None:
        """Return a part of one row that adds nothing; None: the model needs what the host says."""

    def read(self, rows: Sequence[Features]) -> Any:
        """Return rows as an `OnlineBatch`."""

    def partial(self, batch: Any) -> bytes:
        """Return a host's part of the scores of all rows of a batch."""

    def local(self, batch: Any) -> Any:
        """Return this party's own part of the scores of all rows of a batch."""

    def merge(self, local: Any, partials: Mapping[str, bytes]) -> Sequence[OnlineScore]:
        """Return a score per row. Raises: FedflowError: a host's part cannot be used."""


Build = Callable[[bytes], ServableModel]
"""Builds a model from the JSON of its share. Raises: FedflowError: why it cannot be served."""
