"""What a component keeps at its own site for later jobs, so that it need not compute it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from fedflow.base.values import dataclass
from fedflow.domain.records import Json, TaskKey
from fedflow.domain.site import Site


@dataclass(frozen=True, kw_only=True, slots=True)
class TableName:
    """A table of this party."""

    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCache:
    """One cache of one attempt at one site.

    Source: FATE's DataCache, `docs/reference/jobs.md#caches`. `private` is fedflow's own.
    """

    cache_key: str  #: a random id
    key: TaskKey  #: the attempt that made it
    name: str  #: the declared output name
    tables: Mapping[str, TableName] = field(default_factory=dict)
    meta: Json = field(default_factory=dict)  #: plain JSON that people may see
    private: Json = field(default_factory=dict)  #: secrets, for tasks of this site only
    same_as: str | None = None  #: key of the cache that a CacheLoader loaded; the rest is there
    created_ms: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheFilter:
    """Which caches to find at a site; None means any."""

    site: Site
    cache_key: str | None = None
    job_id: str | None = None
    component: str | None = None
    name: str | None = None
