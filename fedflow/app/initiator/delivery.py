"""Delivers the outbox: each command once or more, in order per job and party, until its deadline.

`take`, `deliver` and `settle` are separate steps so that threads, tests and simulations can put any
network between them. While the circuit of a party is open (`circuit_breakers`), its commands wait:
one at a time is taken as a probe, and those whose deadline passes are given up without a call. A
job that is to be created there is given up as soon as a preflight would have refused it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from random import Random

from fedflow.app.initiator.initiator import Initiator
from fedflow.app.models.model_changes import MODEL_COMMANDS, ModelChanges
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.circuit_breakers import why
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.parties import BadPacket, NoRoute, PartyUnreachable
from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import verbatim
from fedflow.domain.records import Command, CommandKind, Reply
from fedflow.wire.envelope import NOT_NOW

logger = logging.getLogger(__name__)

_EVER_MS = 2**62  #: later than any due time
_BATCH = 100  #: commands that are given up in one transaction
_DEFECT_TRIES = 8  #: how often a command is sent again that met a defect of the other server
_TO_INITIATOR = frozenset({CommandKind.REPORT_TASK, CommandKind.ASK_STOP})


class Delivery(UseCase):
    """The sending half of this server."""

    def __init__(
        self, kernel: Kernel, *, initiator: Initiator, model_changes: ModelChanges, rng: Random,
        on_lost: Callable[[Tx, Command, AfterCommit], None],
    ) -> None:  # fmt: skip
        """`on_lost` is called when the initiator of a job answers that it knows no such job."""
        super().__init__(kernel)
        self._initiator = initiator
        self._model_changes = model_changes
        self._on_lost = on_lost
        self._rng = rng
        self._create_within_ms = int(kernel.timing.preflight_timeout_s * 1000)
        self._lock = threading.Lock()
        self._under_way: dict[str, set[str]] = {}
        self._more: dict[str, bool] = {}
        self._round_trips_s: dict[int, float] = {}  #: by number, of commands that were answered
        kernel.circuit_breakers.connect(self.release)

    def take(self, destination: str) -> Command | None:
        """Return the next due command for a party and mark its job as under way, or None."""
        closed = self._circuit_breakers.is_closed(destination)
        if not closed and not self._circuit_breakers.may_try(destination):
            self._give_up_overdue(destination)
            return None
        with self._lock:
            busy = self._under_way.setdefault(destination, set())
            with self._store.read() as tx:
                heads = tx.outbox.heads(
                    destination,
                    now_ms=self._clock.now_ms() if closed else _EVER_MS,
                    skip=frozenset(busy),
                    limit=2,
                )
            self._more[destination] = closed and len(heads) > 1
            if not heads or not (closed or self._circuit_breakers.admit(destination)):
                return None
            busy.add(heads[0].job_id)
            return heads[0]

    def recover(self) -> None:
        """Let everything be due that an earlier server left: its clock may have been another."""
        with self._store.transaction() as tx:
            tx.outbox.release(None, now_ms=self._clock.now_ms())

    def release(self, destination: str) -> None:
        """Let all commands for a party go at once, as it can be reached again.

        A server that does not lead lets the leader look at them.
        """
        try:
            with self._store.transaction() as tx:
                tx.outbox.release(destination, now_ms=self._clock.now_ms())
        except (StoreUnavailable, NotLeading) as exc:  # they are due after their pauses anyway
            logger.warning("What waits for party %s: %s", destination, exc.message)
        self._wakeup.outbox([destination])

    def has_more(self, destination: str) -> bool:
        """Tell whether the last `take` for a party saw a due command of another job besides."""
        return self._more.get(destination, False)

    def next_due_ms(self, destination: str) -> int | None:
        """Return when to `take` again for a party, None if nothing but new commands can help.

        The commands behind one that is under way are left out: who settles that one takes them.
        """
        with self._lock:
            busy = frozenset(self._under_way.get(destination, ()))
        probe_ms = self._circuit_breakers.next_try_ms(destination)
        with self._store.read() as tx:
            if probe_ms is None:
                return tx.outbox.next_due_ms(destination, skip=busy)
            deadline_ms = tx.outbox.next_deadline_ms(
                destination, create_within_ms=self._create_within_ms, skip=busy
            )
        return None if deadline_ms is None else min(probe_ms, deadline_ms)

    def deliver(self, command: Command) -> Reply | Exception:
        """Send a command once; return the answer, or why there is none; raises nothing.

        An error would leave the job's turn taken for ever.
        """
        begun_s = self._clock.monotonic_s()
        try:
            reply = self._parties.call(
                command.source,
                command.destination.party_id,
                command.path,
                command.body,
                request_id=command.request_id,
                job_id=command.job_id,
                deadline_s=self._timing.call_timeout_s,
            )
            self._round_trips_s[command.number] = self._clock.monotonic_s() - begun_s
            return reply
        except (PartyUnreachable, NoRoute, BadPacket) as exc:
            return exc
        except Exception:
            logger.exception("%s could not be sent", command.path)
            return BadPacket(reason="this server could not send it; see its log")

    def settle(self, command: Command, result: Reply | Exception) -> None:
        """Store what came of a delivery: done, again later, or given up; then free the job's
        turn.
        """
        effects = AfterCommit()
        try:
            result = self._noted(command, result)
            with self._store.transaction() as tx:
                if isinstance(result, Reply) and not _is_passing(command, result):
                    tx.outbox.remove(command.number)
                    if command.kind in MODEL_COMMANDS:
                        self._model_changes.settled(tx, command, result, effects)
                    elif command.kind in _TO_INITIATOR and result.error == JobNotFound.__name__:
                        self._on_lost(tx, command, effects)
                    else:
                        self._initiator.replied(tx, command, result, effects)
                else:
                    error = result.retmsg if isinstance(result, Reply) else str(result)
                    self._failed(tx, command, error, effects)
        finally:
            with self._lock:
                self._under_way[command.destination.party_id].discard(command.job_id)
        effects.run()

    def _noted(self, command: Command, result: Reply | Exception) -> Reply | Exception:
        """Tell the circuit how a call went; return its result, or a refusal of the answer."""
        party_id = command.destination.party_id
        round_trip_s = self._round_trips_s.pop(command.number, None)
        if self._parties.is_local(party_id):
            return result
        if isinstance(result, Reply):
            return self._circuit_breakers.noted(party_id, result, round_trip_s=round_trip_s)
        self._circuit_breakers.failed(party_id, why(result))
        return result

    def _give_up_overdue(self, destination: str) -> None:
        """Give up, without a call, the commands whose deadline passed while the circuit is open."""
        with self._lock:
            busy = self._under_way.setdefault(destination, set())
            with self._store.read() as tx:
                late = tx.outbox.overdue(
                    destination,
                    now_ms=self._clock.now_ms(),
                    create_within_ms=self._create_within_ms,
                    skip=frozenset(busy),
                    limit=_BATCH,
                )
            busy.update(c.job_id for c in late)
        effects = AfterCommit()
        try:
            if late:
                error = str(self._circuit_breakers.unreachable(destination))
                with self._store.transaction() as tx:
                    for command in late:
                        self._give_up(tx, command, error, effects)
        finally:
            with self._lock:
                busy.difference_update(c.job_id for c in late)
        effects.run()

    def _failed(self, tx: Tx, command: Command, error: str, effects: AfterCommit) -> None:
        now_ms = self._clock.now_ms()
        pause_ms = self._pause_ms(command.attempts)
        if now_ms + pause_ms < command.deadline_ms:
            tx.outbox.retry(command.number, due_ms=now_ms + pause_ms, error=verbatim(error, 1000))
            if command.attempts == 0:
                logger.info(
                    "%s of job %s did not reach %s: %s",
                    command.kind.value,
                    command.job_id,
                    command.destination,
                    error,
                    extra={"action": "retry", "job_id": command.job_id},
                )
            return
        self._give_up(tx, command, error, effects)

    def _give_up(self, tx: Tx, command: Command, error: str, effects: AfterCommit) -> None:
        tx.outbox.remove(command.number)
        if command.kind in MODEL_COMMANDS:
            unreachable = Reply(retcode=104, retmsg=verbatim(error), error="PartyUnreachable")
            self._model_changes.settled(tx, command, unreachable, effects)
        else:
            self._initiator.undeliverable(tx, replace(command, error=error), effects)

    def _pause_ms(self, attempt: int) -> int:
        """Return the pause before the next try: exponential with full jitter, at least a third.

        Source: Brooker 2015, "Exponential Backoff And Jitter".
        """
        ceiling = min(self._timing.retry_cap_ms, self._timing.retry_base_ms * 2 ** min(attempt, 20))
        return int(ceiling * (1 + 2 * self._rng.random()) / 3)


def _is_passing(command: Command, reply: Reply) -> bool:
    """Tell whether the same command may well be answered otherwise a little later."""
    if reply.error == "InternalError":
        return command.attempts < _DEFECT_TRIES
    return reply.retcode in NOT_NOW
