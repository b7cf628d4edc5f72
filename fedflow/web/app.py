"""Builds the Flask application of one server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flask import Blueprint, Flask

from fedflow.app.services import Services
from fedflow.base.clock import Clock, SystemClock
from fedflow.web import current, errors
from fedflow.web.auth import ClientAuthentication
from fedflow.web.component import component
from fedflow.web.data import data
from fedflow.web.health import health
from fedflow.web.job import job
from fedflow.web.party import initiator, party
from fedflow.web.settings import WebSettings
from fedflow.web.table import table
from fedflow.web.tracker import tracker
from fedflow.web.tracking import tracking
from fedflow.web.version import version
from fedflow.wire.paths import PREFIX

BLUEPRINTS: Final[tuple[Blueprint, ...]] = (
    job, data, table, tracking, component, version, party, initiator, tracker,
)  # fmt: skip
"""Everything below `/v1`."""


def create_app(
    services: Services, settings: WebSettings, *, clock: Clock | None = None,
    more: Sequence[Blueprint] = (),
) -> Flask:  # fmt: skip
    """Return the WSGI application; `more` are blueprints with full paths, such as the board."""
    app = Flask("fedflow.web", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = settings.body_bytes
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    keys = settings.client_keys
    clients = (
        ClientAuthentication(keys, clock=clock or SystemClock(), skew_s=settings.clock_skew_s)
        if keys is not None
        else None
    )
    current.put(app, current.Built(services=services, settings=settings, clients=clients))
    errors.register(app)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint, url_prefix=PREFIX + (blueprint.url_prefix or ""))
    for blueprint in (health, *more):
        app.register_blueprint(blueprint)
    return app
