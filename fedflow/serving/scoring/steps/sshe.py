"""HeteroSSHELR and HeteroSSHELinR online, where each party knows its weights."""

from __future__ import annotations

from fedflow.components.sshe.model import Fitted, read_model
from fedflow.components.sshe.params import (
    HeteroSSHELinRParams,
    HeteroSSHELRParams,
    SSHEParams,
)
from fedflow.serving.scoring.registry import StepSource
from fedflow.serving.scoring.steps.linear import LinearScorer, scorer_of


def hetero_sshe_lr(source: StepSource) -> LinearScorer:
    """Return the model. Raises: ValueError, BadData: weights are hidden, or do not fit the rows."""
    return _read(source, HeteroSSHELRParams)


def hetero_sshe_linr(source: StepSource) -> LinearScorer:
    """Return the model. Raises: as `hetero_sshe_lr`."""
    return _read(source, HeteroSSHELinRParams)


def _read(source: StepSource, kind: type[SSHEParams]) -> LinearScorer:
    params = source.params(kind)
    model = read_model(source.stored(), family=params.family, where=source.component)
    for part in model.parts:
        if isinstance(part, Fitted) and (part.encrypted is not None or part.key is not None):
            raise ValueError(
                "the host's weights are encrypted (encrypted_reveal_in_host), so each score would"
                " take decryptions; train with reveal_strategy respectively"
            )
        if isinstance(part, Fitted) and not part.known:
            raise ValueError("it is a checkpoint of hidden weights, which cannot predict")
    return scorer_of(model, source, params)
