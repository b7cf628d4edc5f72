"""Before a job is stored: can all its parties be reached, both ways, and do they have what it runs?

The initiator asks each remote party at the same time (`Preflight`), and each of them calls back
(`LocalPreflight`). A refusal names every broken hop. A party that had no objection is not asked
again for `KEEP_S` seconds, so a burst of submits makes one call per party.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Final

from fedflow.app.administration.permissions import Permissions
from fedflow.app.ports.parties import PartyClient
from fedflow.app.protocol.circuit_breakers import CircuitBreakers, why
from fedflow.app.protocol.commands import TypedCommand
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.app.protocol.timing import Timing
from fedflow.base.clock import Clock, pause
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.errors.parties import (
    ModulesMissing,
    NoRoute,
    PartiesNotReady,
    PartyStoreUnavailable,
    PartyTooOld,
    PartyUnreachable,
)
from fedflow.base.errors.requests import BadRequest, PermissionDenied
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message, beside, joined, received, verbatim
from fedflow.base.values import dataclass
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.outside import outside
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.wire.commands import PreflightAnswer, PreflightRequest, plain, read_command
from fedflow.wire.envelope import NOT_NOW
from fedflow.wire.paths import PARTY_COMMANDS, fits

KEEP_S: Final = 30.0  #: how long a party without objections is not asked again
REACH: Final = "info_common"  #: the command that only tests the way
_MAX_HOPS: Final = 100  #: objections of one party that are listed
MAX_MODULES: Final = 5_000  #: modules that one preflight may ask about
_PAUSES_S: Final = (0.2, 0.4, 0.6)  #: before the call is tried again
_BACK: Final = 2 / 3  #: share of the time that the call back may take

Use = tuple[Role, str]  #: a module that runs at a party in a role


@dataclass(frozen=True, slots=True)
class Hop:
    """A step between two parties that does not work, and why; `target` is where it leads."""

    source: str
    target: str
    reason: Message
    is_silent: bool = False  #: nobody answers there; it may be back later

    def to_json(self) -> dict[str, str]:
        return {"from": self.source, "to": self.target, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class _Good:
    """What a party had no objection to, and until when that holds (monotonic seconds)."""

    role: Role  #: of the initiator
    uses: frozenset[Use]
    both_ways: bool
    until_s: float


@dataclass(slots=True)
class _Turn:
    """Lets one submit at a time ask a party; `lost` is how the last call failed, and when."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    lost: Hop | None = None
    lost_s: float = 0.0


def reach(parties: PartyClient, party_id: str, *, timeout_s: float) -> Reply:
    """Return what a party's server answers to a call that changes nothing there.

    Raises: NoRoute, PartyUnreachable, BadPacket.
    """
    return parties.call(
        None,
        party_id,
        PARTY_COMMANDS[REACH],
        {},
        request_id="",
        job_id="info",
        deadline_s=timeout_s,
    )


