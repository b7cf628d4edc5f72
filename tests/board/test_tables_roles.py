"""Who may do what with tables and data, at a server where people sign in."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import requests

from fedflow.domain.administration.accounts import AccountRole
from tests.board.model_seeds import model_path, put_output, stored_table
from tests.board.places import Place, serving
from tests.board.seeds import GUEST, job, put, task

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
PASSWORD = "correct horse battery"
TABLE = {"namespace": "n", "name": "t"}
ONE = "/board/tables/table?namespace=n&name=t"


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server at which people sign in: ann is an admin, olga an operator, vera a viewer."""
    with serving(tmp_path_factory.mktemp("asking"), {"board": {"sign_in": True}}) as place:
        accounts = place.services.administration.accounts
        for name, role in (("ann", "admin"), ("olga", "operator"), ("vera", "viewer")):
            accounts.add(name, AccountRole(role), PASSWORD, by="test")
        made = stored_table(place, "n", "t", {"uid": ["1"], "a": [0.5]})
        of = job(1)
        put(place.store, of, task(of, "dataio_0", "DataTransform"))
        put_output(place, 1, GUEST, made)
        yield place


def token_of(text: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', text)
    assert found
    return found[1]


def browser_of(place: Place, name: str) -> requests.Session:
    """Return a browser without scripts in which somebody has signed in."""
    session = requests.Session()
    url = f"{place.url}/board/sign-in"
    token = token_of(session.get(url, timeout=CALL_S).text)
    fields = {"csrf": token, "name": name, "password": PASSWORD, "next": ""}
    answer = session.post(url, data=fields, timeout=CALL_S, allow_redirects=False)
    assert answer.status_code == 303
    return session


def upload(
    place: Place, session: requests.Session, token: str, *, size: int = 10
) -> requests.Response:
    data = {"csrf": token, "namespace": "up", "table_name": "t", "partition": "1"}
    return session.post(
        f"{place.url}/board/tables/upload", data={**data, "head": "1", "id_delimiter": ","},
        files={"file": ("d.csv", b"id,x\n1,2\n" + b"3,4\n" * size)}, timeout=CALL_S,
        allow_redirects=False,
    )  # fmt: skip


def test_a_viewer_looks_and_can_do_nothing(asking: Place) -> None:
    vera = browser_of(asking, "vera")
    page = vera.get(asking.url + ONE, timeout=CALL_S)
    assert page.status_code == 200
    for words in ("Delete this table", "Disable this table", "Download (tar.gz)"):
        assert words not in page.text
    assert "Upload a table" not in vera.get(f"{asking.url}/board/tables", timeout=CALL_S).text
    token = token_of(vera.get(f"{asking.url}/board/account", timeout=CALL_S).text)
    for action in ("disable", "enable", "delete"):
        answer = vera.post(
            f"{asking.url}/board/tables/{action}", data={"csrf": token, **TABLE}, timeout=CALL_S
        )
        assert answer.status_code == 403, action
    assert upload(asking, vera, token).status_code == 403
    for path in (
        "/board/tables/upload",
        "/board/tables/download?namespace=n&name=t",
        model_path(1, GUEST, "data/download", "dataio_0"),
    ):
        assert vera.get(asking.url + path, timeout=CALL_S).status_code == 403, path
    data = vera.get(asking.url + model_path(1, GUEST, "data", "dataio_0"), timeout=CALL_S).text
    assert "Download all tables" not in data
    with asking.store.read() as tx:
        assert tx.tables.get("n", "t") is not None


def test_an_operator_can_all_but_delete(asking: Place) -> None:
    olga = browser_of(asking, "olga")
    text = olga.get(asking.url + ONE, timeout=CALL_S).text
    assert "Disable this table" in text
    assert "Delete this table" not in text
    fields = {"csrf": token_of(text), **TABLE}
    done = olga.post(f"{asking.url}/board/tables/disable", data=fields, timeout=CALL_S)
    assert "any more" in done.text
    olga.post(f"{asking.url}/board/tables/enable", data=fields, timeout=CALL_S)
    refused = olga.post(f"{asking.url}/board/tables/delete", data=fields, timeout=CALL_S)
    assert refused.status_code == 403
    assert olga.get(
        f"{asking.url}/board/tables/download?namespace=n&name=t", timeout=CALL_S
    ).ok  # fmt: skip
    assert upload(asking, olga, fields["csrf"]).status_code == 303


def test_nothing_is_kept_of_the_upload_of_a_stranger(asking: Place) -> None:
    spool = asking.services.data.uploads.spool_dir
    before = {p.name for p in spool.iterdir()}
    answer = upload(asking, requests.Session(), "x", size=200_000)
    assert answer.status_code in (303, 401)
    assert "/board/jobs" not in answer.headers.get("Location", "")
    olga = browser_of(asking, "olga")
    assert upload(asking, olga, "wrong").status_code == 403
    assert {p.name for p in spool.iterdir()} <= before  # jobs take up theirs meanwhile


def test_pages_are_shown_to_nobody_who_has_not_signed_in(asking: Place) -> None:
    for path in (
        ONE, "/board/tables", model_path(1, GUEST), model_path(1, GUEST, "model.json"),
        model_path(1, GUEST, "data", "dataio_0"), model_path(1, GUEST, "data/download", "dataio_0"),
        "/board/tables/download?namespace=n&name=t",
    ):  # fmt: skip
        answer = requests.get(asking.url + path, timeout=CALL_S, allow_redirects=False)
        assert answer.status_code in (302, 303, 401), path
        assert "uid" not in answer.text
