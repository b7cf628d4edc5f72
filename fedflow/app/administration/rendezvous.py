"""Rendezvous that this server stores for members elsewhere: one text per run, compare-and-set.

The server does not know what the texts mean. It bounds their size and number, and tells apart whose
runs they are: those of a party, and those of a job, which all its parties may use.
"""

from __future__ import annotations

import re
from typing import Final

from fedflow.app.ports.store import Store, Tx
from fedflow.base.clock import Clock
from fedflow.base.errors.rendezvous import RendezvousNotAllowed
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.ids import is_job_id, new_token
from fedflow.base.values import dataclass
from fedflow.domain.administration.rendezvous import (
    KEPT_MS,
    MAX_RUN_ID,
    MAX_RUNS,
    MAX_RUNS_OF_ONE,
    MAX_STATE_TEXT,
    Run,
    RunKey,
    RunReply,
)
from fedflow.domain.records import JobFilter

_RUN_ID: Final = re.compile(rf"[A-Za-z0-9._:/-]{{1,{MAX_RUN_ID}}}")
_TEXT: Final = re.compile(r"[0-9a-f]{8}[A-Za-z0-9+/]*={0,2}")
_TOKEN: Final = re.compile(r"[0-9a-f]{32}")
_LISTED: Final = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCaller:
    """Who reads and writes runs."""

    party_id: str  #: whose runs they are
    counted: str  #: whose share of the runs they count for, at most 80 characters


class RendezvousRuns:
    """The runs that this server stores."""

    def __init__(self, *, store: Store, clock: Clock, since_ms: int = 0) -> None:
        """`since_ms`: from when on this server has been there."""
        self._store = store
        self._clock = clock
        self._since_ms = since_ms

    def run(self, run_id: str, *, caller: RunCaller, job_id: str | None = None) -> RunLink:
        """Return the way to one run: of the caller's party, or of a job that it takes part in.

        Raises: BadRequest: no run id. NotAuthenticated: the party takes no part in the job, or the
        job is not known here.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise BadRequest(
                reason=f"a run id has 1 to {MAX_RUN_ID} letters, digits and . _ : / -",
                path="run_id",
            )
        scope = f"party:{caller.party_id}"
        if job_id is not None:
            self._check_part(job_id, caller.party_id)
            scope = f"job:{job_id}"
        return RunLink(
            RunKey(scope=scope, run_id=run_id), caller, store=self._store, clock=self._clock,
            since_ms=self._since_ms,
        )  # fmt: skip

    def all(self) -> list[Run]:
        """Return the runs that were written to last, without their texts."""
        with self._store.read() as tx:
            return tx.rendezvous.all(limit=_LISTED)

    def latest(self, *, limit: int) -> list[Run]:
        """Return the runs that were written to last, at most `limit`, with their texts."""
        with self._store.read() as tx:
            found = (tx.rendezvous.get(run.key) for run in tx.rendezvous.all(limit=limit))
            return [run for run in found if run is not None]

    def remove(self, key: RunKey) -> bool:
        """Delete a run; tell whether there was one."""
        with self._store.transaction() as tx:
            return tx.rendezvous.drop(key)

    def _check_part(self, job_id: str, party_id: str) -> None:
        known = is_job_id(job_id)
        with self._store.read() as tx:
            found = tx.jobs.find(JobFilter(job_id=job_id, limit=10)) if known else []
        if not any(party_id in ids for job in found for ids in job.roles.values()):
            raise NotAuthenticated(reason="the job is not known here, or not to that party")


class RunLink:
    """Reads and writes one run for one caller."""

    def __init__(
        self, key: RunKey, caller: RunCaller, *, store: Store, clock: Clock, since_ms: int
    ) -> None:
        self.key = key
        self._caller = caller
        self._store = store
        self._clock = clock
        self._since_ms = since_ms

    def read(self, known: str | None) -> RunReply:
        """Return what the run holds; no text if that is the caller's, whose token is `known`."""
        with self._store.read() as tx:
            run = tx.rendezvous.get(self.key)
        now_ms = self._clock.now_ms()
        if run is None:
            return RunReply(now_ms=now_ms, since_ms=self._since_ms)
        text = None if run.token == known else run.text
        return RunReply(now_ms=now_ms, since_ms=self._since_ms, token=run.token, text=text)

    def write(self, text: str, token: str | None) -> RunReply:
        """Write if `token` is that of what is stored, or None and nothing is stored.

        Raises: BadRequest: no text of a state. RendezvousNotAllowed: the caller, or all callers,
        have too many runs.
        """
        if len(text) > MAX_STATE_TEXT or not _TEXT.fullmatch(text):
            raise BadRequest(
                reason=f"a state has at most {MAX_STATE_TEXT} characters", path="state"
            )
        now_ms, new = self._clock.now_ms(), new_token()
        with self._store.transaction() as tx:
            was_set = self._write(tx, text, token, new=new, now_ms=now_ms)
        if was_set:
            return RunReply(now_ms=now_ms, since_ms=self._since_ms, token=new, was_set=True)
        return self.read(None)

    def _write(self, tx: Tx, text: str, token: str | None, *, new: str, now_ms: int) -> bool:
        if token is not None:
            if not _TOKEN.fullmatch(token):
                return False
            return tx.rendezvous.replace(self.key, text, seen=token, token=new, now_ms=now_ms)
        if tx.rendezvous.get(self.key) is not None:
            return False
        self._make_room(tx, now_ms)
        return tx.rendezvous.add(
            Run(
                key=self.key,
                caller=self._caller.counted[:80],
                token=new,
                text=text,
                created_ms=now_ms,
                updated_ms=now_ms,
            )
        )

    def _make_room(self, tx: Tx, now_ms: int) -> None:
        tx.rendezvous.drop_older(now_ms - KEPT_MS)
        if tx.rendezvous.count(self._caller.counted[:80]) >= MAX_RUNS_OF_ONE:
            raise RendezvousNotAllowed(reason=f"{MAX_RUNS_OF_ONE} runs of this caller are stored")
        if tx.rendezvous.count() >= MAX_RUNS:
            raise RendezvousNotAllowed(reason=f"{MAX_RUNS} runs are stored")
