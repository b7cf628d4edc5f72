"""Scores of a SSHE model's rows: the host's part comes in clear, or encrypted for the guest."""

from __future__ import annotations

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.fixed_point import FixedPoint
from fedflow.components.crypto.packed_rows import packed_rows
from fedflow.components.crypto.paillier import PrivateKey, unpack
from fedflow.components.linear.arithmetic import encode_features
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.scoring import score_in_clear
from fedflow.components.linear.stored import Trained
from fedflow.components.sshe.matmul import SLOT_BITS, count_packed
from fedflow.components.sshe.model import EncryptedWeights, Fitted
from fedflow.components.sshe.session import peer_of
from fedflow.components.sshe.shares import FEATURE_BITS, SCORE_BITS, decode, ring
from fedflow.components.sshe.weights import FINAL_LIMIT_BITS
from fedflow.sdk import BadData, Context

Floats = NDArray[np.float64]


def score(ctx: Context, trained: Trained, rows: Rows, *, tag: str) -> Floats | None:
    """Return the score of every row at the guest, None at the host; both call this.

    Raises: BadData: the model has no weights, or features are too large. CodecError.
    """
    if not isinstance(trained, Fitted):
        return score_in_clear(ctx, trained, rows, tag=tag)
    if trained.encrypted is not None:
        _send_encrypted(ctx, trained.encrypted, rows, tag=tag)
        return None
    if not trained.known:
        raise BadData(
            where=f"model of {ctx.component}",
            reason="it is a checkpoint of hidden weights: training can go on from it, no more",
        )
    if trained.key is None or trained.share is None:
        return score_in_clear(ctx, trained, rows, tag=tag)
    own = trained.share.scores(rows.data.features)
    return own + _open_scores(ctx, trained.key, rows, tag=tag)


def _send_encrypted(ctx: Context, weights: EncryptedWeights, rows: Rows, *, tag: str) -> None:
    key, data = weights.key.with_blinding(ctx.params.encrypt_param.blinding), rows.data
    matrix = encode_features(
        data.features, fixed=FixedPoint(bits=FEATURE_BITS), columns=data.columns
    )
    packed = packed_rows(
        [mpz(c) for c in weights.ciphertexts],
        matrix,
        key.modulus,
        slot_bits=SLOT_BITS,
        slots=key.slots(SLOT_BITS),
    )
    payload = key.to_bytes(key.blind(packed, to_owner=True))
    ctx.federation.send("host_prob", payload, to=peer_of(ctx), tag=tag)


def _open_scores(ctx: Context, key: PrivateKey, rows: Rows, *, tag: str) -> Floats:
    """Return the host's part of every row's score. Raises: CodecError, NotEncodable."""
    count = rows.data.rows
    payload = ctx.federation.recv("host_prob", from_=peer_of(ctx), tag=tag)
    ciphertexts = key.public.from_bytes(payload, count=count_packed(key.public, count))
    slots = key.public.slots(SLOT_BITS)
    numbers = unpack(key.decrypt(ciphertexts), SLOT_BITS, slots=slots, count=count)
    return decode(ring(numbers), scale=SCORE_BITS, limit_bits=FINAL_LIMIT_BITS, what="scores")
