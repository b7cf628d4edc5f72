"""`/v1/model` and `/v1/checkpoint` over the real use cases and a store in memory."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.local_jobs.model_store import ModelStoring
from fedflow.app.models.model_exchange import ModelExchange
from fedflow.app.models.model_tags import ModelTags
from fedflow.app.models.woe_arrays import WoeArrays
from fedflow.app.participant.worker_models import WorkerModels
from fedflow.app.ports.models import ExternalModels
from fedflow.base.clock import SystemClock
from fedflow.base.ids import PartyId
from fedflow.base.settings import parse_settings
from fedflow.blobs.archive import ZipArchives
from fedflow.domain.records import JobKey, TaskKey
from fedflow.domain.site import Role, Site
from fedflow.server.models import external_models
from fedflow.web.tracker import OVER_UNIX
from tests.storage_servers import s3_server
from tests.unit.app.fakes import OneServer, participant
from tests.unit.app.models.test_models import MODEL, MODEL_ID, ended, started, token
from tests.unit.web.applications import app_over

SHARE = {"model_id": MODEL_ID, "model_version": "1", "role": "host", "party_id": 10000}
STEPS = {**SHARE, "component_name": "a"}
PARTY_MODEL_ID = f"host#10000#{MODEL_ID}"
TASK = "/v1/tracker/{job}/a/{job}_a/0/host/10000"


class Api:
    """A server's use cases, and a client of its routes."""

    def __init__(self, server: OneServer, *, shared: ExternalModels | None = None) -> None:
        core = server.core
        exchange = ModelExchange(
            store=server.store, repository=core.models, blobs=server.blobs,
            archives=ZipArchives(), parties=server.parties, clock=server.clock,
            folder=server.home / "archives",
        )  # fmt: skip
        services: Any = SimpleNamespace(
            workers=core.workers,
            models=SimpleNamespace(
                repository=core.models,
                exchange=exchange,
                storing=ModelStoring(
                    store=server.store, submissions=core.submissions, workers=core.workers,
                    exchange=exchange, external=shared,
                    clock=server.clock,
                ),
                tags=ModelTags(store=server.store, clock=server.clock),
                woe_arrays=WoeArrays(
                    store=server.store, repository=core.models, clock=server.clock
                ),
                workers=WorkerModels(
                    store=server.store, workers=core.workers, models=core.models
                ),
            ),
            data=SimpleNamespace(uploads=SimpleNamespace(spool_dir=server.home / "spool")),
        )  # fmt: skip
        self.server = server
        self.client: FlaskClient = app_over(services).test_client()
        self.executor: FlaskClient = app_over(services).test_client()
        self.executor.environ_base["REMOTE_ADDR"] = OVER_UNIX

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(f"/v1/{path}", json=body, headers=headers).get_json()

    def task(self, key: Any, path: str, body: Any) -> Any:
        """Call a route of the executor of a task."""
        headers = {"X-Fedflow-Task-Token": token(self.server, key)}
        url = f"{TASK.format(job=key.job_id)}/{path}"
        return self.executor.post(url, json=body, headers=headers).get_json()

    def import_(self, content: bytes, **fields: Any) -> Any:
        form = {
            **{k: str(v) for k, v in {**SHARE, **fields}.items()},
            "file": (io.BytesIO(content), "m.zip"),
        }
        return self.client.post("/v1/model/import", data=form, content_type="multipart/form-data")


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(participant(tmp_path))


@pytest.fixture
def trained(api: Api) -> Api:
    """A server with a model of two steps."""
    task = started(api.server)
    for index in (0, 1):
        model = {**MODEL, "param": {"iters": index}}
        body = {"step_index": index, "step_name": f"round_{index}", "model": model}
        assert api.task(task, "checkpoint/save", body)["retcode"] == 0
    api.server.report(task, "success", model=MODEL)
    api.server.ask("job_stop", task.job, status="success")
    return api


# --- query ------------------------------------------------------------------------------------


