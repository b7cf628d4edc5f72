"""Builds the Flask application of one server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flask import Blueprint, Flask

from fedflow.app.services import Services
from fedflow.base.clock import Clock, SystemClock
from fedflow.web import current, errors
from fedflow.web.account import account
from fedflow.web.auth import ClientAuthentication
from fedflow.web.board.blueprints import BLUEPRINTS as BOARD
from fedflow.web.board.page import prepare
from fedflow.web.checkpoint import checkpoint
from fedflow.web.component import component
from fedflow.web.data import data
from fedflow.web.docs import docs
from fedflow.web.fate_board import fateboard
from fedflow.web.forward import forward
from fedflow.web.health import health
from fedflow.web.job import job
from fedflow.web.job_control import job_control
from fedflow.web.job_delete import job_delete
from fedflow.web.job_history import job_history
from fedflow.web.job_lists import job_lists
from fedflow.web.job_logs import job_logs
from fedflow.web.job_tag import job_tag
from fedflow.web.key import key
from fedflow.web.log import log
from fedflow.web.model import model
from fedflow.web.model_deploy import model_deploy
from fedflow.web.model_tag import model_tag
from fedflow.web.operation import operation
from fedflow.web.parties import parties
from fedflow.web.party import initiator, party
from fedflow.web.permission import permission
from fedflow.web.pipeline import pipeline
from fedflow.web.provider import provider
from fedflow.web.queue import queue
from fedflow.web.resource import resource
from fedflow.web.server import server
from fedflow.web.settings import WebSettings
from fedflow.web.table import table
from fedflow.web.table_sources import table_sources
from fedflow.web.template import template
from fedflow.web.tracker import tracker
from fedflow.web.tracker_models import tracker_models
from fedflow.web.tracking import tracking
from fedflow.web.version import version
from fedflow.wire.paths import PREFIX

BLUEPRINTS: Final[tuple[Blueprint, ...]] = (
    account,
    checkpoint,
    component,
    data,
    docs,
    forward,
    initiator,
    job,
    job_control,
    job_delete,
    job_history,
    job_lists,
    job_logs,
    job_tag,
    key,
    log,
    model,
    model_deploy,
    model_tag,
    operation,
    parties,
    party,
    permission,
    pipeline,
    provider,
    queue,
    resource,
    server,
    table,
    table_sources,
    template,
    tracker,
    tracker_models,
    tracking,
    version,
)
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
    board = () if settings.board is None else BOARD
    if board:
        prepare(app)
    for blueprint in (health, fateboard, *board, *more):
        app.register_blueprint(blueprint)
    return app
