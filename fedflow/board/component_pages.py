"""What all tabs of a component's page have: which site and attempt is meant, its head, the tabs.

A tab is a view of a blueprint of its own below `PREFIX`: it begins with `component_place` and ends
with `component_page`, whose template extends `board/component.html` and fills the block `tab`. Add
the tab to `TABS`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from flask import Response, request

from fedflow.base.errors.components import ModuleNotYet, UnknownComponent
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.page import page
from fedflow.board.presenters.blame import followed_in
from fedflow.board.presenters.masking import masked
from fedflow.board.urls import PartyJobAddress, component_url, job_place, job_url
from fedflow.domain.records import TaskFilter, TaskKey, TaskRecord
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL
from fedflow.web.context import services

PREFIX: Final = "/jobs/<job_id>/<role>/<party_id>/components/<component>"

TABS: Final = ("", "metrics", "model", "data", "parameters", "logs")
"""The tabs in order, by the end of their address; `_title` has their names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ComponentAddress:
    """One component at one site, and which of its attempts is shown."""

    job: PartyJobAddress
    component: str
    attempts: tuple[TaskRecord, ...]  #: of this site, the latest one last
    task: TaskRecord  #: the one that is shown

    @property
    def is_latest(self) -> bool:
        return self.task.key.version == self.attempts[-1].key.version

    @property
    def is_final(self) -> bool:
        """Tell whether the page will not change any more: the job has ended, or there is a newer
        attempt.
        """
        is_over = not self.is_latest or self.job.record.status in JOB_FINAL
        return is_over and self.task.party_status in TASK_FINAL

    @property
    def attempt(self) -> int | None:
        """Return what stands for the attempt in addresses: nothing for the latest."""
        return None if self.is_latest else self.task.key.version

    def url(self, tab: str = "", **query: object) -> str:
        """Return the address of a tab for this attempt."""
        asked = {"attempt": self.attempt, **query}
        return component_url(self.job.job_id, self.job.site, self.component, tab, **asked)

    def attempt_url(self, tab: str, version: int) -> str:
        """Return the address of a tab for an attempt."""
        asked = None if version == self.attempts[-1].key.version else version
        return component_url(self.job.job_id, self.job.site, self.component, tab, attempt=asked)

    @property
    def own_sites(self) -> list[Site]:
        """Return the sites of this server at which the component runs, this one among them."""
        which = TaskFilter(job_id=self.job.job_id, component=self.component)
        found = {task.key.site for task in services().jobs.tasks(which) if task.here}
        return [site for site in self.job.own_sites if site in found]

    def at(self, site: Site, tab: str = "") -> str:
        """Return the address of a tab for another site of this server."""
        return component_url(self.job.job_id, site, self.component, tab)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredAttempts:
    """Which attempts stored what a tab shows, the latest one last, and which one it shows."""

    choices: tuple[TaskRecord, ...]
    shown: int | None  #: None: the attempt that is asked for stored nothing
    is_asked: bool  #: it is the one that the head of the page is about

    @property
    def is_newest(self) -> bool:
        """Tell whether no later attempt stored anything."""
        return bool(self.choices) and self.shown == self.choices[-1].key.version


def stored_attempts(place: ComponentAddress, versions: Collection[int]) -> StoredAttempts:
    """Return which of the attempts that stored something is shown: the one that the address names;
    if it names none, the latest of them.
    """
    choices = tuple(task for task in place.attempts if task.key.version in versions)
    asked = place.task.key.version
    found = [task.key.version for task in choices]
    shown = asked if asked in found else None
    if shown is None and place.is_latest and found:
        shown = found[-1]
    return StoredAttempts(choices=choices, shown=shown, is_asked=shown == asked)


def component_place(job_id: str, role: str, party_id: str, component: str) -> ComponentAddress:
    """Return what an address means; `?attempt=` names an earlier attempt.

    Raises: JobNotFound, TaskNotFound. BadRequest: there is no such attempt.
    """
    place = job_place(job_id, role, party_id)
    attempts = services().tracking.attempts(place.job_id, component, place.site)
    asked = request.args.get("attempt", "")
    chosen = attempts[-1]
    if asked:
        found = [task for task in attempts if str(task.key.version) == asked]
        if not found:
            reason = Message(
                "{component} has no attempt {attempt!r} here", component[:100], asked[:20]
            )
            raise BadRequest(reason=reason)
        chosen = found[0]
    return ComponentAddress(
        job=place, component=component, attempts=tuple(attempts), task=chosen
    )  # fmt: skip


def component_page(template: str, place: ComponentAddress, *, tab: str, **values: Any) -> Response:
    """Return a tab of the page; `tab` is the end of its address."""
    return page(
        template,
        title=f"{place.component[:80]} - {_title(tab)}",
        nav="jobs",
        tabs=[(_title(name), place.url(name), name == tab) for name in TABS],
        tab=tab,
        **head_values(place),
        **values,
    )


def head_values(place: ComponentAddress) -> dict[str, Any]:
    """Return what `board/component_head.html` reads."""
    found = parties(place)
    return {
        "place": place,
        "task": place.task,
        "parties": found,
        "causes": _causes(place, found),
        "job_address": job_url(place.job),
        "head_address": place.url("head"),
    }


def head_tag(job_id: str) -> str:
    """Return a text that is another one once the head of a page would be another one.

    It costs a few index look-ups. Raises: JobNotFound.
    """
    return f"{request.full_path}|{services().site_jobs.etag(job_id)}"


def parties(place: ComponentAddress) -> list[TaskRecord]:
    """Return the latest attempt at each site that this site knows of: at the initiator all."""
    job = place.job
    if not job.record.is_initiator:
        return [place.attempts[-1]]
    found = services().jobs.tasks(TaskFilter(job_id=job.job_id, component=place.component))
    return sorted(found, key=lambda task: task.key.site.order)


def _causes(place: ComponentAddress, found: Sequence[TaskRecord]) -> dict[TaskKey, str]:
    """Return the site that failed, for each share on the page that only followed it."""
    groups = [found, *([task] for task in place.attempts if task not in found)]
    return {
        task.key: because[task.key.site]
        for group in groups
        for because in [followed_in(group)]
        for task in group
        if task.key.site in because
    }


def own_parameters(task: TaskRecord) -> tuple[Any, bool]:
    """Return the parameters as a task's site got them, secrets hidden, and whether the component is
    installed here: else they are what was stored.
    """
    try:
        named = services().tracking.parameters_of(task)
    except (ModuleNotYet, UnknownComponent):
        return masked(task.parameters), False
    return masked(next((v for name, v in named.items() if name != "module"), {})), True


def _title(tab: str) -> str:
    return {
        "": t("Overview"),
        "metrics": t("Metrics"),
        "model": t("Model"),
        "data": t("Data"),
        "parameters": t("Parameters"),
        "logs": t("Logs"),
    }[tab]
