"""What an attack is: who plays it, with what, and how hard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from tests.attack.hostile import Answers, Hostile
from tests.attack.scene import CANARIES, NEWCOMER_ID, PARTNER_ID, STRANGER_ID, Scene


class Who(Enum):
    """Kinds of attackers: the headings below *Threats* in docs/security.md."""

    OUTSIDER = "Outsider on the network"  #: reaches the ports, without a certificate
    STRANGER = "Stranger with a certificate"  #: of the parties' authority, but no partner
    NEWCOMER = "Partner without a job"
    PARTNER = "Partner of a job"
    ARBITER = "Arbiter"
    EXCHANGE = "Exchange"
    REST_CLIENT = "REST client"
    BOARD_USER = "Person at the board"
    WEB_PAGE = "Web page"
    COMPONENT = "Component"
    LOCAL_USER = "User of the machine"


@dataclass(kw_only=True)
class Attempt:
    """One run of one attack: who takes part, how hard, and what came of it."""

    scene: Scene
    rng: Random
    beside: Callable[[], Awaitable[None]]  #: returns when a new honest job has ended
    scale: float = 1.0  #: 1: a loaded machine has time for it; more: as much as is found
    answers: Answers = field(default_factory=lambda: Answers(CANARIES))
    own_jobs: list[str] = field(default_factory=list)  #: that the attack may change

    def __post_init__(self) -> None:
        tls = self.scene.tls
        self.stranger = Hostile(STRANGER_ID, tls=tls, answers=self.answers)
        self.newcomer = Hostile(NEWCOMER_ID, tls=tls, answers=self.answers)
        self.partner = Hostile(PARTNER_ID, tls=tls, answers=self.answers)

    def times(self, number: int) -> int:
        """Return a number of tries as the scale has it."""
        return max(1, round(number * self.scale))


Violations = Sequence[str]
Play = Callable[[Attempt], Coroutine[None, None, Violations]]


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A scenario. `play` returns what it achieved and should not; checks of the scene follow."""

    name: str
    who: Who
    play: Play
    servers: int = 1  #: of party 9999: with 2, one is attacked and the other does honest work
