"""`/v1/model`: deploy, predict DSL and conf, migrate, load and bind.

Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from flask import Blueprint, Response

from fedflow.app.models.deployment import DeployRequest, predict_dsl_of, steps_of
from fedflow.app.models.migration import MigrateRequest, roles_of
from fedflow.app.models.model_changes import Outcome
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.models import (
    ModelChangeRefused,
    ModelNotDeployed,
    ModelNotFound,
    NoPredictDsl,
)
from fedflow.base.errors.requests import BadRequest, NotSupportedYet
from fedflow.domain.job.document import JsonObject
from fedflow.domain.job.predict_conf import predict_conf_template
from fedflow.domain.models.model import ModelFilter, ModelKey, ModelVersion
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, Text, site_of
from fedflow.web.responses import answer, document, refusal, status_error, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope
from fedflow.wire.api.models import NewVersion
from fedflow.wire.json_text import decode_json
from fedflow.wire.model_fields import new_version

model_deploy = Blueprint("model_deploy", __name__, url_prefix="/model")
model_deploy.before_request(require_client)

SERVING: Final = "Online serving (model/load and model/bind)"


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
    return _changed(done.outcome, done.model_id, done.model_version)


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


def _changed(
    outcome: Outcome, model_id: str, model_version: str, *, job_id: str | None = None
) -> Response:
    """Return what came of a change at several sites; a refusal names the first site's reason."""
    data = new_version(outcome.replies, model_id, model_version)
    if outcome.done:
        return success(data, job_id=job_id)
    site, reply = next((s, r) for s, r in outcome.replies.items() if r.retcode)
    exc = ModelChangeRefused(reason=reply.said_by(site))
    return answer({**envelope.failure(exc), "data": data})


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
        model_version=body.model_version,
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
    return _changed(done.outcome, done.model_id, done.model_version, job_id=done.model_version)


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


# --- serving, which does not exist yet ------------------------------------------------------------


class LoadBody(Body, frozen=True):
    """A deployed version: `job_id`, or `job_parameters` with model_id and model_version."""

    job_id: Text | None = None
    initiator: dict[str, Any] | None = None
    role: dict[str, Any] | None = None
    job_parameters: dict[str, Any] | None = None
    servings: list[Any] | None = None


class BindModelBody(LoadBody, frozen=True):
    """A service id for a deployed version."""

    service_id: Text | None = None


@route(model_deploy, "/load", body=LoadBody, data=NewVersion)
def load(body: LoadBody) -> Response:
    """Publish a deployed version to online serving: not supported yet, after FATE's checks."""
    return _serve(body)


@route(model_deploy, "/bind", body=BindModelBody)
def bind(body: BindModelBody) -> Response:
    """Name a service for a deployed version: not supported yet, after FATE's checks."""
    if not body.service_id:
        return refusal(envelope.ARGUMENT_ERROR, "no service id")
    return _serve(body)


def _serve(body: LoadBody) -> Response:
    try:
        _check_loadable(body)
    except (ModelNotFound, ModelNotDeployed) as exc:
        return answer({**envelope.failure(exc), "retcode": envelope.ARGUMENT_ERROR})
    _not_yet()


def _not_yet() -> NoReturn:
    raise NotSupportedYet(what=SERVING)


def _check_loadable(body: LoadBody) -> None:
    """Raises: BadRequest, ModelNotFound, ModelNotDeployed."""
    named = body.job_parameters or {}
    model_id, version = named.get("model_id"), named.get("model_version")
    if body.job_id:
        model_id, version = None, body.job_id
    elif body.initiator is None or body.role is None or not version:
        raise BadRequest(
            reason="give job_id, or initiator, role and job_parameters with model_id and"
            " model_version"
        )
    which = ModelFilter(
        model_id=None if model_id is None else str(model_id), model_version=str(version)
    )
    found = services().models.repository.find(which)
    if not found:
        raise ModelNotFound(model=f"model version {str(version)[:100]}")
    if not any(v.is_deployed for v in found):
        raise ModelNotDeployed(model=_shown(found[0].key))


def _shown(key: ModelKey) -> str:
    return f"model {key.model_id} version {key.model_version}"
