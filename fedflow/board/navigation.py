"""The board's navigation: which pages it leads to."""

from __future__ import annotations

from fedflow.base.values import dataclass
from fedflow.board.language import t


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One entry: the name that views give as `nav`, its text, where it leads."""

    name: str
    text: str
    url: str


def entries() -> tuple[Entry, ...]:
    """Return the entries in order."""
    return (
        Entry(name="home", text=t("Home"), url="/board/"),
        Entry(name="jobs", text=t("Jobs"), url="/board/jobs"),
        Entry(name="submit", text=t("Submit"), url="/board/submit"),
        Entry(name="queue", text=t("Queue"), url="/board/queue"),
        Entry(name="parties", text=t("Parties"), url="/board/parties"),
        Entry(name="tables", text=t("Tables"), url="/board/tables"),
        Entry(name="models", text=t("Models"), url="/board/models"),
        Entry(name="serving", text=t("Serving"), url="/board/serving"),
        Entry(name="settings", text=t("Settings"), url="/board/settings"),
    )
