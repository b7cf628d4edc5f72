"""`/v1/server` and `/v1/service`: programs of this party and what they offer.

Source: reference section 2.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from flask import Blueprint, Response

from fedflow.app.administration.info import FATE_FLOW_VERSION
from fedflow.app.administration.registry import Registry
from fedflow.app.administration.servers import ListedServer
from fedflow.base.decoding import read_as
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.administration.records import RegisteredServer, RegisteredService
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, OpenBody, Text, Whole
from fedflow.web.responses import success
from fedflow.web.routes import route
from fedflow.wire.api.administration import (
    Instance,
    PartyServer,
    Reloaded,
    ServerAddress,
    ServiceInfo,
    ServiceInfos,
)

server = Blueprint("server", __name__)
server.before_request(require_client)


class RegisterBody(Body, frozen=True):
    """Where a server listens."""

    host: Text
    port: Whole
    protocol: Text = Text("http")


class ServiceBody(Body, frozen=True):
    """Which service."""

    service_name: Text
    server_name: Text | None = None


class RegistryBody(OpenBody, frozen=True):
    """A service of a registered server; or `{server: {host, port, api: {service: {uri, ...}}}}`."""

    server_name: Text | None = None
    service_name: Text | None = None
    uri: Text | None = None
    method: Text | None = None
    params: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    headers: dict[str, Any] | None = None
    protocol: Text | None = None


class _Api(msgspec.Struct, frozen=True, kw_only=True):
    """One service in the second form of `service/registry`."""

    uri: str
    method: str = "POST"
    params: dict[str, Any] = {}
    data: dict[str, Any] = {}
    headers: dict[str, Any] = {}


class _Server(msgspec.Struct, frozen=True, kw_only=True):
    """One server in the second form of `service/registry`."""

    host: str
    port: int
    protocol: str | None = None
    api: dict[str, _Api] = {}


# --- servers --------------------------------------------------------------------------------------


@route(server, "/server/get", data=dict[str, ServerAddress])
@route(server, "/server/service/get", data=dict[str, ServerAddress])
def servers(_body: NoBody) -> Response:
    """Return the servers of the conf and those that were registered, by upper-case name."""
    return success({name: _row(one) for name, one in _registry().servers().items()})


@route(server, "/server/<name>/get", data=ServerAddress)
@route(server, "/server/service/<name>/get", data=ServerAddress)
def one_server(_body: NoBody, name: str) -> Response:
    """Return where one server listens; no data if it is not known."""
    found = _registry().server(name)
    return success(_row(found) if found is not None else None)


@route(server, "/server/<name>/register", body=RegisterBody)
@route(server, "/server/service/<name>/register", body=RegisterBody)
def register(body: RegisterBody, name: str) -> Response:
    """Store where a server listens, for others to look up; this server itself never calls it."""
    _registry().register(name, body.host, body.port, body.protocol)
    return success()


@route(server, "/server/list", data=list[PartyServer])
def party_servers(_body: NoBody) -> Response:
    """Return the servers of this party that share its database, this one first."""
    return success([_party_server(one) for one in services().servers.listed()])


@route(server, "/server/drain", data=list[PartyServer])
def drain(_body: NoBody) -> Response:
    """Start no more tasks at this server, and let another server of the party lead."""
    services().servers.drain()
    return success([_party_server(one) for one in services().servers.listed()])


@route(server, "/server/fateflow/info", data=dict[str, Instance])
def instances(_body: NoBody) -> Response:
    """Return the servers of this party that are up."""
    info = services().info
    this = Instance(
        instance_id=info.instance_id(),
        timestamp=info.now_ms(),
        version=FATE_FLOW_VERSION,
        host=info.place.host,
        grpc_port=info.place.grpc_port,
        http_port=info.place.http_port,
    )
    others = [
        _instance(one)
        for one in services().servers.listed()
        if not one.is_this and one.state in ("up", "draining")
    ]
    return success({one.instance_id: one for one in (this, *others)})


@route(server, "/server/reload", data=Reloaded)
def reload(_body: NoBody) -> Response:
    """Read the conf again: routes to parties, permissions and servers change at once."""
    defaults = services().administration.reload()
    return success(Reloaded(job_default_config=defaults))


@route(server, "/server/config/job/default", data=dict[str, Any])
def job_defaults(_body: NoBody) -> Response:
    """Return the defaults of job parameters."""
    return success(services().administration.job_defaults())


# --- services -------------------------------------------------------------------------------------


@route(server, "/service/registry", body=RegistryBody, data=dict[str, Any])
def register_service(body: RegistryBody) -> Response:
    """Store a service of a registered server, or servers with their services."""
    if body.server_name is not None:
        if body.service_name is None or body.uri is None:
            raise BadRequest(reason="a service needs server_name, service_name and uri")
        service = RegisteredService(
            server=body.server_name.upper(),
            name=body.service_name,
            url="",
            method=body.method or "POST",
            params=body.params or {},
            data=body.data or {},
            headers=body.headers or {},
        )
        _registry().register_service(service, body.uri, body.protocol)
        return success({})
    for name, one in _servers(body.given).items():
        services_of = {
            service: (
                RegisteredService(
                    server=name.upper(),
                    name=service,
                    url="",
                    method=api.method,
                    params=api.params,
                    data=api.data,
                    headers=api.headers,
                ),
                api.uri,
            )
            for service, api in one.api.items()
        }
        _registry().register_server(name, one.host, one.port, one.protocol, services_of)
    return success({})


@route(server, "/service/query", body=ServiceBody, data=ServiceInfos)
def query_service(body: ServiceBody) -> Response:
    """Return the services of a name."""
    wanted = body.server_name.upper() if body.server_name is not None else None
    found = _registry().services(body.service_name, wanted)
    return success(ServiceInfos(service_info=tuple(map(_service, found))))


def _registry() -> Registry:
    return services().administration.registry


def _servers(given: Mapping[str, Any]) -> dict[str, _Server]:
    """Return the servers of the second form. Raises: BadRequest."""
    try:
        return read_as(
            {name: value for name, value in given.items() if isinstance(value, dict)},
            dict[str, _Server],
        )
    except msgspec.ValidationError as exc:
        raise BadRequest(reason=str(exc)) from exc


def _instance(one: ListedServer) -> Instance:
    """Return another server as FATE shows one."""
    (host, http_port), grpc_port = _split(one.http), _split(one.grpc)[1]
    return Instance(
        instance_id=f"flow-{host}-{http_port}",
        timestamp=services().info.now_ms() - one.beat_age_ms,
        version=FATE_FLOW_VERSION,
        host=host,
        grpc_port=grpc_port,
        http_port=http_port,
    )


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _party_server(one: ListedServer) -> PartyServer:
    return PartyServer(
        instance_id=one.instance_id,
        http=one.http,
        grpc=one.grpc,
        host=one.host,
        version=one.version,
        state=one.state,
        leads=one.leads,
        is_this=one.is_this,
        start_time=one.started_ms,
        beat_age=one.beat_age_ms,
        executors=one.executors,
    )


def _row(one: RegisteredServer) -> ServerAddress:
    return ServerAddress(host=one.host, port=one.port, protocol=one.protocol)


def _service(one: RegisteredService) -> ServiceInfo:
    return ServiceInfo(
        server_name=one.server,
        service_name=one.name,
        url=one.url,
        method=one.method,
        params=one.params,
        data=one.data,
        headers=one.headers,
    )
