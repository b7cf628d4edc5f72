"""Scores of rows whose columns the parties share: hosts send their parts, the guest adds up."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedflow.components.linear.rows import Rows
from fedflow.components.linear.stored import Trained
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Role
from fedflow.sdk.errors import CodecError

Floats = NDArray[np.float64]


class Weighted(Protocol):
    """One party's weights, in training or afterwards."""

    def scores(self, features: Floats) -> Floats:
        """Return this party's part of every row's score."""


def send_scores(ctx: Context, share: Weighted, rows: Rows, *, tag: str) -> None:
    """Give the guest this host's part of the scores, in clear."""
    scores = share.scores(rows.data.features)
    ctx.federation.send("host_prob", scores, to=ctx.only(Role.GUEST), tag=tag)


def total_scores(ctx: Context, share: Weighted, rows: Rows, *, tag: str) -> Floats:
    """Return the score of every row, its offset included, at the guest.

    Raises: CodecError: a host sent no finite number per row.
    """
    total = share.scores(rows.data.features) + rows.offset_of(slice(None))
    for host in ctx.sites_of(Role.HOST):
        part = wait_for(ctx, "host_prob", host, tag=tag)
        if not isinstance(part, np.ndarray) or part.shape != total.shape:
            raise CodecError(reason=f"{host} sent no score per row")
        if part.dtype != np.float64 or not np.isfinite(part).all():
            raise CodecError(reason=f"{host} sent scores that are no finite numbers")
        total = total + part
    return total


def score_in_clear(ctx: Context, trained: Trained, rows: Rows, *, tag: str) -> Floats | None:
    """Return the score of every row at the guest; a host sends its part in clear.

    Raises: BadData: the model has no weights. CodecError.
    """
    if trained.share is None:
        raise BadData(where=f"model of {ctx.component}", reason="it has no weights")
    if ctx.site.role is Role.HOST:
        send_scores(ctx, trained.share, rows, tag=tag)
        return None
    return total_scores(ctx, trained.share, rows, tag=tag)
