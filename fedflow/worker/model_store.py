"""Moving models to and from the external store: the server does it, the task waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fedflow.worker.report import ServerLink


class ServerModelStore:
    """See `fedflow.sdk.context.ModelStore`. Raises: ServerNotReachable, ServerRefused."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def store(self) -> Mapping[str, Any]:
        return cast(Mapping[str, Any], self._link.call("model_store", {}))

    def restore(self) -> Mapping[str, Any]:
        return cast(Mapping[str, Any], self._link.call("model_restore", {}))
