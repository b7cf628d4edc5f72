"""One member's side of one round: `keys`, `shares`, `masked`, (`confirm`), `unmask`, in this order.

Each method is called once, with the aggregator's question, and returns the answer. A question that
does not fit what was seen before is refused, and then nothing more is answered: secrets of this
round are of use to nobody.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedflow.components.secure_aggregation import keys, shamir
from fedflow.components.secure_aggregation.keys import PublicKeys, RoundSecrets
from fedflow.components.secure_aggregation.masks import MaskStream, Ring, add_masks
from fedflow.components.secure_aggregation.messages import (
    AGGREGATOR,
    CheckedMessage,
    Message,
    message,
)
from fedflow.components.secure_aggregation.plan import SumPlan, SumStage
from fedflow.components.secure_aggregation.signatures import (
    Signatures,
    inputs_content,
    keys_content,
)
from fedflow.sdk import DishonestParty, TooFewMembers


class SecureMember:
    """A member in one round. All methods raise DishonestParty, TooFewMembers."""

    def __init__(
        self,
        plan: SumPlan,
        me: str,
        *,
        signatures: Signatures | None = None,
        threads: int = 1,
    ) -> None:
        """Draw the secrets of the round.

        Args:
            signatures: needed if the plan is signed.
            threads: that make masks.

        Raises: ValueError: `me` is not in the plan, or it needs signatures.
        """
        if not plan.has(me):
            raise ValueError(f"{me} is not a member")
        if plan.signed and signatures is None:
            raise ValueError("a signed round needs signatures")
        self._plan, self._me, self._threads = plan, me, threads
        self._signatures = signatures if plan.signed else None
        self._secrets: RoundSecrets | None = RoundSecrets.draw()
        self._due: SumStage | None = SumStage.KEYS
        self._sets: list[tuple[str, ...]] = [plan.members]  #: as seen in each stage so far
        self._public: dict[str, PublicKeys] = {}  #: of the members that sent keys
        self._roster = b""  #: these keys as they came
        self._held: dict[str, tuple[bytes, bytes]] = {}
        """Shares by their dealer: of the key of its masks, and of the seed of its own mask."""

    def keys(self) -> Message:
        """Return this member's public keys."""
        own = bytes(self._enter(SumStage.KEYS).public)
        fields: dict[str, object] = {"keys": own}
        if self._signatures is not None:
            fields["signature"] = self._signatures.sign(keys_content(self._plan, self._me, own))
        return self._answer(SumStage.KEYS, SumStage.SHARES, **fields)

    def shares(self, question: object) -> Message:
        """Return the shares of this member's secrets, sealed for each holder."""
        own = self._enter(SumStage.SHARES)
        self._read_keys(question)
        plan, me = self._plan, self._me
        holders = _within(plan.holders_of(me), self._sets[-1])
        if len(holders) < plan.threshold:
            raise self._too_few(SumStage.SHARES, f"{len(holders)} of {plan.threshold} holders")
        points = [plan.point(one) for one in holders]
        of_key, of_seed = (
            shamir.split(secret, threshold=plan.threshold, points=points)
            for secret in (own.masking.private_bytes_raw(), own.self_seed)
        )
        digests, sealed = [], []
        for holder, pair in zip(holders, zip(of_key, of_seed, strict=True), strict=True):
            digests += share_digests(plan, me, holder, pair)
            if holder == me:
                self._held[me] = pair
            else:
                sealed.append(self._seal(own, holder, b"".join(pair)))
        return self._answer(
            SumStage.SHARES,
            SumStage.INPUTS,
            members=list(self._sets[-1]),
            sealed=b"".join(sealed),
            digests=b"".join(digests),
            seed_digest=seed_digest(plan, me, own.self_seed),
        )

    def masked(self, question: object, vector: NDArray[Any]) -> Message:
        """Return the vector under this member's own mask and those it has with its neighbours.

        `vector` has the plan's length, int32 or int64 as its ring; see `fixed_point`. It is masked
        in place, unless it is read-only: afterwards nobody has its numbers here.

        Raises: ValueError: it is no such vector.
        """
        plan, me = self._plan, self._me
        kind = np.dtype(f"i{plan.ring_bits // 8}")
        if vector.dtype != kind or vector.shape != (plan.length,):
            raise ValueError(f"a {kind} array of {plan.length} numbers is due")
        own = self._enter(SumStage.INPUTS)
        self._read_shares(own, question)
        masks = [MaskStream(seed=keys.self_mask_seed(own.self_seed, plan, me))]
        for peer in _within(plan.neighbours_of(me), self._sets[-1]):
            seed = self._pair_seed(own, peer)
            masks.append(MaskStream(seed=seed, negative=me > peer))
        hidden: Ring = np.require(vector.view(f"u{plan.ring_bits // 8}"), requirements=("C", "W"))
        add_masks(hidden, masks, threads=self._threads)
        following = SumStage.CONFIRMATIONS if plan.signed else SumStage.UNMASKING
        return self._answer(SumStage.INPUTS, following, vector=hidden)

    def confirm(self, question: object) -> Message:
        """Return the signature of the set of those whose input arrived; in signed rounds only."""
        self._enter(SumStage.CONFIRMATIONS)
        found = self._received(question, SumStage.CONFIRMATIONS, {"members"})
        self._see_inputs(found, SumStage.CONFIRMATIONS)
        if self._signatures is None:
            raise ValueError("no signatures in this round")
        content = inputs_content(self._plan, self._sets[-1], keys=self._roster)
        signature = self._signatures.sign(content)
        return self._answer(SumStage.CONFIRMATIONS, SumStage.UNMASKING, signature=signature)

    def unmask(self, question: object) -> Message:
        """Return the shares that remove what masks are left, one per member that dealt shares.

        It is a share of the *seed* of a member whose input arrived, and a share of the *key* of one
        that was lost, never both. This ends the round here: all secrets are dropped.
        """
        self._enter(SumStage.UNMASKING)
        if self._signatures is None:
            found = self._received(question, SumStage.UNMASKING, {"members"})
            self._see_inputs(found, SumStage.UNMASKING)
        else:
            self._check_confirmed(self._signatures, question)
        inputs = self._sets[-1]
        dealers = _within(self._plan.holders_of(self._me), self._sets[-2])
        present = set(inputs)
        shares = [self._held[one][1 if one in present else 0] for one in dealers]
        self._secrets, self._held, self._public = None, {}, {}
        return self._answer(SumStage.UNMASKING, None, members=list(inputs), shares=b"".join(shares))

    # --- questions --------------------------------------------------------------------------------

    def _read_keys(self, question: object) -> None:
        """Take the public keys of all that sent some."""
        fields = {"members", "keys"} | ({"signatures"} if self._signatures else set())
        found = self._received(question, SumStage.SHARES, fields)
        names = self._see(found, SumStage.SHARES)
        self._roster = found.text("keys", len(names) * 2 * keys.KEY_BYTES)
        joined = found.pieces("keys", len(names), 2 * keys.KEY_BYTES)
        if self._signatures is not None:
            signed = found.signatures("signatures", len(names))
            claims = {
                name: (keys_content(self._plan, name, one), signature)
                for name, one, signature in zip(names, joined, signed, strict=True)
            }
            if wrong := self._signatures.wrong(claims):
                raise found.mistake(f"the keys of {wrong[0]} are not signed by it")
        public = [PublicKeys(one[: keys.KEY_BYTES], one[keys.KEY_BYTES :]) for one in joined]
        self._public = dict(zip(names, public, strict=True))
        if self._secrets is None or self._public[self._me] != self._secrets.public:
            raise found.mistake("it gives other keys as mine")
        if len({key for one in public for key in (one.sealing, one.masking)}) != 2 * len(public):
            raise found.mistake("two members have one key")

    def _read_shares(self, own: RoundSecrets, question: object) -> None:
        """Open the shares that others dealt to this member."""
        plan, me = self._plan, self._me
        found = self._received(question, SumStage.INPUTS, {"members", "sealed", "digests"})
        names = self._see(found, SumStage.INPUTS)
        dealers = _within(plan.neighbours_of(me), names)
        if len(dealers) + 1 < plan.threshold:
            raise self._too_few(SumStage.INPUTS, f"{len(dealers) + 1} of {plan.threshold} holders")
        sealed = found.pieces("sealed", len(dealers), keys.SEALED_BYTES)
        digests = found.pieces("digests", 2 * len(dealers), keys.DIGEST_BYTES)
        for at, (dealer, one) in enumerate(zip(dealers, sealed, strict=True)):
            pair = self._unseal(own, dealer, one)
            if share_digests(plan, dealer, me, pair) != digests[2 * at : 2 * at + 2]:
                raise self._dishonest(dealer, "it dealt shares that do not fit their digests")
            self._held[dealer] = pair

    def _check_confirmed(self, signatures: Signatures, question: object) -> None:
        """Check that enough members saw the same set of inputs."""
        plan = self._plan
        fields = {"members", "signers", "signatures"}
        found = self._received(question, SumStage.UNMASKING, fields)
        inputs = self._sets[-1]
        if found.members("members", within=inputs) != inputs:
            raise found.mistake("it names another set of inputs than before")
        signers = found.members("signers", within=inputs)
        if len(signers) < plan.min_members:
            raise self._too_few(
                SumStage.UNMASKING, f"{len(signers)} of {plan.min_members} members confirmed"
            )
        content = inputs_content(plan, inputs, keys=self._roster)
        signed = found.signatures("signatures", len(signers))
        claims = {name: (content, one) for name, one in zip(signers, signed, strict=True)}
        if wrong := signatures.wrong(claims):
            raise found.mistake(f"{wrong[0]} did not confirm this set of inputs")

    def _see_inputs(self, found: CheckedMessage, stage: SumStage) -> None:
        """Take the set of those whose input arrived."""
        self._see(found, stage)
        cut = self._plan.smallest_cut(set(self._sets[-1]))
        if cut is not None and cut < self._plan.threshold:
            raise self._too_few(stage, f"{cut} members could separate the others")

    def _see(self, found: CheckedMessage, stage: SumStage) -> tuple[str, ...]:
        """Take the next set: part of the one before, with this member, and large enough."""
        names = found.members("members", within=self._sets[-1])
        if self._me not in names:
            raise self._too_few(stage, f"{self._me} is left out")
        if len(names) < self._plan.min_members:
            raise self._too_few(stage, f"{len(names)} of {self._plan.min_members} members")
        self._sets.append(names)
        return names

    # --- one at a time ----------------------------------------------------------------------------

    def _enter(self, stage: SumStage) -> RoundSecrets:
        """Begin a stage; if it ends with an error, there is no other."""
        due, self._due = self._due, None
        if due is not stage or self._secrets is None:
            shown = due.value if due is not None else "none"
            raise self._dishonest(AGGREGATOR, f"{stage.value} was asked for, {shown} is due")
        return self._secrets

    def _answer(self, stage: SumStage, following: SumStage | None, **fields: object) -> Message:
        self._due = following
        return message(self._plan, stage, member=self._me, **fields)

    def _received(self, question: object, stage: SumStage, fields: set[str]) -> CheckedMessage:
        return CheckedMessage(
            question, self._plan, stage, party=AGGREGATOR, fields=frozenset(fields)
        )

    def _seal(self, own: RoundSecrets, holder: str, content: bytes) -> bytes:
        public = self._public[holder].sealing
        try:
            secret = own.sealing_secret(public)
        except ValueError as exc:
            raise self._dishonest(holder, "its public key is none") from exc
        return keys.seal(content, secret, self._plan, sender=self._me, receiver=holder)

    def _unseal(self, own: RoundSecrets, dealer: str, sealed: bytes) -> tuple[bytes, bytes]:
        public = self._public[dealer].sealing
        try:
            secret = own.sealing_secret(public)
            opened = keys.unseal(sealed, secret, self._plan, sender=dealer, receiver=self._me)
            pair = opened[: shamir.SHARE_BYTES], opened[shamir.SHARE_BYTES :]
            for one in pair:
                shamir.read(one)
        except ValueError as exc:
            raise self._dishonest(dealer, f"its shares for {self._me}: {exc}") from exc
        return pair

    def _pair_seed(self, own: RoundSecrets, peer: str) -> bytes:
        public = self._public[peer].masking
        try:
            return keys.pair_mask_seed(own.masking, public, self._plan, own=self._me, peer=peer)
        except ValueError as exc:
            raise self._dishonest(peer, "its public key is none") from exc

    def _dishonest(self, party: str, reason: str) -> DishonestParty:
        return DishonestParty(party=party, round=self._plan.round, reason=reason)

    def _too_few(self, stage: SumStage, reason: str) -> TooFewMembers:
        return TooFewMembers(round=self._plan.round, stage=stage.value, reason=reason)


def share_digests(
    plan: SumPlan, dealer: str, holder: str, pair: tuple[bytes, bytes]
) -> list[bytes]:
    """Return the commitments to a holder's two shares: of the key, of the seed."""
    return [
        keys.digest(kind, plan, dealer, holder, one)
        for kind, one in zip(("key share", "seed share"), pair, strict=True)
    ]


def seed_digest(plan: SumPlan, member: str, seed: bytes) -> bytes:
    """Return the commitment to the seed of a member's own mask."""
    return keys.digest("seed", plan, member, seed)


def _within(names: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    chosen = set(others)
    return tuple(name for name in names if name in chosen)
