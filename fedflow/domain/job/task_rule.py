"""How one component is run, as the job's parameters say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.policies import Policy
from fedflow.domain.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """How one component is run, as the job's parameters say; `domain.job.rules` makes them."""

    policy: Policy = Policy.ALL_SUCCESS
    timeout_ms: int | None = None  #: from the start of an attempt
    retries: int = 0  #: in each epoch
    retry_delay_ms: int = 0  #: pause before a failed task is tried again
    retry_on: frozenset[str] | None = None  #: errors; None: all but `PERMANENT` ones
    takes: Mapping[Site, ComputeResources] = field(default_factory=dict)  #: of the party jobs


PLAIN: Final = Rule()
