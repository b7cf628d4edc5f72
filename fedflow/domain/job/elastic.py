"""The job parameter `elastic`: how an elastic job lives with sites that are absent.

Parties are counted that train: the guest and the hosts. `elastic_checks` says which jobs may have
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from fedflow.base.decoding import read_as
from fedflow.base.values import dataclass

_Parties = Annotated[int, Meta(ge=1, le=1_001)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Elastic:
    """How many parties must train, and how long the others wait for one that is late."""

    min_parties: _Parties  #: guest and hosts; with fewer the job fails
    max_parties: _Parties | None = None  #: in one round, the others wait; None: all
    #: seconds of each stage of a round, after which a late party is left out of it
    round_deadline_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    #: seconds for more parties to come once `min_parties` are there
    last_call_s: Annotated[float, Meta(ge=0, le=86_400)] = 5.0
    rejoin: bool = True  #: a host that was left out is started again when it is heard from
    #: seconds beyond its lease for which an arbiter's server may be away; then the job fails
    arbiter_wait_s: Annotated[float, Meta(ge=0, le=1_200)] = 600.0


def read_elastic(given: Mapping[str, object] | None) -> Elastic | None:
    """Return checked settings as their class; None: the job is not elastic."""
    return None if given is None else read_as(dict(given), Elastic)
