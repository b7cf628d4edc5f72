"""`/v1/model`: deploy, predict DSL and conf, migrate, load and bind.

Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from flask import Blueprint, Response
from msgspec import Meta

from fedflow.app.models.deployment import DeployRequest, predict_dsl_of, steps_of
from fedflow.app.models.migration import MigrateRequest, roles_of
from fedflow.app.models.model_changes import ChangedModel
from fedflow.app.ports.serving import BindOptions
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.models import (
    ModelNotFound,
    NoPredictDsl,
    NotPublished,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.job.document import JsonObject
from fedflow.domain.job.predict_conf import predict_conf_template
from fedflow.domain.models.history import NameKind, VersionName
from fedflow.domain.models.model import ModelFilter, ModelVersion
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.model_requests import changed
from fedflow.web.requests import Alternatives, Body, Text, site_of
from fedflow.web.responses import answer, document, refusal, status_error, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope
from fedflow.wire.api.models import NewVersion
from fedflow.wire.json_text import decode_json
from fedflow.wire.model_fields import new_version

if TYPE_CHECKING:
    from fedflow.app.models.publishing import Published
    from fedflow.app.ports.serving import ServingReply

model_deploy = Blueprint("model_deploy", __name__, url_prefix="/model")
model_deploy.before_request(require_client)


# --- deploy ---------------------------------------------------------------------------------------


class DeployBody(Body, frozen=True):
    """Which model, and what of it predicts: at most one of the list and the DSL."""

    model_id: Text
    model_version: Text
    cpn_list: Alternatives | None = None  #: components that stay; without it and a DSL, all
    predict_dsl: dict[str, Any] | str | None = None  #: the whole predict DSL, also as JSON text
    dsl: dict[str, Any] | str | None = None  #: the same under another name
    components_checkpoint: dict[str, Any] | None = None
    """Component -> `{"step_index": number}` or `{"step_name": text}`: that state of its model."""


@route(model_deploy, "/deploy", body=DeployBody, data=NewVersion)
def deploy(body: DeployBody) -> Response:
    """Create a version of a model that predict jobs can use, at all its sites or at none.

    An unknown model is answered with HTTP 404.
    """
    try:
        done = services().models.deployment.deploy(_deploy_request(body))
    except ModelNotFound as exc:
        return status_error(exc)
    except FedflowError as exc:
        data = new_version({}, body.model_id, body.model_version)
        return answer({**envelope.failure(exc), "retcode": envelope.ARGUMENT_ERROR, "data": data})
    return changed(done.outcome, _new(done))


def _new(done: ChangedModel) -> NewVersion:
    return new_version(done.outcome.replies, done.model_id, done.model_version)


def _deploy_request(body: DeployBody) -> DeployRequest:
    given = [_dsl(value) for value in (body.predict_dsl, body.dsl) if value not in (None, "")]
    if len(given) == 2 and given[0] != given[1]:
        raise BadRequest(reason="give either predict_dsl or dsl, not both")
    return DeployRequest(
        model_id=body.model_id,
        model_version=body.model_version,
        components=None if body.cpn_list is None else list(body.cpn_list),
        predict_dsl=given[0] if given else None,
        checkpoints=steps_of(body.components_checkpoint),
    )


def _dsl(value: dict[str, Any] | str | None) -> dict[str, Any]:
    found = decode_json(value.encode(errors="replace")) if isinstance(value, str) else value
    if not isinstance(found, dict):
        raise BadRequest(reason="the predict DSL must be an object")
    return found


# --- predict DSL and conf -------------------------------------------------------------------------


class DeployedBody(Body, frozen=True):
    """Which deployed version, and a file name to get a file."""

    model_id: Text | None = None
    model_version: Text | None = None
    role: Text | None = None
    party_id: Text | None = None
    filename: Text | None = None


@route(
    model_deploy, "/get/predict/dsl", body=DeployedBody, data=dict[str, Any],
    style=Style.STATUS, produces="application/json",
)  # fmt: skip
def get_predict_dsl(body: DeployedBody) -> Response:
    """Return the predict DSL of a deployed model; HTTP 210 if there is none."""
    return document(_deployed(body)[1], body.filename)


@route(
    model_deploy, "/get/predict/conf", body=DeployedBody, data=dict[str, Any],
    style=Style.STATUS, produces="application/json",
)  # fmt: skip
def get_predict_conf(body: DeployedBody) -> Response:
    """Return a conf to predict with, with places for tables to be filled; HTTP 210 if none."""
    version, predict_dsl = _deployed(body)
    conf = predict_conf_template(
        predict_dsl,
        version.train_conf,
        model_id=version.key.model_id,
        model_version=version.key.model_version,
    )
    return document(conf, body.filename)


def _deployed(body: DeployedBody) -> tuple[ModelVersion, JsonObject]:
    """Return the version that is meant, preferably the initiator's share, and its predict DSL.

    Raises: NoPredictDsl.
    """
    if body.model_id is None and body.model_version is None:
        raise NoPredictDsl(reason="the request names no model_id and no model_version")
    role = body.role and site_of(body.role, "0").role
    which = ModelFilter(
        model_id=body.model_id,
        model_version=_version_of(body),
        role=role or None,
        party_id=body.party_id,
    )
    found = services().models.repository.find(which)
    usable = [(v, dsl) for v in found if (dsl := predict_dsl_of(v)) is not None]
    if not usable:
        named = f"model {body.model_id or '(any)'} version {body.model_version or '(any)'}"
        why = "was trained, but not deployed" if found else "is not at this server"
        raise NoPredictDsl(reason=f"{named[:300]} {why}")
    return next((u for u in usable if u[0].key.site == u[0].initiator), usable[0])


def _version_of(body: DeployedBody) -> str | None:
    """Return the version that a body names; a branch or a tag is one of the model that it names.

    Raises: BadRequest: it names no model. ModelNotFound, BranchNotFound, TagNotFound, TagNotUnique.
    """
    name = body.model_version
    if name is None or VersionName.of(name).kind is NameKind.ID:
        return name
    if body.model_id is None:
        raise BadRequest(reason="a branch or a tag needs a `model_id`")
    return services().models.history.key(body.model_id, name).model_version


# --- migrate --------------------------------------------------------------------------------------


class MigrateModelBody(Body, frozen=True):
    """Old and new parties of a model; lists of one role correspond by position."""

    migrate_initiator: dict[str, Any]  #: `role` and `party_id`, one of `migrate_role`
    role: dict[str, list[Text]]
    migrate_role: dict[str, list[Text]]
    model_id: Text
    model_version: Text
    execute_party: dict[str, list[Text]]  #: sites of `role` that make the new share
    job_parameters: dict[str, Any]
    unify_model_version: Text | None = None  #: name of the new version; a new id without it


@route(model_deploy, "/migrate", body=MigrateModelBody, data=NewVersion)
def migrate(body: MigrateModelBody) -> Response:
    """Create a version of a model with other party ids, ready for `model/export`."""
    try:
        done = services().models.migrations.migrate(_migrate_request(body))
    except ModelNotFound as exc:
        return answer({**envelope.failure(exc), "retcode": envelope.ARGUMENT_ERROR})
    return changed(done.outcome, _new(done), job_id=done.model_version)


def _migrate_request(body: MigrateModelBody) -> MigrateRequest:
    initiator = body.migrate_initiator
    role, party_id = initiator.get("role"), initiator.get("party_id")
    if not isinstance(role, str) or not isinstance(party_id, str | int):
        raise BadRequest(reason="`migrate_initiator` must have role and party_id")
    return MigrateRequest(
        model_id=body.model_id,
        model_version=body.model_version,
        roles=roles_of(body.role, "role"),
        new_roles=roles_of(body.migrate_role, "migrate_role"),
        new_initiator=site_of(role, str(party_id)),
        execute=roles_of(body.execute_party, "execute_party"),
        new_version=body.unify_model_version,
    )


# --- serving --------------------------------------------------------------------------------------


class LoadBody(Body, frozen=True):
    """A deployed version: `job_id`, or `job_parameters` with model_id and model_version."""

    job_id: Text | None = None
    model_id: Text | None = None  #: with `branch:NAME` or `tag:NAME` as `job_id`
    initiator: dict[str, Any] | None = None
    role: dict[str, Any] | None = None
    job_parameters: dict[str, Any] | None = None
    servings: list[Any] | None = None  #: without effect: the conf names them


class BindModelBody(LoadBody, frozen=True):
    """A service id for a deployed version."""

    service_id: Text | None = None
    weight: Annotated[float, Meta(ge=0, le=100)] = 100.0  #: percent of the users
    shadow: bool = False  #: the version scores beside the others and answers nobody
    rules: list[dict[str, Any]] | None = None  #: `header`, `values`; of this version
    options: dict[str, Any] | None = None  #: of the service, see docs/serving.md


class RebindModelBody(Body, frozen=True):
    """A service id."""

    service_id: Text


class UnbindModelBody(Body, frozen=True):
    """A service id, or several."""

    service_id: Alternatives


@route(model_deploy, "/load", body=LoadBody, data=dict[str, Any])
def load(body: LoadBody) -> Response:
    """Load a deployed version into the serving processes of all its parties, or of none."""
    return _published(body, services().models.publishing().load)


@route(model_deploy, "/unload", body=LoadBody, data=dict[str, Any])
def unload(body: LoadBody) -> Response:
    """Let the serving processes of a version's parties forget it, and what is bound to it."""
    return _published(body, services().models.publishing().unload)