class Preflight:
    """The initiator's half."""

    def __init__(
        self,
        *,
        parties: PartyClient,
        circuit_breakers: CircuitBreakers,
        clock: Clock,
        timing: Timing,
    ) -> None:
        self._parties = parties
        self._circuit_breakers = circuit_breakers
        self._clock = clock
        self._timing = timing
        self._good: dict[str, _Good] = {}
        self._lock = threading.Lock()
        self._turns: dict[str, _Turn] = {}
        self._never = threading.Event()

    def check(self, spec: JobSpec, *, fresh: bool = False) -> dict[Site, Message]:
        """See that every remote party of a job can take part; `fresh`: whatever is remembered.

        Returns: hosts that do not answer, without which an elastic job begins, and why.
        Raises: PartiesNotReady: with every broken hop; ModulesMissing: all of them are missing
            modules. NoRoute: that is all there is to say.
        """
        uses = self._uses(spec)
        both_ways = spec.job_parameters_at(spec.initiator).federated_status_collect_type != "PULL"
        if fresh:
            self._forget(uses)
        found = self._ask_all(spec.initiator, uses, both_ways=both_ways)
        away: dict[Site, Message] = {}
        if found and spec.elastic_settings is not None:
            away = _without(spec, found)
            found = [hop for hop in found if all(s.party_id != hop.target for s in away)]
        if not found:
            return away
        unknown = [p for p in uses if not self._parties.knows(p)]
        if len(unknown) == len(found) == 1:
            raise NoRoute(party_id=unknown[0])
        only_modules = all(getattr(hop.reason, "template", "") == _NO_MODULE for hop in found)
        raise (ModulesMissing if only_modules else PartiesNotReady)(
            reason=joined((hop.reason.removesuffix(".") for hop in found), "; "),
            hops=[hop.to_json() for hop in found],
        )

    def ping(self, source: Site, party_id: str) -> list[Hop]:
        """Try one party both ways now, whatever is remembered; return the broken hops."""
        self._forget([party_id])
        return self._ask(source, party_id, frozenset(), both_ways=True)

    def _forget(self, parties: Iterable[str]) -> None:
        for party_id in parties:
            self._good.pop(party_id, None)

    def _uses(self, spec: JobSpec) -> dict[str, frozenset[Use]]:
        """Return what runs at each remote party of a job."""
        uses: dict[str, set[Use]] = {
            s.party_id: set() for s in spec.sites if not self._parties.is_local(s.party_id)
        }
        if uses:
            for component in spec.components:
                for site in spec.sites_of(component.name):
                    if site.party_id in uses:
                        module = spec.modules[component.name].module
                        uses[site.party_id].add((site.role, module))
        return {party_id: frozenset(used) for party_id, used in uses.items()}

    def _ask_all(
        self, source: Site, uses: Mapping[str, frozenset[Use]], *, both_ways: bool
    ) -> list[Hop]:
        """Ask those parties that are not known to be well, all at once."""
        open_questions = {
            p: u for p, u in uses.items() if not self._is_good(source, p, u, both_ways=both_ways)
        }
        found: dict[str, list[Hop]] = {}
        defects: list[Exception] = []

        def ask(party_id: str) -> None:
            try:
                found[party_id] = self._ask(
                    source, party_id, open_questions[party_id], both_ways=both_ways
                )
            except Exception as exc:  # noqa: BLE001  raised below: it must not count as consent
                defects.append(exc)

        side_by_side(ask, list(open_questions))
        if defects:
            raise defects[0]
        return [hop for party_id in uses for hop in found.get(party_id, ())]

    def _is_good(
        self, source: Site, party_id: str, uses: frozenset[Use], *, both_ways: bool
    ) -> bool:
        good = self._good.get(party_id)
        return (
            good is not None
            and good.role is source.role
            and uses <= good.uses
            and good.both_ways >= both_ways
            and self._clock.monotonic_s() < good.until_s
            and self._circuit_breakers.answered_within(party_id, 2 * KEEP_S)
        )

    def _ask(
        self, source: Site, party_id: str, uses: frozenset[Use], *, both_ways: bool
    ) -> list[Hop]:
        """Return the broken hops between this server and one party; remember if there are none."""
        begun_s = self._clock.monotonic_s()
        with self._lock:
            turn = self._turns.setdefault(party_id, _Turn())
        with turn.lock:  # who waited here takes the answer that the one before got
            if self._is_good(source, party_id, uses, both_ways=both_ways):
                return []
            if turn.lost is not None and turn.lost_s > begun_s:
                return [turn.lost]
            own = source.party_id
            try:
                hops = self._tried(source, party_id, uses, both_ways=both_ways)
            except PartyUnreachable as exc:
                reason = _cannot_reach(own, party_id, exc)
                turn.lost = Hop(own, party_id, reason, is_silent=True)
                turn.lost_s = self._clock.monotonic_s()
                return [turn.lost]
            except FedflowError as exc:
                reason = exc.message
                if not isinstance(exc, NoRoute):
                    reason = _said_by(party_id, exc)
                return [Hop(own, party_id, reason)]
            if hops is None:
                return []
            if not hops:
                known = self._good.get(party_id)
                if known is not None and known.role is source.role:
                    uses |= known.uses
                until_s = self._clock.monotonic_s() + KEEP_S
                self._good[party_id] = _Good(source.role, uses, both_ways, until_s)
            return hops

    def _tried(
        self, source: Site, party_id: str, uses: frozenset[Use], *, both_ways: bool
    ) -> list[Hop] | None:
        """Ask, more than once if the call fails at once: the party may just be starting.

        Returns: None: it is there, but cannot say yet; the job's own commands are repeated longer.
        Raises: PartyUnreachable, NoRoute, BadPacket.
        """
        deadline_s = self._clock.monotonic_s() + self._timing.preflight_timeout_s
        if not self._circuit_breakers.hurry(party_id):
            raise self._circuit_breakers.unreachable(party_id)
        for pause_s in _PAUSES_S:
            try:
                return self._objections(source, party_id, uses, both_ways=both_ways)
            except PartyUnreachable:
                if self._clock.monotonic_s() + pause_s >= deadline_s:
                    raise
            pause(pause_s, self._never)
            self._circuit_breakers.hurry(party_id, after_s=0.0)
        return self._objections(source, party_id, uses, both_ways=both_ways)

    def _objections(
        self, source: Site, party_id: str, uses: frozenset[Use], *, both_ways: bool
    ) -> list[Hop] | None:
        """Raises: NoRoute, PartyUnreachable, BadPacket."""
        own, timeout_s = source.party_id, self._timing.preflight_timeout_s
        body = PreflightRequest(
            party_id=party_id,
            initiator_role=source.role.value,
            uses=sorted([role.value, module] for role, module in uses),
            call_back_s=timeout_s * _BACK if both_ways else None,
        )
        try:
            reply = self._parties.call(
                source, party_id, PARTY_COMMANDS["preflight"], plain(body),
                request_id="", job_id="preflight", deadline_s=timeout_s,
            )  # fmt: skip
        except PartyTooOld:  # it has no such command: the way there is all that can be tested
            reply = reach(self._parties, party_id, timeout_s=timeout_s)
        if reply.retcode in NOT_NOW or reply.error == "InternalError":
            return None
        if reply.retcode != 0:
            reason = Message(
                "{party} does not accept {other}: {reason}",
                party_id,
                own,
                verbatim(reply.retmsg, 1000),
            )
            return [Hop(own, party_id, reason)]
        told = read_command(reply.data, PreflightAnswer).objections
        return [_hop(one) for one in told[:_MAX_HOPS]]


