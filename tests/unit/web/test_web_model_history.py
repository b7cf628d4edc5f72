"""The routes of a model's history over the real use cases of two servers."""

from __future__ import annotations

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.models.history_changes import HistoryChanges
from fedflow.app.models.model_history import ModelHistory
from fedflow.domain.models.model import ModelKey
from fedflow.domain.site import Site
from tests.unit.app.fakes import GUEST, HOST, NOW_MS
from tests.unit.app.models_world import (
    MODEL_ID,
    TRAINED,
    Pair,
    make_pair,
    put_model,
    trained_share,
)
from tests.unit.web.applications import app_over

OTHER = "2026112010000000000001"
MODEL = {"model_id": MODEL_ID}


class Api:
    """Two servers with two versions of a model, and clients of their routes."""

    def __init__(self, home: Path) -> None:
        self.pair = make_pair(home)
        for site in (GUEST, HOST):
            key = ModelKey(site=site, model_id=MODEL_ID, model_version=OTHER)
            share = trained_share(site, key=key, job_id=OTHER, created_ms=NOW_MS + 1)
            put_model(self.pair.server(site), share)
        self.pair.live()
        self.clients = {site: _client(self.pair, site) for site in (GUEST, HOST)}

    def post(self, path: str, at: Site = GUEST, **body: Any) -> Any:
        return self.clients[at].post(f"/v1/model/{path}", json={**MODEL, **body}).get_json()


def _client(pair: Pair, site: Site) -> FlaskClient:
    server = pair.server(site)
    core = server.core
    models = SimpleNamespace(
        repository=core.models,
        deployment=core.deployment,
        history=ModelHistory(store=server.store, repository=core.models),
        history_changes=HistoryChanges(core.kernel, model_changes=core.model_changes),
    )
    services: Any = SimpleNamespace(models=models)
    return app_over(services).test_client()


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


def test_a_commit_its_log_and_what_is_shown_of_it(api: Api) -> None:
    done = api.post(
        "commit", model_version=TRAINED, message="first\nline", approval="review 7", person="ana"
    )
    assert done["retcode"] == 0
    assert done["data"]["detail"]["host"] == {"10000": {"retcode": 0, "retmsg": "success"}}
    log = api.post("log")["data"]
    assert log["next"] is None
    assert [c["model_version"] for c in log["commits"]] == [OTHER, TRAINED]
    shown = api.post("show", model_version=TRAINED)["data"]
    assert (shown["message"], shown["approval"], shown["person"]) == (
        "first\nline", "review 7", "ana",
    )  # fmt: skip
    assert sorted(shown["shares"]) == sorted([GUEST.key, HOST.key])
    assert len(shown["parameters_sha256"]) == 64
    assert shown["fate"] == "1.11.4"
    at_host = api.post("show", HOST, model_version=TRAINED)["data"]
    assert (at_host["message"], at_host["author_party"], at_host["person"]) == (
        "first\nline", "9999", "",
    )  # fmt: skip


def test_branches_go_forth_and_back(api: Api) -> None:
    for path, body in (
        ("branch/create", {"model_version": TRAINED}),
        ("branch/move", {"model_version": OTHER, "message": "why"}),
        ("rollback", {}),
    ):
        answer = api.post(path, branch="release", **body)
        assert (answer["retcode"], answer["data"]["branch"]) == (0, "release")
    for site in (GUEST, HOST):
        [head] = api.post("branch/list", site)["data"]["branches"]
        assert (head["branch"], head["model_version"], head["kind"]) == (
            "release", TRAINED, "rollback",
        )  # fmt: skip
        moves = api.post("branch/moves", site, branch="release")["data"]["branches"]
        assert [m["kind"] for m in moves] == ["rollback", "move", "create"]
        assert moves[1]["message"] == "why"
    assert api.post("branch/delete", branch="release")["retcode"] == 0
    assert api.post("branch/list")["data"]["branches"] == []
    assert api.post("deploy", model_version="branch:release")["error"]["name"] == "BranchNotFound"


def test_a_log_goes_on_where_its_page_ended(api: Api) -> None:
    for more in ({}, {"model_version": OTHER}):
        first = api.post("log", limit=1, **more)["data"]
        assert [c["model_version"] for c in first["commits"]] == [OTHER]
        assert (first["next"] is None) == bool(more)  # neither version has a parent
    first = api.post("log", limit=1)["data"]
    last = api.post("log", limit=1, after=first["next"])["data"]
    assert [c["model_version"] for c in last["commits"]] == [TRAINED]
    assert last["next"] is None


def test_what_differs(api: Api) -> None:
    found = api.post("diff", old=TRAINED, new=OTHER)["data"]
    assert found["dsl"] == {"added": [], "removed": [], "changed": {}}
    assert (found["models"], found["parameters"], found["metrics"]) == ({}, {}, {})


