"""Commands on their way, replies to those that came in, and leases, in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fedflow.domain.records import Command, CommandKind, Lease, Reply
from fedflow.store.codec import plain
from fedflow.store.memory.journal import Journal
from fedflow.store.rules import answered_twice


class MemoryOutbox:
    """See `app.ports.scheduling.Outbox`. A queue without commands is dropped, so that looking
    stays cheap.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._last_number = 0  #: never used twice, not even after an undo
        self._queues: dict[str, dict[str, dict[int, Command]]] = {}  #: by party, then by job
        self._all: dict[int, Command] = {}

    def put(self, commands: Sequence[Command]) -> None:
        for command in commands:
            self._last_number += 1
            stored = replace(command, number=self._last_number, body=plain(command.body))
            jobs = self._queues.setdefault(command.destination.party_id, {})
            if command.job_id not in jobs:
                self._journal.put(jobs, command.job_id, {})
            self._put(stored)

    def heads(
        self, destination: str, *, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Command]:
        due = [c for c in self._heads(destination, skip) if c.due_ms <= now_ms]
        return sorted(due, key=lambda c: c.number)[:limit]

    def overdue(
        self, destination: str, *, now_ms: int, create_within_ms: int, skip: frozenset[str],
        limit: int,
    ) -> list[Command]:  # fmt: skip
        heads = self._heads(destination, skip)
        late = [c for c in heads if _deadline_ms(c, create_within_ms) <= now_ms]
        return sorted(late, key=lambda c: c.number)[:limit]

    def destinations(self) -> list[str]:
        return sorted(party_id for party_id, jobs in self._queues.items() if jobs)

    def next_due_ms(self, destination: str, *, skip: frozenset[str] = frozenset()) -> int | None:
        return min((c.due_ms for c in self._heads(destination, skip)), default=None)

    def next_deadline_ms(
        self, destination: str, *, create_within_ms: int, skip: frozenset[str] = frozenset()
    ) -> int | None:  # fmt: skip
        heads = self._heads(destination, skip)
        return min((_deadline_ms(c, create_within_ms) for c in heads), default=None)

    def of_job(self, job_id: str, parties: Collection[str]) -> list[Command]:
        queues = (self._queues.get(party, {}).get(job_id, {}) for party in parties)
        return sorted((c for q in queues for c in q.values()), key=lambda c: c.number)

    def remove(self, number: int) -> None:
        command = self._all.get(number)
        if command is None:
            return
        jobs = self._queues[command.destination.party_id]
        self._journal.drop(self._all, number)
        self._journal.drop(jobs[command.job_id], number)
        if not jobs[command.job_id]:
            self._journal.drop(jobs, command.job_id)

    def retry(self, number: int, *, due_ms: int, error: str) -> None:
        command = self._all.get(number)
        if command is not None:
            attempts = command.attempts + 1
            self._put(replace(command, attempts=attempts, due_ms=due_ms, error=error))

    def release(self, destination: str | None, *, now_ms: int) -> None:
        for command in list(self._all.values()):
            if command.due_ms > now_ms and destination in (None, command.destination.party_id):
                self._put(replace(command, due_ms=now_ms))

    def size(self) -> int:
        return len(self._all)

    def sizes(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for command in self._all.values():
            party_id = command.destination.party_id
            counts[party_id] = counts.get(party_id, 0) + 1
        return counts

    def _heads(self, destination: str, skip: frozenset[str]) -> list[Command]:
        jobs = self._queues.get(destination, {}).items()
        return [queue[min(queue)] for job_id, queue in jobs if job_id not in skip]

    def _put(self, command: Command) -> None:
        queue = self._queues[command.destination.party_id][command.job_id]
        self._journal.put(queue, command.number, command)
        self._journal.put(self._all, command.number, command)


def _deadline_ms(command: Command, create_within_ms: int) -> int:
    if command.kind is not CommandKind.CREATE_JOB:
        return command.deadline_ms
    return min(command.deadline_ms, command.created_ms + create_within_ms)


class MemoryReplyCache:
    """See `app.ports.scheduling.Received`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._replies: dict[str, tuple[Reply, int]] = {}

    def get(self, request_id: str) -> Reply | None:
        known = self._replies.get(request_id)
        return None if known is None else known[0]

    def put(self, request_id: str, reply: Reply, *, now_ms: int) -> None:
        if request_id in self._replies:
            raise answered_twice(request_id)
        stored = replace(reply, data=plain(reply.data))
        self._journal.put(self._replies, request_id, (stored, now_ms))

    def prune(self, older_than_ms: int) -> int:
        old = [r for r, (_, stored_ms) in self._replies.items() if stored_ms < older_than_ms]
        for request_id in old:
            self._journal.drop(self._replies, request_id)
        return len(old)

    def forget(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            if request_id in self._replies:
                self._journal.drop(self._replies, request_id)

    def drop(self, job_id: str) -> None:
        for request_id in [r for r in self._replies if r.startswith(f"{job_id}/")]:
            self._journal.drop(self._replies, request_id)


class MemoryLeases:
    """See `app.ports.scheduling.LeaseStore`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._leases: dict[str, Lease] = {}
        self._last_token = 0

    def renew(self, name: str, owner: str, *, expires_ms: int, now_ms: int) -> Lease | None:
        held = self._leases.get(name)
        if held is not None and held.owner != owner and held.expires_ms > now_ms:
            return None
        if held is not None and held.owner == owner:
            token = held.token
        else:
            self._last_token += 1
            token = self._last_token
        lease = Lease(name=name, owner=owner, token=token, expires_ms=expires_ms)
        self._journal.put(self._leases, name, lease)
        return lease

    def extend(self, name: str, owner: str, *, expires_ms: int) -> bool:
        held = self._leases.get(name)
        if held is None or held.owner != owner:
            return False
        self._journal.put(self._leases, name, replace(held, expires_ms=expires_ms))
        return True

    def get(self, name: str, *, lock: bool = False) -> Lease | None:
        return self._leases.get(name)

    def holds(self, name: str, token: int) -> bool:
        held = self._leases.get(name)
        return held is not None and held.token == token

    def release(self, name: str, owner: str) -> None:
        held = self._leases.get(name)
        if held is not None and held.owner == owner:
            self._journal.drop(self._leases, name)
