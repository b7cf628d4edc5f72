"""SecureAddExample: two parties add their numbers without showing them; FATE's toy job runs it.

MESSAGES

Numbers are whole, shares are additive modulo 2**64: one alone is uniformly random and says nothing.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedflow.sdk import BadParameter, ComponentFailed, Context, Outputs, Params, Role, component
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
guest_share | masked | guest -> host | one share of each of the guest's numbers
host_share | masked | host -> guest | one share of each of the host's numbers
host_sum | statistics | host -> guest | the sum of all shares that the host holds
""")

Shares = NDArray[np.uint64]

MAX_NUMBERS = 10_000_000  #: 80 MB per message


class SecureAddExampleParams(Params, frozen=True, kw_only=True):
    """Parameters of SecureAddExample."""

    #: of the random shares: makes them repeatable, and so no secret; null: unpredictable
    seed: Annotated[int, msgspec.Meta(ge=0)] | None = None
    partition: Annotated[int, msgspec.Meta(ge=1)] = 1  #: without effect
    #: how many numbers each party has, equal at both
    data_num: Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBERS)] = 1000


@component(
    "SecureAddExample",
    roles=("guest", "host"),
    params=SecureAddExampleParams,
    data_ports=(),
    needs_input=False,
    outputs=(),
    messages=MESSAGES,
)
class SecureAddExample:
    """Adds up `data_num` ones of a guest and as many of a host by additive secret sharing.

    For trying out a deployment (`flow test toy`): the guest logs the sum, which must be twice
    `data_num`, and fails if it is not. One guest, one host, no tables. Summary: `secure_sum`.
    """

    def run(self, ctx: Context) -> Outputs:
        """Exchange shares; the guest learns the sum.

        Raises: BadParameter: there is not exactly one host, or it has another `data_num`.
            ComponentFailed: the sum is wrong. CodecError, PeerFailed.
        """
        if len(ctx.sites_of(Role.HOST)) != 1:
            raise BadParameter(path="role.host", reason="SecureAddExample needs exactly one host")
        shares = _share_out(ctx.params)
        if ctx.site.role is Role.HOST:
            secure_add_host(ctx, *shares)
            return Outputs()
        return Outputs(summary={"secure_sum": secure_add_guest(ctx, *shares)})


def secure_add_guest(ctx: Context, kept: Shares, given: Shares) -> float:
    """Return the sum of both parties' numbers, and log it in the words that FATE's client shows."""
    host = ctx.only(Role.HOST)
    ctx.federation.send("guest_share", given, to=host)
    ctx.log.info("secure_add_guest: sent %s shares to %s", len(given), host)
    received = _receive(ctx, "host_share", count=len(kept))
    ctx.tracker.progress(0.5)
    total = _sum(kept, received) + _receive(ctx, "host_sum", count=1)  # arrays wrap around
    result = float(int(total[0]))
    ctx.tracker.progress(1.0)
    if result != 2.0 * len(kept):
        raise ComponentFailed(
            component=ctx.component, reason=f"the secure sum is {result}, not {2.0 * len(kept)}"
        )
    ctx.log.info("secure_add_guest: success to calculate secure_sum, it is %s", result)
    return result


def secure_add_host(ctx: Context, kept: Shares, given: Shares) -> None:
    """Give the guest what it needs for the sum."""
    guest = ctx.only(Role.GUEST)
    ctx.federation.send("host_share", given, to=guest)
    ctx.log.info("secure_add_host: sent %s shares to %s", len(given), guest)
    received = _receive(ctx, "guest_share", count=len(kept))
    ctx.federation.send("host_sum", _sum(kept, received), to=guest)
    ctx.tracker.progress(1.0)


def _share_out(params: SecureAddExampleParams) -> tuple[Shares, Shares]:
    """Return two shares of each of `data_num` ones: one to keep, one to give away."""
    ones = np.ones(params.data_num, dtype=np.uint64)
    if params.seed is None:
        given = np.frombuffer(secrets.token_bytes(8 * params.data_num), dtype="<u8")
        given = given.astype(np.uint64)
    else:
        generator = np.random.default_rng(params.seed)
        given = generator.integers(0, 2**64, size=params.data_num, dtype=np.uint64)
    return ones - given, given  # wraps around, as it shall


def _sum(kept: Shares, received: Shares) -> Shares:
    """Return the sum of all shares modulo 2**64, as an array of one."""
    total: Shares = (kept + received).sum(dtype=np.uint64, keepdims=True)
    return total


def _receive(ctx: Context, name: str, *, count: int) -> Shares:
    """Return `count` shares of the other party. Raises: BadParameter: it sent another number."""
    peer = ctx.only(Role.GUEST if ctx.site.role is Role.HOST else Role.HOST)
    value = ctx.federation.recv(name, from_=peer)
    if not isinstance(value, np.ndarray) or value.dtype != np.uint64 or value.ndim != 1:
        raise CodecError(reason=f"{name} of {peer} is not a list of shares")
    if len(value) != count:
        raise BadParameter(path="data_num", reason=f"{count} here, {len(value)} at {peer}")
    return value
