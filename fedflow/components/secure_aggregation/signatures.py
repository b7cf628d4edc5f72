"""What members sign where the aggregator may lie: their keys, and the set of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fedflow.components.secure_aggregation.keys import bound
from fedflow.components.secure_aggregation.plan import SumPlan
from fedflow.sdk import Context, Identity, Site


class Signatures(Protocol):
    """This member's site key, and the certificates of the others."""

    def sign(self, content: bytes) -> bytes:
        """Return this member's signature of `content`."""

    def wrong(self, signed: Mapping[str, tuple[bytes, bytes]]) -> tuple[str, ...]:
        """Return the members whose signature is not theirs; `signed` is content and signature."""


class SiteSignatures:
    """Signatures of a task, for members that are named by the keys of their sites."""

    def __init__(self, identity: Identity, sites: Sequence[Site]) -> None:
        """`sites` are those of the job: nobody else is a member, whatever it signs."""
        self._identity = identity
        self._sites = {site.key: site for site in sites}

    def sign(self, content: bytes) -> bytes:
        return self._identity.sign(content)

    def wrong(self, signed: Mapping[str, tuple[bytes, bytes]]) -> tuple[str, ...]:
        strangers = tuple(name for name in signed if name not in self._sites)
        if strangers:
            return strangers
        claims = [(self._sites[name], *pair) for name, pair in signed.items()]
        verified = self._identity.verify(claims)
        return tuple(name for name, good in zip(signed, verified, strict=True) if not good)


def signatures_of(ctx: Context) -> SiteSignatures | None:
    """Return the signatures of a run; None without TLS, and a warning says what follows from it.

    Raises: RefusedAsStrict: there is no TLS, and the job is strict.
    """
    if ctx.identity is None:
        ctx.warn(
            "KeysNotSigned",
            f"{ctx.site} has no certificate, so keys of secure sums are not signed: an aggregator"
            " that breaks the rules could show its own keys as another member's",
            hint="Set up TLS at all parties.",
        )
        return None
    return SiteSignatures(ctx.identity, ctx.sites)


def keys_content(plan: SumPlan, member: str, keys: bytes) -> bytes:
    """Return what a member signs of its public keys."""
    return bound("signed keys", plan, member, keys)


def inputs_content(plan: SumPlan, inputs: tuple[str, ...], *, keys: bytes) -> bytes:
    """Return what each member signs of the set of those whose input arrived.

    `keys` are the public keys of all, which are new in each round: no signature is used again.
    """
    return bound("signed inputs", plan, keys, *inputs)
