"""Which version of a release answers a request.

A rule on a header decides first. Else each user has a place of its own: weighted rendezvous hashing
with a keyed hash, so a user keeps its version while weights stay, and a change of weights moves
only as many users as it must.

Source: weighted rendezvous hashing, Schindelhauer and Schomaker 2005: the version with the largest
-w / ln(u) answers, u uniform in (0, 1) by version and user.
"""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from fedflow.serving.partners.messages import IdValue
from fedflow.serving.services.releases import Release, Version

Header = Callable[[str], str]
"""Returns the value of a header of a request; an empty text: there is none."""

BY_SERVICE: Final = "service"
BY_WEIGHT: Final = "weight"
BY_RULE: Final = "rule"

_SPAN: Final = float(1 << 53)
_encoder: Final = msgspec.json.Encoder(order="sorted")


def user_of(ids: Mapping[str, IdValue], request_id: str, *, sticky_by: str) -> bytes:
    """Return whose request it is: one id, if it is named, else all ids, else the request."""
    if sticky_by and sticky_by in ids:
        return _encoder.encode(ids[sticky_by])
    return _encoder.encode(ids) if ids else request_id.encode()


def choose(release: Release, salt: bytes, user: bytes, header: Header) -> tuple[Version, str]:
    """Return the version that answers, and why: `rule`, `weight`, or `service` if it is alone."""
    for rule in release.rules:
        if header(rule.header) in rule.values:
            return rule.version, BY_RULE
    answering = [one for one in release.versions if one.weight]
    if len(answering) == 1:
        return answering[0].version, BY_SERVICE
    best = max(answering, key=lambda one: _place(one.weight, salt, user, one.version))
    return best.version, BY_WEIGHT


def _place(weight: float, salt: bytes, user: bytes, version: Version) -> float:
    text = b"\0".join((version[0].encode(), version[1].encode(), user))
    number = int.from_bytes(hmac.digest(salt, text, "sha256")[:8], "big") >> 11
    return -weight / math.log((number + 0.5) / _SPAN)