@route(model_deploy, "/bind", body=BindModelBody)
def bind(body: BindModelBody) -> Response:
    """Let this party's serving processes answer a service with a loaded version."""
    if not body.service_id:
        return refusal(envelope.ARGUMENT_ERROR, "no service id")
    try:
        model_id, version = _named(body)
        how = BindOptions(
            weight=body.weight, shadow=body.shadow, rules=body.rules, options=body.options
        )
        replies = services().models.publishing().bind(body.service_id, model_id, version, how)
    except ModelNotFound as exc:
        return _unknown(exc)
    return _bound(replies, job_id=version)


@route(model_deploy, "/rebind", body=RebindModelBody)
def rebind(body: RebindModelBody) -> Response:
    """Let what answered for a service before the last change answer again."""
    return _bound(services().models.publishing().roll_back(body.service_id), job_id=None)


@route(model_deploy, "/unbind", body=UnbindModelBody)
def unbind(body: UnbindModelBody) -> Response:
    """Let this party's serving processes forget services."""
    publishing = services().models.publishing()
    replies = [reply for one in body.service_id for reply in publishing.unbind(one)]
    return _bound(replies, job_id=None)


def _bound(replies: Sequence[ServingReply], *, job_id: str | None) -> Response:
    from fedflow.app.models.publishing import summed_up

    said = summed_up(replies)
    if said.retcode:
        exc = NotPublished(reason=said.retmsg.removesuffix("."))
        return answer({**envelope.failure(exc), "job_id": job_id})
    return success(job_id=job_id)


