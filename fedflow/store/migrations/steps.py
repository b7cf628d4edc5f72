"""Which steps there are, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fedflow.store.migrations import (
    m0001_first,
    m0002_models,
    m0003_administration,
    m0004_tables,
    m0005_jobs,
    m0006_caches,
    m0007_control,
    m0008_queue,
    m0009_events,
    m0010_servers,
    m0011_submits,
    m0012_storages,
    m0013_engines,
    m0014_accounts,
    m0015_job_tags,
    m0016_table_lists,
)
from fedflow.store.schema import Schema


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One change of the schema; the schema's version is the number of the last step done."""

    number: int
    name: str
    up: Callable[[Schema], None]


STEPS: Final[tuple[Step, ...]] = (
    Step(number=1, name="first", up=m0001_first.up),
    Step(number=2, name="models", up=m0002_models.up),
    Step(number=3, name="administration", up=m0003_administration.up),
    Step(number=4, name="tables", up=m0004_tables.up),
    Step(number=5, name="jobs", up=m0005_jobs.up),
    Step(number=6, name="caches", up=m0006_caches.up),
    Step(number=7, name="control", up=m0007_control.up),
    Step(number=8, name="queue", up=m0008_queue.up),
    Step(number=9, name="events", up=m0009_events.up),
    Step(number=10, name="servers", up=m0010_servers.up),
    Step(number=11, name="submits", up=m0011_submits.up),
    Step(number=12, name="storages", up=m0012_storages.up),
    Step(number=13, name="engines", up=m0013_engines.up),
    Step(number=14, name="accounts", up=m0014_accounts.up),
    Step(number=15, name="job_tags", up=m0015_job_tags.up),
    Step(number=16, name="table_lists", up=m0016_table_lists.up),
)