def test_a_query_answers_whole_records(trained: Api) -> None:
    answer = trained.post("model/query", {"model_version": "1", "party_id": 10000, "local": {}})
    assert (answer["retcode"], answer["retmsg"]) == (0, "success")
    [row] = answer["data"]
    assert set(row) == {
        "f_role",
        "f_party_id",
        "f_roles",
        "f_job_id",
        "f_model_id",
        "f_model_version",
        "f_size",
        "f_initiator_role",
        "f_initiator_party_id",
        "f_runtime_conf",
        "f_train_dsl",
        "f_train_runtime_conf",
        "f_runtime_conf_on_party",
        "f_inference_dsl",
        "f_fate_version",
        "f_parent",
        "f_parent_info",
        "f_loaded_times",
        "f_imported",
        "f_archive_sha256",
        "f_archive_from_ip",
        "f_create_time",
        "f_create_date",
        "f_update_time",
        "f_update_date",
    }
    assert row["f_roles"] == {"guest": [9999], "host": [10000]}
    assert (row["f_party_id"], row["f_parent"], row["f_size"]) == ("10000", True, 1)


def test_query_filters_choose_the_columns_and_unknown_ones_are_ignored(trained: Api) -> None:
    filters = ["model_id", "create_date", "description"]
    answer = trained.post("model/query", {"model_version": 1, "query_filters": filters})
    [row] = answer["data"]
    assert set(row) == {"f_model_id", "f_create_date"}


@pytest.mark.parametrize(
    "body", [{"model_version": "9"}, {"role": "nobody"}, {}, None, {"x": 1}, {"model_id": None}]
)
def test_a_query_that_finds_nothing_is_retcode_100_with_an_empty_list(
    trained: Api, body: Any
) -> None:
    answer = trained.post("model/query", body)
    assert (answer["retcode"], answer["data"]) == (100, [])


def test_file_only_leaves_out_what_is_not_whole(trained: Api) -> None:
    body = {"model_version": "1", "file_only": True}
    assert trained.post("model/query", body)["retcode"] == 0
    trained.server.blobs.contents.clear()
    assert trained.post("model/query", body)["retcode"] == 100


def test_the_detail_shows_components_with_their_depth(trained: Api) -> None:
    answer = trained.post("model/query/detail", {"model_id": MODEL_ID, "model_version": "1"})
    assert answer["data"]["component_info"] == [
        {"component_name": "a", "module": "Step", "index": 0},
        {"component_name": "b", "module": "Step", "index": 1},
    ]
    assert answer["data"]["inference_component_info"] == []
    assert answer["data"]["runtime_conf"]["dsl_version"] == 2
    unknown = trained.post("model/query/detail", {"model_id": MODEL_ID, "model_version": "2"})
    assert unknown["retcode"] == 100


# --- archives ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_export_is_a_file_whose_name_is_not_quoted(trained: Api, method: str) -> None:
    answer = trained.client.open("/v1/model/export", method=method, json=SHARE)
    assert answer.status_code == 200
    found = re.search("filename=(.+)", answer.headers["Content-Disposition"])
    assert found is not None
    assert found[1] == f"{PARTY_MODEL_ID}_1.zip"
    assert answer.data[:2] == b"PK"
    answer.close()


def test_an_export_of_nothing_is_http_404_and_a_missing_argument_400(trained: Api) -> None:
    absent = trained.client.post("/v1/model/export", json={**SHARE, "model_version": "2"})
    assert (absent.status_code, absent.get_json()["retcode"]) == (404, 404)
    missing = trained.client.get("/v1/model/export", json={"model_id": MODEL_ID})
    assert missing.status_code == 400


def exported(api: Api) -> bytes:
    with api.client.post("/v1/model/export", json=SHARE) as answer:
        return bytes(answer.data)


def test_an_import_makes_the_model_known_elsewhere(trained: Api, tmp_path: Path) -> None:
    content = exported(trained)
    other = Api(participant(tmp_path / "other"))
    answer = other.import_(content, force_update="0", hash=hashlib.sha256(content).hexdigest())
    assert answer.status_code == 200
    assert answer.get_json()["data"] == {**SHARE, "party_id": "10000", "job_id": "1"}
    [row] = other.post("model/query", {"model_version": "1"})["data"]
    assert (row["f_imported"], row["f_archive_from_ip"]) == (1, "127.0.0.1")
    again = other.import_(content)
    assert (again.status_code, again.get_json()["retcode"]) == (409, 409)
    assert other.import_(content, force_update="1").status_code == 200
    assert not list((other.server.home / "spool").rglob("*"))


