"""Signing in to the board, sessions, roles, forms: a real server, over HTTP."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest
import requests

from fedflow.app.administration.accounts import Accounts
from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.states import JobStatus
from tests.board import seeds
from tests.board.places import Place, serving

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
HOUR_MS = 3_600_000
GOOD, OTHER = "correct horse", "battery staple"
SETTINGS = {
    "board": {"sign_in": True, "session_idle_s": 14_400},
    "database": {"engine": "sqlite", "passwd": "db-secret-1"},
    "model_store_address": {"passwd": "db-secret-2"},
    "authentication": {"client": {"http_secret_key": "http-secret-3", "http_app_key": "app-4"}},
    "fate_on_spark": {"spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": "spark-secret-5"}}},
}


@dataclass
class Somebody:
    """A browser without scripts at one server."""

    url: str
    http: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str, **more: Any) -> requests.Response:
        return self.http.get(self.url + path, timeout=CALL_S, **more)

    def token(self, page: str = "/board/sign-in") -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(page).text)
        assert found, page
        return found[1]

    def post(self, path: str, token: str | None = None, **fields: Any) -> requests.Response:
        """Send a form without following where it leads; `headers` are not fields."""
        headers = fields.pop("headers", {})
        if token is not None:
            fields["csrf"] = token
        return self.http.post(
            self.url + path, data=fields, headers=headers, timeout=CALL_S, allow_redirects=False
        )

    def sign_in(self, name: str, password: str = GOOD, next_: str = "") -> requests.Response:
        return self.post("/board/sign-in", self.token(), name=name, password=password, next=next_)

    def session_cookies(self) -> list[Any]:
        return [c for c in self.http.cookies if "session" in c.name]


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server at which people sign in; ann is an admin, olga an operator, vera a viewer."""
    with serving(tmp_path_factory.mktemp("asking"), SETTINGS) as place:
        accounts = place.services.administration.accounts
        for name, role in (("ann", "admin"), ("olga", "operator"), ("vera", "viewer")):
            accounts.add(name, AccountRole(role), GOOD, by="test")
        yield place


@pytest.fixture(autouse=True)
def _forget_attempts(request: pytest.FixtureRequest) -> None:
    """Each test has all its attempts: they all come from one address."""
    if "asking" in request.fixturenames:
        place: Place = request.getfixturevalue("asking")
        place.services.administration.accounts._attempts._free_ms.clear()


@pytest.fixture
def accounts(asking: Place) -> Accounts:
    return asking.services.administration.accounts


@pytest.fixture
def arrive(asking: Place) -> Callable[..., Somebody]:
    """Return a function that makes a browser, with somebody signed in if a name is given."""

    def come(name: str | None = None) -> Somebody:
        made = Somebody(asking.url)
        if name is not None:
            assert made.sign_in(name).status_code == 303
        return made

    return come


@pytest.fixture
def new_name(accounts: Accounts) -> Iterator[str]:
    """Return the name of an account that is a test's own, an operator's."""
    name = f"t{secrets.token_hex(4)}"
    accounts.add(name, AccountRole.OPERATOR, GOOD, by="test")
    yield name
    if name in {one.name for one in accounts.all()}:
        accounts.remove(name, by="test")


Arrive = Callable[..., Somebody]


# --- signing in -----------------------------------------------------------------------------------


def test_who_is_not_signed_in_is_led_to_sign_in_and_back(arrive: Arrive) -> None:
    somebody = arrive()
    sent = somebody.get("/board/settings?a=1&b=%3C", allow_redirects=False)
    assert sent.status_code == 303
    assert sent.headers["Location"] == "/board/sign-in?next=%2Fboard%2Fsettings%3Fa%3D1%26b%3D%253C"
    page = somebody.get("/board/settings?a=1")
    assert 'value="/board/settings?a=1"' in page.text
    done = somebody.sign_in("vera", next_="/board/settings?a=1")
    assert (done.status_code, done.headers["Location"]) == (303, "/board/settings?a=1")
    assert somebody.get("/board/settings").status_code == 200


def test_nothing_of_the_server_is_told_to_who_is_not_signed_in(arrive: Arrive) -> None:
    page = arrive().get("/board/sign-in").text
    assert "/board/jobs" not in page
    assert "vera" not in page


