"""The protocol of one guest with one or more hosts, on ids only.

    guest                                        host
      psi_hello (rows, settings)   <->  psi_hello
      id_ciphertext_exchange_g2h   -->  aP for every own id, sorted
      id_ciphertext_exchange_h2g   <--  bQ for every own id, sorted
      doubly_encrypted_id          <--  b(aP), in the order received
      intersect_ids                -->  positions in the sorted bQ of what all hosts have in common

The guest compares b(aP) with a(bQ). Every pair has its own secrets and its own hash domain; only
the ids that all hosts have are told. The common rows stand in the guest's order at every party.
Source: Meadows 1986; Huberman, Franklin and Hogg 1999 (the protocol), RFC 7748 (X25519).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.base.errors import BadParameter, CodecError
from fedflow.components.psi.curve import domain_of
from fedflow.components.psi.ecdh import (
    Blinder,
    as_column,
    check_distinct,
    parse_points,
    secret_order,
)
from fedflow.sdk import Context, Role, Site

PROTOCOL = "fedflow-psi-x25519-elligator2-sha512-v1"
MAX_ROWS = 2**31 - 1

Positions = npt.NDArray[np.int64]


class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each side says of itself before any work."""

    protocol: Annotated[str, msgspec.Meta(max_length=100)]
    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]
    sync_intersect_ids: bool
    domain: Annotated[str, msgspec.Meta(max_length=64)]  #: SHA-256 of the hash domain


def intersect_at_guest(ctx: Context, ids: pa.Array) -> Positions:
    """Return the rows of `ids` that every host has too, ascending; tell the hosts if so set.

    Raises: BadParameter: a host has other settings. CodecError: a host sent something unusable.
    """
    hosts = ctx.sites_of(Role.HOST)
    report = _Progress(ctx, steps=2 * len(hosts))
    peers = {host: _greet(ctx, host, len(ids)) for host in hosts}
    blinders: dict[Site, tuple[Blinder, Positions]] = {}
    for host in hosts:
        blinder = Blinder(processes=ctx.cores)
        points = blinder.blind_ids(ids, _domain(ctx, host), progress=report.step())
        order = secret_order(points)
        ctx.federation.send("id_ciphertext_exchange_g2h", points[order].tobytes(), to=host)
        blinders[host] = blinder, order
    places = np.empty(
        (len(hosts), len(ids)), np.int64
    )  # host x own row -> place at the host, or -1
    for i, host in enumerate(hosts):
        blinder, order = blinders[host]
        sent = ctx.federation.recv("id_ciphertext_exchange_h2g", from_=host)
        theirs = as_column(
            blinder.blind_points(parse_points(sent, count=peers[host].rows), progress=report.step())
        )
        check_distinct(theirs)
        sent = ctx.federation.recv("doubly_encrypted_id", from_=host)
        own = as_column(parse_points(sent, count=len(ids)))
        check_distinct(own)
        places[i, order] = pc.fill_null(pc.index_in(own, value_set=theirs), -1).to_numpy(
            zero_copy_only=False
        )
    common = np.flatnonzero((places >= 0).all(axis=0))
    if ctx.params.sync_intersect_ids:
        for i, host in enumerate(hosts):
            ctx.federation.send("intersect_ids", places[i, common], to=host)
    return common


def intersect_at_host(ctx: Context, ids: pa.Array) -> Positions | None:
    """Return the rows of `ids` that all parties have, in the guest's row order.

    None if the guest does not tell (`sync_intersect_ids` is off). Raises: BadParameter, CodecError.
    """
    guest = ctx.only(Role.GUEST)
    report = _Progress(ctx, steps=2)
    peer = _greet(ctx, guest, len(ids))
    blinder = Blinder(processes=ctx.cores)
    points = blinder.blind_ids(ids, _domain(ctx, ctx.site), progress=report.step())
    order = secret_order(points)
    ctx.federation.send("id_ciphertext_exchange_h2g", points[order].tobytes(), to=guest)
    del points
    sent = ctx.federation.recv("id_ciphertext_exchange_g2h", from_=guest)
    doubly = blinder.blind_points(parse_points(sent, count=peer.rows), progress=report.step())
    check_distinct(as_column(doubly))
    ctx.federation.send("doubly_encrypted_id", doubly.tobytes(), to=guest)
    if not ctx.params.sync_intersect_ids:
        return None
    told = _parse_positions(ctx.federation.recv("intersect_ids", from_=guest), rows=len(ids))
    return order[told]


def _greet(ctx: Context, peer: Site, rows: int) -> Hello:
    """Exchange hellos with `peer` and return its, or say which setting differs."""
    host = ctx.site if ctx.site.role is Role.HOST else peer
    own = Hello(
        protocol=PROTOCOL,
        rows=rows,
        sync_intersect_ids=ctx.params.sync_intersect_ids,
        domain=hashlib.sha256(_domain(ctx, host)).hexdigest(),
    )
    ctx.federation.send("psi_hello", msgspec.to_builtins(own), to=peer)
    try:
        theirs = msgspec.convert(ctx.federation.recv("psi_hello", from_=peer), Hello)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"hello of {peer}: {exc}") from exc
    if theirs.protocol != own.protocol:
        raise CodecError(reason=f"{peer} uses protocol {theirs.protocol!r}, not {PROTOCOL!r}")
    if theirs.sync_intersect_ids != own.sync_intersect_ids:
        raise BadParameter(
            path="$.sync_intersect_ids",
            reason=f"is {own.sync_intersect_ids} here and {theirs.sync_intersect_ids} at {peer}",
        )
    if theirs.domain != own.domain:
        raise BadParameter(path="$.ecdh_params.salt", reason=f"differs from that of {peer}")
    return theirs


def _domain(ctx: Context, host: Site) -> bytes:
    """Return the hash domain of this attempt's pair of guest and `host`."""
    return domain_of(
        PROTOCOL,
        ctx.job_id,
        ctx.component,
        str(ctx.task_version),
        ctx.only(Role.GUEST).key,
        host.key,
        ctx.params.ecdh_params.salt,
    )


def _parse_positions(value: Any, *, rows: int) -> Positions:
    """Return the guest's positions. Raises: CodecError: not distinct numbers below `rows`."""
    if not isinstance(value, np.ndarray) or value.dtype != np.int64 or value.ndim != 1:
        raise CodecError(reason="intersect_ids is not a list of positions")
    if len(value) > rows or (len(value) and (value.min() < 0 or value.max() >= rows)):
        raise CodecError(reason=f"intersect_ids has positions outside of 0..{rows - 1}")
    if len(np.unique(value)) != len(value):
        raise CodecError(reason="intersect_ids names a row twice")
    return value


class _Progress:
    """Turns the progress of equal steps into that of the whole."""

    def __init__(self, ctx: Context, *, steps: int) -> None:
        self._tracker = ctx.tracker
        self._steps = steps
        self._begun = 0

    def step(self) -> Callable[[float], None]:
        """Begin the next step; the result takes the step's own progress, 0 to 1."""
        before = self._begun
        self._begun += 1
        return lambda done: self._tracker.progress(min(1.0, (before + done) / self._steps))