def test_an_import_that_is_refused_says_why_and_leaves_no_file(trained: Api) -> None:
    content = exported(trained)
    for answer, status in (
        (trained.import_(content, force_update=1, hash="0" * 64), 400),
        (trained.import_(b"no zip", force_update=1), 400),
        (trained.import_(content, force_update=1, party_id=9999), 400),
        (trained.import_(content, force_update=1, role="nobody"), 400),
        (trained.client.post("/v1/model/import", json=SHARE), 400),
        (
            trained.client.post(
                "/v1/model/import", data={"model_id": "x"}, content_type="multipart/form-data"
            ),
            400,
        ),
    ):
        assert answer.status_code == status
        assert answer.get_json()["retcode"] == status
    assert not list((trained.server.home / "spool").rglob("*"))


def test_an_archive_for_this_machine_is_named_with_its_hash(trained: Api) -> None:
    body = {"party_model_id": PARTY_MODEL_ID, "model_version": "1"}
    data = trained.post("model/archive/packaging", body)["data"]
    assert hashlib.sha256(Path(data["path"]).read_bytes()).hexdigest() == data["hash"]
    bad = trained.client.post("/v1/model/archive/packaging", json={**body, "model_version": "2"})
    assert bad.status_code == 404


def test_serving_systems_get_the_contents_by_body_or_path(trained: Api) -> None:
    data = trained.post("model/transfer", {"namespace": PARTY_MODEL_ID, "name": "1"})["data"]
    assert base64.b64decode(data["a.model:LRParam"]) == b'{"weight":{"x":0.5}}'
    path = PARTY_MODEL_ID.replace("#", "~")
    assert trained.post(f"model/transfer/{path}/1")["data"] == data
    for bad, status in ((f"{path}/2", 404), ("x/1", 400), ("nobody~1~m/1", 400)):
        assert trained.client.post(f"/v1/model/transfer/{bad}").status_code == status


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("homo/convert", SHARE),
        ("homo/deploy", {**SHARE, "service_id": "s", "component_name": "a",
         "deployment_type": "kfserving", "deployment_parameters": {}}),
        ("service/register", {"party_model_id": PARTY_MODEL_ID, "model_version": "1"}),
    ],
)  # fmt: skip
def test_what_comes_later_says_so_after_its_checks(trained: Api, path: str, body: Any) -> None:
    answer = trained.post(f"model/{path}", body)
    assert (answer["retcode"], answer["error"]["name"]) == (100, "NotSupportedYet")
    absent = trained.post(f"model/{path}", {**body, "model_version": "2"})
    assert absent["error"]["name"] == "ModelNotFound"
    assert trained.post(f"model/{path}", {"model_version": "1"})["retcode"] == 101


# --- the external store -----------------------------------------------------------------------


def test_without_an_external_store_both_routes_say_so(trained: Api) -> None:
    for path in ("store", "restore"):
        assert trained.post(f"model/{path}", SHARE)["error"]["name"] == "ModelStoreNotSet"


def run_local(api: Api, job_id: str, module: str, **parameters: Any) -> Any:
    """Let the task of a local job ask for what its parameters say, and return the answer."""
    local = Site(Role.LOCAL, PartyId("10000"))
    named = {**SHARE, "party_id": "10000", **parameters}
    body = {
        "epoch": 0,
        "dsl": {"components": {"a": {"module": module}}},
        "runtime_conf": {
            "dsl_version": 2,
            "initiator": {"role": "local", "party_id": 10000},
            "role": {"local": [10000]},
            "job_parameters": {"common": {"task_cores": 1}},
            "component_parameters": {"role": {"local": {"0": {"a": named}}}},
        },
        "initiator_role": "local",
        "initiator_party_id": "10000",
    }
    key = JobKey(job_id=job_id, site=local)
    api.server.ask("job_create", key, body=body, source="10000", request_id=job_id)
    for command in ("job_apply", "job_start"):
        api.server.ask(command, key, source="10000")
    task = TaskKey(job_id=job_id, component="a", version=0, site=local)
    api.server.ask("task_start", task, body={"epoch": 0}, source="10000")
    headers = {"X-Fedflow-Task-Token": token(api.server, task)}
    url = f"/v1/tracker/{job_id}/a/{job_id}_a/0/local/10000/model"
    word = "store" if module == "ModelStore" else "restore"
    other = "restore" if word == "store" else "store"
    wrong = api.executor.post(f"{url}/{other}", json={}, headers=headers).get_json()
    assert wrong["error"]["name"] == "BadRequest"
    first = api.executor.post(f"{url}/{word}", json={}, headers=headers).get_json()
    again = api.executor.post(f"{url}/{word}", json={}, headers=headers).get_json()
    assert first == again  # a worker whose answer was lost asks twice
    return first


