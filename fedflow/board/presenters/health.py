"""What the settings page shows of a server's health."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedflow.base.values import dataclass
from fedflow.board.language import t

_LONGEST_LIST = 20  #: parties that are named


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerPart:
    """One part of a server: what it is, how it stands."""

    name: str
    kind: str  #: of a status: ok, bad, wait
    word: str
    text: str


def parts_of(found: Mapping[str, Any]) -> tuple[ServerPart, ...]:
    """Return the parts that `Info.ready` tells about."""
    return (
        _part(
            t("Store"),
            found["store"],
            t("It answers, and knows the engines."),
            t("It cannot be used. The server's log says why."),
        ),
        _part(
            t("Executor"),
            found["executor"],
            t("It can start processes of tasks."),
            t("It cannot start processes of tasks now. The server's log says why."),
        ),
        _disk(good=bool(found["disk"]), free=found["free_bytes"], closed=found["closed"]),
        _own(found["reasons"], found["warnings"]),
        _outbox(int(found["outbox"])),
        _unreachable([str(one) for one in found["unreachable"]]),
    )


def _part(name: str, good: bool, text: str, trouble: str) -> ServerPart:
    if good:
        return ServerPart(name=name, kind="ok", word=t("well"), text=text)
    return ServerPart(name=name, kind="bad", word=t("not well"), text=trouble)


def _disk(*, good: bool, free: Mapping[str, int], closed: Sequence[str]) -> ServerPart:
    """Return how much is free, in whole GB: the page must not change all the time."""
    if closed:
        text = t("The server may not write to: {folders}", folders=", ".join(closed))
        return _part(t("Disk"), False, "", text)
    shown = ", ".join(f"{name} {size / 1e9:.0f} GB" for name, size in free.items())
    trouble = t("Too little space is free, or no file can be written: {folders}.", folders=shown)
    return _part(t("Disk"), good, t("Free: {folders}", folders=shown), trouble)


def _own(reasons: Sequence[str], warnings: Sequence[str]) -> ServerPart:
    """Return all that is wrong, as the server itself says it."""
    name = t("Server")
    if reasons:
        return _part(name, False, "", "; ".join(reasons))
    if warnings:
        return ServerPart(name=name, kind="wait", word=t("look at it"), text="; ".join(warnings))
    return _part(name, True, t("All its parts were seen to work in the last seconds."), "")


def _outbox(waiting: int) -> ServerPart:
    name = t("Outbox")
    if waiting == 0:
        return ServerPart(name=name, kind="ok", word=t("well"), text=t("No command waits."))
    text = t("{n} commands to other parties wait to be delivered.", n=waiting)
    return ServerPart(name=name, kind="wait", word=t("waiting"), text=text)


def _unreachable(parties: list[str]) -> ServerPart:
    name = t("Other parties")
    if not parties:
        text = t("None is known to be out of reach.")
        return ServerPart(name=name, kind="ok", word=t("well"), text=text)
    named = ", ".join(parties[:_LONGEST_LIST]) + (", ..." if len(parties) > _LONGEST_LIST else "")
    text = t("These do not answer: {parties}", parties=named)
    return ServerPart(name=name, kind="bad", word=t("not well"), text=text)
