"""The two ends of the rounds over `ctx.federation`, in real time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedflow.components.horizontal import aggregator as aggregating
from fedflow.components.horizontal import member as membering
from fedflow.components.horizontal.messages import (
    NAME,
    Rejected,
    ToAggregator,
    ToMember,
    read_by_aggregator,
    read_by_member,
    written,
)
from fedflow.components.horizontal.rounds import (
    HISTORY,
    Combiner,
    Elasticity,
    Participation,
    RoundRules,
    RoundState,
    Worker,
    least_members,
)
from fedflow.components.secure_aggregation.signatures import signatures_of
from fedflow.components.training.measures import record_seconds
from fedflow.components.waiting import PATIENCE_S
from fedflow.sdk import Arrival, Context, DishonestParty, FedflowError, Role, Site, ValueTooLate
from fedflow.sdk.clock import monotonic_s
from fedflow.sdk.outside import outside_error

METRIC_TYPE = "PARTICIPATION"


def elasticity_of(ctx: Context) -> Elasticity | None:
    """Return how this job bears absent members, None if it does not."""
    given: Any = getattr(ctx, "elastic", None)
    if given is None:
        return None
    return Elasticity(
        min_parties=given.min_parties,
        max_parties=given.max_parties,
        round_deadline_s=given.round_deadline_s,
        last_call_s=given.last_call_s,
        rejoin=given.rejoin,
    )


def rules_of(ctx: Context, *, secure: bool = True, fraction_bits: int = 24) -> RoundRules:
    """Return the rules of a run's rounds, by the job and the parameter `aggregator_may_lie`."""
    signed: bool = ctx.params.aggregator_may_lie
    return RoundRules(
        elastic=elasticity_of(ctx),
        secure=secure,
        signed=secure and signed,
        fraction_bits=fraction_bits,
    )


def members_of(ctx: Context) -> tuple[Site, ...]:
    """Return guest and hosts, which have the rows."""
    return (*ctx.sites_of(Role.GUEST), *ctx.sites_of(Role.HOST))


def run_aggregator(
    ctx: Context, combiner: Combiner, *, rules: RoundRules, members: Sequence[Site] = ()
) -> RoundState:
    """Lead the rounds to the end, and return the last state.

    Args:
        members: that contribute; by default guest and hosts.

    Who took part is recorded round by round: as metric `train` / `participation`, in the log, and
    in `notes["rounds"]` of the state. Raises: TooFewInRound, RoundsFailed, DishonestParty,
    PeerFailed; what the combiner raises.
    """
    sites = tuple(members) or members_of(ctx)
    if rules.signed and ctx.identity is None:
        rules = replace(rules, signed=False)  # as the members, each of which warns of it
    machine = aggregating.Aggregator(
        combiner,
        rules=rules,
        sites=sites,
        session=_session(ctx),
        launch=_launch(ctx),
        threads=ctx.cores,
    )
    post = _Post(ctx, required=rules.elastic is None)
    try:
        return _lead(ctx, machine, post, sites)
    except FedflowError as exc:
        if rules.elastic is not None:  # members would wait for the next launch
            told = outside_error(exc, ctx.site).message[:2000]
            reason = told.removesuffix(".")  # the receiver's sentence has its own
            post.send(Rejected(serial=machine.serial, reason=reason), to=sites)
        raise


def _lead(
    ctx: Context, machine: aggregating.Aggregator, post: _Post, sites: Sequence[Site]
) -> RoundState:
    actions = machine.begin(monotonic_s())
    while True:
        for action in actions:
            if isinstance(action, aggregating.SendToMembers):
                post.send(action.message, to=action.to)
            elif isinstance(action, aggregating.Completed):
                _record(ctx, action.participation)
            else:
                ctx.log.warning("%s", action.text)
        if machine.phase is aggregating.RoundPhase.OVER and machine.state is not None:
            return machine.state
        found = post.next(sites, machine.deadline_s)
        now_s = monotonic_s()
        if found is None:
            actions = machine.passed(now_s)
        elif isinstance(found, Arrival):
            try:
                message = read_by_aggregator(found.value)
            except ValueError as exc:
                actions = machine.damaged(found.site, str(exc), now_s)
            else:
                actions = machine.received(found.site, message, now_s)
        else:
            actions = machine.departed(found.site, found.reason, now_s)


