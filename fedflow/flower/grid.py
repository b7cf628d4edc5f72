"""Flower's Grid over a component's federation: what a ServerApp sends and receives.

| message | from -> to | value |
|---|---|---|
| reply, tag `hello.<random>` | client -> server | {flwr, app, version}: its ClientApp is loaded |
| message, tag = number | server -> clients | a message of Flower as bytes, or {"stop": true} |
| reply, tag = number | client -> server | the reply to that message as bytes |

Messages with the same content are one value for all their receivers. Nothing polls: whoever waits
reads what arrives, for all that wait. Replies are returned in the order of the messages, so sums do
not depend on who was first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from flwr import app as flower
from flwr.proto.message_pb2 import Metadata as MetadataProto
from flwr.serverapp import Grid
from flwr.supercore.run import Run

from fedflow.flower.messages import NODE_UNAVAILABLE, error_reply, instruction, read_reply
from fedflow.sdk import Arrival, ComponentFailed, Departure, Federation, Site
from fedflow.sdk.clock import monotonic_s

logger = logging.getLogger(__name__)

MESSAGE: Final = "message"
REPLY: Final = "reply"
HELLO: Final = "hello"  #: how the tag of a client's first value begins
STOP: Final = {"stop": True}
_SHOWN: Final = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class GridLimits:
    """How long a Grid waits, and for how many."""

    round_timeout_s: float  #: for the replies to messages; an app may say less
    start_timeout_s: float  #: for the first value of each node
    min_nodes: int  #: with fewer the run fails


@dataclass(slots=True)
class GridCounts:
    """What became of the messages of a run."""

    messages: int = 0
    replies: int = 0  #: with content
    errors: int = 0
    late: int = 0  #: left out after the timeout
    left: dict[str, str] = field(default_factory=dict)  #: site -> why it went


class FederationGrid(Grid):  # type: ignore[misc]  # flwr is not installed where types are checked
    """A Flower Grid. Safe for threads: Flower's older workflows wait in several."""

    def __init__(
        self,
        federation: Federation,
        *,
        component: str,
        nodes: Mapping[int, Site],
        run_id: int,
        limits: GridLimits,
        hello: Mapping[str, str],
        on_replies: Callable[[], None] = lambda: None,
    ) -> None:
        """`nodes`: sites of the ClientApps by node id. `hello`: what each should say of itself."""
        self.counts = GridCounts()
        self.last_arrays: Any = None  #: the arrays that were sent last
        self._federation = federation
        self._component = component
        self._nodes = dict(nodes)
        self._ids = {site: node for node, site in nodes.items()}
        self._run = Run.create_empty(run_id=run_id)
        self._limits = limits
        self._hello = dict(hello)
        self._on_replies = on_replies
        self._changed = threading.Condition()
        self._thread = threading.current_thread()  #: of the app; older ones look in another, too
        self._failure: ComponentFailed | None = None  #: which every thread is told
        self._reading = False  #: somebody waits for the next value
        self._number = 0
        self._ready: set[int] = set()
        self._gone: dict[int, str] = {}
        self._late: dict[int, set[str]] = {}  #: node -> messages that it was left out of
        self._pending: dict[str, tuple[int, MetadataProto]] = {}  #: message id -> node, instruction
        self._replies: dict[str, flower.Message] = {}
        self._idle_s: float | None = None  #: since when an app looks for more nodes than there are

    # --- Flower's interface

    def set_run(self, run: Run) -> None:
        """Do nothing: the run is that of the job."""

    @property
    def run(self) -> Run:
        """Return what is known of the run."""
        return self._run

    def create_message(
        self,
        content: flower.RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> flower.Message:
        """Return a new message, for older apps."""
        return flower.Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def open(self) -> None:
        """Wait until all nodes have said hello, or for `start_timeout_s`.

        Raises: ComponentFailed: fewer are there than needed.
        """
        self._wait(self._all_met, self._limits.start_timeout_s)
        with self._changed:
            self._check_enough(len(self._present()))

    def get_node_ids(self) -> list[int]:
        """Return the nodes that are there.

        A node that was left out comes back when its late reply arrives. If they are too few, that
        is waited for. Raises: ComponentFailed: they stay fewer than needed, or an app waited too
        long for more.
        """
        self._wait(lambda: False, 0.0)  # who left, or came back, meanwhile
        if self._late:
            needed, limit_s = self._limits.min_nodes, self._limits.round_timeout_s
            self._wait(lambda: not self._late or len(self._present()) >= needed, limit_s)
        with self._changed:
            present = self._present()
            self._check_enough(len(present))
            if threading.current_thread() is self._thread:
                self._check_hope()
            return present

    def push_messages(self, messages: Iterable[flower.Message]) -> list[str]:
        """Send messages and return their ids in the same order; for nodes that are gone an error
        is the reply, at once.
        """
        messages = list(messages)
        ids: list[str] = [""] * len(messages)
        for places in _by_content(messages):
            for place, message_id in zip(
                places, self._push([messages[i] for i in places]), strict=True
            ):
                ids[place] = message_id
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[flower.Message]:
        """Return the replies that have arrived, each once."""
        wanted = list(message_ids)
        self._wait(lambda: False, 0.0)
        with self._changed:
            return [self._replies.pop(i) for i in wanted if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[flower.Message], *, timeout: float | None = None
    ) -> list[flower.Message]:
        """Send messages and return the replies; what is missing after the timeout is left out.

        Raises: ComponentFailed: fewer nodes are left than needed.
        """
        ids = self.push_messages(messages)
        limit_s = self._limits.round_timeout_s
        self._wait(
            lambda: all(i in self._replies for i in ids),
            limit_s if timeout is None else min(timeout, limit_s),
        )
        with self._changed:
            late = {i: self._pending.pop(i)[0] for i in ids if i in self._pending}
            for message_id, node in late.items():
                self._late.setdefault(node, set()).add(message_id)
            found = [self._replies.pop(i) for i in ids if i in self._replies]
            self.counts.late += len(late)
        for node in late.values():
            logger.warning("%s did not reply in time; it is left out.", self._nodes[node])
        self._on_replies()
        return found

    def stop(self) -> None:
        """Tell the nodes that the run is over."""
        with self._changed:
            self._number += 1
            present = [site for node, site in self._nodes.items() if node not in self._gone]
        if present:
            self._federation.send(MESSAGE, STOP, to=present, tag=str(self._number), required=False)

    # --- sending

    def _push(self, messages: list[flower.Message]) -> list[str]:
        """Send messages of the same content as one value; return their ids."""
        with self._changed:
            self._number += 1
            number = self._number
            self._idle_s = None
            self.counts.messages += len(messages)
        first = messages[0]
        proto = instruction(first, number=number, run_id=self._run.run_id)
        if first.has_content():
            for record in first.content.array_records.values():
                self.last_arrays = record
        ids, sites = [], []
        with self._changed:
            for message in messages:
                node = message.metadata.dst_node_id
                message_id = f"{number}.{node}"
                ids.append(message_id)
                if node in self._nodes and node not in self._gone:
                    self._pending[message_id] = (node, proto.metadata)
                    sites.append(self._nodes[node])
                else:
                    reason = self._gone.get(node, "there is no such node")
                    self._note_error(message_id, node, proto.metadata, reason)
        if sites:
            data = proto.SerializeToString()
            self._federation.send(MESSAGE, data, to=sites, tag=str(number), required=False)
        return ids

    # --- receiving

    def _wait(self, done: Callable[[], bool], timeout_s: float) -> None:
        """Wait until `done`, reading for all if nobody else does. Raises: ComponentFailed."""
        deadline_s = monotonic_s() + timeout_s
        sites = list(self._ids)
        with self._changed:
            while not done():
                if self._failure is not None:
                    raise self._failure
                left_s = max(0.0, deadline_s - monotonic_s())
                if self._reading:
                    if left_s <= 0.0:
                        return
                    self._changed.wait(left_s)
                    continue
                self._reading = True
                self._changed.release()
                try:
                    event = self._federation.recv_any(REPLY, from_=sites, timeout_s=left_s)
                finally:
                    self._changed.acquire()
                    self._reading = False
                    self._changed.notify_all()
                if event is None:
                    return
                self._note(event)

    def _note(self, event: Arrival | Departure) -> None:
        """Take in what happened. Raises: ComponentFailed: too few nodes are left."""
        node = self._ids[event.site]
        if isinstance(event, Departure):
            self._note_departure(node, str(event.reason)[:_SHOWN])
        elif event.tag.startswith(HELLO):
            self._note_hello(node, event.value)
        else:
            self._note_reply(node, event)

    def _note_hello(self, node: int, said: object) -> None:
        if node in self._ready and node not in self._gone:
            self._note_end(node, "it was launched again")  # before the end of the first was heard
        self._ready.add(node)
        self._gone.pop(node, None)
        self._late.pop(node, None)  # another process: it does not know of those messages
        if said != self._hello:
            shown = str(said)[:_SHOWN]
            logger.warning(
                "%s runs another app or flwr: %s, here %s.", self._nodes[node], shown, self._hello
            )

    def _note_reply(self, node: int, event: Arrival) -> None:
        message_id = f"{event.tag}.{node}"
        sent = self._pending.pop(message_id, None)
        if sent is None:
            logger.info("A late reply of %s is ignored.", event.site)
            self._note_late_reply(node, message_id)
            return
        try:
            reply = read_reply(event.value, to=sent[1], node_id=node)
        except ValueError as exc:
            logger.warning("The reply of %s is refused: %s.", event.site, exc)
            self._note_error(message_id, node, sent[1], f"its reply is refused: {exc}")
            return
        if reply.has_error():
            self.counts.errors += 1
            logger.warning("The ClientApp of %s failed: %s", event.site, reply.error.reason)
        else:
            self.counts.replies += 1
        self._replies[message_id] = reply

    def _note_late_reply(self, node: int, message_id: str) -> None:
        """Let a node take part again once it has answered all that it was left out of."""
        missing = self._late.get(node, set())
        missing.discard(message_id)
        if not missing:
            self._late.pop(node, None)

    def _note_departure(self, node: int, reason: str) -> None:
        if node in self._gone:
            return
        self._note_end(node, reason)
        self._check_enough(len(self._nodes) - len(self._gone))

    def _note_end(self, node: int, reason: str) -> None:
        """Note that a node's process has ended; what it was asked has an error as reply."""
        site = self._nodes[node]
        self._gone[node] = reason
        self._late.pop(node, None)
        self.counts.left[site.key] = reason
        logger.warning("%s is gone: %s", site, reason)
        for message_id, (of, metadata) in list(self._pending.items()):
            if of == node:
                del self._pending[message_id]
                self._note_error(message_id, node, metadata, f"the node is gone: {reason}")

    def _note_error(self, message_id: str, node: int, to: MetadataProto, reason: str) -> None:
        self.counts.errors += 1
        self._replies[message_id] = error_reply(reason, code=NODE_UNAVAILABLE, to=to, node_id=node)

    # --- how many are there

    def _present(self) -> list[int]:
        away = self._gone.keys() | self._late.keys()
        return [node for node in self._nodes if node in self._ready and node not in away]

    def _all_met(self) -> bool:
        return self._ready | self._gone.keys() >= self._nodes.keys()

    def _check_enough(self, count: int) -> None:
        if count < self._limits.min_nodes:
            gone = ", ".join(f"{self._nodes[node]} ({why})" for node, why in self._gone.items())
            missing = [
                str(self._nodes[n]) for n in self._nodes if n not in self._ready | self._gone.keys()
            ]
            late = ", ".join(str(self._nodes[node]) for node in self._late)
            parts = {"gone": gone, "not started": ", ".join(missing), "late": late}
            said = [f"{what}: {names}" for what, names in parts.items() if names]
            needed = self._limits.min_nodes
            there = f"{count} of {len(self._nodes)} ClientApps are there, {needed} are needed"
            reason = "; ".join([there, *said])
            self._fail(reason)

    def _fail(self, reason: str) -> NoReturn:
        """Raises: ComponentFailed: here, and in each thread that waits."""
        self._failure = ComponentFailed(component=self._component, reason=reason)
        self._changed.notify_all()
        raise self._failure

    def _check_hope(self) -> None:
        """Raises: ComponentFailed: an app looks again and again for nodes that are gone or late."""
        if not self._gone and not self._late:
            return
        now_s = monotonic_s()
        self._idle_s = self._idle_s or now_s
        if now_s - self._idle_s > self._limits.round_timeout_s:
            away = [str(self._nodes[node]) for node in self._gone.keys() | self._late.keys()]
            names = ", ".join(sorted(away))
            self._fail(f"the app waits for more nodes than are left; gone or late are {names}")


def _by_content(messages: list[flower.Message]) -> Iterable[list[int]]:
    """Yield the places of messages that differ in their node alone."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, message in enumerate(messages):
        metadata = message.metadata
        content = id(message.content) if message.has_content() else place
        key = (
            content,
            metadata.message_type,
            metadata.group_id,
            metadata.ttl,
            place if metadata.dst_task_id else None,
        )
        group = groups.setdefault(key, [])
        if any(messages[i].metadata.dst_node_id == metadata.dst_node_id for i in group):
            group = groups.setdefault((*key, place), [])  # two of the same for one node
        group.append(place)
    return groups.values()