def _without(spec: JobSpec, found: Iterable[Hop]) -> dict[Site, Message]:
    """Return the hosts that an elastic job can begin without, if enough parties are left."""
    elastic = spec.elastic
    needed = {s.party_id for s in spec.sites if s.role is not Role.HOST}
    silent = {hop.target: hop.reason for hop in found if hop.is_silent}
    hosts = [s for s in spec.sites if s.party_id in silent and s.party_id not in needed]
    trains = sum(s.role in (Role.GUEST, Role.HOST) for s in spec.sites)
    if elastic is None or trains - len(hosts) < elastic.min_parties:
        return {}
    return {site: silent[site.party_id] for site in hosts}


class LocalPreflight(UseCase):
    """The handler at the other parties: it stores nothing."""

    def __init__(self, kernel: Kernel, *, permissions: Permissions) -> None:
        super().__init__(kernel)
        self._permissions = permissions

    def answer(self, incoming: TypedCommand[PreflightRequest]) -> Reply:
        """Return what keeps jobs of the asking party from running here, after calling it back.

        Raises: BadRequest, WrongSite.
        """
        asked = _read(incoming)
        if not self._parties.is_local(asked.own):
            raise WrongSite(site=f"party {asked.own}", job_id=incoming.job_id)
        objections = [*self._way_back(asked)]
        if self._parties.knows(asked.initiator.party_id):  # an unknown party learns nothing else
            objections += self._modules(asked)
        told = [_told(hop, site=f"party {asked.own}") for hop in objections]
        return Reply(retcode=0, data=plain(PreflightAnswer(objections=told)))

    def _way_back(self, asked: _Asked) -> Iterable[Hop]:
        """Call the party that asks, unless a call to it was answered lately."""
        source, own = asked.initiator.party_id, asked.own
        if asked.call_back_s is None or self._circuit_breakers.answered_within(source, KEEP_S):
            return
        timeout_s = min(asked.call_back_s, self._timing.preflight_timeout_s)
        try:
            self._circuit_breakers.hurry(source, after_s=0.0)  # it has just called, so it is up
            reach(self._parties, source, timeout_s=timeout_s)
        except NoRoute:
            reason = Message("{party} cannot reach {other}: it has no route to it", own, source)
            yield Hop(own, source, reason)
        except FedflowError as exc:
            yield Hop(own, source, _cannot_reach(own, source, exc))

    def _modules(self, asked: _Asked) -> Iterable[Hop]:
        known, own = self._catalog.modules(), asked.own
        for role, module in asked.uses:
            if module.lower() not in known:
                speaks = self._circuit_breakers.speaks
                reason = _no_module(own, module, speaks.product)
                yield Hop(asked.initiator.party_id, own, reason)
                continue
            try:
                site = Site(role, PartyId(own))
                self._permissions.check(asked.initiator, site, components=[module], datasets=[])
            except PermissionDenied as exc:
                yield Hop(asked.initiator.party_id, own, _said_by(own, exc))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """The body of a preflight, and who sent it."""

    own: str  #: the party that is asked
    initiator: Site
    uses: tuple[Use, ...]
    call_back_s: float | None


