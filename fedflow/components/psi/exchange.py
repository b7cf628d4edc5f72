"""The protocol of one guest with one or more hosts, on ids only.

    guest                                        host
      psi_hello (rows, settings)   <->  psi_hello
      id_ciphertext_exchange_g2h   -->  aP for every own id, sorted
      id_ciphertext_exchange_h2g   <--  bQ for every own id, sorted
      doubly_encrypted_id          <--  b(aP), in the order received
      intersect_ids                -->  positions in the sorted bQ of what all hosts have in common

The guest compares b(aP) with a(bQ). Every pair has its own secrets and its own hash domain; only
the ids that all hosts have are told. The common rows stand in the guest's order at every party.

With `run_cache` only hello and id_ciphertext_exchange_h2g are sent, and both sides keep what that
gave (`caching`). With such a cache as input, a host sends it no more: b, its domain and bQ are
those of the cache, a is new.
Source: Meadows 1986; Huberman, Franklin and Hogg 1999 (the protocol), RFC 7748 (X25519).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fedflow.base.errors import BadParameter, CodecError
from fedflow.base.reading import read_as
from fedflow.components.psi.curve import POINT_BYTES, domain_of
from fedflow.components.psi.ecdh import (
    Blinder,
    as_column,
    check_distinct,
    parse_points,
    secret_order,
)
from fedflow.components.psi.workers import Points
from fedflow.sdk import Context, Role, Site

PROTOCOL = "fedflow-psi-x25519-elligator2-sha512-v1"
MAX_ROWS = 2**31 - 1

Positions = npt.NDArray[np.int64]


class Phase(StrEnum):
    """How much of the protocol is run."""

    WHOLE = "whole"
    MAKE_CACHE = "make_cache"  #: the hosts' blinded ids only
    USE_CACHE = "use_cache"  #: all but these


@dataclass(frozen=True, kw_only=True, slots=True)
class Origin:
    """The attempt whose hash domain holds: this one, or the one that made a cache."""

    job_id: str
    component: str
    task_version: int

    @staticmethod
    def of(ctx: Context) -> Origin:
        """Return this attempt."""
        return Origin(job_id=ctx.job_id, component=ctx.component, task_version=ctx.task_version)

    def domain(self, ctx: Context, host: Site) -> bytes:
        """Return the hash domain of guest and `host`."""
        return domain_of(
            PROTOCOL,
            self.job_id,
            self.component,
            str(self.task_version),
            ctx.only(Role.GUEST).key,
            host.key,
            ctx.params.ecdh_params.salt,
        )

    def digest(self, ctx: Context, host: Site) -> str:
        """Return the SHA-256 of the domain, which tells nothing of the salt."""
        return hashlib.sha256(self.domain(ctx, host)).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A host's secret, and its rows in the order of their blinded points."""

    secret: bytes
    order: Positions


class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each side says of itself before any work."""

    protocol: Annotated[str, msgspec.Meta(max_length=100)]
    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]
    sync_intersect_ids: bool
    domain: Annotated[str, msgspec.Meta(max_length=64)]  #: SHA-256 of the hash domain
    phase: Phase = Phase.WHOLE


def prepare_at_host(ctx: Context, ids: pa.Array) -> Known:
    """Blind the own ids for a cache, send them to the guest, and return the secret."""
    guest = ctx.only(Role.GUEST)
    _greet(ctx, guest, len(ids), phase=Phase.MAKE_CACHE)
    return _blind_and_send(ctx, ids, report=_Progress(ctx, steps=1))


def prepare_at_guest(ctx: Context, rows: int) -> dict[Site, Points]:
    """Return every host's blinded ids, for a cache. Raises: BadParameter, CodecError."""
    hosts = ctx.sites_of(Role.HOST)
    peers = {host: _greet(ctx, host, rows, phase=Phase.MAKE_CACHE) for host in hosts}
    found = {}
    for host in hosts:
        sent = ctx.federation.recv("id_ciphertext_exchange_h2g", from_=host)
        found[host] = parse_points(sent, count=peers[host].rows)
        check_distinct(as_column(found[host]))
    return found


