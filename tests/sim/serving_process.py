"""A serving process of a simulated world: real state file, models, services and inference.

A crash throws the objects away, before or inside or after any transaction; a restart opens the
same file again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.clock import Clock
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.caches.caches import open_caches
from fedflow.serving.caches.settings import CacheSettings, PartnerCacheSettings
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.inference import Inference
from fedflow.serving.learned_references import LearnedReferences
from fedflow.serving.load_state import LoadState
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import PartnerRequest, PartnerResponse
from fedflow.serving.partners.partner_calls import PartnerCalls
from fedflow.serving.partners.partner_parts import OnlineRow, PartnerParts
from fedflow.serving.partners.partners import HostParts
from fedflow.serving.scores import Scores
from fedflow.serving.services.service_state import ServiceState
from fedflow.serving.services.services import Services
from fedflow.serving.services.shadows import Shadows
from fedflow.serving.settings import ServingSettings
from fedflow.serving.sources.source import FoundFeatures
from fedflow.serving.state_file import StateFile
from fedflow.wire.deployed_model import DeployedModel
from tests.support.linear_model import LinearModel, LinearShare

Own = Callable[[PartnerRequest, float], PartnerResponse]


class Crash(BaseException):
    """A process died here."""


@dataclass
class CrashPlan:
    """After how many steps of its state file a process dies; None: it does not."""

    left: int | None = None

    def step(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise Crash


class CrashingFile(StateFile):
    """A state file whose process may die before, inside and after each transaction."""

    def __init__(self, path: Path, plan: CrashPlan) -> None:
        super().__init__(path)
        self._plan = plan

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        self._plan.step()
        with super().transaction() as link:
            yield link
            self._plan.step()  # SQLite undoes what was not committed, as after a loss of power
        self._plan.step()


class Source:
    """A host's features: the number in the name of a user."""

    def find(self, ids: Any, *, deadline_s: float) -> FoundFeatures:
        return FoundFeatures([{"y0": float(one["user"])} for one in ids], version="", valid_s=None)

    def close(self) -> None:
        """Nothing is open."""


class InOrder(PartnerCalls):
    """Asks one host after the other, so that a run can be repeated."""

    def ask(self, requests: Mapping[str, PartnerRequest], deadline_s: float) -> Any:
        return {party: self._ask(one, deadline_s) for party, one in requests.items()}


def build(share: bytes) -> LinearModel:
    """Return the model of a share as a Flow server sends it."""
    deployed = msgspec.json.decode(share, type=DeployedModel)
    given = deployed.components["step_1"].param
    return LinearModel(
        LinearShare(
            role=deployed.role,
            party_id=deployed.party_id,
            model_id=deployed.model_id,
            model_version=deployed.model_version,
            digest=deployed.digest,
            roles=dict(deployed.roles),
            weights=given["weights"],
            intercept=given["intercept"],
        )
    )


@dataclass
class SimServing:
    """One serving process."""

    name: str
    party_id: str
    home: Path
    clock: Clock
    own: Own  #: answers for hosts
    caches: bool = False
    plan: CrashPlan = field(default_factory=CrashPlan)
    up: bool = False

    def start(self) -> None:
        """Open what was stored."""
        self.home.mkdir(exist_ok=True)
        settings, metrics = ServingSettings(party_id=self.party_id), ServingMetrics()
        self.file = CrashingFile(self.home / "serving.sqlite", self.plan)
        self.models = ServedModels(
            LoadState(self.file), build, party_id=self.party_id,
            limits=settings.limits, references=LearnedReferences(self.home / "references"),
            clock=self.clock,
        )  # fmt: skip
        self.models.open()
        self.services = Services(
            ServiceState(self.file), self.models, caches_parts=self.caches, clock=self.clock
        )
        self.services.open()
        self.parts = HostParts(
            self.models, Source(), settings=settings, audit=None, metrics=metrics, clock=self.clock
        )
        self.calls = InOrder(
            Channels(
                RouteTable(make_routes((self.party_id,), {}, tls=False)),
                credentials=None, settings=ChannelSettings(),
            ),
            self.own, limits=settings.limits, metrics=metrics, clock=self.clock,
        )  # fmt: skip
        caches = open_caches(
            CacheSettings(partners=PartnerCacheSettings(enabled=self.caches)), self.home,
            stale_s=60, metrics=metrics, clock=self.clock,
        )  # fmt: skip
        self.answering = Answering(
            self.models, self.services,
            Scores(
                Inference(
                    PartnerParts(self.calls, caches.partners), limits=settings.limits,
                    metrics=metrics, clock=self.clock,
                ),
                caches.results,
            ),
            Shadows(), metrics=metrics, settings=settings, clock=self.clock,
        )  # fmt: skip
        self.up = True

    def end(self) -> None:
        """Lose all but the file."""
        self.plan.left = None
        if self.up:
            self.up = False
            self.services.close()
            self.calls.close()
        self.file.close()

    def request(self, case_id: str, features: Mapping[str, float], user: int) -> ItemAnswer | Any:
        """Return the answer to a row of the service `credit`, an `AnsweredRow` if one chose it."""
        asked = CallerRequest(
            kind="single", case_id=case_id, service_id="credit", header=lambda _: "",
            started_s=self.clock.monotonic_s(),
        )  # fmt: skip
        row = OnlineRow(request_id=case_id, features=features, ids={"user": user})
        found = self.answering.answer(asked, [row])
        return found if isinstance(found, ItemAnswer) else found[0]

    def loaded(self) -> set[str]:
        """Return the versions that are served, or were and cannot be built."""
        return {one.key.model_version for one in (*self.models.loaded(), *self.models.refused())}

    def stored(self) -> set[str]:
        """Return the versions that the file says are loaded, whether the process lives or not."""
        file = StateFile(self.home / "serving.sqlite")
        try:
            return {
                one.key.model_version for one in LoadState(file).loads() if one.state == "loaded"
            }
        finally:
            file.close()

    def bound(self) -> dict[str, set[str]]:
        """Return what the file says services are bound to."""
        file = StateFile(self.home / "serving.sqlite")
        try:
            services = ServiceState(file).services()
        finally:
            file.close()
        return {one.service_id: {v.model_version for v in one.release.versions} for one in services}
