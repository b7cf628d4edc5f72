"""Known bugs to put into the servers: the simulator must find each of them.

Each is a rule of the product that is left out, with the faults under which leaving it out matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from fedflow.app.initiator import initiator
from fedflow.app.initiator.agreement import EndComparison
from fedflow.app.participant import party_jobs
from fedflow.app.participant.detector import Detector
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.participant.task_reports import Workers
from fedflow.app.protocol import commands
from fedflow.base.errors.executors import LaunchRefused
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.engines import STANDALONE
from fedflow.domain.scheduling import decide as schedule
from fedflow.domain.scheduling.decide import decide
from fedflow.domain.states import TASK_FINAL
from fedflow.store.memory.jobs import MemoryEngines
from fedflow.store.memory.outbox import MemoryOutbox, MemoryReplyCache
from tests.sim.faults import Faults


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """A bug, and the faults that bring it to light."""

    name: str
    broken: Callable[[], AbstractContextManager[Any]]
    faults: Faults


def _epochs_of_answers() -> AbstractContextManager[Any]:
    """Answers to commands of an older epoch count for the current one."""
    return patch.object(initiator, "_is_current", lambda tx, command: True)


@contextmanager
def _repeated_requests() -> Iterator[None]:
    """A request that was carried out before is carried out again."""

    def put(self: Any, request_id: str, reply: Any, *, now_ms: int) -> None:
        self._journal.put(self._replies, request_id, (reply, now_ms))

    with (
        patch.object(commands, "_known", lambda tx, incoming: None),
        patch.object(MemoryReplyCache, "put", put),
    ):
        yield


def _cores_of_processes() -> AbstractContextManager[Any]:
    """Cores are given back though processes are left."""
    return patch.object(party_jobs, "has_process", lambda tx, key: False)


def _cores_of_another_engine() -> AbstractContextManager[Any]:
    """Cores of the cluster go back to the machine."""
    give = MemoryEngines.give

    def to_the_machine(self: Any, name: str, share: ComputeResources) -> None:
        give(self, name if share.cores < 0 else STANDALONE, share)

    return patch.object(MemoryEngines, "give", to_the_machine)


def _missed_attempts() -> AbstractContextManager[Any]:
    """A site that missed a rerun or a retry ends the job without its attempts."""
    return patch.object(PartyTasks, "add_missed", lambda self, tx, key, missed: None)


@contextmanager
def _compared_ends() -> Iterator[None]:
    """What a party says of ended jobs is not looked at."""
    with patch.object(EndComparison, "take", lambda self, tx, party_id, named, answer: False):
        yield


def _lost_starts() -> AbstractContextManager[Any]:
    """A start that a site has forgotten is not sent again."""
    return patch.object(initiator.Initiator, "_start_again", lambda *_: None)


def _applications() -> AbstractContextManager[Any]:
    """Nobody looks for Spark applications that nobody uses any more."""
    return patch.object(Detector, "_end_applications", lambda self, tasks, leads: None)


@contextmanager
def _replaced_launches() -> Iterator[None]:
    """A process may run though another launch has replaced its own."""

    def current(self: Any, tx: Any, key: Any, token: str, body: Any) -> Any:
        task = tx.tasks.get(key)
        if task is None or task.party_status in TASK_FINAL:
            raise LaunchRefused(launch_id=body.get("launch_id"), task=str(key))
        return task

    with patch.object(Workers, "_current", current):
        yield


@contextmanager
def _order_of_commands() -> Iterator[None]:
    """A command that waits for its retry does not hold back those behind it."""

    def heads(
        self: Any, destination: str, *, now_ms: int, skip: frozenset[str], limit: int
    ) -> list[Any]:
        queues = self._queues.get(destination, {}).items()
        commands = [c for job_id, q in queues if job_id not in skip for c in q.values()]
        return sorted((c for c in commands if c.due_ms <= now_ms), key=lambda c: c.number)[:limit]

    with patch.object(MemoryOutbox, "heads", heads):
        yield


@contextmanager
def _inputs_of_tasks() -> Iterator[None]:
    """A task starts as soon as its inputs have started."""
    right = decide

    def hasty(view: Any, now_ms: int) -> Any:
        tasks = {
            name: replace(task, status=schedule.TaskStatus.SUCCESS)
            if task.status is schedule.TaskStatus.RUNNING
            else task
            for name, task in view.tasks.items()
        }
        return right(replace(view, tasks=tasks), now_ms)

    with patch("fedflow.app.initiator.scheduler.decide", hasty):
        yield


@contextmanager
def _whole_sentences() -> Iterator[None]:
    """Reasons leave their party as they are."""
    with patch("fedflow.app.protocol.party_commands.outside_reason", lambda reason, _site: reason):
        yield


MUTATIONS = (
    Mutation(
        name="another party is told the whole sentence of a failure",
        broken=_whole_sentences,
        faults=Faults(fails=0.2, submits_every_s=3),
    ),
    Mutation(
        name="answers of an older epoch count",
        broken=_epochs_of_answers,
        faults=Faults(loses=0.1, slow=0.1, stops_every_s=1, reruns_every_s=0.5, submits_every_s=3),
    ),
    Mutation(
        name="a repeated request is carried out again",
        broken=_repeated_requests,
        faults=Faults(repeats=0.5, submits_every_s=3),
    ),
    Mutation(
        name="cores are returned while processes are left",
        broken=_cores_of_processes,
        faults=Faults(stops_every_s=3),
    ),
    Mutation(
        name="cores of one engine go back to another",
        broken=_cores_of_another_engine,
        faults=Faults(),
    ),
    Mutation(
        name="a site lacks attempts that the others have",
        broken=_missed_attempts,
        faults=Faults(stalls_every_s=10, fails=0.1, reruns_every_s=5, kills_every_s=10),
    ),
    Mutation(
        name="parties do not compare their ended jobs",
        broken=_compared_ends,
        faults=Faults(put_back_every_s=8, submits_every_s=4),
    ),
    Mutation(
        name="a site whose database was put back never starts its task",
        broken=_lost_starts,
        faults=Faults(put_back_every_s=8, submits_every_s=4),
    ),
    Mutation(
        name="a Spark application is left when its end was lost",
        broken=_applications,
        faults=Faults(commit_errors=0.2, submits_every_s=3),
    ),
    Mutation(
        name="a process runs whose launch was replaced",
        broken=_replaced_launches,
        faults=Faults(slow_births=0.4),
    ),
    Mutation(
        name="commands overtake those before them",
        broken=_order_of_commands,
        faults=Faults(loses=0.1, commit_errors=0.1, submits_every_s=3),
    ),
    Mutation(
        name="a task starts before its inputs ended",
        broken=_inputs_of_tasks,
        faults=Faults(),
    ),
)
