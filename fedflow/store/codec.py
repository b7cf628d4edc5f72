"""How values lie in columns: JSON as text, enumerations as their words, sites as two columns."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec

from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.ids import PartyId
from fedflow.base.messages import Message, english, from_structure, structure, verbatim
from fedflow.domain.job.control import FREE, Control
from fedflow.domain.job.figures import Figure
from fedflow.domain.job.ledger import PeerLedger
from fedflow.domain.phases import SitePhase
from fedflow.domain.reason import Reason, StopRequest
from fedflow.domain.records import Json
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, JobStatus, TaskStatus

ROLES: Final = {r.value: r for r in Role}
JOB_STATUSES: Final = {s.value: s for s in JobStatus}
TASK_STATUSES: Final = {s.value: s for s in TaskStatus}
PHASES: Final = {p.value: p for p in SitePhase}


def _words(statuses: list[JobStatus] | list[TaskStatus]) -> str:
    return "(" + ", ".join(f"'{s.value}'" for s in statuses) + ")"


#: SQL lists of the statuses of jobs and tasks that have not ended
OPEN_JOB: Final = _words([s for s in JobStatus if s not in JOB_FINAL])
OPEN_TASK: Final = _words([s for s in TaskStatus if s not in TASK_FINAL])

_SHORT: Final = 150  #: characters


def _message(_kind: type, value: object) -> Message:
    made = verbatim(value, len(value)) if isinstance(value, str) else from_structure(value, 100)
    if made is None:
        raise ValueError("no message")
    return made


_encoder: Final = msgspec.json.Encoder(enc_hook=english)
_decoder: Final = msgspec.json.Decoder()
_structures: Final = msgspec.json.Encoder(enc_hook=structure)
_messages: Final = msgspec.json.Decoder(Message, dec_hook=_message)
_reasons: Final = msgspec.json.Decoder(Reason, dec_hook=_message)
_stops: Final = msgspec.json.Decoder(StopRequest, dec_hook=_message)
_ledgers: Final = msgspec.json.Decoder(tuple[PeerLedger, ...])
_controls: Final = msgspec.json.Decoder(Control, dec_hook=_message)


def to_json(value: Json) -> str:
    """Return JSON text.

    Raises: TypeError: the value is not plain JSON. UnicodeEncodeError: a text has half a character.
    """
    return _encoder.encode(value).decode()


def from_json(text: str) -> Json:
    """Return the value of stored JSON text. Raises: StoreUnavailable: somebody damaged it."""
    return _decoded(_decoder, text)


@lru_cache(maxsize=32)
def document_from_json(text: str) -> Json:
    """Return a DSL or a conf: those in use are read again and again, and are large.

    Readers share it and must not change it. Raises: StoreUnavailable.
    """
    return from_json(text)


def plain(value: Json) -> Json:
    """Return what a database would give back for `value`: a deep copy of plain JSON."""
    return _decoder.decode(_encoder.encode(value))


def short_text(text: str) -> str | None:
    """Return what a `_short` column, which indexes can hold, has of a text: None if it is long."""
    return text if len(text) <= _SHORT else None


def message_to_text(text: str) -> str:
    return _structures.encode(text).decode()


@lru_cache(maxsize=256)
def message_from_text(text: str) -> Message:
    message: Message = _decoded(_messages, text)
    return message


def reason_to_text(reason: Reason | None) -> str | None:
    return None if reason is None else _structures.encode(reason).decode()


def reason_from_text(text: str | None) -> Reason | None:
    return None if text is None else _reason_from_text(text)


@lru_cache(maxsize=256)
def _reason_from_text(text: str) -> Reason:
    """Return a reason; jobs that wait are read again and again, for one of a few reasons."""
    reason: Reason = _decoded(_reasons, text)
    return reason


def figures_to_text(figures: tuple[Figure, ...]) -> str | None:
    return to_json(figures) if figures else None


def figures_from_text(text: str | None) -> tuple[Figure, ...]:
    """Raises: StoreUnavailable: somebody damaged it."""
    return () if text is None else tuple(Figure(**figure) for figure in from_json(text))


def ledger_to_text(ledger: tuple[PeerLedger, ...]) -> str | None:
    return to_json(ledger) if ledger else None


def ledger_from_text(text: str) -> tuple[PeerLedger, ...]:
    """Raises: StoreUnavailable: somebody damaged it."""
    found: tuple[PeerLedger, ...] = _decoded(_ledgers, text)
    return found


def stop_to_text(stop: StopRequest | None) -> str | None:
    return None if stop is None else _structures.encode(stop).decode()


def stop_from_text(text: str | None) -> StopRequest | None:
    if text is None:
        return None
    stop: StopRequest = _decoded(_stops, text)
    return stop


def control_to_text(control: Control) -> str | None:
    return None if control == FREE else _structures.encode(control).decode()


def control_from_text(text: str | None) -> Control:
    if text is None:
        return FREE
    control: Control = _decoded(_controls, text)
    return control


@lru_cache(maxsize=4096)
def site_of(role: str, party_id: str) -> Site:
    """Return a site; thousands of rows name the same few."""
    return Site(ROLES[role], PartyId(party_id))


def _decoded(decoder: msgspec.json.Decoder[Any], text: str) -> Any:
    try:
        return decoder.decode(text)
    except msgspec.MsgspecError as exc:
        raise StoreUnavailable(reason=f"a stored value is damaged ({exc})") from exc
