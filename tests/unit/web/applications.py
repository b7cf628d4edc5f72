"""Applications for tests, over given services and the default settings."""

from __future__ import annotations

import copy
import functools
from types import SimpleNamespace
from typing import Any, cast

from flask import Flask

from fedflow.app.services import Services
from fedflow.web import current
from fedflow.web.app import create_app
from fedflow.web.settings import WebSettings


@functools.cache
def _registered() -> Flask:
    """Return an application with all routes: registering them takes 50 ms."""
    return create_app(cast(Services, SimpleNamespace()), WebSettings())


def app_over(services: Any) -> Flask:
    """Return an application of its own for `services`; only the routes are shared."""
    app = copy.copy(_registered())
    app.extensions = {}
    built = current.built_of(_registered())
    current.put(
        app, current.Built(services=services, settings=built.settings, clients=built.clients)
    )
    return app
