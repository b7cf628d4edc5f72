"""Applications below prefixes of the path, built when the first request for one arrives.

A server that runs jobs may never show a board or hold a model. Importing the views of all prefixes
and registering their routes takes longer than the rest of its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flask import Flask
from werkzeug.routing import Rule

from fedflow.base.lazy import Lazy
from fedflow.web.context import built_of
from fedflow.web.routes import read_only_paths
from fedflow.wire.paths import PREFIX


class Mounts:
    """WSGI application: hands each request to the application of its prefix, or to the main one."""

    def __init__(
        self, main: Callable[[], Flask], mounted: Mapping[tuple[str, ...], Callable[[], Flask]]
    ) -> None:
        """`mounted`: prefixes -> what builds their application. A prefix is the first part of a
        path; below `/v1` the first two.
        """
        self.main = self._lazy(main)
        self.mounted = {prefixes: self._lazy(build) for prefixes, build in mounted.items()}
        self._by_prefix = {p: app for prefixes, app in self.mounted.items() for p in prefixes}
        self.read_only_paths: set[str] = set()
        """Paths of the routes that only look, of the applications built so far; they have no
        parameters in them."""

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        app = self.find(environ["PATH_INFO"])
        answer: Iterable[bytes] = Flask.wsgi_app(app, environ, start_response)
        return answer

    def find(self, path: str) -> Flask:
        """Return the application that serves a path, or says that it is unknown."""
        return self._by_prefix.get(_prefix(path), self.main)()

    def applications(self) -> list[Flask]:
        """Return all applications; builds what is not built yet."""
        return [app() for app in (self.main, *self.mounted.values())]

    def _lazy(self, build: Callable[[], Flask]) -> Lazy[Flask]:
        def built() -> Flask:
            app = build()
            self.read_only_paths.update(read_only_paths(app))
            return app

        return Lazy(built)


def served(app: Flask) -> Iterator[tuple[Rule, Callable[..., Any]]]:
    """Yield every route of the application and of those mounted in it; builds them all."""
    for one in built_of(app).mounts.applications():
        for rule in one.url_map.iter_rules():
            yield rule, one.view_functions[rule.endpoint]


def _prefix(path: str) -> str:
    """Return the part of a path by which its application is found."""
    version = PREFIX + "/"
    start = len(version) if path.startswith(version) else 1
    end = path.find("/", start)
    return path if end < 0 else path[:end]
