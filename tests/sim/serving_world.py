"""Three parties, each with a Flow server and two serving processes, and bad luck between them.

Loads, binds and unloads go through the real use cases of the Flow servers. Messages are lost,
repeated or come late; processes and servers die at any step. All is drawn from one seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fedflow.app.models.publishing import Published
from fedflow.app.ports.serving import (
    BindOptions,
    ServingProcessState,
    ServingReply,
    TriedReply,
)
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.ids import PartyId
from fedflow.domain.job.predict_dsl import deduce_predict_dsl
from fedflow.domain.models.model import (
    ModelComponent,
    ModelKey,
    canonical_json,
    part_of,
)
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.serving.answering import AnsweredRow
from fedflow.serving.codes import ServingCode
from fedflow.serving.partners.messages import PartnerRequest, PartnerResponse
from fedflow.serving.services.services import BindService
from fedflow.wire.deployed_model import DeployedModel
from tests.sim.clock import FakeClock, Time
from tests.sim.serving_process import Crash, SimServing
from tests.support.linear_model import logistic
from tests.unit.app.fakes import GUEST, HOST, NOW_MS, OneServer
from tests.unit.app.models_world import DSL, Network, trained_share

HOST_2 = Site(Role.HOST, PartyId("10001"))
SITES = (GUEST, HOST, HOST_2)
ROLES = {"guest": ["9999"], "host": ["10000", "10001"]}
MODEL = "guest-9999#host-10000_10001#model"
VERSIONS = ("1", "2", "3")
TOLERANCE = 1e-12


@dataclass
class Luck:
    """How often what goes wrong."""

    rng: Random
    loses: float = 0.03  #: of messages, half of them their answers
    repeats: float = 0.03
    late: float = 0.015
    crashes: float = 0.015  #: of steps of a serving process or a Flow server

    def hits(self, part: float) -> bool:
        return self.rng.random() < part


class ServerDied(BaseException):
    """A Flow server died in the middle of a use case."""


class Parties(Network):
    """Calls between Flow servers."""

    world: ServingWorld

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        luck = self.world.luck
        if luck.hits(luck.crashes):
            raise ServerDied  # the coordinator's

        def once() -> Reply:
            return super(Parties, self).call(
                source, destination, path, body,
                request_id=request_id, job_id=job_id, deadline_s=deadline_s,
            )  # fmt: skip

        lost = PartyUnreachable(party_id=destination, address="sim", reason="lost")
        try:
            return self.world.deliver(once, lost)
        except ServerDied as exc:  # the other one's
            raise lost from exc


class Servings:
    """A party's serving processes, as its Flow server reaches them."""

    def __init__(self, world: ServingWorld, own: Sequence[SimServing]) -> None:
        self._world = world
        self._own = own

    def prepare(
        self, load_id: str, share: DeployedModel, sample: Mapping[str, str] | None
    ) -> list[ServingReply]:
        raw = msgspec.json.encode(share)
        return self._each(lambda one: one.models.prepare(load_id, raw, sample))

    def commit(self, load_id: str) -> list[ServingReply]:
        return self._each(lambda one: one.models.commit(load_id))

    def abort(self, load_id: str) -> list[ServingReply]:
        return self._each(lambda one: one.models.abort(load_id))

    def unload(self, model_id: str, model_version: str, load_id: str) -> list[ServingReply]:
        return self._each(lambda one: one.services.unload(model_id, model_version, load_id))

    def bind(
        self, service_id: str, model_id: str, model_version: str, how: BindOptions
    ) -> list[ServingReply]:
        change = BindService(
            service_id=service_id, model_id=model_id, model_version=model_version,
            weight=how.weight, shadow=how.shadow,
        )  # fmt: skip
        return self._each(lambda one: one.services.bind(change))

    def roll_back(self, service_id: str) -> list[ServingReply]:
        return self._each(lambda one: one.services.roll_back(service_id))

    def unbind(self, service_id: str) -> list[ServingReply]:
        return self._each(lambda one: one.services.unbind(service_id))

    def states(self) -> list[ServingProcessState]:
        raise NotImplementedError

    def tried(
        self, service_id: str, features: Mapping[str, Any], ids: Mapping[str, Any]
    ) -> TriedReply:
        raise NotImplementedError

    def _each(self, step: Callable[[SimServing], object]) -> list[ServingReply]:
        return [self._world.at(one, step) for one in self._own]