def _read(incoming: TypedCommand[PreflightRequest]) -> _Asked:
    """Return what is asked. Raises: BadRequest."""
    body, source = incoming.body, incoming.source_party
    if source is None or not fits("party_id", body.party_id):
        raise BadRequest(reason="a preflight names the party that it is for and is sent by one")
    if len(body.uses) > MAX_MODULES:
        raise BadRequest(reason=f"`uses` must be a list of at most {MAX_MODULES} modules")
    try:
        initiator = Site(Role(body.initiator_role), PartyId(source))
        uses = tuple((Role(role), str(module)[:200]) for role, module in body.uses)
    except ValueError as exc:
        raise BadRequest(reason="`initiator_role` and `uses` must name roles") from exc
    return _Asked(own=body.party_id, initiator=initiator, uses=uses, call_back_s=body.call_back_s)


def _cannot_reach(party: str, other: str, exc: FedflowError) -> Message:
    if isinstance(exc, PartyStoreUnavailable):
        return exc.message
    return Message("{party} cannot reach {other} at {error}", party, other, why(exc))


def _said_by(party: str, exc: FedflowError) -> Message:
    return Message("{party}: {message}", party, exc.message)


def _told(hop: Hop, *, site: str) -> dict[str, Any]:
    """Return an objection as the party that asks gets it."""
    reason = outside(hop.reason, code=PartiesNotReady.__name__, site=site)
    return {**replace(hop, reason=reason).to_json(), **beside(reason)}


def _hop(told: Any) -> Hop:
    """Return what another party objects to, cut to a sane length."""
    given = told if isinstance(told, dict) else {}
    source, target, reason = (str(given.get(name, "?")) for name in ("from", "to", "reason"))
    return Hop(source[:32], target[:32], received(reason, given.get("said"), 1000))


def side_by_side(work: Callable[[str], None], names: list[str]) -> None:
    """Do something for every name at once; the first one in this thread."""
    threads = [
        threading.Thread(target=work, args=(name,), name=f"preflight-{name}", daemon=True)
        for name in names[1:]
    ]
    started = 0
    with suppress(RuntimeError):  # the system has no thread now: the rest is done one by one
        for thread in threads:
            thread.start()
            started += 1
    for name in (*names[:1], *names[1 + started :]):
        work(name)
    for thread in threads[:started]:
        thread.join()


def _no_module(party: str, module: str, version: str) -> Message:
    return Message(
        "{party} has no module {module} (it is fedflow {version})", party, module, version
    )


_NO_MODULE: Final = _no_module("", "", "").template
