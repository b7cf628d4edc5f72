"""All messages of boosted trees."""

from __future__ import annotations

from typing import Final

from fedflow.components.boosting import eini, fitting, guest_tree, host_grown, rounds, walking
from fedflow.components.samples import alignment
from fedflow.components.training import cross_validation, one_vs_rest, plan
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol(
    *(part.MESSAGES for part in (guest_tree, host_grown, rounds, walking, eini, fitting)),
    *(part.MESSAGES for part in (alignment, plan, one_vs_rest, cross_validation)),
)
