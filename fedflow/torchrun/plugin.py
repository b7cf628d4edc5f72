"""What torch's entry-point group `torchrun.handlers` names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def handlers() -> Callable[[Any], Any]:
    """Return what makes a handler of torch's `RendezvousParameters`; torch calls this once."""
    from fedflow.torchrun.handler import create_handler

    return create_handler
