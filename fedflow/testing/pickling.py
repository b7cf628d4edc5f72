"""Functions as a cluster gets them: pickled here, made anew there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, Final, TypeVar

import cloudpickle

T = TypeVar("T")

MOST_BYTES: Final = 1 << 18  #: that a function of blocks or columns may capture


def form_of(sent: object) -> bytes:
    """Return the pickled form of an object. Raises: AssertionError: it has none."""
    try:
        form: bytes = cloudpickle.dumps(sent)
    except (TypeError, ValueError, AttributeError, pickle.PicklingError) as exc:
        raise AssertionError(f"{sent!r} cannot be sent to a worker: {exc}") from exc
    return form


def copy_of(form: bytes) -> Any:
    """Return what has this form, made anew. `form` is one of `form_of`."""
    return cloudpickle.loads(form)


def pickled(function: Callable[..., T]) -> Callable[..., T]:
    """Return a copy of the function made of its pickled form, as another process would have it.

    Raises: AssertionError: it cannot be pickled, or captures more than 256 KiB.
    """
    form = form_of(function)
    if len(form) > MOST_BYTES:
        raise AssertionError(f"{function!r} captures {len(form)} bytes, allowed are {MOST_BYTES}")
    copy: Callable[..., T] = copy_of(form)
    return copy