@pytest.mark.parametrize("name", ["ann", "nobody", "", "<script>alert(1)</script>", "x" * 5000])
def test_a_wrong_password_and_an_unknown_name_get_the_same_page(arrive: Arrive, name: str) -> None:
    somebody = arrive()
    answer = somebody.sign_in(name, "wrong")
    assert answer.status_code == 401
    assert "The name or the password is wrong." in answer.text
    assert "<script>alert" not in answer.text
    assert len(answer.text) < 10_000
    assert not somebody.session_cookies()


def test_after_many_attempts_one_has_to_wait(arrive: Arrive) -> None:
    somebody = arrive()
    token = somebody.token()
    answers = [
        somebody.post("/board/sign-in", token, name="nobody", password=str(n)) for n in range(11)
    ]
    assert [a.status_code for a in answers] == [401] * 10 + [429]
    assert "Too many attempts" in answers[-1].text


@pytest.mark.parametrize(
    "next_",
    ["https://evil.example/board/", "//evil.example/board/", "/v1/job/stop", "/board/../v1/x",
     "/board\\evil", "/board//evil.example", "javascript:alert(1)", "/board/sign-in?next=/board/",
     "/boardroom", "/board/\r\nSet-Cookie: a=b", ""],
)  # fmt: skip
def test_signing_in_leads_to_the_board_only(arrive: Arrive, next_: str) -> None:
    answer = arrive().sign_in("vera", next_=next_)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/board/")


def test_the_cookie_is_kept_from_scripts_and_other_sites(arrive: Arrive) -> None:
    header = arrive().sign_in("vera").headers["Set-Cookie"]
    (session,) = re.findall(r"fedflow-session-\d+=[^,]+?Path=/; SameSite=Lax", header)
    assert "HttpOnly" in session
    assert "Domain" not in session
    assert "Expires" not in session  # it goes with the browser


def test_a_session_of_before_does_not_survive_signing_in(arrive: Arrive) -> None:
    somebody = arrive()
    name = f"fedflow-session-{somebody.url.rpartition(':')[2]}"
    somebody.http.cookies.set(name, "planted", domain="127.0.0.1", path="/")
    assert somebody.get("/board/account", allow_redirects=False).status_code == 303
    somebody.sign_in("vera")
    assert "planted" not in {c.value for c in somebody.http.cookies}


# --- the end of a session -------------------------------------------------------------------------


def test_signing_out_ends_the_session_itself(arrive: Arrive) -> None:
    somebody = arrive("vera")
    kept = somebody.session_cookies()[0]
    answer = somebody.post("/board/account/sign-out", somebody.token("/board/account"))
    assert (answer.status_code, answer.headers["Location"]) == (303, "/board/sign-in")
    assert not somebody.session_cookies()
    thief = arrive()
    thief.http.cookies.set(kept.name, kept.value, path="/")
    assert thief.get("/board/account", allow_redirects=False).status_code == 303


def _end_by_age(place: Place, name: str) -> None:
    """Let all sessions of an account look unused for longer than they may be."""
    with place.store.transaction() as tx:
        for one in tx.accounts.sessions(name):
            tx.accounts.put_session(changed(one, seen_ms=one.seen_ms - 5 * HOUR_MS))


def test_a_page_of_an_ended_session_leads_to_sign_in_and_a_script_is_told(
    asking: Place, arrive: Arrive, new_name: str
) -> None:
    somebody = arrive(new_name)
    _end_by_age(asking, new_name)
    page = somebody.get("/board/account", allow_redirects=False)
    assert page.headers["Location"] == "/board/sign-in?next=%2Fboard%2Faccount"
    polled = somebody.get("/board/settings/health", headers={"HX-Request": "true"})
    assert polled.status_code == 401
    assert polled.json()["error"]["name"] == "NotSignedIn"


