"""The ledger of a job at one server: what its tasks sent to each party, received and waited for."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class MessageCount(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one name in one direction; their contents are not known."""

    name: str
    is_sent: bool  #: False: they arrived
    calls: int
    size_bytes: int  #: of the encoded values
    first_ms: int
    last_ms: int
    content: str = ""  #: the kind of content that the protocol declares; empty: it declares none


class PeerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt exchanged with one other site. Times in seconds."""

    site: str
    sent: int = 0  #: messages
    sent_bytes: int = 0
    arrived: int = 0  #: messages
    arrived_bytes: int = 0
    receives: int = 0  #: that waited for this site
    receive_s: float = 0.0  #: in which at least one of them waited
    send_s: float = 0.0  #: how long sends waited for room
    messages: tuple[MessageCount, ...] = ()


class TaskLedger(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a component at one site of this server. Times in seconds."""

    component: str
    version: int
    site: str
    status: str
    seconds: float = 0.0  #: since it began, or until its end
    computing_s: float = 0.0  #: of these, in which it did not wait for the longest awaited peer
    peers: tuple[PeerCounts, ...] = ()

    @property
    def awaited(self) -> PeerCounts | None:
        """Return the peer that was waited for longest, None if none was."""
        waited = [peer for peer in self.peers if peer.receive_s > 0]
        return max(waited, key=lambda peer: peer.receive_s, default=None)

    @property
    def awaited_percent(self) -> int:
        """Return the share of its time in which it waited for that peer."""
        peer = self.awaited
        if peer is None or self.seconds <= 0:
            return 0
        return min(100, round(100 * peer.receive_s / self.seconds))


class JobLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The tasks of a job at this server that exchanged something, in their order."""

    job_id: str
    tasks: tuple[TaskLedger, ...] = ()

    def lines(self) -> Iterator[tuple[TaskLedger, PeerCounts, MessageCount]]:
        """Yield each message name and direction, with the task and the peer."""
        for task in self.tasks:
            for peer in task.peers:
                for message in peer.messages:
                    yield task, peer, message


class SignedLedger(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger as a document."""

    csv: str
    signature: str  #: base64, RSA PKCS #1 v1.5 with SHA-256 of the bytes of `csv`, by the site key
    public_key: str  #: of this party, PEM
