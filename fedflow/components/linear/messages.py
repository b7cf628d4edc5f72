"""All messages of the linear models with an arbiter."""

from __future__ import annotations

from typing import Final

from fedflow.components.linear import session, sqn, stepwise
from fedflow.components.training import cross_validation, one_vs_rest
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol(
    session.MESSAGES,
    sqn.MESSAGES,
    one_vs_rest.MESSAGES,
    cross_validation.MESSAGES,
    stepwise.MESSAGES,
)