def test_a_form_of_an_ended_session_is_kept_until_somebody_signs_in(
    asking: Place, arrive: Arrive, new_name: str, accounts: Accounts
) -> None:
    accounts.set_role(new_name, AccountRole.ADMIN, by="test")
    somebody = arrive(new_name)
    token = somebody.token("/board/account")
    _end_by_age(asking, new_name)
    hostile = '"><script>alert(1)</script>'
    work = "/board/settings/accounts/role"
    sent = somebody.post(
        work,
        token,
        name=hostile,
        role="viewer",
        headers={"Referer": f"{asking.url}/board/settings"},
    )
    assert sent.status_code == 401
    assert "<script>alert" not in sent.text
    fields = {
        name: _unescaped(value)
        for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', sent.text)
    }
    again = somebody.post(
        "/board/sign-in", fields.pop("csrf"), **{**fields, "name": new_name, "password": GOOD}
    )
    assert again.status_code == 200
    assert f'action="{work}"' in again.text
    assert 'href="/board/settings"' in again.text
    assert "<script>alert" not in again.text
    areas = re.findall(r'<textarea name="(\w+)"[^>]*>\n([^<]*)</textarea>', again.text)
    values = {name: _unescaped(value) for name, value in areas}
    assert values == {"name": hostile, "role": "viewer"}
    code = re.findall(r'name="csrf" value="([^"]+)"', again.text)[-1]
    done = somebody.post(work, code, name="vera", role="viewer")
    assert done.headers["Location"] == "/board/settings#accounts"


def test_a_form_of_an_earlier_session_is_asked_about_not_done(
    asking: Place, arrive: Arrive, new_name: str
) -> None:
    somebody = arrive(new_name)
    token = somebody.token("/board/submit")
    somebody.http.cookies.clear()
    somebody.sign_in(new_name)
    hostile = '"><script>alert(1)</script>'
    own = {"Origin": asking.url, "Referer": f"{asking.url}/board/submit"}
    asked = somebody.post("/board/submit", token, dsl=hostile, do="send", headers=own)
    assert asked.status_code == 403
    assert "Send it again?" in asked.text
    assert 'action="/board/submit"' in asked.text
    assert "<script>alert" not in asked.text
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        refused = somebody.post("/board/submit", token, dsl="{}", do="send", headers=headers)
        assert refused.status_code == 403
        assert "FormRefused" in refused.text
        assert "Send it again?" not in refused.text
    secret = somebody.post("/board/account/password", token, old=GOOD, new=OTHER, headers=own)
    assert "FormRefused" in secret.text


def test_a_form_with_a_password_is_not_kept(
    asking: Place, arrive: Arrive, new_name: str, accounts: Accounts
) -> None:
    somebody = arrive(new_name)
    token = somebody.token("/board/account")
    _end_by_age(asking, new_name)
    sent = somebody.post("/board/account/password", token, old=GOOD, new=OTHER, again=OTHER)
    assert sent.status_code == 401
    assert "Your session has ended" in sent.text
    assert OTHER not in sent.text


@pytest.mark.parametrize("path", ["https://evil.example/", "/v1/job/stop", "/board/../v1/x"])
def test_a_kept_form_goes_to_the_board_only(arrive: Arrive, path: str) -> None:
    somebody = arrive()
    answer = somebody.post(
        "/board/sign-in", somebody.token(), name="vera", password=GOOD, kept_path=path,
        kept_fields='[["a","b"]]', kept_back="//evil.example",
    )  # fmt: skip
    assert "evil" not in answer.text
    assert not somebody.session_cookies()


def test_a_changed_password_ends_other_sessions_and_keeps_this_browser(
    arrive: Arrive, new_name: str
) -> None:
    here, elsewhere = arrive(new_name), arrive(new_name)
    before = here.session_cookies()[0].value
    token = here.token("/board/account")
    for fields, status, said in (
        ({"old": "wrong", "new": OTHER, "again": OTHER}, 401, "old password is wrong"),
        ({"old": GOOD, "new": OTHER, "again": GOOD}, 400, "typed in two ways"),
        ({"old": GOOD, "new": "short", "again": "short"}, 400, "fewer than"),
    ):
        answer = here.post("/board/account/password", token, **fields)
        assert answer.status_code == status
        assert said in answer.text
    done = here.post("/board/account/password", token, old=GOOD, new=OTHER, again=OTHER)
    assert done.status_code == 303
    assert here.get("/board/account", allow_redirects=False).status_code == 200
    assert here.session_cookies()[0].value != before
    assert elsewhere.get("/board/account", allow_redirects=False).status_code == 303


# --- what may be done -----------------------------------------------------------------------------


def test_a_viewer_may_not_act_and_sees_no_button(arrive: Arrive) -> None:
    somebody = arrive("vera")
    page = somebody.get("/board/settings").text
    assert "/board/settings/accounts/add" not in page
    token = somebody.token("/board/account")
    answer = somebody.post("/board/settings/accounts/remove", token, name="olga")
    assert answer.status_code == 403
    assert "RoleNeeded" in answer.text
    assert "<h1>" in answer.text