@dataclass
class ServingWorld:
    """All of it."""

    folder: Path
    luck: Luck
    time: Time = field(default_factory=Time)
    late: list[Callable[[], object]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    meanwhile: Callable[[], None] | None = None  #: happens while a host is asked
    requests: int = 0

    def __post_init__(self) -> None:
        self.servings: dict[str, list[SimServing]] = {}
        self.servers: dict[str, OneServer] = {}
        for site in SITES:
            party = str(site.party_id)
            own = [
                SimServing(
                    name=f"{party}.{n}", party_id=party, home=self.folder / f"{party}.{n}",
                    clock=FakeClock(self.time), own=self._host_part, caches=n == 1,
                )
                for n in (1, 2)
            ]  # fmt: skip
            for one in own:
                one.start()
            self.servings[party] = own
            network = Parties(
                local=frozenset({party}), known=frozenset(map(str, ROLES["host"] + ["9999"])),
                own=party,
            )  # fmt: skip
            network.world, network.servers = self, self.servers
            server = OneServer(home=self.folder / f"flow-{party}", party_id=party, parties=network)
            server.servings = Servings(self, own)
            server.boot()
            self.servers[party] = server
            for version in VERSIONS:
                put_version(server, site, version)
        for server in self.servers.values():
            server.live()

    def close(self) -> None:
        for one in self.every():
            one.end()

    def every(self) -> list[SimServing]:
        return [one for own in self.servings.values() for one in own]

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    # --- messages ---------------------------------------------------------------------------------

    def deliver(self, once: Callable[[], Any], lost: Exception) -> Any:
        """Deliver a message: never, once, twice, or later. Raises: `lost`: there is no answer."""
        luck = self.luck
        if luck.hits(luck.loses / 2):
            self.count("lost")
            raise lost
        if luck.hits(luck.late):
            self.count("late")
            self.late.append(once)
            raise lost
        if luck.hits(luck.repeats):
            self.count("repeated")
            once()
        answer = once()
        if luck.hits(luck.loses / 2):
            self.count("lost answers")
            raise lost
        return answer

    def at(self, one: SimServing, step: Callable[[SimServing], object]) -> ServingReply:
        """Let a serving process do something; the Flow server that asks may die before."""
        if self.luck.hits(self.luck.crashes):
            raise ServerDied
        try:
            said = self.deliver(lambda: self._do(one, step), ConnectionError())
        except ConnectionError:
            return ServingReply(address=one.name, retcode=100, retmsg="it does not answer")
        assert isinstance(said, ServingReply)
        return said

    def _do(self, one: SimServing, step: Callable[[SimServing], object]) -> ServingReply:
        if not one.up:
            raise ConnectionError
        if self.luck.hits(self.luck.crashes):
            one.plan.left = self.luck.rng.randrange(8)
        try:
            step(one)
        except FedflowError as exc:
            return ServingReply(address=one.name, retcode=exc.retcode, retmsg=exc.message)
        except Crash:
            self.count("crashes")
            self.trace.append(f"{one.name} crashes")
            one.end()
            raise ConnectionError from None
        finally:
            one.plan.left = None
        return ServingReply(address=one.name, retcode=0, retmsg="success")

    def deliver_late(self) -> None:
        """Let one of the late messages arrive."""
        if self.late:
            once = self.late.pop(self.luck.rng.randrange(len(self.late)))
            self.trace.append("a late message arrives")
            try:
                once()
            except (ConnectionError, ServerDied, FedflowError):
                self.trace.append("... and nobody takes it")

    # --- what users do ----------------------------------------------------------------------------

    def publish(self, what: str, version: str = "") -> bool:
        """Let the coordinator do something; tell whether it said that it was done."""
        publishing = self.servers["9999"].core.publishing()
        self.servers["9999"].clock.ms += 1_000
        try:
            done = {
                "load": lambda: publishing.load(MODEL, version),
                "unload": lambda: publishing.unload(MODEL, version),
                "bind": lambda: publishing.bind("credit", MODEL, version),
                "canary": lambda: publishing.bind(
                    "credit", MODEL, version, BindOptions(weight=50.0)
                ),
                "roll back": lambda: publishing.roll_back("credit"),
                "unbind": lambda: publishing.unbind("credit"),
            }[what]()
        except ServerDied:
            self.count("dead servers")
            self.trace.append(f"{what} {version}: the coordinator died")
            self.servers["9999"].boot()
            self.servers["9999"].live()
            return False
        if isinstance(done, Published):
            said = {site.key: reply.retcode for site, reply in done.replies.items()}
        else:
            said = {one.address: one.retcode for one in done}
        self.trace.append(f"{what} {version}: {said}")
        is_done = not any(said.values())
        self.count(f"{what}: {'done' if is_done else 'not done'}")
        return is_done

    def crash(self, one: SimServing) -> None:
        if one.up:
            self.trace.append(f"{one.name} is killed")
            one.end()

    def restart(self, one: SimServing) -> None:
        if not one.up:
            self.trace.append(f"{one.name} starts")
            one.start()

    def request(self, *, during: Callable[[], None] | None = None) -> None:
        """Ask a guest's process for a score; `during` happens while a host is asked."""
        rng = self.luck.rng
        one = rng.choice(self.servings["9999"])
        if not one.up:
            return
        self.meanwhile = during
        self.requests += 1
        x0, user = round(rng.uniform(-2, 2), 3), rng.randrange(4)
        answer = one.request(f"case-{self.requests}", {"x0": x0}, user)
        self.meanwhile = None
        if isinstance(answer, AnsweredRow):
            version, item = answer.chosen.served.key.model_version, answer.item
            self.count(f"answers {item.retcode}")
            if item.score is not None:
                assert isinstance(item.score, float)
                wanted = expected(version, x0, user)
                assert abs(item.score - wanted) < TOLERANCE, (
                    f"{one.name}: version {version} scores {item.score}, not {wanted}"
                )
        else:
            self.count(f"answers {answer.retcode}")

    def _host_part(self, request: PartnerRequest, deadline_s: float) -> PartnerResponse:
        during, self.meanwhile = self.meanwhile, None
        if during is not None:
            during()
        alive = [one for one in self.servings[request.host] if one.up]
        if not alive:
            return PartnerResponse(retcode=int(ServingCode.NETWORK), message="nobody is there")
        return self.luck.rng.choice(alive).parts.answer(request, deadline_s)

    # --- what must be -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raises: AssertionError: what must never be."""
        hosts = [one for own in ROLES["host"] for one in self.servings[own]]
        everywhere = set.intersection(*(one.stored() for one in hosts))
        for one in self.every():
            stored = one.stored()
            for service, versions in one.bound().items():
                assert versions <= stored, f"{one.name}: {service} has what is not loaded"
            if one.up:
                assert one.loaded() == stored, f"{one.name} serves other versions than it stored"
                shown = {
                    s.service_id: {v.model_version for v in s.release.versions}
                    for s in one.services.all()
                }
                assert shown == one.bound(), f"{one.name} answers otherwise than it stored"
            if one.party_id == "9999":
                assert stored <= everywhere, (
                    f"{one.name} has loaded {stored}, but all hosts have {everywhere} alone"
                )


def put_version(server: OneServer, site: Site, version: str) -> None:
    """Store a deployed version's share: each has weights of its own."""
    share = trained_share(
        site,
        key=ModelKey(site=site, model_id=MODEL, model_version=version),
        job_id=version, roles=ROLES, parent=False, inference_dsl=deduce_predict_dsl(DSL),
        parent_info={"parent_model_id": MODEL, "parent_model_version": "0"},
    )  # fmt: skip
    name = "x0" if site == GUEST else "y0"
    weight, intercept = weights(version, str(site.party_id))
    with server.store.transaction() as tx:
        tx.models.put(share)
        for step in ("step_0", "step_1"):
            meta = canonical_json({"step": step})
            param = canonical_json({"weights": {name: weight}, "intercept": intercept})
            server.blobs.put(meta)
            server.blobs.put(param)
            tx.models.put_component(
                ModelComponent(
                    key=share.key, component=step, module="Step", alias="model",
                    meta=part_of("StepMeta", meta), param=part_of("StepParam", param),
                    run_parameters={}, created_ms=NOW_MS,
                )
            )  # fmt: skip


def weights(version: str, party: str) -> tuple[float, float]:
    """Return a party's weight and intercept; no sum of several versions is that of one."""
    rng = Random(f"{version}/{party}")
    return rng.uniform(-1, 1), rng.uniform(-1, 1) if party == "9999" else 0.0


def expected(version: str, x0: float, user: int) -> float:
    """Return the score that the offline prediction has."""
    weight, intercept = weights(version, "9999")
    hosts = sum(weights(version, party)[0] for party in ROLES["host"])
    return logistic(intercept + weight * x0 + hosts * user)