def test_an_absent_site_is_named(api: Api) -> None:
    api.pair.network().loses_call = lambda party, _path: party == "10000"
    for path, body in (
        ("branch/create", {"branch": "release", "model_version": TRAINED}),
        ("commit", {"model_version": TRAINED, "message": "m"}),
    ):
        answer = api.post(path, **body)
        assert answer["error"]["name"] == "ModelChangeRefused"
        assert "10000" in answer["retmsg"]
        assert answer["data"]["detail"]["host"]["10000"]["retcode"] != 0
    assert api.post("branch/list")["data"]["branches"] == []


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


MANY = ",".join(['["a","b"]'] * 1001)


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("log", {"model_id": None}, "MissingArgument"),
        ("log", {"model_id": "x"}, "ModelNotFound"),
        ("log", {"model_id": ["x"]}, "BadRequest"),
        ("log", {"limit": 0}, "BadRequest"),
        ("log", {"limit": 1001}, "BadRequest"),
        ("log", {"limit": "many"}, "BadRequest"),
        ("log", {"role": "guest"}, "BadRequest"),
        ("log", {"role": "owner", "party_id": "1"}, "BadRequest"),
        ("log", {"role": "host", "party_id": "10000"}, "ModelNotFound"),
        ("log", {"model_version": "branch:x"}, "BranchNotFound"),
        ("log", {"model_version": "tag:x"}, "TagNotFound"),
        ("log", {"after": "%%%"}, "BadRequest"),
        ("log", {"after": "é"}, "BadRequest"),
        ("log", {"after": cursor("{}")}, "BadRequest"),
        ("log", {"after": cursor("[null,[[1,2]],0]")}, "BadRequest"),
        ("log", {"after": cursor("[[-1,\"\"],[],0]")}, "BadRequest"),
        ("log", {"after": cursor("[[1e999,\"\"],[],0]")}, "BadRequest"),
        ("log", {"after": cursor("[null,[],-1]")}, "BadRequest"),
        ("log", {"after": cursor(f"[null,[{MANY}],0]")}, "BadRequest"),
        ("show", {}, "MissingArgument"),
        ("show", {"model_version": "1"}, "ModelNotFound"),
        ("show", {"model_version": {}}, "BadRequest"),
        ("diff", {"old": TRAINED}, "MissingArgument"),
        ("diff", {"old": TRAINED, "new": "tag:x"}, "TagNotFound"),
        ("branch/moves", {"branch": "x"}, "BranchNotFound"),
        ("commit", {"model_version": TRAINED}, "MissingArgument"),
        ("commit", {"model_version": TRAINED, "message": " \n"}, "BadRequest"),
        ("commit", {"model_version": TRAINED, "message": "x" * 2001}, "BadRequest"),
        ("commit", {"model_version": TRAINED, "message": "a\u001b[2Jb"}, "BadRequest"),
        ("branch/create", {"branch": "a b", "model_version": TRAINED}, "BadRequest"),
        ("branch/create", {"branch": "a"}, "MissingArgument"),
        ("branch/create", {"branch": "a", "model_version": "1"}, "ModelNotFound"),
        ("branch/move", {"branch": "a", "model_version": TRAINED}, "BranchNotFound"),
        ("branch/delete", {"branch": "a"}, "BranchNotFound"),
        ("rollback", {"branch": "a"}, "BranchNotFound"),
        ("rollback", {"branch": "../a"}, "BadRequest"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_and_changes_nothing(
    api: Api, path: str, body: dict[str, Any], error: str
) -> None:
    answer = api.post(path, **body)
    assert (answer["retcode"] != 0, answer["error"]["name"]) == (True, error)
    assert api.pair.network().calls == []


def test_only_the_initiators_server_changes_a_history(api: Api) -> None:
    for path, body in (
        ("branch/create", {"branch": "a", "model_version": TRAINED}),
        ("commit", {"model_version": TRAINED, "message": "m"}),
    ):
        assert api.post(path, HOST, **body)["error"]["name"] == "NotModelInitiator"
    assert api.post("branch/list", HOST)["data"]["branches"] == []


def test_the_predict_conf_is_of_the_version_that_a_branch_names(api: Api) -> None:
    child = api.post("deploy", model_version=TRAINED)["data"]["model_version"]
    api.post("branch/create", branch="release", model_version=child)
    conf = api.post("get/predict/conf", model_version="branch:release")
    assert conf["data"]["job_parameters"]["common"]["model_version"] == child
    lost = api.clients[GUEST].post("/v1/model/get/predict/conf", json={"model_version": "tag:a"})
    assert "needs a `model_id`" in lost.get_data(as_text=True)
