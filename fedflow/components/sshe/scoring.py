"""Scores of a SSHE model's rows: the host's part comes in clear, or encrypted for the guest."""

from __future__ import annotations

from functools import partial

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from fedflow.components.crypto.packed_rows import PackedMatrix, packed_products
from fedflow.components.linear.arithmetic import encode_features
from fedflow.components.linear.rows import Rows
from fedflow.components.linear.scoring import score_in_clear
from fedflow.components.linear.stored import Trained
from fedflow.components.sshe.matmul import SLOT_BITS, open_products
from fedflow.components.sshe.model import EncryptedWeights, Fitted
from fedflow.components.sshe.session import peer_of
from fedflow.components.sshe.shares import FEATURE_BITS, SCORE_BITS, decode
from fedflow.components.sshe.weights import FINAL_LIMIT_BITS
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context
from fedflow.sdk.crypto.encrypted_rows import blinding_products
from fedflow.sdk.crypto.fixed_point import FixedPoint
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey

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
    key.prepare(to_owner=True)
    found = packed_products(
        ctx.workers,
        key,
        [mpz(c) for c in weights.ciphertexts],
        PackedMatrix.of(matrix, slots=key.slots(SLOT_BITS)),
        slot_bits=SLOT_BITS,
        finish=partial(_blind_block, key),
        width=key.width,
        products=blinding_products(key, to_owner=True),
    )
    payload = key.message_of(found)
    ctx.federation.send("host_prob", payload, to=peer_of(ctx), tag=tag)


def _open_scores(ctx: Context, key: PrivateKey, rows: Rows, *, tag: str) -> Floats:
    """Return the host's part of every row's score. Raises: CodecError, NotEncodable."""
    count = rows.data.rows
    payload = wait_for(ctx, "host_prob", peer_of(ctx), tag=tag)
    opened = open_products(ctx.workers, key, payload, count=count)
    return decode(opened, scale=SCORE_BITS, limit_bits=FINAL_LIMIT_BITS, what="scores")


def _blind_block(key: PublicKey, packed: list[mpz], used: list[int]) -> bytes:
    return key.body(key.blind(packed, to_owner=True))
