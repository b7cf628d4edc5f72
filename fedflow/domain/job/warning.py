"""Warnings: what a job says or does that is doubtful, and accepted because FATE accepts it.

A warning says what was ignored and what was used instead. A strict job (job parameter `strict`, or
the server's default of it) is refused for what would be a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from fedflow.base.errors.documents import InvalidJobSpec, Problem

MOST: Final = 1_000  #: warnings of one job that are kept


class JobWarning(msgspec.Struct, frozen=True, kw_only=True):
    """One warning. As JSON it is an object with these members."""

    code: str  #: a stable word for programs, for example `UnknownComponentName`
    path: str  #: in DSL or conf, as `$.conf.role`; or the component whose run warned
    message: str
    hint: str = ""  #: what to do about it

    def __str__(self) -> str:
        return f"{self.path}: {self.message} ({self.code})"


HINTS: Final = {
    "PartyAbsent": "See that its server runs: with `rejoin` it is started when it is heard from.",
    "Converted": "Nothing is to be done: the job runs in version 2.",
    "DuplicateInput": "List it once.",
    "Misplaced": "Move it to the place that is named.",
    "NoEffect": "Take it out: the job runs the same without it.",
    "NotReused": "Submit without it, or name results that exist.",
    "NotWritten": "Take the reference out, or connect an output that the component writes.",
    "OtherAssumption": "Use Paillier, unless all parties accept this.",
    "OtherEngine": "Take it out: each server uses its own engine.",
    "OtherProvider": "Take it out: each server uses its own provider.",
    "PartiesDisagree": "A database was put back to an earlier time. Compare what both parties have,"
    " then submit the job again.",
    "Replaced": "Write what is used instead, or take it out.",
    "UnknownComponentName": "Correct the name, or take it out.",
    "UnknownIndex": "Correct the index, counted from 0, or take it out.",
    "UnknownMember": "Correct the name, or take it out.",
    "UnknownPort": "Connect the data to a port that the component reads.",
    "UnknownRole": "List parties of this role, or take it out.",
    "ShortKey": "Use 2048 bits for data that matters.",
    "Unusual": "Correct the value, unless it is meant.",
}
"""What helps, by the code of a warning about DSL and conf. Components add codes of their own."""

_HARMLESS: Final = frozenset({"Converted", "NotReused"})
"""Codes that only inform: a strict job is not refused for them."""


def warning(code: str, path: str, message: str) -> JobWarning:
    """Return a warning with the hint of its code. Raises: KeyError: unknown code."""
    return JobWarning(code=code, path=path, message=message, hint=HINTS[code])


def refuse(warnings: Iterable[JobWarning]) -> None:
    """Raises: InvalidJobSpec: there are warnings that a strict job is refused for."""
    problems = as_problems(warnings)
    if problems:
        raise InvalidJobSpec(problems)


def as_problems(warnings: Iterable[JobWarning]) -> tuple[Problem, ...]:
    """Return what a strict job is refused for; the codes become the rules."""
    return tuple(
        Problem(one.path, one.message, one.code) for one in warnings if one.code not in _HARMLESS
    )


def merged(earlier: Iterable[JobWarning], more: Iterable[JobWarning]) -> tuple[JobWarning, ...]:
    """Return both, each warning once, at most `MOST`."""
    return tuple(dict.fromkeys((*earlier, *more)))[:MOST]
