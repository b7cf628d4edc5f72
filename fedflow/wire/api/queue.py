"""The queue: the jobs that wait, in the order in which they go."""

from __future__ import annotations

import msgspec

from fedflow.wire.api.jobs import Reason


class QueuedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits."""

    position: int  #: 1 goes first
    job_id: str
    role: str
    party_id: str
    priority: int
    since: int  #: milliseconds since the epoch
    starving: bool  #: it has waited so long that it goes before jobs of any priority
    cores: int  #: that it needs of its initiator's server
    memory: int = 0  #: MiB
    spark_cores: int = 0  #: that it needs of its initiator's Spark cluster
    reason: Reason | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the queue, and how many jobs wait in all."""

    jobs: tuple[QueuedJob, ...] = ()
    count: int = 0

    def __repr__(self) -> str:
        return f"<Queue: {self.count} jobs wait>"

    def _repr_html_(self) -> str:
        from fedflow.wire.api import html

        rows = [
            (j.position, j.job_id, j.priority, j.reason.message if j.reason else "")
            for j in self.jobs
        ]
        columns = ("place", "job", "priority", "waits for")
        return html.table(columns, rows, title=f"{self.count} jobs wait")
