"""`/v1/model`: what models there are, and models to and from other servers.

Deploy, migrate and their like are in `web/model_deploy.py`, tags in `web/model_tag.py`.
Source: `docs/reference/rest.md#models`.
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from flask import Blueprint, Response, request, send_file

from fedflow.base.errors.models import ModelNotFound
from fedflow.base.errors.requests import BadRequest, MissingArgument, NotSupportedYet
from fedflow.domain.models.model import ModelFilter, ModelKey
from fedflow.domain.site import Role
from fedflow.web import queries
from fedflow.web.auth import require_client
from fedflow.web.context import built, services
from fedflow.web.model_requests import PartyModelBody, SiteModelBody, named_share
from fedflow.web.requests import Body, Flag, OpenBody, Text, read_body
from fedflow.web.responses import answer, submitted, success
from fedflow.web.routes import Style, route
from fedflow.web.spool import UploadSpool
from fedflow.wire import envelope
from fedflow.wire.api import prefixed
from fedflow.wire.api.jobs import Submitted
from fedflow.wire.api.models import Archive, Imported, ModelDetail, ModelVersion
from fedflow.wire.model_fields import dag_components, model_row, seen_conf

model = Blueprint("model", __name__, url_prefix="/model")
model.before_request(require_client)

MAX_MODELS: Final = 1000  #: rows that one query answers


# --- look -----------------------------------------------------------------------------------------


class QueryBody(OpenBody, frozen=True):
    """Filters: any column of the record without `f_`. Without a known one nothing is found."""

    model_id: Text | None = None
    model_version: Text | None = None
    role: Any = None
    party_id: Any = None
    query_filters: list[str] | None = None  #: columns to answer, without `f_`
    file_only: Flag = Flag(0)  #: only versions whose contents are all there


@route(model, "/query", body=QueryBody, data=list[ModelVersion])
def query(body: QueryBody) -> Response:
    """Return the sites' models that match, newest first; retcode 100 and an empty list if none."""
    filters = {n: v for n, v in body.given.items() if n not in ("query_filters", "file_only")}
    found = services().models.repository.find(_filter(body))
    if body.file_only:
        found = [v for v in found if services().models.repository.is_whole(v.key)]
    rows = [row for row in map(model_row, found) if queries.matches(row, filters)]
    if not rows:
        sentence = "no model fits; `model/query` knows the columns of the MODEL record"
        return answer(envelope.envelope(envelope.EXCEPTION, sentence, data=[]))
    chosen = [n for n in ModelVersion.__struct_fields__ if n in (body.query_filters or ())]
    if chosen:
        return success([{prefixed(n): getattr(row, n) for n in chosen} for row in rows])
    return success(rows)


def _filter(body: QueryBody) -> ModelFilter:
    """Return the part of a query that the store answers."""
    role = body.role if isinstance(body.role, str) and body.role in set(Role) else None
    single = isinstance(body.party_id, str | int) and not isinstance(body.party_id, bool)
    return ModelFilter(
        model_id=body.model_id,
        model_version=body.model_version,
        role=None if role is None else Role(role),
        party_id=str(body.party_id) if single else None,
        limit=MAX_MODELS,
    )


class VersionBody(Body, frozen=True):
    """Which version."""

    model_id: Text
    model_version: Text


@route(model, "/query/detail", body=VersionBody, data=ModelDetail)
def query_detail(body: VersionBody) -> Response:
    """Return a version's confs and DSLs, and the components of these with their depth."""
    which = ModelFilter(model_id=body.model_id, model_version=body.model_version)
    found = services().models.repository.find(which)
    if not found:
        raise ModelNotFound(model=f"model {body.model_id} version {body.model_version}")
    version = next((v for v in found if v.key.site.role is Role.GUEST), found[0])
    return success(
        ModelDetail(
            runtime_conf=seen_conf(version, version.train_conf),
            dsl=version.train_dsl,
            inference_dsl=version.inference_dsl,
            component_info=dag_components(version.train_dsl),
            inference_component_info=dag_components(version.inference_dsl),
        )
    )


# --- archives -------------------------------------------------------------------------------------


@route(
    model, "/export", body=SiteModelBody, methods=("GET", "POST"), style=Style.STATUS,
    produces="application/zip",
)  # fmt: skip
def export(body: SiteModelBody) -> Response:
    """Return a site's model as a zip for `model/import`; HTTP 404 if there is none."""
    key = body.key
    content = services().models.exchange.export(key)
    response = send_file(content, mimetype="application/zip")
    # the clients read what follows `filename=` up to the end, so it must not be quoted
    name = f"{key.party_model_id}_{key.model_version}.zip"
    response.headers["Content-Disposition"] = f"attachment; filename={name}"
    return response


class ImportBody(SiteModelBody, frozen=True):
    """Which share the archive must hold; these are text fields beside the part `file`."""

    force_update: Flag = Flag(0)  #: replace the share if it is here
    hash: Text | None = None  #: sha256 of the archive


@route(model, "/import", body=ImportBody, data=Imported, style=Style.STATUS, form=True)
def import_() -> Response:
    """Store the model of an archive; HTTP 409 if it exists and `force_update` is not set.

    The archive must be of the named model, version and site, and undamaged; else nothing is stored.
    """
    if request.mimetype != "multipart/form-data":
        raise BadRequest(reason="send a multipart form with the archive in the part `file`")
    spool = UploadSpool(services().data.uploads.spool_dir, max_bytes=built().settings.upload_bytes)
    try:
        form = spool.receive()
        body = read_body(ImportBody, {**request.args.to_dict(), **form})
        if spool.path is None:
            raise MissingArgument(names="file")
        with spool.path.open("rb") as archive:
            version = services().models.exchange.import_archive(
                body.key, archive, sha256=body.hash or None, force=bool(body.force_update),
                from_ip=request.remote_addr,
            )  # fmt: skip
    finally:
        spool.discard()
    return success(
        Imported(
            job_id=version.job_id,
            role=version.key.site.role.value,
            party_id=version.key.site.party_id,
            model_id=version.key.model_id,
            model_version=version.key.model_version,
        ),
        job_id=version.job_id,
    )


@route(model, "/archive/packaging", body=PartyModelBody, data=Archive, style=Style.STATUS)
def archive_packaging(body: PartyModelBody) -> Response:
    """Write a model's archive to a folder of this server, for other programs of its machine."""
    path, sha256 = services().models.exchange.package(body.key)
    return success(
        Archive(
            party_model_id=body.party_model_id,
            model_version=body.model_version,
            path=str(path),
            hash=sha256,
        )
    )


# --- the external store ---------------------------------------------------------------------------


class StoreBody(SiteModelBody, frozen=True):
    """Which share."""

    force_update: Flag = Flag(0)  #: replace another copy in the external store


@route(model, "/store", body=StoreBody, data=Submitted)
def store(body: StoreBody) -> Response:
    """Start the local job that copies a site's model to the external model store."""
    storing = services().models.storing
    return submitted(storing.submit_store(body.key, force=bool(body.force_update)))


class RestoreBody(SiteModelBody, frozen=True):
    """Which share."""

    sha256: Text | None = None  #: refuse a copy with another digest


@route(model, "/restore", body=RestoreBody, data=Submitted)
def restore(body: RestoreBody) -> Response:
    """Start the local job that restores a site's model from the external model store."""
    return submitted(services().models.storing.submit_restore(body.key, sha256=body.sha256))


# --- for serving systems --------------------------------------------------------------------------


class TransferBody(Body, frozen=True):
    """One site's share of one version, as serving systems name it."""

    namespace: Text  #: `<role>#<party id>#<model id>`
    name: Text  #: the model version


@route(model, "/transfer", body=TransferBody, data=dict[str, str], style=Style.STATUS)
def transfer(body: TransferBody) -> Response:
    """Return the contents of a site's model, base64 by `<component>.<alias>:<model name>`."""
    return success(services().models.exchange.contents(named_share(body.namespace, body.name)))


@route(model, "/transfer/<party_model_id>/<model_version>", data=dict[str, str], style=Style.STATUS)
def transfer_of(_body: Body, party_model_id: str, model_version: str) -> Response:
    """Return the same; in the path `~` stands for `#`."""
    key = named_share(party_model_id.replace("~", "#"), model_version)
    return success(services().models.exchange.contents(key))


@route(model, "/service/register", body=PartyModelBody, data=dict[str, str])
def service_register(body: PartyModelBody) -> Response:
    """Answer that models cannot be registered: this version has no service registry for them."""
    services().models.repository.version(body.key)
    raise NotSupportedYet(what="Registering models in a service registry")


# --- homogeneous models ---------------------------------------------------------------------------


class HomoConvertBody(SiteModelBody, frozen=True):
    """Which share, and the format to convert it to."""

    framework_name: Text | None = None


@route(model, "/homo/convert", body=HomoConvertBody)
def homo_convert(body: HomoConvertBody) -> Response:
    """Answer that models of homogeneous components cannot be converted: there are none yet."""
    _refuse_homo(body.key)


class HomoDeployBody(SiteModelBody, frozen=True):
    """Which share, and where it shall serve."""

    service_id: Text
    component_name: Text
    deployment_type: Text
    deployment_parameters: dict[str, Any]
    framework_name: Text | None = None


@route(model, "/homo/deploy", body=HomoDeployBody)
def homo_deploy(body: HomoDeployBody) -> Response:
    """Answer that models of homogeneous components cannot be deployed: there are none yet."""
    if body.deployment_type != "kfserving":
        raise BadRequest(reason="`deployment_type` must be kfserving")
    _refuse_homo(body.key)


def _refuse_homo(key: ModelKey) -> NoReturn:
    services().models.repository.version(key)
    raise NotSupportedYet(what="Converting and deploying models of homogeneous components")
