"""Moving models to and from the external store: the server does it, the task waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from fedflow.wire.worker_commands import RestoreModel, StoreModel
from fedflow.worker.report import ServerLink


class ServerModelStore:
    """See `fedflow.sdk.context.ModelStore`. Raises: ServerNotReachable, ServerRefused."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def store(self) -> Mapping[str, Any]:
        return asdict(self._link.call(StoreModel()))

    def restore(self) -> Mapping[str, Any]:
        return asdict(self._link.call(RestoreModel()))
