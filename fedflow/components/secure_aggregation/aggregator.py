"""The aggregator's side of one round: it collects a stage, closes it, and in the end has the sum.

    for _ in plan.stages:
        ...                                    # `receive` what members send, until `is_complete`
        questions = aggregator.close_stage()   # or until a deadline; one message per member
    total = aggregator.sum()

Masked vectors are added while they arrive, so there is one vector and the one that arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fedflow.components.secure_aggregation import keys, shamir
from fedflow.components.secure_aggregation.fixed_point import Integers
from fedflow.components.secure_aggregation.keys import PublicKeys
from fedflow.components.secure_aggregation.masks import MaskStream, Ring, add_masks
from fedflow.components.secure_aggregation.member import seed_digest
from fedflow.components.secure_aggregation.messages import CheckedMessage, Message, is_of, message
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.sdk import DishonestParty, FedflowError, TooFewMembers


class SecureSum:
    """The aggregator in one round. After an error the round is given up: every call raises it."""

    def __init__(self, plan: SumPlan, *, threads: int = 1) -> None:
        """`threads` make the masks that are removed."""
        self._plan, self._threads = plan, threads
        self._stage: SumStage | None = SumStage.KEYS
        self._given_up: FedflowError | None = None
        self._sets: list[tuple[str, ...]] = [plan.members]  #: due in each stage so far
        self._arrived: dict[SumStage, set[str]] = {stage: set() for stage in plan.stages}
        self._public: dict[str, PublicKeys] = {}
        self._signed: dict[str, bytes] = {}  #: signatures of the open stage
        self._dealt: dict[str, _Dealt] = {}
        self._shares: dict[str, dict[str, bytes]] = {}  #: revealed, by dealer and holder
        self._total: Ring | None = None

    @property
    def stage(self) -> SumStage | None:
        """Return what is collected; None: the round has ended."""
        return self._stage

    @property
    def due(self) -> tuple[str, ...]:
        """Return the members whose message of this stage has not arrived, sorted."""
        if self._stage is None:
            return ()
        there = self._arrived[self._stage]
        return tuple(name for name in self._sets[-1] if name not in there)

    @property
    def is_complete(self) -> bool:
        """Tell whether to wait no longer: all have arrived, or enough to unmask."""
        return not self.due or (self._stage is SumStage.UNMASKING and self._missing() is None)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return whose vectors the sum has, sorted; empty until the stage of inputs is closed."""
        at = self._plan.stages.index(SumStage.INPUTS) + 1
        return self._sets[at] if len(self._sets) > at else ()

    @property
    def lost(self) -> dict[str, SumStage]:
        """Return the members that were lost, and in which stage.

        The vector of one that was lost after `Stage.INPUTS` is in the sum.
        """
        pairs = zip(self._plan.stages, zip(self._sets, self._sets[1:], strict=False), strict=False)
        return {
            name: stage for stage, (before, after) in pairs for name in sorted({*before} - {*after})
        }

    def receive(self, member: str, value: object) -> bool:
        """Take a message of a member; False: it is left out, the member or its message is too late.

        Raises: DishonestParty: it breaks the rules, and the round is given up. The round goes on if
            that party is no member.
        """
        self._check_open()
        if not self._plan.has(member):
            raise self._dishonest(member, "it is not a member")
        try:
            return self._receive(member, value)
        except FedflowError as exc:
            self._given_up = exc
            raise

    def close_stage(self) -> dict[str, Message]:
        """End the stage with those that arrived; return the next question to each of them.

        Raises: TooFewMembers, DishonestParty: the round is given up.
        """
        self._check_open()
        stage = self._stage
        if stage is None:
            raise ValueError("the round has ended")
        try:
            questions = _CLOSE[stage](self, self._next_set(stage))
        except FedflowError as exc:
            self._given_up = exc
            raise
        stages = self._plan.stages
        at = stages.index(stage) + 1
        self._stage = stages[at] if at < len(stages) else None
        return questions

    def sum(self) -> Integers:
        """Return the sum of the vectors of `inputs`, exactly (int32 or int64, by the ring)."""
        self._check_open()
        if self._stage is not None or self._total is None:
            raise ValueError("the round has not ended")
        found: Integers = self._total.view(f"i{self._plan.ring_bits // 8}")
        return found

    # --- messages ---------------------------------------------------------------------------------

    def _receive(self, member: str, value: object) -> bool:
        plan, stage = self._plan, self._stage
        if stage is None or member not in self._sets[-1] or self._is_late(member, value):
            return False
        if member in self._arrived[stage]:
            raise self._dishonest(member, f"it sends {stage.value} twice")
        fields = _FIELDS[stage] | ({"signature"} if self._has_signature(stage) else set())
        found = CheckedMessage(
            value, plan, stage, party=member, fields=frozenset({"member", *fields})
        )
        found.member(member)
        _TAKE[stage](self, member, found)
        if self._has_signature(stage):
            self._signed[member] = found.signature("signature")
        self._arrived[stage].add(member)
        return True

    def _is_late(self, member: str, value: object) -> bool:
        """Tell whether it is a message of this round for a stage that was closed without it.

        Raises: DishonestParty: the member sent one in time, too.
        """
        for stage in self._plan.stages[: len(self._sets) - 1]:
            if is_of(value, self._plan, stage):
                if member in self._arrived[stage]:
                    raise self._dishonest(member, f"it sends {stage.value} twice")
                return True
        return False

    def _take_keys(self, member: str, found: CheckedMessage) -> None:
        joined = found.text("keys", 2 * keys.KEY_BYTES)
        public = PublicKeys(joined[: keys.KEY_BYTES], joined[keys.KEY_BYTES :])
        known = {key for one in self._public.values() for key in (one.sealing, one.masking)}
        if known & {public.sealing, public.masking} or public.sealing == public.masking:
            raise found.mistake("it has a key that another member has")
        try:
            keys.check_public(public)
        except ValueError as exc:
            raise found.mistake("one of its keys is none") from exc
        self._public[member] = public

    def _take_shares(self, member: str, found: CheckedMessage) -> None:
        self._check_same_set(found)
        holders = self._within(self._plan.holders_of(member))
        others = [name for name in holders if name != member]
        sealed = found.pieces("sealed", len(others), keys.SEALED_BYTES)
        digests = found.pieces("digests", 2 * len(holders), keys.DIGEST_BYTES)
        self._dealt[member] = _Dealt(
            sealed=dict(zip(others, sealed, strict=True)),
            digests={name: digests[2 * i : 2 * i + 2] for i, name in enumerate(holders)},
            seed_digest=found.text("seed_digest", keys.DIGEST_BYTES),
        )

    def _take_vector(self, member: str, found: CheckedMessage) -> None:
        vector = found.vector("vector")
        if self._total is None:
            self._total = vector.copy()
        else:
            np.add(self._total, vector, out=self._total)

    def _take_unmasking(self, member: str, found: CheckedMessage) -> None:
        self._check_same_set(found)
        dealers = self._within(self._plan.holders_of(member), self._dealers)
        shares = found.pieces("shares", len(dealers), shamir.SHARE_BYTES)
        inputs = frozenset(self.inputs)
        for dealer, one in zip(dealers, shares, strict=True):
            is_seed = dealer in inputs
            kind = "seed share" if is_seed else "key share"
            digest = keys.digest(kind, self._plan, dealer, member, one)
            if digest != self._dealt[dealer].digests[member][is_seed]:
                raise found.mistake(f"its {kind} of {dealer} does not fit what {dealer} dealt")
            self._shares.setdefault(dealer, {})[member] = one

    def _check_same_set(self, found: CheckedMessage) -> None:
        expected = self._sets[-1] if self._stage is SumStage.SHARES else self.inputs
        if found.members("members", within=self._plan.members) != expected:
            raise found.mistake("it names another set of members than it was told")

    # --- ends of stages ---------------------------------------------------------------------------

    def _close_keys(self, names: tuple[str, ...]) -> dict[str, Message]:
        fields: dict[str, Any] = {
            "members": list(names),
            "keys": b"".join(bytes(self._public[name]) for name in names),
        }
        if self._plan.signed:
            fields["signatures"] = [self._signed[name] for name in names]
        self._signed = {}
        question = message(self._plan, SumStage.SHARES, **fields)
        return dict.fromkeys(names, question)

    def _close_shares(self, names: tuple[str, ...]) -> dict[str, Message]:
        questions = {}
        for name in names:
            dealers = self._within(self._plan.neighbours_of(name), names)
            questions[name] = message(
                self._plan,
                SumStage.INPUTS,
                members=list(names),
                sealed=b"".join(self._dealt[one].sealed[name] for one in dealers),
                digests=b"".join(d for one in dealers for d in self._dealt[one].digests[name]),
            )
        for dealt in self._dealt.values():
            dealt.sealed.clear()
        return questions

    def _close_inputs(self, names: tuple[str, ...]) -> dict[str, Message]:
        cut = self._plan.smallest_cut(set(names))
        if cut is not None and cut < self._plan.threshold:
            raise self._too_few(SumStage.INPUTS, f"{cut} members could separate the others")
        following = SumStage.CONFIRMATIONS if self._plan.signed else SumStage.UNMASKING
        return dict.fromkeys(names, message(self._plan, following, members=list(names)))

    def _close_confirmations(self, names: tuple[str, ...]) -> dict[str, Message]:
        question = message(
            self._plan,
            SumStage.UNMASKING,
            members=list(self.inputs),
            signers=list(names),
            signatures=[self._signed[name] for name in names],
        )
        return dict.fromkeys(names, question)

    def _close_unmasking(self, names: tuple[str, ...]) -> dict[str, Message]:
        if (name := self._missing()) is not None:
            found = len(self._shares.get(name, ()))
            reason = f"{found} of {self._plan.threshold} shares of {name}"
            raise self._too_few(SumStage.UNMASKING, reason)
        if self._total is None:
            raise ValueError("there are no inputs")
        add_masks(self._total, self._remaining_masks(), threads=self._threads)
        return {}

    # --- what is left in the sum ------------------------------------------------------------------

    def _remaining_masks(self) -> list[MaskStream]:
        """Return the masks that take off what is left, opened by the shares that arrived."""
        plan, masks, inputs = self._plan, [], frozenset(self.inputs)
        for dealer in self._dealers:
            secret = self._opened(dealer)
            if dealer in inputs:
                if seed_digest(plan, dealer, secret) != self._dealt[dealer].seed_digest:
                    raise self._dishonest(dealer, "its shares open another seed than it said")
                seed = keys.self_mask_seed(secret, plan, dealer)
                masks.append(MaskStream(seed=seed, negative=True))
                continue
            try:
                key = keys.opened_key(secret, public=self._public[dealer].masking)
            except ValueError as exc:
                reason = "its shares open another key than it showed"
                raise self._dishonest(dealer, reason) from exc
            for peer in self._within(plan.neighbours_of(dealer), self.inputs):
                seed = keys.pair_mask_seed(
                    key, self._public[peer].masking, plan, own=dealer, peer=peer
                )
                masks.append(MaskStream(seed=seed, negative=peer < dealer))
        return masks

    def _opened(self, dealer: str) -> bytes:
        points = {self._plan.point(name): one for name, one in self._shares[dealer].items()}
        try:
            return shamir.recover(points, threshold=self._plan.threshold)
        except ValueError as exc:
            raise self._dishonest(dealer, f"its shares: {exc}") from exc

    def _missing(self) -> str | None:
        """Return a member of whose secret too few shares arrived."""
        for dealer in self._dealers:
            if len(self._shares.get(dealer, ())) < self._plan.threshold:
                return dealer
        return None

    # --- sets -------------------------------------------------------------------------------------

    @property
    def _dealers(self) -> tuple[str, ...]:
        """Return those whose shares were handed out: their masks are in the inputs of others."""
        return self._sets[self._plan.stages.index(SumStage.SHARES) + 1]

    def _next_set(self, stage: SumStage) -> tuple[str, ...]:
        """Return and keep those that go on. Raises: TooFewMembers."""
        names = tuple(name for name in self._sets[-1] if name in self._arrived[stage])
        if stage in (SumStage.KEYS, SumStage.SHARES):
            names = self._with_enough_holders(names)
        if len(names) < self._plan.min_members and stage is not SumStage.UNMASKING:
            raise self._too_few(stage, f"{len(names)} of {self._plan.min_members} members")
        self._sets.append(names)
        return names

    def _with_enough_holders(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of whom enough holders are left, who count too, to open their secrets."""
        while True:
            kept = tuple(
                name
                for name in names
                if len(self._within(self._plan.holders_of(name), names)) >= self._plan.threshold
            )
            if kept == names:
                return names
            names = kept

    def _within(
        self, names: Iterable[str], others: tuple[str, ...] | None = None
    ) -> tuple[str, ...]:
        chosen = frozenset(self._sets[-1] if others is None else others)
        return tuple(name for name in names if name in chosen)

    def _has_signature(self, stage: SumStage) -> bool:
        return self._plan.signed and stage in (SumStage.KEYS, SumStage.CONFIRMATIONS)

    def _check_open(self) -> None:
        if self._given_up is not None:
            raise self._given_up

    def _dishonest(self, party: str, reason: str) -> DishonestParty:
        return DishonestParty(party=party, round=self._plan.round, reason=reason)

    def _too_few(self, stage: SumStage, reason: str) -> TooFewMembers:
        return TooFewMembers(round=self._plan.round, stage=stage.value, reason=reason)


class _Dealt:
    """What a member dealt: sealed shares and digests by holder."""

    __slots__ = ("digests", "sealed", "seed_digest")

    def __init__(
        self, *, sealed: dict[str, bytes], digests: dict[str, list[bytes]], seed_digest: bytes
    ) -> None:
        self.sealed, self.digests, self.seed_digest = sealed, digests, seed_digest


_FIELDS = {
    SumStage.KEYS: {"keys"},
    SumStage.SHARES: {"members", "sealed", "digests", "seed_digest"},
    SumStage.INPUTS: {"vector"},
    SumStage.CONFIRMATIONS: set[str](),
    SumStage.UNMASKING: {"members", "shares"},
}
_TAKE = {
    SumStage.KEYS: SecureSum._take_keys,
    SumStage.SHARES: SecureSum._take_shares,
    SumStage.INPUTS: SecureSum._take_vector,
    SumStage.CONFIRMATIONS: lambda *_: None,
    SumStage.UNMASKING: SecureSum._take_unmasking,
}
_CLOSE = {
    SumStage.KEYS: SecureSum._close_keys,
    SumStage.SHARES: SecureSum._close_shares,
    SumStage.INPUTS: SecureSum._close_inputs,
    SumStage.CONFIRMATIONS: SecureSum._close_confirmations,
    SumStage.UNMASKING: SecureSum._close_unmasking,
}
