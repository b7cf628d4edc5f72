"""Every route of the board, as its server knows them: who may use it, and what it answers with.

The routes are read from the application, so that a new one is looked at without another line here.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final
from urllib.parse import quote

import pytest
import requests

from fedflow.domain.administration.accounts import AccountRole
from fedflow.web.mounts import served
from tests.board.places import Place, serving
from tests.board.seeds import CHAIN, HOSTILE, job, job_id, put, task

pytestmark = pytest.mark.timeout(600)
CALL_S: Final = 60.0
PASSWORD: Final = "correct horse battery"
OPEN: Final = {"/board/sign-in", "/board/static/<digest>/<path:path>"}
"""What is shown to those who have not signed in."""
UNBOUND: Final = {"/board/choose/<what>/<value>"}
"""POSTs without a token: they change only how this visitor sees pages."""
OWN: Final = {
    "/board/account/password",
    "/board/account/sign-out",
    "/board/account/sign-out-everywhere",
}
"""What a viewer may do."""
FOR_ADMINS: Final = {
    "/board/jobs/<job_id>/delete",
    "/board/parties/drain",
    "/board/settings/accounts/add",
    "/board/settings/accounts/password",
    "/board/settings/accounts/remove",
    "/board/settings/accounts/role",
    "/board/settings/accounts/sign-out",
    "/board/settings/reload",
    "/board/tables/delete",
}
VALUES: Final = {
    "job_id": job_id(1), "role": "guest", "party_id": "9999", "component": "reader_0",
    "model": "guest-9999~host-10000~model", "version": job_id(1), "what": "theme", "value": "dark",
    "digest": "0", "path": "css/none.css", "name": "dsl",
}  # fmt: skip
ODD: Final = (
    *HOSTILE, "..", "../../etc/passwd", "~", "%00", "%2f..%2f", "\ud7ff", "a" * 4000,
)  # fmt: skip
QUERY: Final = (
    "page", "size", "sort", "order", "role", "status", "text", "tag", "part", "job", "key", "line",
    "begin", "count", "cursor", "q", "level", "component", "attempt", "file", "site", "with",
    "from", "example", "next", "namespace", "name", "output", "search", "columns", "by", "after",
    "table", "map", "kind", "party", "period",
)  # fmt: skip
HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, kw_only=True)
class Route:
    """A route of the board: its rule, and an address of it that means something."""

    method: str
    rule: str

    def url(self, **values: str) -> str:
        return re.sub(r"<(?:path:)?(\w+)>", lambda m: {**VALUES, **values}[m[1]], self.rule)

    def __str__(self) -> str:
        return f"{self.method} {self.rule}"


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server with a job, at which people sign in: ann admin, olga operator, vera viewer."""
    with serving(tmp_path_factory.mktemp("routes"), {"board": {"sign_in": True}}) as place:
        accounts = place.services.administration.accounts
        for name, role in (("ann", "admin"), ("olga", "operator"), ("vera", "viewer")):
            accounts.add(name, AccountRole(role), PASSWORD, by="test")
        of = job(1)
        put(place.store, of, *(task(of, name, module) for name, (module, _) in CHAIN.items()))
        yield place


@pytest.fixture(scope="module")
def routes(asking: Place) -> list[Route]:
    """Return all routes of the board."""
    app = asking.server._http._app
    found = [
        Route(method=method, rule=rule.rule)
        for rule, _ in served(app)  # type: ignore[arg-type]
        if rule.rule.startswith("/board")
        for method in sorted(rule.methods - {"HEAD", "OPTIONS"})
    ]
    assert len(found) > 80
    return found


def acts(routes: list[Route]) -> list[Route]:
    """Return the routes that change something, without signing in."""
    found = [r for r in routes if r.method != "GET" and r.rule not in OPEN | UNBOUND]
    assert all(r.method == "POST" for r in found)
    assert {r.rule for r in found} >= OWN | FOR_ADMINS
    return found


def token_of(text: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found
    return found[1]


def signed_in(place: Place, name: str) -> tuple[requests.Session, str]:
    """Return a browser in which somebody has signed in, and a token for forms."""
    http = requests.Session()
    url = f"{place.url}/board/sign-in"
    fields = {"csrf": token_of(http.get(url, timeout=CALL_S).text), "name": name,
              "password": PASSWORD}  # fmt: skip
    answer = http.post(url, data=fields, timeout=CALL_S, allow_redirects=False)
    assert answer.status_code == 303
    return http, token_of(http.get(f"{place.url}/board/account", timeout=CALL_S).text)


def ask(
    place: Place, http: requests.Session, route: Route, data: dict[str, str] | None = None,
    **headers: str,
) -> requests.Response:  # fmt: skip
    return http.request(
        route.method, place.url + route.url(), data=data, timeout=CALL_S, headers=headers,
        allow_redirects=False,
    )  # fmt: skip


def stored(place: Place) -> list[str]:
    """Return all that is stored, but when sessions were used last."""
    with closing(sqlite3.connect(f"file:{place.home}/fedflow.sqlite?mode=ro", uri=True)) as opened:
        return [line for line in opened.iterdump() if not re.search("session|lease|t_server", line)]


# --- who has not signed in ------------------------------------------------------------------------


def test_who_has_not_signed_in_sees_and_changes_nothing(asking: Place, routes: list[Route]) -> None:
    for route in routes:
        if route.rule in OPEN | UNBOUND:
            continue
        answer = ask(asking, requests.Session(), route)
        assert answer.status_code in (303, 401, 403), route
        if answer.status_code == 303:
            assert answer.headers["Location"].startswith("/board/sign-in"), route
        assert "dataio_0" not in answer.text, route
        scripted = ask(asking, requests.Session(), route, **{"HX-Request": "true"})
        assert scripted.status_code in (401, 403), route


# --- who has --------------------------------------------------------------------------------------


def test_nobody_acts_without_the_token_of_a_form(asking: Place, routes: list[Route]) -> None:
    http, _ = signed_in(asking, "ann")
    _, of_another = signed_in(asking, "ann")
    before = stored(asking)
    for route in acts(routes):
        for data in ({}, {"csrf": "x.y"}, {"csrf": of_another}):
            answer = ask(asking, http, route, data)
            assert answer.status_code == 403, (route, data)
            assert "FormRefused" in answer.text, route
    assert stored(asking) == before


def test_nobody_acts_from_a_page_of_another_site(asking: Place, routes: list[Route]) -> None:
    http, token = signed_in(asking, "ann")
    for route in [*acts(routes), *(r for r in routes if r.rule in UNBOUND)]:
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            answer = ask(asking, http, route, {"csrf": token}, **headers)
            assert answer.status_code == 403, (route, headers)
            assert "FormRefused" in answer.text, route


def test_a_viewer_and_an_operator_do_only_what_is_theirs(
    asking: Place, routes: list[Route]
) -> None:
    for name, wanted in (
        ("vera", [r for r in acts(routes) if r.rule not in OWN]),
        ("olga", [r for r in acts(routes) if r.rule in FOR_ADMINS]),
    ):
        http, token = signed_in(asking, name)
        before = stored(asking)
        for route in wanted:
            answer = ask(asking, http, route, {"csrf": token})
            assert answer.status_code == 403, (name, route)
            assert "RoleNeeded" in answer.text, (name, route)
        assert stored(asking) == before


def test_looking_changes_nothing(asking: Place, routes: list[Route]) -> None:
    http, _ = signed_in(asking, "ann")
    before = stored(asking)
    for route in routes:
        if route.method == "GET":
            assert ask(asking, http, route).status_code < 500, route
            head = http.head(asking.url + route.url(), timeout=CALL_S)
            assert head.status_code < 500, route
    assert stored(asking) == before


# --- what every answer has ------------------------------------------------------------------------


def check_headers(answer: requests.Response, what: object) -> None:
    given = answer.headers
    for name, value in HEADERS.items():
        assert given.get(name) == value, (what, name)
    policy = given["Content-Security-Policy"]
    assert "default-src 'none'" in policy, what
    assert "unsafe" not in policy, what
    assert given["Cache-Control"] in ("no-store", "private, no-cache") or "/static/" in answer.url
    shown = given.get("Content-Type", "").partition(";")[0]
    if shown and shown not in ("text/html", "application/json"):
        assert given["Content-Disposition"].startswith("attachment"), (what, shown)


def test_every_answer_has_the_headers_that_keep_it_safe(asking: Place, routes: list[Route]) -> None:
    http, _ = signed_in(asking, "ann")
    for route in routes:
        check_headers(ask(asking, http, route), route)
        check_headers(ask(asking, requests.Session(), route), route)
        wrong = "DELETE" if route.method == "GET" else "GET"
        answer = http.request(wrong, asking.url + route.url(), timeout=CALL_S)
        check_headers(answer, (wrong, route))
        tag = ask(asking, http, route).headers.get("ETag")
        if tag is not None:
            same = ask(asking, http, route, **{"If-None-Match": tag})
            assert same.status_code == 304, route
            check_headers(same, route)


# --- what addresses may hold ----------------------------------------------------------------------


def test_answers_to_programs_are_kept_nowhere(asking: Place) -> None:
    for path in ("status", f"{job_id(1)}/guest/9999", f"{job_id(2)}/guest/9999"):
        given = requests.get(f"{asking.url}/fateboard/job/query/{path}", timeout=CALL_S).headers
        assert given["Cache-Control"] == "no-store", path
        assert given["X-Content-Type-Options"] == "nosniff", path


@pytest.mark.parametrize(
    "each", [5, pytest.param(len(ODD), marks=pytest.mark.heavy)], ids=["some", "all"]
)
def test_odd_addresses_are_answered_with_a_page_that_shows_them_as_text(
    asking: Place, routes: list[Route], each: int
) -> None:
    """Every route gets `each` of the odd texts, the next route the next ones."""
    http, _ = signed_in(asking, "ann")
    texts = cycle(ODD)
    for route in routes:
        if route.method != "GET":
            continue
        for text in islice(texts, each):
            odd = quote(text, safe="")
            one_by_one = QUERY if text is ODD[0] else ()
            for url in {
                route.url(**dict.fromkeys(re.findall(r"<(?:path:)?(\w+)>", route.rule), odd)),
                f"{route.url()}?{'&'.join(f'{name}={odd[:1000]}' for name in QUERY)}",
                *(f"{route.url()}?{name}={odd}" for name in one_by_one),
            }:
                answer = http.get(asking.url + url, timeout=CALL_S, allow_redirects=False)
                assert answer.status_code < 500, url
                assert "<script>document" not in answer.text, url
                assert "<img src=x" not in answer.text, url
                assert answer.headers.get("Location", "/board/").startswith("/board/"), url


@pytest.mark.parametrize(
    "referer", ["http://[", "http://evil.example/board/jobs", "//", "x" * 9000]
)
def test_an_odd_referer_leads_nowhere_else(asking: Place, referer: str) -> None:
    http, token = signed_in(asking, "ann")
    url = f"{asking.url}/board/jobs/none/stop"
    answer = http.post(
        url, data={"csrf": token}, headers={"Referer": referer}, timeout=CALL_S,
        allow_redirects=False,
    )  # fmt: skip
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/board/")
