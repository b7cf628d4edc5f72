"""The serving processes of this party: where models are published to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol

from fedflow.base.values import dataclass
from fedflow.wire.deployed_model import DeployedModel
from fedflow.wire.prometheus_text import Sample
from fedflow.wire.serving_states import (
    ComparedVersion,
    DriftVersion,
    ProcessReadiness,
    ServedVersion,
    ServiceSplit,
    TriedRequest,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingReply:
    """What one serving process answered; `retcode` 0 is success."""

    address: str
    retcode: int
    retmsg: str
    salt: str = ""  #: of a service, see docs/serving.md


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingProcessState:
    """What one serving process says of itself."""

    address: str
    trouble: Literal["", "silent", "refused", "unreadable"] = ""  #: why it says nothing
    readiness: ProcessReadiness | None = None
    versions: Sequence[ServedVersion] = ()
    services: Sequence[ServiceSplit] = ()
    comparisons: Mapping[str, Sequence[ComparedVersion]] = field(default_factory=dict)
    """By service, of those with several versions."""
    drift: Sequence[DriftVersion] = ()
    partner_ids: Sequence[str] | None = None  #: names of ids that may go to hosts; None: any
    samples: Sequence[Sample] = ()  #: counts and times


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedReply:
    """What a serving process answered to a request that was tried."""

    address: str
    answer: TriedRequest | None  #: None: it did not answer, or what cannot be read


@dataclass(frozen=True, kw_only=True, slots=True)
class BindOptions:
    """How a version answers for a service; the serving processes check it."""

    weight: float = 100.0  #: percent of the users
    shadow: bool = False  #: it scores beside the others and answers nobody
    rules: Sequence[Mapping[str, Any]] | None = None  #: None: as they are
    options: Mapping[str, Any] | None = None  #: of the service; None: as they are


class ServingServers(Protocol):
    """All of them are asked for each step; one that cannot be reached answers retcode 100."""

    def prepare(
        self, load_id: str, share: DeployedModel, sample: Mapping[str, str] | None
    ) -> Sequence[ServingReply]:
        """Let each build a share, which answers nobody yet, and score a sample row with it."""

    def commit(self, load_id: str) -> Sequence[ServingReply]:
        """Let each use what it prepared; twice has no second effect."""

    def abort(self, load_id: str) -> Sequence[ServingReply]:
        """Let each forget what it prepared; twice has no second effect."""

    def unload(self, model_id: str, model_version: str, load_id: str) -> Sequence[ServingReply]:
        """Let each forget a version and what is bound to it, but no load with a later id."""

    def bind(
        self, service_id: str, model_id: str, model_version: str, how: BindOptions
    ) -> Sequence[ServingReply]:
        """Let each answer requests to a service with a version that it has loaded."""

    def roll_back(self, service_id: str) -> Sequence[ServingReply]:
        """Let each answer requests to a service as it did before the last change."""

    def unbind(self, service_id: str) -> Sequence[ServingReply]:
        """Let each forget a service."""

    def states(self) -> Sequence[ServingProcessState]:
        """Return what each says of itself, within a few seconds."""

    def tried(
        self, service_id: str, features: Mapping[str, Any], ids: Mapping[str, Any]
    ) -> TriedReply:
        """Return what the first one that answers says to a request."""
