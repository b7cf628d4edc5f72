"""Waiting for a value that takes another party long to compute."""

from __future__ import annotations

from typing import Final

from fedflow.sdk import Context, Site

#: how long a party waits for a value of another, seconds: that may have to compute for as long as
#: its rows and keys take, and if it fails, the wait ends at once
PATIENCE_S: Final = 86_400.0


def wait_for(ctx: Context, name: str, source: Site, *, tag: str = "") -> object:
    """Return a value of another party that takes long to compute. Raises: PeerFailed."""
    value: object = ctx.federation.recv(name, from_=source, tag=tag, timeout_s=PATIENCE_S)
    return value