def intersect_at_guest(
    ctx: Context, ids: pa.Array, *, cached: tuple[Origin, Mapping[Site, Points]] | None = None
) -> Positions:
    """Return the rows of `ids` that every host has too, ascending; tell the hosts if so set.

    `cached` are the hosts' blinded ids of an earlier job. Raises: BadParameter: a host has other
    settings. CodecError: a host sent something unusable.
    """
    hosts = ctx.sites_of(Role.HOST)
    report = _Progress(ctx, steps=2 * len(hosts))
    origin, known = cached or (Origin.of(ctx), {})
    phase = Phase.USE_CACHE if cached else Phase.WHOLE
    peers = {host: _greet(ctx, host, len(ids), phase=phase, origin=origin) for host in hosts}
    blinders: dict[Site, tuple[Blinder, Positions]] = {}
    for host in hosts:
        blinder = Blinder(processes=ctx.cores)
        points = blinder.blind_ids(ids, origin.domain(ctx, host), progress=report.step())
        order = secret_order(points)
        ctx.federation.send("id_ciphertext_exchange_g2h", points[order].tobytes(), to=host)
        blinders[host] = blinder, order
    places = np.empty(
        (len(hosts), len(ids)), np.int64
    )  # host x own row -> place at the host, or -1
    for i, host in enumerate(hosts):
        blinder, order = blinders[host]
        if cached:
            blinded = known[host]
        else:
            sent = ctx.federation.recv("id_ciphertext_exchange_h2g", from_=host)
            blinded = parse_points(sent, count=peers[host].rows)
        if len(blinded) != peers[host].rows:
            raise BadParameter(
                path="input.cache",
                reason=f"{host} has {peers[host].rows} rows, {len(blinded)} in the cache",
            )
        theirs = as_column(blinder.blind_points(blinded, progress=report.step()))
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


def intersect_at_host(
    ctx: Context, ids: pa.Array, *, cached: tuple[Origin, Known] | None = None
) -> Positions | None:
    """Return the rows of `ids` that all parties have, in the guest's row order.

    `cached` is what this host kept of an earlier job. None if the guest does not tell
    (`sync_intersect_ids` is off). Raises: BadParameter, CodecError.
    """
    guest = ctx.only(Role.GUEST)
    if cached is None:
        report = _Progress(ctx, steps=2)
        peer = _greet(ctx, guest, len(ids))
        known = _blind_and_send(ctx, ids, report=report)
    else:
        report = _Progress(ctx, steps=1)
        origin, known = cached
        peer = _greet(ctx, guest, len(ids), phase=Phase.USE_CACHE, origin=origin)
    blinder = Blinder(processes=ctx.cores, secret=known.secret)
    sent = ctx.federation.recv("id_ciphertext_exchange_g2h", from_=guest)
    doubly = blinder.blind_points(parse_points(sent, count=peer.rows), progress=report.step())
    check_distinct(as_column(doubly))
    ctx.federation.send("doubly_encrypted_id", doubly.tobytes(), to=guest)
    if not ctx.params.sync_intersect_ids:
        return None
    told = _parse_positions(ctx.federation.recv("intersect_ids", from_=guest), rows=len(ids))
    return known.order[told]


def _blind_and_send(ctx: Context, ids: pa.Array, *, report: _Progress) -> Known:
    """Give the guest this host's blinded ids, made with a new secret."""
    secret = secrets.token_bytes(POINT_BYTES)
    blinder = Blinder(processes=ctx.cores, secret=secret)
    domain = Origin.of(ctx).domain(ctx, ctx.site)
    points = blinder.blind_ids(ids, domain, progress=report.step())
    order = secret_order(points)
    guest = ctx.only(Role.GUEST)
    ctx.federation.send("id_ciphertext_exchange_h2g", points[order].tobytes(), to=guest)
    return Known(secret=secret, order=order)


def _greet(
    ctx: Context,
    peer: Site,
    rows: int,
    *,
    phase: Phase = Phase.WHOLE,
    origin: Origin | None = None,
) -> Hello:
    """Exchange hellos with `peer` and return its, or say which setting differs."""
    host = ctx.site if ctx.site.role is Role.HOST else peer
    own = Hello(
        protocol=PROTOCOL,
        rows=rows,
        sync_intersect_ids=ctx.params.sync_intersect_ids,
        domain=(origin or Origin.of(ctx)).digest(ctx, host),
        phase=phase,
    )
    ctx.federation.send("psi_hello", msgspec.to_builtins(own), to=peer)
    try:
        theirs = read_as(ctx.federation.recv("psi_hello", from_=peer), Hello)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"hello of {peer}: {exc}") from exc
    if theirs.protocol != own.protocol:
        raise CodecError(reason=f"{peer} uses protocol {theirs.protocol!r}, not {PROTOCOL!r}")
    if theirs.sync_intersect_ids != own.sync_intersect_ids:
        raise BadParameter(
            path="$.sync_intersect_ids",
            reason=f"is {own.sync_intersect_ids} here and {theirs.sync_intersect_ids} at {peer}",
        )
    if theirs.phase is not own.phase:
        raise BadParameter(
            path="input.cache",
            reason=f"run_cache or a cache input differ: {own.phase} here, {theirs.phase} at {peer}",
        )
    if theirs.domain != own.domain and origin is not None and phase is Phase.USE_CACHE:
        raise BadParameter(path="input.cache", reason=f"{peer} has another cache or another salt")
    if theirs.domain != own.domain:
        raise BadParameter(path="$.ecdh_params.salt", reason=f"differs from that of {peer}")
    return theirs


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
