"""The pages of serving as HTML: who may do what, bad input, processes that are all away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.board.jobs_to_submit import Person
from tests.board.places import Place, serving

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server whose serving processes are all away."""
    settings = {"servings": {"hosts": ["127.0.0.1:1", "127.0.0.1:2"]}}
    with serving(tmp_path_factory.mktemp("away"), settings) as place:
        yield place


def test_processes_that_are_away_are_said_to_be(away: Place) -> None:
    page = Person(away.url).get("/board/serving")
    assert page.status_code == 200
    assert page.text.count("does not answer") == 2
    assert "No service is bound" in page.text
    assert Person(away.url).get("/board/serving/now").status_code == 200


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        ("bind", {"service_id": "credit", "version": "nonsense"}, "names no version"),
        ("bind", {"service_id": "", "version": "x"}, "the field service_id is empty"),
        ("bind", {"service_id": "c", "version": '["m", "v"]', "weight": "1e9"}, "from 0 to 100"),
        ("load", {"model_id": "m", "model_version": "v"}, "ModelNotFound|no model|not here"),
        ("unbind", {"service_id": "credit"}, "it does not answer"),
        ("rollback", {"service_id": "a/b"}, "service"),
        ("unload", {}, "the field model_id is empty"),
    ],
)
def test_what_cannot_be_done_is_said(
    away: Place, action: str, fields: dict[str, str], said: str
) -> None:
    person = Person(away.url)
    answer = person.session.post(
        f"{away.url}/board/serving/{action}",
        data={"csrf": person.opened()["csrf"], **fields},
        timeout=60.0,
    )
    assert answer.status_code == 200
    assert answer.url.endswith("/board/serving") or "/board/" in answer.url
    assert any(one in answer.text for one in said.split("|")), answer.text


def test_a_try_without_a_process_says_so(away: Place) -> None:
    person = Person(away.url)
    assert "There is no such service" in person.get("/board/serving/try?service=x").text
    answer = person.session.post(
        f"{away.url}/board/serving/try",
        data={"csrf": person.opened()["csrf"], "service_id": "credit", "json": "{}"},
        timeout=60.0,
    )
    assert answer.status_code == 200
