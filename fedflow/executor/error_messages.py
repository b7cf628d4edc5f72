"""Errors as processes that have components imported tell them: `{name, fields, mistakes}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedflow.base.errors.components import BadParameter, ComponentFailed, UnknownComponent
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import NotSupportedYet

_KINDS: tuple[type[FedflowError], ...] = (BadParameter, UnknownComponent, NotSupportedYet)


def raise_told(error: Mapping[str, Any] | None) -> None:
    """Raise the error that was sent, if there is one.

    Raises: BadParameter: with all mistakes. UnknownComponent, NotSupportedYet, ComponentFailed.
    """
    if error is None:
        return
    if error["name"] == BadParameter.__name__ and error.get("mistakes"):
        (path, reason), *more = error["mistakes"]
        raise BadParameter(path=path, reason=reason, more=[(at, what) for at, what in more])
    for kind in _KINDS:
        if error["name"] == kind.__name__:
            raise kind(**error["fields"])
    raise ComponentFailed(component="The component", reason=str(error["fields"].get("reason")))