def run_member(
    ctx: Context,
    worker: Worker,
    *,
    rules: RoundRules,
    state: RoundState | None = None,
    aggregator: Site | None = None,
    members: Sequence[Site] = (),
) -> RoundState:
    """Take part in the rounds until they end, and return the last state.

    Args:
        members: that may contribute; by default guest and hosts.
        state: of a checkpoint, from which training goes on if nobody has a later one.
        aggregator: by default the arbiter.

    Raises: RefusedByAggregator, DishonestParty, PeerFailed, NotEncodable, ValueTooLate; what the
        worker raises.
    """
    leader = aggregator or ctx.only(Role.ARBITER)
    elastic = rules.elastic
    sites = tuple(members) or members_of(ctx)
    machine = membering.RoundMember(
        worker.newcomer,
        membering.MemberSettings(
            me=ctx.site,
            aggregator=leader,
            session=_session(ctx),
            secure=rules.secure,
            members=sites,
            least=least_members(rules, len(sites)),
            launch=_launch(ctx),
            silence_s=None if elastic is None else elastic.round_deadline_s,
            signatures=signatures_of(ctx) if rules.signed else None,
            threads=ctx.cores,
        ),
        state=state,
    )
    post = _Post(ctx, required=elastic is None)
    pending = machine.begin(monotonic_s())
    while True:
        while pending:
            action, *pending = pending
            if isinstance(action, membering.SendToAggregator):
                post.send(action.message, to=(leader,))
            elif isinstance(action, membering.Took):
                worker.took(action.state)
            else:
                arrays = worker.work(action.state, action.members)
                pending += machine.worked(action.serial, arrays, monotonic_s())
        if machine.is_over and machine.state is not None:
            for entry in machine.state.notes.get(HISTORY, ()):
                _show(ctx, entry["first"], {k: v for k, v in entry.items() if k != "first"})
            return machine.state
        found = post.next((leader,), machine.deadline_s)
        now_s = monotonic_s()
        if found is None:
            pending = machine.passed(now_s)
        elif isinstance(found, Arrival):
            try:
                message = read_by_member(found.value)
            except ValueError as exc:
                number = machine.state.round if machine.state else 0
                raise DishonestParty(party=str(leader), round=number, reason=str(exc)) from exc
            pending = machine.received(message, now_s)
        else:
            pending = machine.departed(found.reason, now_s, elastic=elastic is not None)


class _Post:
    """Sends messages under tags of their own, and waits for those of others."""

    def __init__(self, ctx: Context, *, required: bool) -> None:
        """`required`: that a receiver is gone is an error."""
        self._federation = ctx.federation
        self._required = required
        self._launch = _launch(ctx)
        self._sent = 0

    def send(self, message: ToAggregator | ToMember, *, to: Sequence[Site]) -> None:
        """Send a message to some sites."""
        self._sent += 1
        tag = f"{self._launch}.{self._sent}"
        self._federation.send(NAME, written(message), to=to, tag=tag, required=self._required)

    def next(self, sites: Sequence[Site], deadline_s: float | None) -> Any:
        """Return what comes next, None at the deadline. Raises: ValueTooLate: nothing in a day."""
        left_s = PATIENCE_S if deadline_s is None else max(0.0, deadline_s - monotonic_s())
        found = self._federation.recv_any(NAME, from_=sites, timeout_s=left_s)
        if found is None and deadline_s is None:
            raise ValueTooLate(seconds=PATIENCE_S, name=NAME, tag="", site=sites[0])
        return found


def _record(ctx: Context, one: Participation) -> None:
    counted = {site.key: rows for site, rows in one.counted.items()}
    left_out = {site.key: reason for site, reason in one.left_out.items()}
    ctx.log.info(
        "round %s: %s members with %s rows in %.3f s%s",
        one.round,
        len(counted),
        sum(counted.values()),
        one.seconds,
        "".join(f"; {site} left out: {reason}" for site, reason in one.left_out.items()),
    )
    _show(ctx, one.round, {"counted": counted, "left_out": left_out})
    record_seconds(ctx, one.round, one.seconds)


def _show(ctx: Context, first: int, who: Mapping[str, object]) -> None:
    """Record who took part in round `first`, or in those from it to `who["last"]`."""
    ctx.tracker.metric(
        "train",
        "participation",
        metric_type=METRIC_TYPE,
        points=[(first, dict(who))],
        meta={"name": "participation", "metric_type": METRIC_TYPE, "unit_name": "rounds"},
    )


def _session(ctx: Context) -> str:
    return f"{ctx.job_id}/{ctx.component}/{ctx.task_version}"


def _launch(ctx: Context) -> int:
    launch: int = getattr(ctx, "launch", 0)
    return launch


def without_elasticity(ctx: Context, rules: RoundRules) -> RoundRules:
    """Return rules by which every member is needed, for runs within a run."""
    if rules.elastic is not None:
        ctx.log.info("within this run every member is needed in every round")
    return replace(rules, elastic=None)
