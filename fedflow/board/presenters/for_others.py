"""What a party may send to others about a failure of its own, which they know by its name only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.outside import is_kept_back, outside_reason
from fedflow.domain.records import TableRecord, TaskRecord
from fedflow.domain.scheduling.explain import hint_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ForOthers:
    """A failure without data: no name of a column or table, no row, no value."""

    code: str
    message: Message
    columns: tuple[str, ...]  #: that the sentence names, by the names that other parties know
    hint: str


def for_others(task: TaskRecord, tables: Iterable[TableRecord]) -> ForOthers | None:
    """Return what may be told of why a task failed at its own site; None: others know it all.

    `tables` are those that its job made at the site; they say the columns' anonymous names.
    """
    reason = task.reason
    if reason is None or reason.site not in (None, task.key.site):
        return None
    told = outside_reason(reason, task.key.site)
    if told.message == reason.message or is_kept_back(reason.message):
        return None
    named = set(re.findall(r"'([^']*)'", reason.message))
    columns = {
        str(anonymous): None
        for table in tables
        for column, anonymous in _names(table)
        if column in named and anonymous
    }
    return ForOthers(
        code=reason.code, message=told.message, columns=tuple(columns), hint=hint_of(reason.code)
    )


def _names(table: TableRecord) -> Iterable[tuple[object, object]]:
    schema = table.schema if isinstance(table.schema, dict) else {}
    return zip(schema.get("columns") or (), schema.get("anonymous") or (), strict=False)
