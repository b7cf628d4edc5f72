"""Waiting for a value that takes another party long to compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedflow.sdk import Context, Site

#: how long a party waits for a value of another, seconds: that may have to compute for as long as
#: its rows and keys take, and if it fails, the wait ends at once
PATIENCE_S: Final = 86_400.0


def wait_for(ctx: Context, name: str, source: Site, *, tag: str = "") -> object:
    """Return a value of another party that takes long to compute. Raises: PeerFailed."""
    value: object = ctx.federation.recv(name, from_=source, tag=tag, timeout_s=PATIENCE_S)
    return value


def wait_for_all(
    ctx: Context, name: str, sources: Sequence[Site], *, tag: str = ""
) -> list[object]:
    """Return a value of each of several parties that take long, in their order.

    Raises: PeerFailed.
    """
    values: list[object] = ctx.federation.recv_all(
        name, from_=sources, tag=tag, timeout_s=PATIENCE_S
    )
    return values
