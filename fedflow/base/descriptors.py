"""How many descriptors (files, sockets, pipes) this process may have open, and who gets them."""

from __future__ import annotations

import logging
import resource
from contextlib import suppress
from typing import Final

logger = logging.getLogger(__name__)

ENOUGH: Final = 4096  #: for a server with all connections that it takes at once
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


def _limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft
