"""Routes about a DSL and a conf, not about what runs: dependencies, predict DSL, validation.

Source: `docs/reference/rest.md#jobs`, `docs/reference/rest.md#components-and-checkpoints`.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.base.errors.documents import InvalidJobSpec, PredictDslNotMade, Problem
from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.job.document import shown
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Alternatives, Body, Text, site_of
from fedflow.web.responses import document, refusal, success
from fedflow.web.routes import Style, route
from fedflow.wire import envelope
from fedflow.wire.api.jobs import Dependencies
from fedflow.wire.json_text import decode_json

pipeline = Blueprint("pipeline", __name__)
pipeline.before_request(require_client)


class DependencyBody(Body, frozen=True):
    """A job, or the documents of one that was not submitted."""

    role: Text
    party_id: Text
    job_id: Text | None = None
    job_dsl: dict[str, Any] | None = None
    job_runtime_conf: dict[str, Any] | None = None
    job_train_runtime_conf: dict[str, Any] | None = None  #: only for a predict job


@route(pipeline, "/pipeline/dag/dependency", body=DependencyBody, data=Dependencies)
def dag_dependency(body: DependencyBody) -> Response:
    """Return which component takes what from which, and which run at a site: what a board draws."""
    site = site_of(body.role, body.party_id)
    try:
        if body.job_id is not None:
            return success(services().documents.job_dependencies(body.job_id, site))
        if body.job_dsl is None or body.job_runtime_conf is None:
            raise MissingArgument(names="job_id")
        return success(
            services().documents.dependencies(
                body.job_dsl,
                body.job_runtime_conf,
                site,
                train_conf=body.job_train_runtime_conf,
            )
        )
    except JobNotFound as exc:
        return refusal(envelope.ARGUMENT_ERROR, exc.message, error=exc)
    except InvalidJobSpec as exc:
        return refusal(envelope.EXCEPTION, exc.message, error=exc)


class GenerateBody(Body, frozen=True):
    """A training DSL, and which of its components stay."""

    train_dsl: dict[str, Any] | str  #: also as JSON text
    cpn_str: Alternatives  #: names as list, or as one text: `a,b` or `[a, b]`
    version: Text = Text("2")  #: of the DSL
    filename: Text | None = None  #: answer with a file of this name


@route(
    pipeline, "/job/dsl/generate", body=GenerateBody, data=dict[str, Any],
    style=Style.STATUS, produces="application/json",
)  # fmt: skip
def dsl_generate(body: GenerateBody) -> Response:
    """Return the predict DSL of a training DSL; HTTP 210 if there is none.

    In version 1, no names mean the components that say so themselves.
    """
    if body.version not in ("1", "2"):
        raise _not_made("$.version", f"must be 1 or 2, not {shown(body.version)}")
    version = int(body.version)
    names = _names(body.cpn_str)
    components = None if version == 1 and not names else names
    train_dsl = _train_dsl(body.train_dsl)
    made = services().documents.predict_dsl(train_dsl, components, version=version)
    return document(made, body.filename)


def _names(given: Alternatives) -> list[str]:
    """Return the names of a list, or of one text that is written like one."""
    if len(given) != 1:
        return list(given)
    text = "".join(given[0].split()).strip("[],")
    return [name.strip("\"'") for name in text.split(",")] if text else []


def _train_dsl(given: dict[str, Any] | str) -> Any:
    if not isinstance(given, str):
        return given
    try:
        return decode_json(given.encode(errors="replace"))
    except BadRequest as exc:
        raise _not_made("$.train_dsl", exc.message) from exc


def _not_made(path: str, message: str) -> PredictDslNotMade:
    return PredictDslNotMade([Problem(path, message, "ArgumentError")])


class ValidateBody(Body, frozen=True):
    """Parameters of one component, as a conf has them."""

    component_name: Text
    component_module_name: Text
    role: dict[str, Any]  #: role -> party ids
    dsl_version: Text  #: 1 or 2
    component_parameters: dict[str, Any] | None = None  #: version 2
    role_parameters: dict[str, Any] | None = None  #: version 1
    algorithm_parameters: dict[str, Any] | None = None  #: version 1


@route(pipeline, "/component/validate", body=ValidateBody, style=Style.STATUS)
def component_validate(body: ValidateBody) -> Response:
    """Check the parameters of one component at all sites that would run it."""
    sections = {
        "component_parameters": body.component_parameters,
        "role_parameters": body.role_parameters,
        "algorithm_parameters": body.algorithm_parameters,
    }
    needed = ["component_parameters"]
    if body.dsl_version == "1":
        needed = ["role_parameters", "algorithm_parameters"]
    missing = [name for name in needed if sections[name] is None]
    if missing:
        raise MissingArgument(names=",".join(missing))
    conf = {"dsl_version": str(body.dsl_version), "role": body.role}
    services().documents.check_component(
        body.component_name,
        body.component_module_name,
        {**conf, **{name: sections[name] for name in needed}},
    )
    return success()
