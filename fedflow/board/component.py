"""The page of a component: its overview and its parameters."""

from __future__ import annotations

from typing import Final

from flask import Response, request

from fedflow.board.component_pages import (
    PREFIX,
    ComponentAddress,
    component_page,
    component_place,
    head_tag,
    head_values,
    own_parameters,
)
from fedflow.board.page import board_blueprint, fragment, unchanged
from fedflow.board.presenters.flattening import flat
from fedflow.board.presenters.for_others import ForOthers, for_others
from fedflow.web.context import services

board_component = board_blueprint("board_component", PREFIX)

MOST_FOUND: Final = 500  #: parameters that a search shows
MOST_COMPONENTS: Final = 100  #: whose tables are asked for the names of columns


@board_component.get("")
def overview(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return how the component goes: at each party, in each attempt, and why it failed."""
    place = component_place(job_id, role, party_id, component)
    tracking = services().tracking
    summary = tracking.summary(job_id, component, place.job.site, version=place.task.key.version)
    return component_page(
        "component_overview.html", place, tab="", summary=summary, for_others=_for_others(place)
    )


def _for_others(place: ComponentAddress) -> ForOthers | None:
    """Return what may be sent to other parties about a failed attempt."""
    task, tracking = place.task, services().tracking
    parties = {party for ids in place.job.record.roles.values() for party in ids}
    if task.reason is None or len(parties) < 2:
        return None
    names = tracking.components(task.key.job_id)[:MOST_COMPONENTS]
    made = (o for c in names for o in tracking.outputs(task.key.job_id, c, task.key.site))
    return for_others(task, (table for _, table in made if table is not None))


@board_component.get("/head")
def head(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the part of the page that changes while the component runs."""
    tag = head_tag(job_id)
    known = unchanged(tag)
    if known is not None:
        return known
    place = component_place(job_id, role, party_id, component)
    return fragment(
        "component_head.html", tag=tag, final=place.is_final, **head_values(place)
    )  # fmt: skip


@board_component.get("/parameters")
def parameters(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the parameters as this site got them, secrets hidden; `?search=` looks in them."""
    place = component_place(job_id, role, party_id, component)
    shown, is_known = own_parameters(place.task)
    search = request.args.get("search", "")[:200].strip()
    matches = None
    if search:
        paths = flat(shown).items()
        matches = [(p, v) for p, v in paths if _fits(search, p, v)][:MOST_FOUND]
    return component_page(
        "component_parameters.html", place, tab="parameters", parameters=shown, search=search,
        matches=matches, is_known=is_known,
    )  # fmt: skip


def _fits(search: str, path: str, value: object) -> bool:
    wanted = search.casefold()
    return wanted in path.casefold() or wanted in str(value).casefold()