def test_a_viewer_may_not_stop_a_job_and_an_operator_may(asking: Place, arrive: Arrive) -> None:
    running = seeds.job(7, status=JobStatus.RUNNING, ended_ms=None, progress=10)
    seeds.put(asking.store, running, seeds.task(running, "reader_0", "Reader"))
    job_id = running.key.job_id
    page, stop = f"/board/jobs/{job_id}/guest/9999", f"/board/jobs/{job_id}/stop"
    vera, olga = arrive("vera"), arrive("olga")
    assert stop not in vera.get(page).text
    assert stop in olga.get(page).text
    refused = vera.post(stop, vera.token("/board/account"))
    assert refused.status_code == 403
    assert "RoleNeeded" in refused.text
    assert olga.post(stop, olga.token(page)).status_code == 303


def test_another_role_holds_with_the_next_request(
    arrive: Arrive, new_name: str, accounts: Accounts
) -> None:
    somebody = arrive(new_name)
    assert "Add the account" not in somebody.get("/board/settings").text
    accounts.set_role(new_name, AccountRole.ADMIN, by="test")
    assert "Add the account" in somebody.get("/board/settings").text
    accounts.remove(new_name, by="test")
    assert somebody.get("/board/settings", allow_redirects=False).status_code == 303


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://[bad"}],
)  # fmt: skip
def test_a_form_of_another_site_is_refused(
    arrive: Arrive, accounts: Accounts, headers: dict[str, str]
) -> None:
    somebody = arrive("ann")
    token = somebody.token("/board/settings")
    answer = somebody.post("/board/settings/accounts/remove", token, name="olga", headers=headers)
    assert answer.status_code == 403
    assert "olga" in {one.name for one in accounts.all()}


def test_a_form_without_a_token_or_with_that_of_another_session_is_refused(
    asking: Place, arrive: Arrive, accounts: Accounts
) -> None:
    ann, other = arrive("ann"), arrive("ann")
    own = {"Origin": asking.url}
    foreign = other.token("/board/settings")
    fresh, _, code = ann.token("/board/settings").partition(".")
    for token in (None, "", ".", "x", foreign, f"{fresh}x.{code}", f"{fresh}.{code[:-1]}", "é.é"):
        answer = ann.post("/board/settings/accounts/remove", token, name="olga", headers=own)
        assert answer.status_code == 403, token
    for somebody, token in ((arrive(), foreign), (arrive(), None)):
        answer = somebody.post("/board/sign-in", token, name="ann", password=GOOD)
        assert answer.status_code == 403
    assert "olga" in {one.name for one in accounts.all()}


def test_a_token_differs_in_every_page_and_works_as_a_header(arrive: Arrive) -> None:
    ann = arrive("ann")
    first, second = ann.token("/board/account"), ann.token("/board/account")
    assert first != second
    answer = ann.post("/board/settings/accounts/sign-out", name="vera",
                      headers={"X-CSRF-Token": first})  # fmt: skip
    assert answer.status_code == 303


def test_a_get_changes_nothing(arrive: Arrive, accounts: Accounts) -> None:
    ann = arrive("ann")
    for path in ("accounts/remove?name=olga", "accounts/sign-out?name=olga", "reload"):
        assert ann.get(f"/board/settings/{path}").status_code in (404, 405)
    assert "olga" in {one.name for one in accounts.all()}


# --- settings -------------------------------------------------------------------------------------


def test_an_admin_makes_changes_and_removes_an_account(arrive: Arrive, accounts: Accounts) -> None:
    ann = arrive("ann")
    token = ann.token("/board/settings")
    name = f"t{secrets.token_hex(4)}"
    work = "/board/settings/accounts"
    assert ann.post(f"{work}/add", token, name=name, role="viewer", new=GOOD,
                    again=GOOD).status_code == 303  # fmt: skip
    assert f"{name} has an account now." in ann.get("/board/settings").text
    theirs = arrive(name)
    ann.post(f"{work}/role", token, name=name, role="operator")
    assert "operator" in theirs.get("/board/account").text
    ann.post(f"{work}/password", token, name=name, new=OTHER, again=OTHER)
    assert theirs.get("/board/account", allow_redirects=False).status_code == 303
    assert theirs.sign_in(name, OTHER).status_code == 303
    ann.post(f"{work}/sign-out", token, name=name)
    assert theirs.get("/board/account", allow_redirects=False).status_code == 303
    ann.post(f"{work}/remove", token, name=name)
    assert name not in {one.name for one in accounts.all()}


