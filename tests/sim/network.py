"""The network between the servers of a world: delays, losses, repeats and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fedflow.base.errors.parties import PartyUnreachable
from fedflow.domain.records import Command, Reply
from fedflow.domain.site import Site

if TYPE_CHECKING:
    from tests.sim.server import Server
    from tests.sim.world import World


_LOOK_MS = 500
_QUICK = ("/preflight", "/info/common")
"""Calls that a server makes while it holds a lock: they must not wait for events."""


class Network:
    """Carries messages, or does not. A server reaches itself always."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cuts: dict[tuple[str, str], int] = {}  #: (from, to) -> until when nothing passes
        self._loses: dict[tuple[str, str], float] = {}  #: what a direction loses besides

    def cut(self, source: str, destination: str, *, for_ms: int) -> None:
        """Let nothing pass in one direction for a while."""
        self._cuts[source, destination] = self._world.time.ms + for_ms

    def spoil(self, source: str, destination: str, loses: float) -> None:
        """Let one direction lose a share of what is sent, until it is mended."""
        self._loses[source, destination] = loses

    def mend(self) -> None:
        """End all partitions and losses of single directions."""
        self._cuts.clear()
        self._loses.clear()

    def passes(self, source: str, destination: str) -> bool:
        """Decide whether one message arrives."""
        if source == destination:
            return True
        world = self._world
        if self._cuts and self._cuts.get((source, destination), 0) > world.time.ms:
            world.trace.count("messages cut off")
            return False
        loses = max(world.faults.loses, self._loses.get((source, destination), 0.0))
        if loses and world.network_rng.random() < loses:
            world.trace.count("messages lost")
            return False
        return True

    def delay_ms(self) -> int:
        """Return how long one message takes."""
        world = self._world
        if world.faults.slow and world.network_rng.random() < world.faults.slow:
            world.trace.count("messages slow")
            return world.network_rng.randint(1_000, 20_000)
        return world.network_rng.randint(1, 5)

    def send(self, source: Server, command: Command) -> None:
        """Carry a command of the outbox and its reply, or lose either, or repeat the command."""
        life = source.life
        destination = command.destination.party_id
        settled = False

        def settle(result: Reply | Exception) -> None:
            nonlocal settled
            if settled or not life.alive:
                return
            settled = True
            source.when_awake(life, lambda: source.settle(command, result))

        def say(result: Reply | Exception) -> None:
            if self.passes(destination, source.party_id):
                self._world.after(self.delay_ms(), lambda: settle(result))

        def arrive() -> None:
            self._arrive(source, command, say)

        if self.passes(source.party_id, destination):
            self._world.after(self.delay_ms(), arrive)
        repeats = self._world.faults.repeats
        if repeats and self._world.network_rng.random() < repeats:
            self._world.trace.count("messages repeated")
            late_ms = self._world.network_rng.choice((5, 5, 1_000, 60_000))
            self._world.after(late_ms, arrive)
        timeout_ms = int(source.timing.call_timeout_s * 1000)
        self._world.after(timeout_ms, lambda: settle(_no_answer(destination, "no answer in time")))

    def _arrive(
        self, source: Server, command: Command, say: Callable[[Reply | Exception], None]
    ) -> None:
        peer = self._world.servers[command.destination.party_id]
        if peer.core is None:
            say(_no_answer(peer.party_id, "connection refused"))
            return
        if peer.is_stalled():
            peer.when_awake(peer.life, lambda: self._arrive(source, command, say))
            return
        self._world.check.before_command(peer, command)
        reply = peer.answer(command.path, command.body, source.party_id, command.request_id)
        if reply is None:
            say(_no_answer(peer.party_id, "connection lost"))
            return
        self._world.check.after_command(source, peer, command, reply)
        say(reply)


class FakeParties:
    """The `PartyClient` of one run of a server, for calls that wait for their answer."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server
        self._life = server.life

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, *,
        request_id: str, job_id: str, deadline_s: float,
    ) -> Reply:  # fmt: skip
        world, network, here = self._world, self._world.network, self._server.party_id
        peer = world.servers.get(destination)
        if peer is None:
            raise _no_answer(destination, "no such party")
        fiber = world.fibers.current
        if fiber is None or path.endswith(_QUICK):
            return self._call_at_once(peer, path, body, request_id)
        answers: list[Reply | Exception] = []

        def settle(result: Reply | Exception) -> None:
            if self._life.alive and self._server.is_stalled():
                world.after(_LOOK_MS, lambda: settle(result))
            else:  # also if the server is down: then the fiber ends
                take(result)

        def take(result: Reply | Exception) -> None:
            if not answers:
                answers.append(result)
                world.fibers.resume(fiber)

        def say(result: Reply | Exception) -> None:
            if network.passes(destination, here):
                world.after(network.delay_ms(), lambda: settle(result))

        def arrive() -> None:
            if peer.core is None:
                say(_no_answer(destination, "connection refused"))
            elif peer.is_stalled():
                peer.when_awake(peer.life, arrive)
            else:
                reply = peer.answer(path, body, here, request_id)
                say(_no_answer(destination, "connection lost") if reply is None else reply)

        if network.passes(here, destination):
            world.after(network.delay_ms(), arrive)
        lost = _no_answer(destination, "no answer in time")
        world.after(int(deadline_s * 1000), lambda: settle(lost))
        world.wait(self._life)
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]

    def _call_at_once(self, peer: Server, path: str, body: Any, request_id: str) -> Reply:
        """Call from where nothing can wait: the answer is here at once or never."""
        here, network = self._server.party_id, self._world.network
        if peer.core is None or peer.is_stalled() or not network.passes(here, peer.party_id):
            raise _no_answer(peer.party_id, "lost")
        reply = peer.answer(path, body, here, request_id)
        if reply is None or not network.passes(peer.party_id, here):
            raise _no_answer(peer.party_id, "the answer was lost")
        return reply

    def knows(self, party_id: str) -> bool:
        return party_id in self._world.servers

    def is_local(self, party_id: str) -> bool:
        return party_id == self._server.party_id


def _no_answer(party_id: str, reason: str) -> PartyUnreachable:
    return PartyUnreachable(party_id=party_id, address="sim", reason=reason)
