"""The messages of rounds. All have the name `rounds`; the data plane carries each as one value.

| kind | from -> to | fields |
|---|---|---|
| ready | member -> aggregator | launch, rows, about; round, digest, ended of the state it has |
| start | aggregator -> members | serial, the state, members, layout and rules of the round |
| question | aggregator -> member | serial, body: the next question of the secure sum |
| answer | member -> aggregator | serial, body: its answer; without masks {vector} |
| recall | aggregator -> members | serial; say `ready` again; with_state: send the state, too |
| state | member -> aggregator | serial of the recall, the state |
| finish | aggregator -> members | serial: the last state has arrived everywhere, the run ends |
| refused | aggregator -> member | serial, reason: it cannot take part |

`serial` numbers all that an aggregator begins, over its launches: a later launch has larger ones.
So whatever is older than the last serial that was seen is late, and is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Meta, Struct

from fedflow.components.horizontal.packing import Floats, Layout, layout_of, length_of, pack, unpack
from fedflow.components.horizontal.rounds import MOST_ROWS, RoundState, check_history
from fedflow.sdk.decoding import read_as
from fedflow.sdk.protocol import protocol

NAME: Final = "rounds"
MESSAGES: Final = protocol(f"""
{NAME} | model | members <-> arbiter | see the module; updates are masked, unless the job says no
""")
SERIALS_PER_LAUNCH: Final = 1 << 32

MOST_ARRAYS: Final = 10_000
MOST_NUMBERS: Final = 1 << 32  #: of a state
_MOST_ABOUT: Final = 1 << 20  #: characters of what a member says of itself

T = TypeVar("T", bound=Struct)
Serial = Annotated[int, Meta(ge=0, lt=1 << 62)]
Place = tuple[str, list[Annotated[int, Meta(ge=0, le=MOST_NUMBERS)]]]
Text = Annotated[str, Meta(max_length=2000)]


class Ready(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module; `round` is -1 without a state."""

    launch: Serial
    rows: Annotated[int, Meta(ge=1, le=MOST_ROWS)]
    about: dict[str, Any]
    round: Annotated[int, Meta(ge=-1, lt=1 << 40)] = -1
    digest: Annotated[str, Meta(max_length=64)] = ""
    ended: bool = False


class StateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state; its arrays are one vector of float64."""

    round: Annotated[int, Meta(ge=0, lt=1 << 40)]
    places: Annotated[list[Place], Meta(max_length=MOST_ARRAYS)]
    notes: dict[str, Any]
    ended: bool
    vector: Any


class RoundStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    state: StateBody
    members: list[str]  #: keys of sites, sorted
    layout: Annotated[list[Place], Meta(max_length=MOST_ARRAYS)]  #: of what each contributes
    least: Annotated[int, Meta(ge=2)]  #: members to the end
    secure: bool
    fraction_bits: Annotated[int, Meta(ge=0, le=60)]


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    body: Any


class SumReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    body: Any


class Recall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    with_state: bool = False


class StateReply(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    state: StateBody


class Finish(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial


class Rejected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module."""

    serial: Serial
    reason: Text


ToAggregator = Ready | SumReply | StateReply
ToMember = RoundStart | Question | Recall | Finish | Rejected

_KINDS: Final[dict[str, type[Struct]]] = {
    "ready": Ready,
    "start": RoundStart,
    "question": Question,
    "answer": SumReply,
    "recall": Recall,
    "state": StateReply,
    "finish": Finish,
    "refused": Rejected,
}
_WORDS: Final = {kind: word for word, kind in _KINDS.items()}


def written(message: ToAggregator | ToMember) -> dict[str, Any]:
    """Return a message as the data plane carries it."""
    return {"kind": _WORDS[type(message)], **_plain(message)}


def read_by_aggregator(value: object) -> ToAggregator:
    """Return a member's message. Raises: ValueError: it is none."""
    found = _read(value)
    if not isinstance(found, ToAggregator):
        raise ValueError("a message that a member does not send")  # noqa: TRY004
    if isinstance(found, Ready) and len(msgspec.json.encode(found.about)) > _MOST_ABOUT:
        raise ValueError("it says too much of itself")
    return found


def read_by_member(value: object) -> ToMember:
    """Return the aggregator's message. Raises: ValueError: it is none."""
    found = _read(value)
    if not isinstance(found, ToMember):
        raise ValueError("a message that an aggregator does not send")  # noqa: TRY004
    return found


def state_body(state: RoundState) -> StateBody:
    """Return a state as it is sent. Raises: ValueError: a number is not finite."""
    layout = layout_of(state.arrays)
    return StateBody(
        round=state.round,
        places=places(layout),
        notes=dict(state.notes),
        ended=state.ended,
        vector=pack(state.arrays, layout),
    )


def state_of(body: StateBody) -> RoundState:
    """Return the state that was sent. Raises: ValueError: it does not fit together."""
    layout = layout_at(body.places)
    vector = body.vector
    if not isinstance(vector, np.ndarray) or vector.dtype != np.float64:
        raise ValueError("a state without its numbers")
    numbers: Floats = vector
    if numbers.shape != (length_of(layout),) or not np.isfinite(numbers).all():
        raise ValueError("the numbers of a state are others than it says, or not finite")
    check_history(body.notes, body.round)
    return RoundState(
        round=body.round, arrays=unpack(numbers, layout), notes=body.notes, ended=body.ended
    )


def places(layout: Layout) -> list[Place]:
    """Return a layout as it is sent."""
    return [(name, list(shape)) for name, shape in layout.items()]


def layout_at(found: list[Place]) -> dict[str, tuple[int, ...]]:
    """Return the layout that was sent. Raises: ValueError: it is none, or too large."""
    layout = {name: tuple(shape) for name, shape in found}
    if len(layout) != len(found) or any(len(shape) > 8 for shape in layout.values()):
        raise ValueError("two arrays of one name, or one of more than 8 dimensions")
    if sum(math.prod(shape) for shape in layout.values()) > MOST_NUMBERS:
        raise ValueError("more numbers than a state has")
    return layout


def _plain(message: Struct) -> dict[str, Any]:
    found = {name: getattr(message, name) for name in message.__struct_fields__}
    return {n: _plain(v) if isinstance(v, Struct) else v for n, v in found.items()}


def _read(value: object) -> Struct:
    if not isinstance(value, Mapping):
        raise ValueError(f"a {type(value).__name__} is no message")  # noqa: TRY004
    fields = dict(value)
    word = fields.pop("kind", None)
    kind = _KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise ValueError("a message of no known kind")
    try:
        return read_as(fields, kind)
    except msgspec.ValidationError as exc:
        raise ValueError(str(exc)) from exc
