"""Ends of jobs that were never created here: the create command may still be on its way.

Each is noted among the answered requests, so that the create is refused when it comes. A party has
a bounded number of them; what it ends beyond that is forgotten, the oldest first.
"""

from __future__ import annotations

import hashlib
from typing import Final

from fedflow.app.ports.store import Tx
from fedflow.app.protocol.commands import Incoming
from fedflow.app.protocol.newest import Newest
from fedflow.base.errors.jobs import JobEnded
from fedflow.base.ids import is_job_id
from fedflow.domain.records import Reply

KEPT: Final = 2_000  #: per party: those of the last minutes count, as a create is soon given up


class EarlyEnds:
    """What ended before it was created here, by who ended it."""

    def __init__(self) -> None:
        self._newest = Newest(KEPT)

    def check(self, tx: Tx, incoming: Incoming) -> None:
        """Raises: JobEnded: the party that creates a job has ended it already."""
        if tx.reply_cache.get(_name(incoming)) is not None:
            raise JobEnded(job_id=incoming.job_id, status="before it was created here")

    def note(self, tx: Tx, incoming: Incoming, *, now_ms: int) -> Reply:
        """Remember the end of a job that is not known here; return the answer."""
        nothing = Reply(retcode=0, retmsg="no such job here, nothing to end")
        if not is_job_id(incoming.job_id):  # none is created under it
            return nothing
        name = _name(incoming)
        if tx.reply_cache.get(name) is None:
            tx.reply_cache.put(name, nothing, now_ms=now_ms)
            tx.reply_cache.forget(self._newest.add(incoming.source_party or "", name))
        return nothing


def _name(incoming: Incoming) -> str:
    """Return under which name an end is noted; no name of a reply has its form.

    It counts against that party's own create only.
    """
    whose = f"{incoming.source_party or ''}/{incoming.job_id}/{incoming.job.site.key}"
    return f"/end/{hashlib.sha256(whose.encode()).hexdigest()}"
