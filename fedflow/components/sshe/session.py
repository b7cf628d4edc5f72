"""The messages of a SSHE training, what both parties agree on before it, and why it is safe.

Guest and host hold columns of the same rows, the guest the labels; there is no third party. Here z
is a row's score, r = z - t its residual against a target t that follows from the label. In linear
regression t is y, in logistic 2 y for y = -1 or 1. There the linearised gradient is r / 4 and the
loss ln 2 - 1/2 + r**2 / 8. A secret share of x is <x> (`shares.py`); [[x]]_g and [[x]]_h are
encrypted with guest's and host's key. "Masked" is an encrypted product plus a random mask
(`matmul.py`). Its reader opens it, and then it is the reader's share.

MESSAGES

Tags are `iteration.batch`, or the iteration. With reveal_every_iter <w>, encrypted_share and
score_product do not exist: z's shares are each party's own part, encoded from its known weights.

**Security argument** (semi-honest parties). Every message but the last of each phase is a
ciphertext under its sender's key, which the receiver cannot read (Paillier), or is masked. Of a
masked value the opener sees a number within statistical distance 2**-64 of one that is drawn
independently of the other's data. The ciphertext's randomness is fresh. `initial_share` is uniform.
Rounding shares is local. So a party learns what it is meant to, and no more. The guest learns the
loss of each iteration, and with weight_diff the update's length. Both learn whether training goes
on, and in the end their weights. With reveal_every_iter they learn also the own gradient of each
batch, as in HeteroLR.

Numbers that overflow the ring are not seen at once, as nobody knows them. They turn into random
ring elements, which the loss shows. A loss that reaches 2**34, or final weights that reach 2**40,
end the training as diverged.

Source: Chen, Zhou, Wang et al., KDD 2021 (arXiv:2008.08753); the ring and its arithmetic are ours
(docs/decisions, "SSHE computes in a ring of 192 bits").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from fedflow.components.linear.params import MIN_BATCH_ROWS
from fedflow.components.sshe.params import SSHEParams
from fedflow.components.training.keys import parse_key, warn_of_short_key
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Role, Site
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import BadParameter, CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sshe_session | settings | guest -> host | `Agreement`
paillier_pubkey | key | guest <-> host | {n: hexadecimal, size: number of own weights}
callbacks, checkpoint_steps, checkpoint_step | settings | as in HeteroLR |
sample_ids | rows | guest <-> host | {rows, digest}; tag = type of data
initial_share | masked | guest <-> host | <w> of the sender's weights, at the start
encrypted_share | ciphertext | guest <-> host | by the sender: its <w> of the receiver's weights
score_product | masked | guest <-> host | masked: own features times that
residual_share | ciphertext | guest <-> host | by the sender: its <r> per row
weighted_residual | masked | guest -> host | with sample weights: weight times the host's <r>
gradient_product | masked | guest <-> host | masked: own features times the other's <r>
gradient | masked | guest <-> host | with reveal_every_iter: the opened gradient_product
loss_product | masked | guest -> host | masked: what the loss needs of products of both shares
norm_product | masked | host -> guest | masked: the same, of the host's weights, with a penalty
loss | masked | host -> guest | the host's <loss>: the guest adds its own and knows the loss
update_share | ciphertext | host -> guest | with early_stop weight_diff: its <change> of the weights
update_product | masked | guest -> host | with early_stop weight_diff: as loss_product
update_norm | masked | host -> guest | with early_stop weight_diff: <squared length of the update>
is_converged | settings | guest -> host | {converged, stop}, after each iteration
final_share | masked | guest <-> host | <w> of the receiver's weights, in the end
final_weight | ciphertext | guest -> host | encrypted_reveal_in_host: [[<w>]]_g of its weights
continued_weight | masked | host -> guest | to go on from such a model: its weights
host_prob | values | host -> guest | the host's part of z, in clear; of encrypted weights: [[z]]_g
validation_status | settings | guest -> host | {stop, best}, with early stopping
""")

WEIGHTS, ENCRYPTED_WEIGHTS, SHARES = "weights", "encrypted", "shares"

