"""The serving processes of this party: where models are published to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fedflow.base.values import dataclass
from fedflow.wire.deployed_model import DeployedModel


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingReply:
    """What one serving process answered; `retcode` 0 is success."""

    address: str
    retcode: int
    retmsg: str


class ServingServers(Protocol):
    """All of them are asked for each step; one that cannot be reached answers retcode 100."""

    def prepare(self, load_id: str, share: DeployedModel) -> Sequence[ServingReply]:
        """Let each build and test a share, which answers nobody yet."""

    def commit(self, load_id: str) -> Sequence[ServingReply]:
        """Let each use what it prepared; twice has no second effect."""

    def abort(self, load_id: str) -> Sequence[ServingReply]:
        """Let each forget what it prepared; twice has no second effect."""

    def unload(self, model_id: str, model_version: str) -> Sequence[ServingReply]:
        """Let each forget a version and what is bound to it."""

    def bind(self, service_id: str, model_id: str, model_version: str) -> Sequence[ServingReply]:
        """Let each answer requests to a service with a version that it has loaded."""

    def unbind(self, service_id: str) -> Sequence[ServingReply]:
        """Let each forget a service."""
