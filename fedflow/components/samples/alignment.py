"""The proof that all parties have the same rows in the same order, so that they go by number."""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedflow.components.samples.decoding import Instances
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Role, Site
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
sample_ids | rows | guest <-> hosts | {rows, digest}; tag = type of data
""")


def check_same_rows(ctx: Context, data: Instances, *, tag: str) -> None:
    """Do nothing if guest and hosts have the same ids in the same order; all of them call this.

    They exchange the number of rows and a digest of the ids in order, nothing else.

    Raises: BadData: the rows differ.
    """
    check_same_ids(ctx, data.ids, tag=tag)


def check_same_ids(ctx: Context, ids: pa.ChunkedArray, *, tag: str) -> None:
    """Do as `check_same_rows`, for ids alone. Raises: BadData: the ids or their order differ."""
    own = {"rows": len(ids), "digest": ids_digest(ids)}
    peers: tuple[Site, ...]
    is_guest = ctx.site.role is Role.GUEST
    peers = ctx.sites_of(Role.HOST) if is_guest else (ctx.only(Role.GUEST),)
    ctx.federation.send("sample_ids", own, to=peers, tag=tag)
    for peer in peers:
        theirs = wait_for(ctx, "sample_ids", peer, tag=tag)
        if not isinstance(theirs, dict) or not isinstance(theirs.get("rows"), int):
            raise CodecError(reason=f"{peer} sent no number of rows")
        where = f"{tag} data of {ctx.component}"
        if theirs["rows"] != own["rows"]:
            raise BadData(
                where=where,
                reason=f"{ctx.site} has {own['rows']} rows, {peer} has {theirs['rows']}; "
                "align them with Intersection first",
            )
        if theirs.get("digest") != own["digest"]:
            raise BadData(
                where=where,
                reason=f"{ctx.site} and {peer} have different ids, or another order; align them "
                "with Intersection first",
            )


def ids_digest(ids: pa.ChunkedArray) -> str:
    """Return a digest of the ids as text in order, 64 hexadecimal digits, for any chunking."""
    lengths, letters = hashlib.sha256(), hashlib.sha256()
    for chunk in ids.cast(pa.string()).chunks:
        lengths.update(pc.binary_length(chunk).to_numpy(zero_copy_only=False).astype("<i8"))
        letters.update("".join(chunk.to_pylist()).encode())
    return hashlib.sha256(lengths.digest() + letters.digest()).hexdigest()


def checked_rows(rows: object, *, of: int, count: int, message: str) -> NDArray[np.int64]:
    """Return the `count` row numbers that another party sent, out of `of` rows.

    Raises: CodecError: they are no row numbers, unknown, repeated, or not so many: fewer rows than
        agreed could show too much about each.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype != np.int64 or rows.ndim != 1:
        raise CodecError(reason=f"{message}: not a list of row numbers")
    if len(rows) != count:
        raise CodecError(reason=f"{message}: {len(rows)} rows, not {count}")
    if count and (rows.min() < 0 or rows.max() >= of or len(np.unique(rows)) != count):
        raise CodecError(reason=f"{message}: a row is unknown or repeated")
    return rows
