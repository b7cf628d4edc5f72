"""What the tab *Ledger* of a job shows: what one site sent, received and waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from fedflow.base.values import dataclass
from fedflow.board.presenters.metric_items import Texts
from fedflow.wire.api.ledgers import JobLedger, MessageCount, TaskLedger
from fedflow.wire.api.traces import JobTrace, SessionTrace, TracedValue

MOST_MESSAGES: Final = 500  #: rows of one page
MOST_VALUES: Final = 10  #: the largest, and those that were waited for longest


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageLine:
    """The messages of one name that one attempt of a component exchanged with one peer."""

    component: str
    version: int
    peer: str
    message: MessageCount


@dataclass(frozen=True, kw_only=True, slots=True)
class SentLine:
    """All that was sent to one peer."""

    peer: str
    contents: tuple[tuple[str, int], ...]  #: (content, bytes), the most first; "": not declared


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitLine:
    """For which peer an attempt waited longest."""

    component: str
    share: int  #: per cent of its time
    seconds: float  #: its time
    peer: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueLine:
    """A value that was recorded."""

    component: str
    version: int
    value: TracedValue


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceView:
    """The traffic of one site of a job."""

    is_on: bool  #: values are recorded at this server
    sent: tuple[SentLine, ...]
    waits: tuple[WaitLine, ...]
    lines: tuple[MessageLine, ...]
    lines_left: int  #: that are not shown
    recorded: int  #: values
    largest: tuple[ValueLine, ...]
    longest: tuple[ValueLine, ...]


def trace_view(found: JobTrace, ledger: JobLedger, site: str) -> TraceView:
    """Return what one site exchanged, and the values that it recorded; those of others are left
    out.
    """
    own = [session for session in found.sessions if session.site == site]
    lines = [
        MessageLine(component=task.component, version=task.version, peer=peer.site, message=message)
        for task, peer, message in ledger.lines()
        if task.site == site
    ]
    values = list(_values(own))
    moved = [line for line in values if line.value.kind in ("sent", "arrived")]
    waited = [line for line in values if line.value.waited_s > 0]
    return TraceView(
        is_on=found.is_on,
        sent=tuple(_sent(lines)),
        waits=tuple(
            wait for t in ledger.tasks if t.site == site and (wait := _wait(t)) is not None
        ),
        lines=tuple(lines[:MOST_MESSAGES]),
        lines_left=max(0, len(lines) - MOST_MESSAGES),
        recorded=len(values),
        largest=tuple(sorted(moved, key=lambda line: -line.value.size)[:MOST_VALUES]),
        longest=tuple(sorted(waited, key=lambda line: -line.value.waited_s)[:MOST_VALUES]),
    )


def content_words(t: Texts) -> dict[str, str]:
    """Return the words for what a message shows who gets it; those of other components stay."""
    return {
        "": t("not declared"),
        "settings": t("settings"),
        "counts": t("counts"),
        "key": t("key"),
        "ciphertext": t("ciphertext"),
        "sealed": t("sealed"),
        "masked": t("masked"),
        "blinded ids": t("blinded ids"),
        "rows": t("rows"),
        "ids": t("ids"),
        "values": t("values"),
        "statistics": t("statistics"),
        "model": t("model"),
    }


def _sent(lines: Iterable[MessageLine]) -> Iterator[SentLine]:
    sizes: dict[str, Counter[str]] = {}
    for line in lines:
        if line.message.is_sent:
            of_peer = sizes.setdefault(line.peer, Counter())
            of_peer[line.message.content] += line.message.size_bytes
    for peer, found in sorted(sizes.items()):
        yield SentLine(peer=peer, contents=tuple(found.most_common()))


def _values(sessions: Iterable[SessionTrace]) -> Iterable[ValueLine]:
    for one in sessions:
        for value in one.values:
            yield ValueLine(component=one.component, version=one.version, value=value)


def _wait(task: TaskLedger) -> WaitLine | None:
    peer = task.awaited
    if peer is None or task.seconds <= 0:
        return None
    return WaitLine(
        component=task.component, share=task.awaited_percent, seconds=task.seconds, peer=peer.site
    )
