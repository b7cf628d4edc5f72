"""What a service does beside scoring: hooks, caches, limits, and what it answers in need."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

FAIL: Final = "fail"
GUEST_ONLY: Final = "guest_only"
CACHED_STALE: Final = "cached_stale"
DEFAULT_SCORE: Final = "default_score"

_Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]


class HookUse(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook of a service."""

    hook: str  #: entry point
    options: dict[str, Any] = {}
    limit_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 50


class ServiceOptions(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Options of a service; they stay when versions change."""

    #: when a host does not answer, or not for a row
    on_fault: Literal["fail", "guest_only", "cached_stale", "default_score"] = "fail"
    default_score: Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)] = 0.0
    stale_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 86_400.0  #: of `cached_stale`
    before: tuple[HookUse, ...] = ()  #: hooks before the model, in order
    after: tuple[HookUse, ...] = ()
    cache_results: bool = True  #: if the settings allow it
    cache_partners: bool = True
    rows_per_s: _Positive | None = None  #: rows of all callers; further ones get code 124
    sticky_by: Annotated[str, msgspec.Meta(max_length=200)] = ""  #: the id that names the user


LONGEST_STALE_S: Final = 86_400.0

NO_OPTIONS: Final = ServiceOptions()
