"""`/v1/component`: the component modules of this server, and changes of their models.

Source: `docs/reference/rest.md#components-and-checkpoints`.
"""

from __future__ import annotations

from typing import Any, TypedDict

from flask import Blueprint, Response

from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.model_requests import SiteModelBody
from fedflow.web.requests import NoBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import Style, route
from fedflow.wire.api.administration import DescribedModule

component = Blueprint("component", __name__, url_prefix="/component")
component.before_request(require_client)


@route(component, "/describe", data=list[DescribedModule], methods=("GET", "POST"), own=True)
def describe(_body: NoBody) -> Response:
    """Return each module with its roles, ports, outputs and parameters."""
    return success(services().modules.describe())


# --- weights of evidence of a host's bins ---------------------------------------------------------


class WoeArray(TypedDict):
    """The woe of each bin of a column."""

    woeArray: list[float]


class ExtractWoeBody(SiteModelBody, frozen=True):
    """A guest's model, and the component that binned."""

    component_name: Text
    host_party_id: Text | None = None  #: whose columns; own addition, without it the first host's


@route(
    component, "/woe_array/extract", body=ExtractWoeBody, data=dict[str, WoeArray],
    style=Style.STATUS,
)  # fmt: skip
def extract_woe_array(body: ExtractWoeBody) -> Response:
    """Return the WOE of a host's bins by anonymous column, which the guest may give to that host.

    HTTP 400 if the site is not a guest, or the component no binning with hosts and two classes.
    """
    found = services().models.woe_arrays.extract(
        body.key, body.component_name, host=body.host_party_id
    )
    return success(found)


class MergeWoeBody(SiteModelBody, frozen=True):
    """A host's model, the component that binned, and what was extracted at the guest."""

    component_name: Text
    woe_array: dict[str, Any]


class Merged(TypedDict):
    """The component whose model was changed."""

    role: str
    party_id: str
    model_id: str
    model_version: str
    component_name: str


@route(component, "/woe_array/merge", body=MergeWoeBody, data=Merged, style=Style.STATUS)
def merge_woe_array(body: MergeWoeBody) -> Response:
    """Merge WOE that a guest extracted into the host's stored model, for `transform_type` woe.

    Jobs that take the model from then on can transform the host's columns by woe. HTTP 400, and
    nothing changes, if the site is not a host or an array does not fit a column of the model.
    """
    services().models.woe_arrays.merge(body.key, body.component_name, body.woe_array)
    return success(
        {
            "role": body.role,
            "party_id": body.party_id,
            "model_id": body.model_id,
            "model_version": body.model_version,
            "component_name": body.component_name,
        }
    )