@pytest.fixture(params=["folder", "s3"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ExternalModels]:
    """Return an external store, as settings name it."""
    if request.param == "folder":
        yield opened(storage="folder", folder=str(tmp_path / "shared"))
        return
    with s3_server() as server:
        server.files.create_dir("bucket")
        yield opened(
            storage="s3", uri="s3://bucket/models", endpoint=server.endpoint,
            access_key=server.access_key, secret_key=server.secret_key,
        )  # fmt: skip


def opened(**address: str) -> ExternalModels:
    found = external_models(parse_settings({"model_store_address": address}), SystemClock())
    assert found is not None
    return found


def test_a_model_goes_to_the_external_store_and_comes_back_elsewhere(
    tmp_path: Path, shared: ExternalModels
) -> None:
    mine = Api(participant(tmp_path / "one"), shared=shared)
    ended(mine.server)
    stored = run_local(mine, "5", "ModelStore")
    assert stored["retcode"] == 0, stored
    other = Api(participant(tmp_path / "two"), shared=shared)
    back = run_local(other, "5", "ModelRestore", sha256=stored["data"]["sha256"])
    assert back == stored
    assert exported(other) != b""
    [row] = other.post("model/query", {"model_version": "1"})["data"]
    assert row["f_archive_sha256"] == stored["data"]["sha256"]
    # a share that is here already stays, and another copy is replaced only if that is asked for
    assert run_local(mine, "6", "ModelRestore")["retcode"] == 0
    mine.server.clock.ms += 1
    ended(mine.server, "1000")
    assert run_local(other, "6", "ModelStore")["error"]["name"] == "ModelExists"
    assert run_local(other, "7", "ModelStore", force_update=True)["retcode"] == 0


def test_a_restore_checks_the_digest_that_was_given(tmp_path: Path, shared: ExternalModels) -> None:
    mine = Api(participant(tmp_path / "one"), shared=shared)
    ended(mine.server)
    run_local(mine, "5", "ModelStore")
    other = Api(participant(tmp_path / "two"), shared=shared)
    refused = run_local(other, "5", "ModelRestore", sha256="0" * 64)
    assert refused["error"]["name"] == "BadModelArchive"
    absent = run_local(other, "6", "ModelRestore", model_version="9")
    assert absent["error"]["name"] == "ModelNotFound"


# --- tags -------------------------------------------------------------------------------------


def test_tags_are_made_listed_renamed_and_dropped(api: Api) -> None:
    assert api.post("model/tag/create", {"tag_name": "t1", "tag_desc": "d"})["retcode"] == 0
    assert api.post("model/tag/create", {"tag_name": "t1"})["retcode"] == 100
    assert api.post("model/tag/create", {"tag_name": 7})["retcode"] == 0
    listed = api.post("model/tag/list", {"limit": 10})["data"]["tags"]
    assert listed[0] == {"name": "7", "description": "", "model_count": 0}
    assert api.post("model/tag/list", {})["retcode"] == 101
    found = api.post("model/tag/retrieve", {"tag_name": "t"})["data"]
    assert found == {"tags": [{"name": "t1", "description": "d"}]}
    update = {"tag_name": "t1", "new_tag_name": "t2", "new_tag_desc": "e"}
    assert api.post("model/tag/update", update)["retcode"] == 0
    assert api.post("model/tag/update", update)["retcode"] == 100
    assert api.post("model/tag/update", {"tag_name": "t2", "new_tag_name": "7"})["retcode"] == 100
    assert api.post("model/tag/destroy", {"tag_name": "t2"})["retcode"] == 0
    assert api.post("model/tag/destroy", {"tag_name": "t2"})["retcode"] == 100
    assert api.post("model/tag/retrieve", {"tag_name": "t"})["retcode"] == 100
    assert api.post("model/tag/create", {"tag_name": "x" * 101})["retcode"] == 101


def test_a_model_version_is_tagged_and_found_by_its_tag(trained: Api) -> None:
    tagged = {"job_id": "1", "tag_name": "release"}
    assert trained.post("model/model_tag/create", tagged)["retcode"] == 0
    assert trained.post("model/model_tag/create", tagged)["retcode"] == 100
    assert trained.post("model/model_tag/create", {**tagged, "job_id": "2"})["retcode"] == 100
    found = trained.post("model/model_tag/retrieve", {"job_id": "1"})["data"]
    assert found == {"tags": [{"name": "release", "description": ""}], "count": 1}
    models = trained.post("model/tag/retrieve", {"tag_name": "release", "with_model": True})
    assert models["data"] == {
        "models": [
            {"model_id": MODEL_ID, "model_version": "1", "model_size": 1, "role": "host",
             "party_id": "10000"}
        ],
        "count": 1,
    }  # fmt: skip
    assert trained.post("model/model_tag/remove", tagged)["retcode"] == 0
    assert trained.post("model/model_tag/remove", tagged)["retcode"] == 100
    empty = trained.post("model/model_tag/retrieve", {"job_id": "1"})["data"]
    assert empty == {"tags": [], "count": 0}


# --- checkpoints ------------------------------------------------------------------------------


def test_checkpoints_are_listed_with_the_digests_of_their_contents(trained: Api) -> None:
    steps = trained.post("checkpoint/list", STEPS)["data"]
    assert [(s["step_index"], s["step_name"]) for s in steps] == [(0, "round_0"), (1, "round_1")]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", steps[0]["create_time"])
    sha1 = hashlib.sha1(b'{"iters":0}').hexdigest()
    assert steps[0]["models"]["LRParam"] == {"sha1": sha1, "buffer_name": "LRParam"}
    assert trained.post("checkpoint/list", {**STEPS, "component_name": "b"})["data"] == []


def test_one_checkpoint_is_read_by_its_index_or_its_name(trained: Api) -> None:
    by_index = trained.post("checkpoint/get", {**STEPS, "step_index": 1})["data"]
    assert base64.b64decode(by_index["models"]["LRParam"]) == b'{"iters":1}'
    assert trained.post("checkpoint/get", {**STEPS, "step_name": "round_1"})["data"] == by_index


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"step_index": 7}, 404), ({"step_name": "x"}, 404), ({}, 400),
        ({"step_index": 0, "step_name": "round_0"}, 400), ({"step_index": "x"}, 400),
        ({"step_index": 0, "role": "nobody"}, 400), ({"step_index": 0, "model_id": None}, 400),
    ],
)  # fmt: skip
def test_other_checkpoints_are_answered_with_a_status(trained: Api, body: Any, status: int) -> None:
    answer = trained.client.post("/v1/checkpoint/get", json={**STEPS, **body})
    assert answer.status_code == status


