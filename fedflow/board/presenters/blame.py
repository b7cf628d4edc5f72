"""Where a task really failed: at a site itself, or at another one that the site only followed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedflow.base.messages import Message
from fedflow.domain.reason import Reason
from fedflow.domain.records import TaskRecord
from fedflow.domain.scheduling.decide import FOLLOW_ON
from fedflow.domain.site import Site
from fedflow.domain.states import TaskStatus

STOPPED: Final = "stopped"  #: shown of a share that failed only because of another site
_BAD: Final = frozenset({TaskStatus.FAILED.value, TaskStatus.TIMEOUT.value})

Share = tuple[Site, str, Reason | None]
"""A site's share of an attempt: its status, and why it is so."""


def followed(shares: Iterable[Share]) -> dict[Site, str]:
    """Return the sites that failed only because of another one, and that one as text; `shares` are
    of one attempt of a task.
    """
    bad = {site: why for site, status, why in shares if status in _BAD and why is not None}
    causes = {site: _cause(site, why) for site, why in bad.items()}
    if len(causes) > 1 and all(causes.values()):  # nobody says more than the first to miss another
        causes = {s: causes[s] for s, why in bad.items() if why.site not in (None, s)}
    return {site: cause for site, cause in causes.items() if cause}


def followed_in(tasks: Iterable[TaskRecord]) -> dict[Site, str]:
    """Return the same of one attempt as it is stored."""
    return followed((t.key.site, t.party_status.value, t.reason) for t in tasks)


def _cause(site: Site, why: Reason) -> str:
    if why.site not in (None, site):
        return str(why.site)
    if why.code in FOLLOW_ON and isinstance(why.message, Message):
        return why.message.fields.get("site", "")
    return ""
