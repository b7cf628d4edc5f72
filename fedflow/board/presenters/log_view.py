"""What a page of logs shows: which logs there are to choose from, and lines for the script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fedflow.app.logs.addresses import LogAddress, LogKind
from fedflow.app.logs.job_logs import DisplayedLine, LogPage, LogSearch
from fedflow.base.values import dataclass
from fedflow.domain.records import TaskRecord

MOST_ATTEMPTS: Final = 50  #: that are offered, the newest ones


@dataclass(frozen=True, kw_only=True, slots=True)
class LogChoice:
    """One of several logs: what it is called, how it went (a status, or nothing), its size."""

    value: str
    is_chosen: bool
    status: str = ""
    size: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogMenu:
    """The logs of a job at a site to choose from."""

    components: tuple[LogChoice, ...]
    attempts: tuple[LogChoice, ...]
    left_out: int  #: older attempts
    kinds: tuple[LogChoice, ...]
    kinds_of_job: tuple[LogChoice, ...]


def menu(
    place: LogAddress,
    sizes: Mapping[LogKind, int],
    tasks: Sequence[TaskRecord],
    logged: Mapping[str, Sequence[int]],
) -> LogMenu:
    """Return what there is to choose beside `place`; `logged` are the attempts with logs, by
    component.
    """
    newest = {task.key.component: task for task in sorted(tasks, key=lambda t: t.key.version)}
    names = list(dict.fromkeys([*(t.key.component for t in tasks), *logged]))
    attempts = attempts_of(place.component, tasks, logged)
    chosen = attempts[-MOST_ATTEMPTS:]
    return LogMenu(
        components=tuple(
            LogChoice(
                value=name,
                is_chosen=name == place.component,
                status=newest[name].party_status.value if name in newest else "",
            )
            for name in names
        ),
        attempts=tuple(
            LogChoice(value=str(number), is_chosen=number == place.attempt, status=status)
            for number, status in chosen
        ),
        left_out=len(attempts) - len(chosen),
        kinds=_kinds(place, sizes, (k for k in LogKind if not k.is_of_job)),
        kinds_of_job=_kinds(place, sizes, (k for k in LogKind if k.is_of_job)),
    )


def attempts_of(
    component: str | None, tasks: Iterable[TaskRecord], logged: Mapping[str, Sequence[int]]
) -> list[tuple[int, str]]:
    """Return the attempts of a component in order, and how each went; '' if that is not known."""
    if component is None:
        return []
    found = dict.fromkeys(logged.get(component, ()), "")
    found.update(
        {t.key.version: t.party_status.value for t in tasks if t.key.component == component}
    )
    return sorted(found.items())


def _kinds(
    place: LogAddress, sizes: Mapping[LogKind, int], kinds: Iterable[LogKind]
) -> tuple[LogChoice, ...]:
    return tuple(
        LogChoice(value=kind.value, is_chosen=kind is place.kind, size=sizes.get(kind))
        for kind in kinds
        if kind in sizes or kind is place.kind
    )


# --- for the script -------------------------------------------------------------------------------


def row(line: DisplayedLine) -> list[Any]:
    """Return a line as `log_source.js` reads it: number, level, 1 if a record begins, time in ms,
    text, and its size in bytes if it is cut.
    """
    return [
        line.number, line.level, int(line.begins), line.at_ms, line.text,
        line.size if line.is_cut else 0,
    ]  # fmt: skip


def page_json(page: LogPage, *, is_final: bool) -> dict[str, Any]:
    """Return a page of lines; `is_final`: nothing will be added."""
    return {
        "size": page.size,
        "total": page.total,
        "counted": page.counted,
        "lines": [row(line) for line in page.lines],
        "levels": page.levels,
        "final": is_final,
    }


def search_json(found: LogSearch) -> dict[str, Any]:
    """Return a part of a search's result."""
    return {
        "lines": [row(line) for line in found.lines],
        "cursor": found.cursor,
        "searched": found.searched,
        "size": found.size,
        "done": found.is_done,
        "new": found.is_new,
    }
