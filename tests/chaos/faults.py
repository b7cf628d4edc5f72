"""What is done to the parties: which faults there are, and how each is begun and ended.

`plan` is a pure function of its seed. `injected` does one fault to a world for its duration.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from random import Random

import psutil

from tests.chaos import machine
from tests.chaos.fault import Fault, NoVictim, paused
from tests.chaos.links import Condition
from tests.chaos.parties import ChaosParty, World, database_of
from tests.e2e.servers import pass_time, wait_for

VICTIM_S = 8.0  #: how long is waited for an executor to be at work


@dataclass(frozen=True, kw_only=True)
class Kind:
    """How often a fault is done in a round, how long it lasts, and what does it."""

    weight: int
    shortest_s: float
    longest_s: float
    inject: Callable[[World, Fault], AbstractContextManager[None]]


def plan(
    seed: int,
    *,
    kinds: Mapping[str, int],
    parties: Sequence[str],
    longest_s: float = float("inf"),
) -> Iterator[Fault]:
    """Yield faults without end: the same for the same arguments.

    Each round has every kind as often as `kinds` says, in a new order. Most faults are short, a few
    of some kinds are longer than a lease; none is longer than `longest_s`.
    """
    rng = Random(seed)
    number = 0
    while True:
        one_round = [name for name, times in kinds.items() for _ in range(times)]
        rng.shuffle(one_round)
        for name in one_round:
            kind = KINDS[name]
            party, other = rng.sample(list(parties), 2)
            number += 1
            span_s = kind.longest_s - kind.shortest_s
            duration_s = round(kind.shortest_s + span_s * rng.random() ** 3, 2)
            yield Fault(
                number=number, kind=name, party=party, other=other,
                duration_s=min(duration_s, longest_s),
                amount=round(rng.random(), 3),
            )  # fmt: skip


def possible(
    kinds: Mapping[str, int], *, mysql: bool, small_disks: bool, second_server: bool
) -> dict[str, int]:
    """Return the kinds that can be done here, with how often each is done in a round."""
    missing = SQLITE_ONLY if mysql else MYSQL_ONLY
    if not small_disks:
        missing |= OWN_DISK
    if not second_server:
        missing |= SECOND_SERVER
    return {name: times for name, times in kinds.items() if name not in missing}


@contextmanager
def injected(world: World, fault: Fault) -> Iterator[None]:
    """Do a fault until the block ends, and undo it. Raises: NoVictim: before anything was done."""
    with KINDS[fault.kind].inject(world, fault):
        yield


# --- processes ------------------------------------------------------------------------------------


@contextmanager
def _server_kill(world: World, fault: Fault) -> Iterator[None]:
    party = world.parties[fault.party]
    party.kill()
    yield
    party.start()


@contextmanager
def _all_servers_kill(world: World, _: Fault) -> Iterator[None]:
    for party in world.all:
        party.kill()
    yield
    for party in world.all:
        party.start()


@contextmanager
def _server_restart(world: World, fault: Fault) -> Iterator[None]:
    party = world.parties[fault.party]
    party.stop()
    yield
    party.start()


@contextmanager
def _server_pause(world: World, fault: Fault) -> Iterator[None]:
    process = world.parties[fault.party].process
    assert process is not None
    with paused(process.pid):
        yield


@contextmanager
def _zygote_kill(world: World, fault: Fault) -> Iterator[None]:
    for process in _zygotes(world.parties[fault.party]):
        process.kill()
    yield


@contextmanager
def _zygote_pause(world: World, fault: Fault) -> Iterator[None]:
    with paused(_zygotes(world.parties[fault.party])[0].pid):
        yield


@contextmanager
def _executor_kill(world: World, fault: Fault) -> Iterator[None]:
    with suppress(ProcessLookupError):  # it ended in this moment
        os.kill(_executor(world, fault), signal.SIGKILL)
    yield


@contextmanager
def _executor_pause(world: World, fault: Fault) -> Iterator[None]:
    with paused(_executor(world, fault)):
        yield


def _zygotes(party: ChaosParty) -> list[psutil.Process]:
    try:
        return wait_for(party.zygotes, "a zygote", within_s=VICTIM_S)
    except AssertionError:
        raise NoVictim from None


def _executor(world: World, fault: Fault) -> int:
    """Return the pid of an executor at work: of the fault's party, if it has one."""
    first = world.parties[fault.party]

    def look() -> int | None:
        pids = first.executors() or [pid for party in world.all for pid in party.executors()]
        return pids[int(fault.amount * len(pids))] if pids else None

    try:
        return wait_for(look, "an executor at work", within_s=VICTIM_S)
    except AssertionError:
        raise NoVictim from None


# --- the network ----------------------------------------------------------------------------------


def _between(world: World, fault: Fault, condition: Condition, *, both_ways: bool) -> None:
    world.network.links.set(fault.party, fault.other, condition)
    if both_ways:
        world.network.links.set(fault.other, fault.party, condition)


@contextmanager
def _partition(world: World, fault: Fault) -> Iterator[None]:
    _between(world, fault, Condition(cut=True), both_ways=True)
    yield
    world.network.links.clear()


@contextmanager
def _partition_one_way(world: World, fault: Fault) -> Iterator[None]:
    _between(world, fault, Condition(cut=True), both_ways=False)
    yield
    world.network.links.clear()


@contextmanager
def _delay(world: World, fault: Fault) -> Iterator[None]:
    late = Condition(delay_s=0.2 + 1.8 * fault.amount)
    _between(world, fault, late, both_ways=fault.amount < 0.5)
    yield
    world.network.links.clear()


@contextmanager
def _loss(world: World, fault: Fault) -> Iterator[None]:
    _between(world, fault, Condition(loss=0.1 + 0.2 * fault.amount), both_ways=True)
    yield
    world.network.links.clear()


@contextmanager
def _database_lost(world: World, fault: Fault) -> Iterator[None]:
    """Close the way of one of a party's two servers to their database, or hold its bytes back."""
    first, *_ = world.ids
    servers = world.servers_of(first)
    server = servers[int(fault.amount * 2 * len(servers)) % len(servers)].name
    gone = Condition(refused=True) if fault.amount < 0.5 else Condition(cut=True)
    for way in ((server, database_of(server)), (database_of(server), server)):
        world.network.links.set(*way, gone)
    if gone.refused:
        world.network.reset(server, database_of(server))
    yield
    world.network.links.clear()


@contextmanager
def _reset(world: World, fault: Fault) -> Iterator[None]:
    world.network.reset(fault.party, fault.other)
    yield


KINDS: Mapping[str, Kind] = {
    "server_kill": Kind(weight=4, shortest_s=0.2, longest_s=20, inject=_server_kill),
    "all_servers_kill": Kind(weight=1, shortest_s=0.2, longest_s=5, inject=_all_servers_kill),
    "server_restart": Kind(weight=2, shortest_s=0.2, longest_s=5, inject=_server_restart),
    "server_pause": Kind(weight=2, shortest_s=2, longest_s=40, inject=_server_pause),
    "zygote_kill": Kind(weight=3, shortest_s=0.1, longest_s=1, inject=_zygote_kill),
    "zygote_pause": Kind(weight=2, shortest_s=2, longest_s=30, inject=_zygote_pause),
    "executor_kill": Kind(weight=4, shortest_s=0.1, longest_s=1, inject=_executor_kill),
    "executor_pause": Kind(weight=2, shortest_s=2, longest_s=30, inject=_executor_pause),
    "partition": Kind(weight=2, shortest_s=3, longest_s=40, inject=_partition),
    "partition_one_way": Kind(weight=2, shortest_s=3, longest_s=40, inject=_partition_one_way),
    "delay": Kind(weight=2, shortest_s=3, longest_s=20, inject=_delay),
    "loss": Kind(weight=2, shortest_s=3, longest_s=20, inject=_loss),
    "reset": Kind(weight=3, shortest_s=0.1, longest_s=1, inject=_reset),
    "disk_full": Kind(weight=2, shortest_s=2, longest_s=60, inject=machine.disk_full),
    "store_read_only": Kind(weight=2, shortest_s=2, longest_s=60, inject=machine.store_read_only),
    "database_away": Kind(weight=1, shortest_s=2, longest_s=30, inject=machine.database_away),
    "database_put_back": Kind(
        weight=1, shortest_s=1, longest_s=8, inject=machine.database_put_back
    ),
    "database_lost_by_one": Kind(weight=3, shortest_s=2, longest_s=60, inject=_database_lost),
    "sockets_lost": Kind(weight=1, shortest_s=2, longest_s=10, inject=machine.sockets_lost),
    "address_space": Kind(weight=2, shortest_s=2, longest_s=15, inject=machine.address_space),
    "descriptors": Kind(weight=2, shortest_s=2, longest_s=15, inject=machine.descriptors),
    "clock_step": Kind(weight=2, shortest_s=2, longest_s=20, inject=machine.clock_step),
    "database_kill": Kind(weight=3, shortest_s=0.2, longest_s=10, inject=machine.database_kill),
    "database_pause": Kind(weight=1, shortest_s=2, longest_s=12, inject=machine.database_pause),
}

ALL: Mapping[str, int] = {name: kind.weight for name, kind in KINDS.items()}
MYSQL_ONLY = frozenset({"database_kill", "database_pause"})
SECOND_SERVER = frozenset({"database_lost_by_one"})
SQLITE_ONLY = frozenset({"database_away", "database_put_back"})
OWN_DISK = frozenset({"disk_full"})
KILLS = ("server_kill", "all_servers_kill", "zygote_kill", "executor_kill")


def do(world: World, fault: Fault) -> None:
    """Do a fault for its duration. Raises: NoVictim."""
    with injected(world, fault):
        pass_time(fault.duration_s)