@pytest.mark.parametrize(
    ("work", "fields"), [("remove", {}), ("role", {"role": "viewer"}), ("password", {"new": OTHER})]
)
def test_an_admin_cannot_lock_out_the_last_admin(
    arrive: Arrive, accounts: Accounts, work: str, fields: dict[str, str]
) -> None:
    ann = arrive("ann")
    ann.post(f"/board/settings/accounts/{work}", ann.token("/board/settings"), name="ann",
             **fields)  # fmt: skip
    (one,) = (one for one in accounts.all() if one.name == "ann")
    assert one.role is AccountRole.ADMIN
    assert ann.get("/board/settings", allow_redirects=False).status_code == 200


def test_a_bad_name_is_a_message_on_the_page(asking: Place, arrive: Arrive) -> None:
    ann = arrive("ann")
    answer = ann.post(
        "/board/settings/accounts/add", ann.token("/board/settings"), name="<b>x</b>",
        role="viewer", new=GOOD, again=GOOD, headers={"Referer": f"{asking.url}/board/settings"},
    )  # fmt: skip
    assert answer.headers["Location"] == "/board/settings"
    assert "letters, digits" in ann.get("/board/settings").text


def test_everybody_sees_health_and_admins_alone_the_settings(arrive: Arrive) -> None:
    seen = {who: arrive(who).get("/board/settings").text for who in ("vera", "olga", "ann")}
    for page in seen.values():
        assert "This server can take jobs." in page
        assert "STANDALONE" in page
    assert "scheduling.lease_s" in seen["ann"]
    for who in ("vera", "olga"):
        assert "scheduling.lease_s" not in seen[who]
        assert "ann" not in re.sub(r"\s+", " ", seen[who]).split()


def test_no_secret_is_in_the_settings_page(arrive: Arrive) -> None:
    page = arrive("ann").get("/board/settings").text
    for secret in (
        "db-secret-1",
        "db-secret-2",
        "http-secret-3",
        "app-4",
        "spark-secret-5",
        "scrypt",
    ):
        assert secret not in page


def test_health_that_did_not_change_is_not_sent_again(arrive: Arrive) -> None:
    vera = arrive("vera")
    first = vera.get("/board/settings/health")
    again = vera.get("/board/settings/health", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)


# --- behind a proxy -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The server of party 9999, which browsers reach as https://board.example."""
    given = {
        "party_id": "9999",
        "fateflow": {"http_behind_tls_proxy": True},
        "board": {"sign_in": True, "host_names": ["Board.Example"]},
    }
    with serving(tmp_path_factory.mktemp("proxied"), given) as place:
        yield place


def test_behind_a_proxy_cookies_are_for_tls_and_its_name_is_an_own_one(proxied: Place) -> None:
    accounts = proxied.services.administration.accounts
    url = f"{proxied.url}/board/sign-in"
    assert "fedflow board user add NAME --role admin" in requests.get(url, timeout=CALL_S).text
    accounts.add("ann", AccountRole.ADMIN, GOOD, by="test")
    page = requests.get(url, timeout=CALL_S)
    visit = re.match(r"__Host-fedflow-visit-9999=([^;]+); (.*)", page.headers["Set-Cookie"])
    assert visit
    assert visit[2] == "Secure; HttpOnly; Path=/; SameSite=Strict"
    token = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]
    cookie = f"__Host-fedflow-visit-9999={visit[1]}"
    fields = {"csrf": token, "name": "ann", "password": GOOD}
    for origin, status in (("https://evil.example", 403), ("https://board.example", 303)):
        answer = requests.post(
            url, data=fields, headers={"Cookie": cookie, "Origin": origin}, timeout=CALL_S,
            allow_redirects=False,
        )  # fmt: skip
        assert answer.status_code == status
    kept = r"__Host-fedflow-session-9999=[^;]+; Secure; HttpOnly; Path=/; SameSite=Lax"
    assert re.search(kept, answer.headers["Set-Cookie"])


def test_the_proxys_address_is_nobodys_limit(proxied: Place) -> None:
    somebody = requests.Session()
    url = f"{proxied.url}/board/sign-in"
    page = somebody.get(url, timeout=CALL_S)
    token = re.findall(r'name="csrf" value="([^"]+)"', page.text)[-1]
    cookie = {"Cookie": page.headers["Set-Cookie"].partition(";")[0]}
    accounts = proxied.services.administration.accounts
    for n in range(40):
        accounts._attempts.take(("address", ""), limit=100, now_ms=n)
    fields = {"csrf": token, "name": "nobody", "password": "wrong"}
    answer = somebody.post(url, data=fields, headers=cookie, timeout=CALL_S)
    assert answer.status_code == 401


