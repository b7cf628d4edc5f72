"""What goes wrong in a simulated run, and how often: one value per run, drawn from its seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from random import Random
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Faults:
    """How badly things go. Nothing happens where a number is 0.

    Names in `_every_s` are mean seconds between two such events anywhere; the others are
    probabilities per message, per commit that wrote something, or per process.
    """

    loses: float = 0.0  #: a message between two parties is lost
    one_way: float = 0.0  #: the same, on some directions only
    repeats: float = 0.0  #: a command arrives twice, the second time up to a minute later
    slow: float = 0.0  #: a message takes seconds instead of milliseconds
    cuts_every_s: float = 0.0  #: a partition, one way or both, for seconds to minutes
    crashes_every_s: float = 0.0  #: a server dies and comes back later
    stalls_every_s: float = 0.0  #: a server does nothing for 1 to 120 s, then all of it
    outages_every_s: float = 0.0  #: a server's database cannot be used for a while
    full_disks_every_s: float = 0.0  #: a server can read, not write
    clock_steps_every_s: float = 0.0  #: a server's wall clock jumps by up to ten minutes
    zygotes_every_s: float = 0.0  #: a zygote dies
    kills_every_s: float = 0.0  #: a worker process is killed
    put_back_every_s: float = 0.0  #: a database is put back to an earlier time; never by chance
    offsets_s: float = 0.0  #: how far the servers' clocks may be apart
    commit_crashes: float = 0.0  #: a server dies at a commit, before or after it took place
    commit_errors: float = 0.0  #: a commit raises StoreUnavailable, and took place or did not
    lost_launches: float = 0.0  #: a launch never becomes a process
    slow_births: float = 0.0  #: a process comes into being many seconds later
    fails: float = 0.0  #: a component fails by itself
    hangs: float = 0.0  #: a component computes until somebody ends it, or faults end
    dies_early: float = 0.0  #: a process dies before its first report
    dies_unreported: float = 0.0  #: a process dies before it reports its end
    says_twice: float = 0.0  #: a process repeats its last report
    stops_every_s: float = 0.0  #: a user stops a job
    reruns_every_s: float = 0.0  #: a user runs a job again
    updates_every_s: float = 0.0  #: a user changes parameters of an ended job
    submits_every_s: float = 0.0  #: a user submits one more job
    repeats_every_s: float = 0.0  #: a user repeats a submit with the same idempotency key
    pauses_every_s: float = 0.0  #: a user pauses a job; as often one lets a job go on
    elastic: bool = False  #: jobs go on without hosts that are absent; never by chance
    options: float = 0.0  #: a job or a component has a rarer option

    def kinds(self) -> tuple[str, ...]:
        """Return the names of the faults that can happen."""
        return tuple(name for name, value in self.items() if value)

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield all names and values."""
        return ((f.name, getattr(self, f.name)) for f in fields(self))

    def without(self, *names: str) -> Faults:
        """Return the same without some kinds."""
        return replace(self, **dict.fromkeys(names, 0.0))


_CHOICES: dict[str, tuple[float, ...]] = {
    "loses": (0.1, 0.3),
    "one_way": (0.3, 0.7),
    "repeats": (0.2, 0.5),
    "slow": (0.1, 0.3),
    "cuts_every_s": (10, 60),
    "crashes_every_s": (4, 20, 60),
    "stalls_every_s": (10, 60),
    "outages_every_s": (10, 60),
    "full_disks_every_s": (15, 60),
    "clock_steps_every_s": (20, 100),
    "zygotes_every_s": (5, 30),
    "kills_every_s": (2, 10),
    "offsets_s": (2, 300),
    "commit_crashes": (0.005, 0.03),
    "commit_errors": (0.01, 0.1),
    "lost_launches": (0.1, 0.4),
    "slow_births": (0.1, 0.4),
    "fails": (0.1,),
    "hangs": (0.1,),
    "dies_early": (0.05, 0.2),
    "dies_unreported": (0.05, 0.2),
    "says_twice": (0.5,),
}
_USERS: dict[str, tuple[float, ...]] = {
    "stops_every_s": (1, 5, 20),
    "reruns_every_s": (0.5, 1, 5),
    "updates_every_s": (3, 10),
    "submits_every_s": (3, 15),
    "repeats_every_s": (2, 8),
    "pauses_every_s": (1, 5),
    "options": (0.2, 0.5),
}


def random_faults(rng: Random) -> Faults:
    """Return some kinds of faults at random strengths.

    Most kinds are absent from a run: faults that hit together hide each other.

    Source: Groce et al. 2012, "Swarm Testing".
    """
    chosen = {}
    for choices in (_CHOICES, _USERS):
        share = rng.choice((0.0, 0.1, 0.2, 0.35))
        chosen |= {
            name: rng.choice(rates) for name, rates in choices.items() if rng.random() < share
        }
    return Faults(**chosen)
