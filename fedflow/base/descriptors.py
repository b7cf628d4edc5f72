"""How many descriptors (files, sockets, pipes) this process may have open, and who gets them."""

from __future__ import annotations

import logging
import os
import resource
from contextlib import suppress
from typing import Final

from fedflow.base.values import dataclass

logger = logging.getLogger(__name__)

ENOUGH: Final = 4096  #: for a server with all connections that it takes at once
_FEW: Final = 0.8  #: share from which on it is said that they run out
_LEAST: Final = 32  #: must be left: with fewer no task can be started
_MOST: Final = 65_536  #: more serve nobody


def raise_limit() -> None:
    """Let this process have as many descriptors as the system allows; warn if these are few."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if most == resource.RLIM_INFINITY else min(most, _MOST)
    if before != resource.RLIM_INFINITY and before < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    if (limit := _limit()) < ENOUGH:
        logger.warning(
            "only %d descriptors (ulimit -n); with %d more can connect at once",
            limit,
            ENOUGH,
            extra={"action": "few_descriptors"},
        )


def connections_of_parties() -> int:
    """Return how many connections the gRPC port may take, so that enough is left for all else."""
    return min(_limit() // 2, 2048)


def connections_of_clients() -> int:
    """Return how many connections the REST port may take."""
    return min(_limit() // 4, 1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Descriptors:
    """The descriptors that are open, and how many may be."""

    used: int
    limit: int

    @property
    def are_few(self) -> bool:
        """Tell whether it is time to say that they run out."""
        return self.used >= self.limit * _FEW

    @property
    def fault(self) -> str:
        """Return why no task can be started; empty: one can."""
        return str(self) if self.limit - self.used < _LEAST else ""

    def __str__(self) -> str:
        return f"{self.used} of {self.limit} are used; raise LimitNOFILE (ulimit -n)"


def open_descriptors() -> Descriptors:
    """Return how many are open; all of them, if not even a look is possible."""
    try:
        return Descriptors(used=len(os.listdir("/proc/self/fd")) - 1, limit=_limit())
    except OSError:
        return Descriptors(used=_limit(), limit=_limit())


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft
