"""HeteroLR, HeteroLinR and HeteroPoisson online: every party adds its columns times its weights.

And HomoLR, whose weights each party has all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedflow.components.horizontal.lr_params import FAMILY as HOMO_LOGISTIC
from fedflow.components.horizontal.lr_params import HomoLRParams
from fedflow.components.linear.families import LINEAR, LOGISTIC, POISSON, Family
from fedflow.components.linear.params import (
    HeteroLinRParams,
    HeteroLRParams,
    HeteroPoissonParams,
    LinearParams,
)
from fedflow.components.linear.rows import SMALLEST_EXPOSURE
from fedflow.components.linear.stored import LinearModel
from fedflow.domain.site import Role
from fedflow.serving.scoring.batch import Batch, Flags, Floats, Places
from fedflow.serving.scoring.host_answer import AnswerShape, HostAnswer, answer_of
from fedflow.serving.scoring.predicted import Predicted
from fedflow.serving.scoring.registry import StepSource


def hetero_lr(source: StepSource) -> LinearScorer:
    """Return the model. Raises: ValueError, BadData: rows and model do not fit."""
    return _read(source, LOGISTIC, HeteroLRParams)


def hetero_linr(source: StepSource) -> LinearScorer:
    """Return the model. Raises: as `hetero_lr`."""
    return _read(source, LINEAR, HeteroLinRParams)


def hetero_poisson(source: StepSource) -> LinearScorer:
    """Return the model. Raises: as `hetero_lr`."""
    return _read(source, POISSON, HeteroPoissonParams)


def homo_lr(source: StepSource) -> LinearScorer:
    """Return the model. Raises: as `hetero_lr`."""
    return _read(source, HOMO_LOGISTIC, HomoLRParams)


def _read(source: StepSource, family: Family, kind: type[LinearParams]) -> LinearScorer:
    params = source.params(kind)
    model = LinearModel.from_model(source.stored(), family=family, where=source.component)
    return scorer_of(model, source, params)


def scorer_of(model: LinearModel, source: StepSource, params: LinearParams) -> LinearScorer:
    """Return what scores rows with a model. Raises: ValueError: it does not fit the rows."""
    shares = [part.share for part in model.parts if part.share is not None]
    if len({share.columns for share in shares}) != 1 or len(shares) != len(model.parts):
        raise ValueError("its stored model has no weights, or several for one column")
    exposure = None
    if source.site.role is Role.GUEST and model.exposure in source.header.columns:
        exposure = int(source.header.numeric([str(model.exposure)])[0])
    return LinearScorer(
        columns=shares[0].columns,
        places=source.header.numeric(shares[0].columns),
        coef=np.column_stack([share.coef for share in shares]),
        intercepts=np.array([share.intercept for share in shares]),
        exposure=exposure,
        predicted=_predicted(model, params),
    )


def _predicted(model: LinearModel, params: LinearParams) -> Predicted:
    """Return what scores mean, as `_score` of the component writes them."""
    family = params.family
    labels = model.labels if family.classifies else ()
    if model.one_vs_rest:
        return Predicted(mean=family.mean, labels=labels)

    def mean(scores: Floats) -> Floats:
        return family.mean(scores[:, 0])

    return Predicted(mean=mean, labels=labels, threshold=params.predict_param.threshold)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinearScorer:
    """The weights of one party, of one training or one per class."""

    columns: tuple[str, ...]
    places: Places  #: of these among the rows' columns
    coef: Floats  #: columns x trainings
    intercepts: Floats  #: one per training
    exposure: int | None  #: place of the guest's exposure column
    predicted: Predicted

    @property
    def is_sum(self) -> bool:
        """Tell whether scores are sums of parts: yes."""
        return True

    def shape(self, host: int) -> AnswerShape:
        """Return how much a host says of each row."""
        return AnswerShape(scores=len(self.intercepts))

    def partial(self, batch: Batch) -> HostAnswer:
        """Return a host's part of the scores of all rows."""
        scores = self.local(batch)
        return answer_of(batch.failed, scores=scores)

    def local(self, batch: Batch) -> Floats:
        """Return this party's part of the scores of all rows: rows x trainings."""
        used = batch.features[:, self.places]
        batch.fail_missing(np.isnan(used), self.columns)
        with np.errstate(over="ignore", invalid="ignore"):
            scores: Floats = used @ self.coef + self.intercepts
        if self.exposure is not None:
            scores = scores + self._offsets(batch)[:, None]
        odd: Flags = np.any(~np.isfinite(scores), axis=1)
        batch.fail(odd, "its score is no finite number")
        return scores

    def _offsets(self, batch: Batch) -> Floats:
        """Return what exposures add to the scores."""
        exposures: Floats = batch.features[:, self.exposure]
        batch.fail(np.isnan(exposures), "its exposure is missing")
        batch.fail(np.less(exposures, 0.0), "its exposure is negative")
        known = np.where(exposures > 0, exposures, SMALLEST_EXPOSURE)
        offsets: Floats = np.log(known)
        return offsets

    def merged(self, values: Floats, answers: Sequence[HostAnswer]) -> Floats:
        """Return the scores of all rows, with what all hosts say in their order."""
        for answer in answers:
            values = values + answer.scores
        return values

    def check(self, host: int, answer: HostAnswer) -> None:
        """Do nothing: finite scores of the right shape are all that a host can say."""
