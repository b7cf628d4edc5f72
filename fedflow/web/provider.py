"""`/v1/provider`, `/v1/component/get`: where modules come from. Source: reference section 2.6."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.app.administration.providers import Providers
from fedflow.web.answers import success
from fedflow.web.auth import require_client
from fedflow.web.bodies import Body, NoBody, Text
from fedflow.web.current import services
from fedflow.web.records import ModuleRow
from fedflow.web.routes import Style, route

provider = Blueprint("provider", __name__)
provider.before_request(require_client)


class RegisterBody(Body, frozen=True):
    """A provider in a folder of the server."""

    name: Text
    version: Text
    path: Text


@route(provider, "/component/get", data=dict[str, ModuleRow])
def components(_body: NoBody) -> Response:
    """Return the modules by lower-case name, as FATE shows them."""
    return success(_providers().components())


@route(provider, "/component/<name>/get", data=ModuleRow)
def component(_body: NoBody, name: str) -> Response:
    """Return one module; no data if there is no such."""
    return success(_providers().component(name))


@route(provider, "/provider/get", data=dict[str, dict[str, Any]])
def providers(_body: NoBody) -> Response:
    """Return the providers: their default version, and what each version has."""
    return success(_providers().providers())


@route(provider, "/provider/<name>/get", data=dict[str, dict[str, Any]])
def one_provider(_body: NoBody, name: str) -> Response:
    """Return one provider by its name; no data if there is no such."""
    found = _providers().providers().get(name)
    return success({name: found} if found is not None else None)


@route(provider, "/provider/registry/get", data=dict[str, dict[str, Any]])
def registry(_body: NoBody) -> Response:
    """Return components, providers and default settings in one."""
    return success(_providers().registry())


@route(provider, "/provider/register", body=RegisterBody, style=Style.STATUS)
def register(body: RegisterBody) -> Response:
    """Refuse a provider with its own Python environment, which this version does not start."""
    _providers().register(body.name, body.version, body.path)
    return success()


def _providers() -> Providers:
    return services().administration.providers
