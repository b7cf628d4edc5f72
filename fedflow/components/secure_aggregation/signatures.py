"""What members sign where the aggregator may lie: their keys, and the set of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fedflow.components.secure_aggregation.keys import bound
from fedflow.components.secure_aggregation.plan import Plan
from fedflow.sdk import Context, Identity, Site


class Signatures(Protocol):
    """This member's site key, and the certificates of the others."""

    def sign(self, content: bytes) -> bytes:
        """Return this member's signature of `content`."""

    def wrong(self, signed: Mapping[str, tuple[bytes, bytes]]) -> tuple[str, ...]:
        """Return the members whose signature is not theirs; `signed` is content and signature."""


class SiteSignatures:
    """Signatures of a task, for members that are named by the keys of their sites."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def sign(self, content: bytes) -> bytes:
        return self._identity.sign(content)

    def wrong(self, signed: Mapping[str, tuple[bytes, bytes]]) -> tuple[str, ...]:
        claims = [(Site.from_key(name), *pair) for name, pair in signed.items()]
        verified = self._identity.verify(claims)
        return tuple(name for name, good in zip(signed, verified, strict=True) if not good)


def signatures_of(ctx: Context) -> SiteSignatures | None:
    """Return the signatures of a run; None without TLS, and the log says what follows from it."""
    if ctx.identity is None:
        ctx.log.warning(
            "%s has no certificate: keys of secure sums are not signed. The sums are secret from an"
            " aggregator that keeps the rules; one that lies could show its own keys as another's."
            " Set up TLS at all parties to be secure from it",
            ctx.site,
        )
        return None
    return SiteSignatures(ctx.identity)


def keys_content(plan: Plan, member: str, keys: bytes) -> bytes:
    """Return what a member signs of its public keys."""
    return bound("signed keys", plan, member, keys)


def inputs_content(plan: Plan, inputs: tuple[str, ...], *, keys: bytes) -> bytes:
    """Return what each member signs of the set of those whose input arrived.

    `keys` are the public keys of all, which are new in each round: no signature is used again.
    """
    return bound("signed inputs", plan, keys, *inputs)
