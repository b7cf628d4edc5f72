"""`/v1/provider`, `/v1/component/get`: where modules come from. Source: reference section 2.6."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fedflow.app.administration.providers import Providers
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.web.auth import require_client
from fedflow.web.context import services
from fedflow.web.requests import Body, NoBody, Text
from fedflow.web.responses import success
from fedflow.web.routes import Style, route
from fedflow.wire.api.administration import ProvidedModule

provider = Blueprint("provider", __name__)
provider.before_request(require_client)


class RegisterProviderBody(Body, frozen=True):
    """A provider in a folder of the server; name and version are those of its manifest, if given.

    FATE's `class_path` describes packages of FATE, which cannot be run.
    """

    path: Text
    name: Text = Text("")
    version: Text = Text("")
    class_path: dict[str, Any] | None = None


class DeleteProviderBody(Body, frozen=True):
    """A version of a provider."""

    name: Text
    version: Text


@route(provider, "/component/get", data=dict[str, ProvidedModule])
def components(_body: NoBody) -> Response:
    """Return the modules by lower-case name, as FATE shows them."""
    return success(_providers().components())


@route(provider, "/component/<name>/get", data=ProvidedModule)
def component(_body: NoBody, name: str) -> Response:
    """Return one module; no data if it does not exist."""
    return success(_providers().component(name))


@route(provider, "/provider/get", data=dict[str, dict[str, Any]])
def providers(_body: NoBody) -> Response:
    """Return the providers: their default version, and what each version has."""
    return success(_providers().providers())


@route(provider, "/provider/<name>/get", data=dict[str, dict[str, Any]])
def one_provider(_body: NoBody, name: str) -> Response:
    """Return one provider by its name; no data if it does not exist."""
    found = _providers().providers().get(name)
    return success({name: found} if found is not None else None)


@route(provider, "/provider/registry/get", data=dict[str, dict[str, Any]])
def registry(_body: NoBody) -> Response:
    """Return components, providers and default settings in one."""
    return success(_providers().registry())


@route(
    provider,
    "/provider/register",
    body=RegisterProviderBody,
    data=dict[str, Any],
    style=Style.STATUS,
)
def register(body: RegisterProviderBody) -> Response:
    """Add the provider in a folder of the server's machine, with the components that it has."""
    if body.class_path:
        raise NotSupportedYet(what="A provider with a `class_path`, a package of FATE itself,")
    added = _providers().register(body.path, name=body.name, version=body.version)
    return success(added)


@route(provider, "/provider/delete", body=DeleteProviderBody, style=Style.STATUS, own=True)
def delete(body: DeleteProviderBody) -> Response:
    """Remove a version of a provider; its folder stays, and running tasks go on."""
    _providers().delete(body.name, body.version)
    return success()


def _providers() -> Providers:
    return services().administration.providers
