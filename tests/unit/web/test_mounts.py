"""What is served is registered with the first request for it, once, and every route is found."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest
from flask import Flask

from fedflow.app.services import Services
from fedflow.base.lazy import Lazy
from fedflow.web.context import built_of
from fedflow.web.mounts import Mounts, served
from fedflow.web.settings import BoardSettings, WebSettings
from tests.unit.web.applications import whole_app

NOTHING = cast(Services, SimpleNamespace())


@pytest.fixture(scope="module")
def whole() -> Flask:
    """An application with a board."""
    return whole_app(NOTHING, WebSettings(board=BoardSettings(asks=False)))


def test_every_route_is_found_by_its_path(whole: Flask) -> None:
    mounts = built_of(whole).mounts
    for app in mounts.applications():
        for rule in app.url_map.iter_rules():
            assert mounts.find(rule.rule) is app, rule.rule
    assert len({(r.rule, *sorted(r.methods or ())) for r, _ in served(whole)}) > 300


def test_no_prefix_is_mounted_in_vain(whole: Flask) -> None:
    mounts = built_of(whole).mounts
    paths = {rule.rule for rule, _ in served(whole)}
    for prefix in (p for prefixes in mounts.mounted for p in prefixes):
        assert any(path == prefix or path.startswith(prefix + "/") for path in paths), prefix


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/job/none", 200), ("/v1/none/x", 200), ("/v1/job", 200), ("/none", 404), ("/v1", 404),
     ("/v1//job/stop", 200), ("/boardx", 404), ("/v1/component/hetero/merge", 200)],
)  # fmt: skip
def test_an_unknown_path_is_answered_alike_in_every_application(
    whole: Flask, path: str, status: int
) -> None:
    answer = whole.test_client().post(path)
    assert (answer.status_code, answer.json["retcode"]) == (status, 100)


def test_without_a_board_its_paths_are_unknown() -> None:
    app = whole_app(NOTHING, WebSettings(board=None))
    assert app.test_client().get("/board/jobs").json["retcode"] == 100
    assert not any(rule.rule.startswith("/board") for rule, _ in served(app))


def test_routes_that_only_look_are_known_once_their_application_is_built() -> None:
    mounts = built_of(whole_app(NOTHING, WebSettings())).mounts
    before = set(mounts.read_only_paths)
    mounts.applications()
    assert "/v1/job/query" not in before
    assert {"/v1/job/query", "/fateboard/job/query/status"} <= mounts.read_only_paths


def test_requests_that_come_at_once_share_one_application() -> None:
    built: list[Flask] = []
    gate = threading.Barrier(8)

    def build() -> Flask:
        app = Flask("mounted")
        app.add_url_rule("/slow/x", view_func=lambda: "found", endpoint="x")
        built.append(app)
        return app

    main = Flask("main")
    mounts = Mounts(lambda: main, {("/slow",): build})
    main.wsgi_app = mounts  # type: ignore[method-assign]

    def ask(_: int) -> str:
        gate.wait()
        return main.test_client().get("/slow/x").text

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(ask, range(8))) == {"found"}
    assert len(built) == 1


# --- the value behind it --------------------------------------------------------------------------


def test_a_lazy_value_is_made_once_and_only_when_asked_for() -> None:
    made: list[int] = []
    value: Lazy[int | None] = Lazy(lambda: made.append(1))
    assert made == []
    assert (value(), value()) == (None, None)
    assert made == [1]


def test_a_lazy_value_that_could_not_be_made_is_made_at_the_next_call() -> None:
    divisors = [2, 0]
    value = Lazy(lambda: 14 // divisors.pop())
    with pytest.raises(ZeroDivisionError):
        value()
    assert value() == 7