MAX_WEIGHTS = 1 << 20  #: of one party
MAX_DIVISOR_BITS = 38  #: see `Batches.divisor`


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """What must be the same at both parties, as both compute on shares; names of parameters."""

    module: str
    rows: int
    weighted: bool  #: residuals carry the guest's sample weights; the guest's word counts
    start: str  #: what training starts from: `weights`, `encrypted` ones, `shares` of a checkpoint
    intercept: bool  #: the guest's last weight is an intercept; the guest's word counts
    batch_size: int
    penalty: str
    alpha: float
    optimizer: str
    learning_rate: float
    decay: float
    decay_sqrt: bool
    max_iter: int
    early_stop: str
    reveal_every_iter: bool
    reveal_strategy: str

    @staticmethod
    def of(params: SSHEParams, *, rows: int, weighted: bool, start: str) -> Agreement:
        """Return what this party would agree on."""
        return Agreement(
            module=params.family.module,
            rows=rows,
            weighted=weighted,
            start=start,
            intercept=params.init_param.fit_intercept,
            batch_size=params.batch_size,
            penalty=params.penalty_kind,
            alpha=params.alpha,
            optimizer=params.optimizer_kind,
            learning_rate=params.learning_rate,
            decay=params.decay,
            decay_sqrt=params.decay_sqrt,
            max_iter=params.max_iter,
            early_stop=params.stop_kind,
            reveal_every_iter=params.reveal_every_iter,
            reveal_strategy=params.reveal_strategy.lower(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Batches:
    """Consecutive rows, the last batch perhaps smaller."""

    rows: int
    size: int

    @property
    def count(self) -> int:
        return -(-self.rows // self.size)

    @property
    def last(self) -> int:
        """Return how many rows the last batch has."""
        return self.rows - (self.count - 1) * self.size

    def slices(self) -> list[slice]:
        """Return each batch's rows."""
        starts = range(0, self.rows, self.size)
        return [slice(start, min(start + self.size, self.rows)) for start in starts]

    def weight(self, rows: int) -> int:
        """Return the integer by which a sum over a batch of `rows` rows enters a mean of means."""
        if self.last == self.size:
            return 1
        return self.last if rows == self.size else self.size

    @property
    def divisor(self) -> int:
        """Return what the weighted sum of all batches is divided by, to be the mean of means."""
        return self.count * self.size * (1 if self.last == self.size else self.last)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What one party keeps of its peer during a training."""

    ctx: Context
    peer: Site
    agreed: Agreement
    batches: Batches
    key: PrivateKey
    peer_key: PublicKey
    size: int  #: number of own weights
    peer_size: int

    @property
    def is_guest(self) -> bool:
        return self.ctx.site.role is Role.GUEST

    def send(self, name: str, value: Any, *, tag: str = "") -> None:
        """Send a value to the peer."""
        self.ctx.federation.send(name, value, to=self.peer, tag=tag)

    def recv(self, name: str, *, tag: str = "") -> Any:
        """Wait for a value of the peer."""
        return wait_for(self.ctx, name, self.peer, tag=tag)


def peer_of(ctx: Context) -> Site:
    """Return the other party."""
    return ctx.only(Role.HOST if ctx.site.role is Role.GUEST else Role.GUEST)


def open_session(
    ctx: Context, *, rows: int, weighted: bool, size: int, start: str = WEIGHTS
) -> Session:
    """Agree with the peer, exchange keys, and return the session.

    Args:
        weighted: whether this party's rows have sample weights; only the guest's count.
        size: number of own weights.
        start: see `Agreement`.

    Raises: BadParameter: the parties' parameters differ where they must not, the peer's key is
        shorter than this party's `key_length`, or the batches are too many or large. CodecError.
    """
    params: SSHEParams = ctx.params
    peer = peer_of(ctx)
    own = Agreement.of(params, rows=rows, weighted=weighted, start=start)
    agreed = own if ctx.site.role is Role.GUEST else _agree(ctx, peer, own)
    if ctx.site.role is Role.GUEST:
        ctx.federation.send("sshe_session", msgspec.to_builtins(own), to=peer)
    batches = Batches(rows=rows, size=rows if agreed.batch_size == -1 else agreed.batch_size)
    batches = replace(batches, size=min(rows, batches.size))
    if batches.divisor.bit_length() > MAX_DIVISOR_BITS:
        raise BadParameter(path="batch_size", reason=f"{rows} rows in such batches are too many")
    encryption = params.encrypt_param
    warn_of_short_key(ctx, encryption)
    _warn_of_small_batch(ctx, rows=batches.last)
    key = PrivateKey.generate(encryption.key_length, blinding=encryption.blinding)
    ctx.federation.send("paillier_pubkey", {"n": hex(key.public.n), "size": size}, to=peer)
    peer_key, peer_size = _receive_key(ctx, peer)
    return Session(
        ctx=ctx,
        peer=peer,
        agreed=agreed,
        batches=batches,
        key=key,
        peer_key=peer_key,
        size=size,
        peer_size=peer_size,
    )


def _agree(ctx: Context, guest: Site, own: Agreement) -> Agreement:
    try:
        told = read_as(wait_for(ctx, "sshe_session", guest), Agreement)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"sshe_session of {guest}: {exc}") from exc
    if told.start != own.start:
        raise BadParameter(
            path="input.model", reason=f"{guest} starts from {told.start}, this party {own.start}"
        )
    for name in Agreement.__struct_fields__:
        if name not in ("weighted", "intercept", "rows") and getattr(told, name) != getattr(
            own, name
        ):
            raise BadParameter(path=name, reason=f"differs from that of {guest}: both compute it")
    if told.rows != own.rows:
        raise CodecError(reason="sshe_session: another number of rows than sample_ids")
    return told


def _receive_key(ctx: Context, peer: Site) -> tuple[PublicKey, int]:
    """Return the peer's key and number of weights. Raises: BadParameter, CodecError."""
    value = wait_for(ctx, "paillier_pubkey", peer)
    text, size = (value.get("n"), value.get("size")) if isinstance(value, dict) else (None, None)
    if type(size) is not int or not 0 <= size <= MAX_WEIGHTS:
        raise CodecError(reason=f"{peer} sent no number of weights")
    return parse_key(text, ctx.params.encrypt_param), size


def _warn_of_small_batch(ctx: Context, *, rows: int) -> None:
    if ctx.params.reveal_every_iter and rows < MIN_BATCH_ROWS:
        ctx.log.warning(
            "the last batch has %s row(s): with reveal_every_iter a party can compute much of them"
            " from its gradients; choose another batch_size",
            rows,
        )