# --- executors --------------------------------------------------------------------------------


def test_an_executor_reads_its_steps_back(api: Api) -> None:
    task = started(api.server)
    assert api.task(task, "checkpoint/list", {})["data"] == []
    body = {"step_index": 2, "step_name": "s", "model": MODEL}
    assert api.task(task, "checkpoint/save", body)["retcode"] == 0
    assert api.task(task, "checkpoint/list", {})["data"] == [[2, "s"]]
    found = api.task(task, "checkpoint/get", {"step_index": 2})["data"]
    assert found["model"]["param"] == MODEL["param"]
    assert (
        api.task(task, "checkpoint/get", {"step_index": 3})["error"]["name"] == "CheckpointNotFound"
    )


def test_models_of_executors_need_the_token(api: Api) -> None:
    task = started(api.server)
    url = TASK.format(job=task.job_id)
    for path in ("checkpoint/save", "checkpoint/list", "model/save", "model/get", "model/store"):
        body = {"step_index": 0, "step_name": "s", "model": MODEL, "model_id": "m",
                "model_version": "1", "component_model": MODEL}  # fmt: skip
        assert api.executor.post(f"{url}/{path}", json=body).get_json()["retcode"] == 109
        headers = {"X-Fedflow-Task-Token": "x"}
        refused = api.executor.post(f"{url}/{path}", json=body, headers=headers).get_json()
        assert refused["error"]["name"] == "NotAuthenticated"
