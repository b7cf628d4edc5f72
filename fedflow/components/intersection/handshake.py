"""What guest and host tell each other before any work: who uses which settings on how many ids.

Both must agree on all that decides the protocol and its result. The salts are compared by digest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec

from fedflow.components.intersection.hashing import domain_of
from fedflow.components.intersection.keys import RowKeys
from fedflow.components.intersection.params import IntersectionParams
from fedflow.sdk import BadData, Context, Role, Site
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import BadParameter, CodecError

PROTOCOL = "fedflow-psi-v2"
MAX_ROWS = 2**31 - 1

Setting = bool | int | float | str | None
_Name = Annotated[str, msgspec.Meta(max_length=100)]


class ProtocolPhase(StrEnum):
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

    def domain(self, ctx: Context, *hosts: Site) -> bytes:
        """Return the hash domain of guest and `hosts`: all that makes hashes differ, and the salt.

        The salt stays in it, so the domain must not be sent; see `digest`.
        """
        params: IntersectionParams = ctx.params
        return domain_of(
            PROTOCOL,
            *(f"{name}={value}" for name, value in method_settings(params).items()),
            self.job_id,
            self.component,
            str(self.task_version),
            ctx.only(Role.GUEST).key,
            *(host.key for host in hosts),
            params.own.salt,
        )

    def digest(self, ctx: Context, host: Site) -> str:
        """Return the SHA-256 of the domain of a pair."""
        return hashlib.sha256(self.domain(ctx, host)).hexdigest()


class SideHello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each side says of itself."""

    protocol: _Name
    rows: Annotated[int, msgspec.Meta(ge=1, le=MAX_ROWS)]  #: distinct ids
    settings: Annotated[dict[_Name, _Name | bool | int | float | None], msgspec.Meta(max_length=50)]
    domain: Annotated[str, msgspec.Meta(max_length=64)]  #: SHA-256 of the hash domain
    filter_domain: Annotated[str, msgspec.Meta(max_length=64)] = (
        ""  #: SHA-256 of the Bloom filter's
    )
    match_ids: bool = False  #: the table has a column of match ids
    phase: ProtocolPhase = ProtocolPhase.WHOLE


def method_settings(params: IntersectionParams) -> dict[str, Setting]:
    """Return the settings of the method that is run, by their paths."""
    own, name = params.own, params.method
    found: dict[str, Setting] = {
        "intersect_method": name,
        f"{name}_params.hash_method": own.hash_method,
    }
    if name == "ecdh":
        return found
    found[f"{name}_params.key_length"] = own.key_length
    if name == "rsa":
        found["rsa_params.final_hash_method"] = own.final_hash_method
    return found


def filter_domain(ctx: Context, host: Site) -> bytes:
    """Return the hash domain of the Bloom filter between guest and `host`."""
    origin, params = Origin.of(ctx), ctx.params.intersect_preprocess_params
    return domain_of(
        f"{PROTOCOL}-filter",
        origin.job_id,
        origin.component,
        str(origin.task_version),
        ctx.only(Role.GUEST).key,
        host.key,
        str(params.random_state),
        params.preprocess_salt,
    )


def greet(
    ctx: Context,
    peer: Site,
    keys: RowKeys,
    *,
    phase: ProtocolPhase = ProtocolPhase.WHOLE,
    origin: Origin | None = None,
) -> SideHello:
    """Exchange hellos with `peer` and return its.

    Raises: BadParameter: a setting differs, with its path. BadData: only one table has match ids.
    CodecError: no hello of this protocol.
    """
    params: IntersectionParams = ctx.params
    host = ctx.site if ctx.site.role is Role.HOST else peer
    filtering = params.run_preprocess
    own = SideHello(
        protocol=PROTOCOL,
        rows=len(keys.values),
        settings=method_settings(params) | _other_settings(params, match_ids=keys.match_ids),
        domain=(origin or Origin.of(ctx)).digest(ctx, host),
        filter_domain=hashlib.sha256(filter_domain(ctx, host)).hexdigest() if filtering else "",
        match_ids=keys.match_ids,
        phase=phase,
    )
    ctx.federation.send("psi_hello", msgspec.to_builtins(own), to=peer)
    try:
        theirs = read_as(ctx.federation.recv("psi_hello", from_=peer), SideHello)
    except msgspec.ValidationError as exc:
        raise CodecError(reason=f"hello of {peer}: {exc}") from exc
    _compare(ctx, peer, own=own, theirs=theirs)
    return theirs


def _other_settings(params: IntersectionParams, *, match_ids: bool) -> dict[str, Setting]:
    """Return the settings besides the method's that parties must share, by their paths."""
    found: dict[str, Setting] = {"cardinality_only": params.cardinality_only}
    if params.cardinality_only:
        return found | {"sync_cardinality": params.sync_cardinality}
    found |= {"sync_intersect_ids": params.sync_intersect_ids, "join_method": params.join_method}
    if params.method == "rsa":
        found["rsa_params.split_calculation"] = params.rsa_params.split_calculation
    if match_ids:
        found["sample_id_generator"] = params.sample_id_generator
    if match_ids or params.join_method == "left_join":
        found["new_sample_id"] = params.new_sample_id
    found["run_preprocess"] = params.run_preprocess
    if params.run_preprocess:
        path, filtering = "intersect_preprocess_params.", params.intersect_preprocess_params
        found[path + "false_positive_rate"] = filtering.false_positive_rate
        found[path + "preprocess_method"] = filtering.preprocess_method
        found[path + "random_state"] = filtering.random_state
        found[path + "filter_owner"] = filtering.filter_owner
    return found


def _compare(ctx: Context, peer: Site, *, own: SideHello, theirs: SideHello) -> None:
    if theirs.protocol != own.protocol:
        raise CodecError(reason=f"{peer} uses protocol {theirs.protocol!r}, not {own.protocol!r}")
    if theirs.match_ids != own.match_ids:
        here, there = ("has", "none") if own.match_ids else ("has no", "some")
        raise BadData(
            where=ctx.component,
            reason=f"the table {here} match ids, that of {peer} {there}; set with_match_id of the "
            "component before at all parties or at none",
        )
    if theirs.phase is not own.phase:
        raise BadParameter(
            path="input.cache",
            reason=f"run_cache or a cache input differ: {own.phase} here, {theirs.phase} at {peer}",
        )
    for path in [*own.settings, *sorted(set(theirs.settings) - set(own.settings))]:
        mine, other = own.settings.get(path), theirs.settings.get(path)
        if mine != other:
            raise BadParameter(path=f"$.{path}", reason=f"is {mine!r} here and {other!r} at {peer}")
    if theirs.domain != own.domain and own.phase is ProtocolPhase.USE_CACHE:
        raise BadParameter(path="input.cache", reason=f"{peer} has another cache or another salt")
    if theirs.domain != own.domain:
        method = ctx.params.method
        raise BadParameter(path=f"$.{method}_params.salt", reason=f"differs from that of {peer}")
    if theirs.filter_domain != own.filter_domain:
        raise BadParameter(
            path="$.intersect_preprocess_params.preprocess_salt",
            reason=f"differs from that of {peer}",
        )
