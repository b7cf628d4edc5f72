"""Builds the Flask applications of one server.

The main one has what jobs need: health, and what executors and other parties call. What clients and
people ask for is mounted beside it, and imported with the first request for it (`web/mounts.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from flask import Blueprint, Flask

from fedflow.app.services import Services
from fedflow.base.clock import Clock, SystemClock
from fedflow.web import context, errors
from fedflow.web.auth import ClientSignatures
from fedflow.web.context import Built
from fedflow.web.health import health
from fedflow.web.mounts import Mounts
from fedflow.web.parties import parties
from fedflow.web.party import initiator, party
from fedflow.web.settings import WebSettings
from fedflow.web.tracker import tracker
from fedflow.wire.paths import PREFIX

Mounted: TypeAlias = Mapping[tuple[str, ...], Callable[[Built], Flask]]
"""Prefixes of paths -> what builds their application with the first request for one of them."""


def create_app(
    services: Services, settings: WebSettings, *, clock: Clock | None = None,
    mounted: Mounted = MappingProxyType({}),
) -> Flask:  # fmt: skip
    """Return the WSGI application: the main one, which has the others mounted.

    `mounted`: what is mounted besides the API.
    """
    keys = settings.client_keys
    clients = (
        ClientSignatures(keys, clock=clock or SystemClock(), skew_s=settings.clock_skew_s)
        if keys is not None
        else None
    )

    def later(build: Callable[[Built], Flask]) -> Callable[[], Flask]:
        return lambda: build(built)

    mounts = Mounts(
        later(_main), {prefixes: later(one) for prefixes, one in {**_API, **mounted}.items()}
    )
    built = Built(services=services, settings=settings, clients=clients, mounts=mounts)
    app = mounts.main()
    app.wsgi_app = mounts  # type: ignore[method-assign]
    return app


def application(built: Built, *blueprints: Blueprint, below: str = PREFIX) -> Flask:
    """Return an application with its blueprints."""
    app = Flask("fedflow.web", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = built.settings.body_bytes
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    context.put(app, built)
    errors.register(app)
    for blueprint in blueprints:
        app.register_blueprint(blueprint, url_prefix=below + (blueprint.url_prefix or ""))
    return app


def _main(built: Built) -> Flask:
    app = application(built, initiator, parties, party, tracker)
    app.register_blueprint(health)
    return app


# --- what is mounted ------------------------------------------------------------------------------


def _jobs(built: Built) -> Flask:
    from fedflow.web.component import component
    from fedflow.web.job import job
    from fedflow.web.job_control import job_control
    from fedflow.web.job_delete import job_delete
    from fedflow.web.job_history import job_history
    from fedflow.web.job_ledger import job_ledger
    from fedflow.web.job_lists import job_lists
    from fedflow.web.job_logs import job_logs
    from fedflow.web.job_tag import job_tag
    from fedflow.web.job_trace import job_trace
    from fedflow.web.operation import operation
    from fedflow.web.pipeline import pipeline
    from fedflow.web.provider import provider
    from fedflow.web.queue import queue

    return application(
        built,
        component,
        job,
        job_control,
        job_delete,
        job_history,
        job_ledger,
        job_lists,
        job_logs,
        job_tag,
        job_trace,
        operation,
        pipeline,
        provider,
        queue,
    )


def _tables(built: Built) -> Flask:
    from fedflow.web.data import data
    from fedflow.web.table import table
    from fedflow.web.table_sources import table_sources

    return application(built, data, table, table_sources)


def _models(built: Built) -> Flask:
    from fedflow.web.checkpoint import checkpoint
    from fedflow.web.model import model
    from fedflow.web.model_deploy import model_deploy
    from fedflow.web.model_history import model_history
    from fedflow.web.model_tag import model_tag

    return application(built, checkpoint, model, model_deploy, model_history, model_tag)


def _tracking(built: Built) -> Flask:
    from fedflow.web.tracking import tracking

    return application(built, tracking)


def _administration(built: Built) -> Flask:
    from fedflow.web.account import account
    from fedflow.web.forward import forward
    from fedflow.web.key import key
    from fedflow.web.log import log
    from fedflow.web.permission import permission
    from fedflow.web.rendezvous import rendezvous
    from fedflow.web.resource import resource
    from fedflow.web.server import server
    from fedflow.web.template import template
    from fedflow.web.version import version

    return application(
        built,
        account,
        forward,
        key,
        log,
        permission,
        rendezvous,
        resource,
        server,
        template,
        version,
    )


def _root(built: Built) -> Flask:
    from fedflow.web.root import root

    return application(built, root, below="")


def _docs(built: Built) -> Flask:
    from fedflow.web.docs import docs

    return application(built, docs)


def _api(*nouns: str) -> tuple[str, ...]:
    return tuple(f"{PREFIX}/{noun}" for noun in nouns)


_API: Final[Mounted] = {
    _api("job", "operation", "worker", "pipeline", "component", "provider"): _jobs,
    _api("data", "table"): _tables,
    _api("model", "checkpoint"): _models,
    _api("tracking"): _tracking,
    _api(
        "board",
        "forward",
        "info",
        "key",
        "log",
        "permission",
        "rendezvous",
        "resource",
        "server",
        "service",
        "template",
        "version",
    ): _administration,
    _api("docs", "openapi.json"): _docs,
    ("/",): _root,
}
