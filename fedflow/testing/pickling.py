"""Functions as a cluster gets them: pickled here, made anew there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Final, TypeVar

import cloudpickle

T = TypeVar("T")

MOST_BYTES: Final = 1 << 18  #: that a function of blocks or columns may capture


def pickled(function: Callable[..., T]) -> Callable[..., T]:
    """Return a copy of the function made of its pickled form, as another process would have it.

    Raises: AssertionError: it cannot be pickled, or captures more than 256 KiB.
    """
    try:
        form = cloudpickle.dumps(function)
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as exc:
        raise AssertionError(f"{function!r} cannot be sent to a worker: {exc}") from exc
    if len(form) > MOST_BYTES:
        raise AssertionError(f"{function!r} captures {len(form)} bytes, allowed are {MOST_BYTES}")
    copy: Callable[..., T] = cloudpickle.loads(form)
    return copy