# --- without sign-in ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:9380", "127.0.0.1.evil.example", ""]
)
def test_without_sign_in_the_board_answers_under_no_foreign_name(seeded: Place, host: str) -> None:
    for path in ("/board/settings", "/board/settings/health", "/board/sign-in"):
        answer = requests.get(seeded.url + path, headers={"Host": host}, timeout=CALL_S)
        assert answer.status_code in (400, 403), path
        assert "STANDALONE" not in answer.text


def test_a_foreign_name_reads_nothing_of_fate_boards_endpoints(seeded: Place) -> None:
    url = f"{seeded.url}/fateboard/job/query/status"
    assert requests.get(url, timeout=CALL_S).json()["code"] == 0
    foreign = requests.get(url, headers={"Host": "evil.example"}, timeout=CALL_S).json()
    assert foreign["code"] != 0
    assert not foreign.get("data")


@pytest.mark.parametrize("host", ["localhost", "localhost:80", "127.0.0.1", "[::1]:9380"])
def test_addresses_and_localhost_are_own_names(seeded: Place, host: str) -> None:
    answer = requests.get(f"{seeded.url}/board/settings", headers={"Host": host}, timeout=CALL_S)
    assert answer.status_code == 200


def test_without_sign_in_everybody_is_an_admin_and_forms_need_their_token(seeded: Place) -> None:
    somebody = Somebody(seeded.url)
    page = somebody.get("/board/settings").text
    assert "No sign-in is needed" in page
    assert somebody.get("/board/sign-in", allow_redirects=False).headers["Location"] == "/board/"
    assert somebody.get("/board/account").status_code == 404
    fields = {"name": "made-here", "role": "viewer", "new": GOOD, "again": GOOD}
    work = "/board/settings/accounts/add"
    token = somebody.token("/board/settings")
    assert somebody.post(work, None, **fields).status_code == 403
    assert Somebody(seeded.url).post(work, token, **fields).status_code == 403
    foreign = {"Origin": "http://localhost:1"}
    assert somebody.post(work, token, **fields, headers=foreign).status_code == 403
    assert somebody.post(work, token, **fields).status_code == 303
    assert "made-here" in somebody.get("/board/settings").text


def test_a_board_that_is_switched_off_is_not_there(tmp_path: Path) -> None:
    with serving(tmp_path, {"board": {"switch": False}}) as place:
        for path in ("/board/", "/board/settings", "/board/sign-in", "/index.html"):
            answer = requests.get(place.url + path, timeout=CALL_S)
            assert answer.json()["retcode"] == 100, path
        assert requests.get(f"{place.url}/healthz", timeout=CALL_S).status_code == 200


# --- REST -----------------------------------------------------------------------------------------


def test_accounts_are_kept_over_rest_and_answers_hold_no_password(asking: Place) -> None:
    def call(command: str, **body: Any) -> dict[str, Any]:
        answer = requests.post(
            f"{asking.url}/v1/board/account/{command}", json=body, timeout=CALL_S
        )
        told: dict[str, Any] = answer.json()
        assert GOOD not in answer.text
        assert "scrypt" not in answer.text
        return told

    made = call("add", name="rest", role="viewer", password=GOOD)
    assert made["data"]["role"] == "viewer"
    assert (
        call("add", name="rest", role="viewer", password=GOOD)["error"]["name"] == "AccountExists"
    )
    assert call("role", name="rest", role="boss")["error"]["name"] == "BadAccount"
    assert call("role", name="rest", role="operator")["retcode"] == 0
    assert call("password", name="rest", password="short")["error"]["name"] == "BadAccount"
    assert call("sign-out", name="rest")["data"] == {"ended": 0}
    assert "rest" in {row["name"] for row in call("list")["data"]}
    assert call("remove", name="rest")["retcode"] == 0
    assert call("remove", name="rest")["error"]["name"] == "AccountNotFound"


def _unescaped(text: str) -> str:
    for written, meant in (("&#34;", '"'), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">")):
        text = text.replace(written, meant)
    return text.replace("&amp;", "&")
