"""The tab of a component's model: what this site's stored model shows, as drawings and tables."""

from __future__ import annotations

import io
from typing import Final

from flask import Response, request

from fedflow.base.errors.data import NoData
from fedflow.base.messages import Message
from fedflow.board.component_pages import (
    PREFIX,
    ComponentAddress,
    StoredAttempts,
    component_page,
    component_place,
    stored_attempts,
)
from fedflow.board.page import board_blueprint, json_answer
from fedflow.board.presenters.models.registry import sections_of
from fedflow.board.presenters.models.sections import Section
from fedflow.board.presenters.models.selected import map_named, shown, table_named
from fedflow.board.presenters.models.slices import csv_of
from fedflow.board.presenters.models.stepwise import stepwise
from fedflow.board.presenters.models.visible import own_meta, own_param
from fedflow.domain.records import StoredModel
from fedflow.domain.site import Role
from fedflow.web.context import services
from fedflow.web.downloads import file_word
from fedflow.web.responses import download
from fedflow.wire import envelope, model_json

board_component_model = board_blueprint("board_component_model", PREFIX)

_DIGITS: Final = 4  #: of a heat map's values
_NAME: Final = 120  #: characters of a column's name in a heat map


@board_component_model.get("/model")
def model(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the page."""
    place = component_place(job_id, role, party_id, component)
    stored = _stored(place)
    asked = request.args.to_dict()
    return component_page(
        "component_model.html", place, tab="model", stored=_attempts(place),
        shown=shown(_sections(place, stored), asked), has_files=_has_files(place, stored),
    )  # fmt: skip


@board_component_model.get("/model/map")
def heat_map(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return the names and values of the heat map `?map=`. Raises: NoData."""
    place = component_place(job_id, role, party_id, component)
    stored = _stored(place)
    found = map_named(_sections(place, stored), request.args.get("map", ""))
    if found is None:
        raise NoData(reason="there is no such heat map")
    return json_answer(
        {
            "rows": [name[:_NAME] for name in found.rows],
            "columns": [name[:_NAME] for name in found.columns],
            "values": [[round(v, _DIGITS) for v in row] for row in found.values],
        }
    )


@board_component_model.get("/model/table.csv")
def table_csv(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return all rows of the table `?table=` as CSV. Raises: NoData."""
    place = component_place(job_id, role, party_id, component)
    found = table_named(_sections(place, _stored(place)), request.args.get("table", ""))
    if found is None:
        raise NoData(reason="there is no such table")
    return _file(csv_of(found), place, f"{found.id}.csv", mimetype="text/csv")


@board_component_model.get("/model.json")
def model_file(job_id: str, role: str, party_id: str, component: str) -> Response:
    """Return this site's part of the model as the API shows it, without keys. Raises: NoData."""
    place = component_place(job_id, role, party_id, component)
    stored = _stored(place)
    if stored is None or not _has_files(place, stored):
        reason = Message("{component} has no model that may be shown at this site", component[:100])
        raise NoData(reason=reason)
    of = place.job.site.role
    found = {
        "module": place.task.module,
        "meta": model_json.shown(dict(own_meta(of, stored.meta))),
        "param": model_json.shown(
            dict(own_param(of, stored.param_name, stored.param, stored.meta))
        ),
    }
    text = envelope.encode(found).decode()
    return _file(text, place, "model.json", mimetype="application/json")


def _attempts(place: ComponentAddress) -> StoredAttempts:
    """Return which attempts stored a model."""
    found = services().tracking.model_versions(place.job.job_id, place.component, place.job.site)
    return stored_attempts(place, found)


def _stored(place: ComponentAddress) -> StoredModel | None:
    version = _attempts(place).shown
    if version is None:
        return None
    return services().tracking.model(
        place.job.job_id, place.component, place.job.site, version=version
    )


def _sections(place: ComponentAddress, stored: StoredModel | None) -> list[Section]:
    """Return all that this site may see; without a model at most the steps of its training."""
    attempt = place.task.key if stored is None else stored.key
    choices, role = request.args.to_dict(), place.job.site.role
    found: list[Section] = []
    if stored is not None:
        found += sections_of(role, stored.param_name, stored.param, stored.meta, choices)
    metrics = services().tracking.metrics(
        attempt.job_id, attempt.component, attempt.site, version=attempt.version
    )
    return [*found, *stepwise(role, metrics, choices)]


def _has_files(place: ComponentAddress, stored: StoredModel | None) -> bool:
    return stored is not None and place.job.site.role is not Role.ARBITER


def _file(text: str, place: ComponentAddress, name: str, *, mimetype: str) -> Response:
    """Return a text as a file to keep."""
    content = io.BytesIO(text.encode("utf-8", "replace"))
    return download(content, f"{file_word(place.component)}_{name}", mimetype=mimetype)