def _published(body: LoadBody, carry_out: Callable[[str | None, str], Published]) -> Response:
    """Return FATE's answer to a load: a code per party, and what each said."""
    try:
        model_id, version = _named(body)
        done = carry_out(model_id, version)
    except ModelNotFound as exc:
        return _unknown(exc)
    codes: dict[str, dict[str, int]] = {}
    detail: dict[str, dict[str, Any]] = {}
    for site, reply in done.replies.items():
        role, party = site.role.value, str(site.party_id)
        codes.setdefault(role, {})[party] = reply.retcode
        said = {"retcode": reply.retcode, "retmsg": reply.retmsg}
        detail.setdefault(role, {})[party] = said
    data = {**codes, "detail": detail}
    if done.done:
        return success(data, job_id=done.version.key.model_version)
    site, reply = next((s, r) for s, r in done.replies.items() if r.retcode)
    failed = NotPublished(reason=reply.said_by(site))
    return answer({**envelope.failure(failed), "data": data, "job_id": version})


def _unknown(exc: ModelNotFound) -> Response:
    return answer({**envelope.failure(exc), "retcode": envelope.ARGUMENT_ERROR})


def _named(body: LoadBody) -> tuple[str | None, str]:
    """Return the model's id, if it is given, and its version. Raises: BadRequest."""
    if body.job_id:
        return body.model_id, body.job_id
    named = body.job_parameters or {}
    model_id, version = named.get("model_id"), named.get("model_version")
    if body.initiator is None or body.role is None or not version:
        raise BadRequest(
            reason="give job_id, or initiator, role and job_parameters with model_id and"
            " model_version"
        )
    return None if model_id is None else str(model_id), str(version)
