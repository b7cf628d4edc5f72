"""Applications for tests, over given services and the default settings."""

from __future__ import annotations

import copy
import functools
from types import SimpleNamespace
from typing import Any, cast

from flask import Flask

from fedflow.app.services import Services
from fedflow.base.clock import Clock
from fedflow.server.adapters import mounted_by
from fedflow.web import context
from fedflow.web.app import create_app
from fedflow.web.mounts import Mounts
from fedflow.web.settings import WebSettings


@functools.cache
def _registered() -> context.Built:
    """Return what has applications with all routes: registering them takes long."""
    return context.built_of(whole_app(cast(Services, SimpleNamespace()), WebSettings()))


def whole_app(services: Services, settings: WebSettings, *, clock: Clock | None = None) -> Flask:
    """Return the application as a server builds it: the API and the boards."""
    return create_app(services, settings, clock=clock, mounted=mounted_by(settings))


def app_over(services: Any) -> Flask:
    """Return an application of its own for `services`; only the routes are shared."""
    known = _registered()

    def copied(shared: Flask) -> Flask:
        app = copy.copy(shared)
        app.extensions = dict(shared.extensions)
        context.put(app, built)
        return app

    mounts = Mounts(
        lambda: copied(known.mounts.main()),
        {
            prefixes: lambda made=made: copied(made())  # type: ignore[misc]
            for prefixes, made in known.mounts.mounted.items()
        },
    )
    built = context.Built(
        services=services, settings=known.settings, clients=known.clients, mounts=mounts
    )
    app = mounts.main()
    app.wsgi_app = mounts  # type: ignore[method-assign]
    return app
