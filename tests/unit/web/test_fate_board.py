"""FATE-Board's endpoints: its envelope, codes and members, and what a site may see."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.base.errors.jobs import JobNotFound, RerunRefused
from fedflow.base.ids import PartyId
from fedflow.domain.records import JobKey, Sort, StoredModel
from fedflow.domain.site import Role, Site
from fedflow.domain.states import JobStatus, TaskStatus
from fedflow.wire.api.administration import LogLine
from fedflow.wire.fate_board import page_bean
from tests.unit.web.conftest import GUEST, JOB_ID, make_job, make_task

HOST = Site(Role.HOST, PartyId("10000"))
SHARE = {"job_id": JOB_ID, "role": "guest", "party_id": "9999"}
READER = {**SHARE, "component_name": "reader_0"}


def ask(client: FlaskClient, path: str, body: Any = None, *, method: str = "POST") -> Any:
    answer = client.open(f"/fateboard{path}", method=method, json=body)
    assert answer.status_code == 200
    return answer.json


# --- jobs -----------------------------------------------------------------------------------------


def test_a_page_of_jobs_has_fate_boards_members(client: FlaskClient, services: Any) -> None:
    timed_out = make_job(
        key=JobKey(job_id="2", site=GUEST), status=JobStatus.TIMEOUT, started_ms=1_000,
        ended_ms=4_000, progress=50, description="notes",
        roles={"guest": ["9999"], "host": ["10000", "10001"], "arbiter": ["10002"]},
    )  # fmt: skip
    services.jobs_known = [make_job(), timed_out]
    answer = ask(client, "/job/query/page/new", {"status": ["failed"], "pageSize": 10})
    assert (answer["code"], answer["msg"]) == (0, "OK")
    page = answer["data"]
    [row] = page.pop("list")
    assert page == {
        "pageNum": 1, "pageSize": 10, "totalRecord": 1, "totalPage": 1, "startIndex": 0,
        "start": 1, "end": 1,
    }  # fmt: skip
    assert row["job"] == {
        "fJobId": "2", "fName": "", "fDescription": "notes", "fTag": "", "fDsl": None,
        "fRuntimeConf": None, "fTrainRuntimeConf": None, "fWorkMode": 1,
        "fRoles": '{"guest": [9999], "host": [10000, 10001], "arbiter": [10002]}',
        "fInitiatorRole": "guest", "fInitiatorPartyId": "9999", "fStatus": "failed",
        "fRole": "guest", "fPartyId": "9999", "fIsInitiator": 1, "fProgress": 50,
        "fCreateTime": 1795168800000, "fUpdateTime": 1795168805000, "fStartTime": 1000,
        "fEndTime": 4000, "fElapsed": 3000, "partners": ["10000", "10001", "10002"],
    }  # fmt: skip
    assert row["dataset"]["dataset"] == {"guest": {"9999": {"reader_0": "exp.g"}}}


def test_the_filters_of_a_page_are_passed_on(client: FlaskClient, services: Any) -> None:
    ask(
        client, "/job/query/page/new",
        {
            "jobId": "2026", "partyId": 99, "partner": "100", "role": ["guest"],
            "fDescription": "a note", "pageNum": 3, "pageSize": 20, "orderField": "f_elapsed",
            "orderRule": "asc",
        },
    )  # fmt: skip
    which = next(call[1] for call in services.calls if call[0] == "page")
    assert (which.job_id_part, which.party_id_part, which.partner_part) == ("2026", "99", "100")
    assert which.description_part == "a note"
    assert (which.limit, which.offset, which.roles) == (20, 40, (Role.GUEST,))
    assert (which.order.by, which.order.descending) == (Sort.ELAPSED, False)


@pytest.mark.parametrize(
    "body",
    [
        {"orderField": "f_dsl"},
        {"orderRule": "up"},
        {"pageSize": 0},
        {"pageNum": 0},
        {"role": ["king"]},
        {"status": ["fine"]},
    ],
)
def test_a_filter_that_is_none_is_refused(client: FlaskClient, body: Any) -> None:
    assert ask(client, "/job/query/page/new", body)["code"] == 10008


def test_page_numbers_to_offer_stay_within_the_list() -> None:
    def offered(number: int, count: int) -> tuple[int, int]:
        bean = page_bean([], number=number, size=10, count=count)
        return bean.start, bean.end

    assert offered(1, 0) == (1, 0)
    assert offered(2, 35) == (1, 4)
    assert offered(1, 100) == (1, 5)
    assert offered(7, 100) == (5, 9)
    assert offered(10, 100) == (6, 10)


def test_running_jobs_are_those_that_wait_or_run(client: FlaskClient, services: Any) -> None:
    ended = make_job(key=JobKey(job_id="2", site=GUEST), status=JobStatus.SUCCESS)
    ready = make_job(key=JobKey(job_id="3", site=GUEST), status=JobStatus.READY)
    services.jobs_known = [make_job(), ended, ready]
    rows = ask(client, "/job/query/status", method="GET")["data"]
    shown = {row["fJobId"]: row["fStatus"] for row in rows}
    assert shown == {JOB_ID: "running", "3": "waiting"}


def test_the_words_of_filters_are_listed(client: FlaskClient) -> None:
    data = ask(client, "/job/query/fields")["data"]
    assert data["role"] == ["guest", "host", "arbiter", "local"]
    assert "timeout" not in data["status"]


def test_one_job_is_asked_for_by_its_path(client: FlaskClient) -> None:
    data = ask(client, f"/job/query/{JOB_ID}/guest/9999", method="GET")["data"]
    assert data["job"]["fJobId"] == JOB_ID
    assert ask(client, f"/job/query/{JOB_ID}/host/10000", method="GET")["code"] == 10006
    assert ask(client, f"/job/query/{JOB_ID}/king/1", method="GET")["code"] == 10008


def test_jobs_are_stopped_noted_and_run_again(client: FlaskClient, services: Any) -> None:
    asked: list[Any] = []
    services.reruns = SimpleNamespace(rerun=lambda *a, **k: asked.append((a, k["components"])))
    note = {**SHARE, "notes": "<b>any</b> text, 中文!"}
    assert ask(client, "/job/update", note, method="PUT")["code"] == 0
    assert ask(client, "/job/v1/pipeline/job/stop", {"job_id": JOB_ID})["code"] == 0
    for name in ("pipeline", "a"):
        body = {"job_id": JOB_ID, "component_name": name}
        assert ask(client, "/job/v1/rerun", body)["code"] == 0
    assert ("set_notes", JOB_ID, "guest", "9999", "<b>any</b> text, 中文!", None) in services.calls
    assert ("stop", JOB_ID, "canceled") in services.calls
    assert asked == [((JOB_ID,), None), ((JOB_ID,), ["a"])]


def test_a_refused_rerun_has_fate_boards_code_and_our_reason(
    client: FlaskClient, services: Any
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RerunRefused(job_id=JOB_ID, reason="it runs")

    services.reruns = SimpleNamespace(rerun=refuse)
    answer = ask(client, "/job/v1/rerun", {"job_id": JOB_ID})
    assert (answer["code"], answer["data"]) == (10013, None)
    assert "it runs" in answer["msg"]
    assert answer["error"]["name"] == "RerunRefused"


def test_a_defect_has_no_details(client: FlaskClient, services: Any) -> None:
    services.fail = ZeroDivisionError("secret")
    answer = ask(client, "/job/query/page/new", {})
    assert (answer["code"], answer["msg"]) == (10010, "System error!")
    assert "secret" not in str(answer)


# --- documents ------------------------------------------------------------------------------------


CONF = {
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
    "component_parameters": {
        "common": {"lr": {"max_iter": 3}},
        "role": {"guest": {"0": {"a": {"label_name": "secret"}}}, "host": {"0": {"a": {"x": 1}}}},
    },
}


def document(client: FlaskClient, role: str, kind: str = "conf") -> Any:
    body = {"jobId": JOB_ID, "role": role, "type": kind}
    return client.post("/fateboard/job/download", json=body)


def test_a_hosts_runtime_conf_is_its_own_part(client: FlaskClient, services: Any) -> None:
    host = make_job(key=JobKey(job_id=JOB_ID, site=HOST), conf=CONF)
    services.jobs_known = [make_job(conf=CONF), host]
    answer = document(client, "host")
    assert f"runtime_config_{JOB_ID}.json" in answer.headers["Content-Disposition"]
    assert answer.json == {
        "role": {"host": [10000]},
        "component_parameters": {
            "common": {"lr": {"max_iter": 3}}, "role": {"host": {"0": {"a": {"x": 1}}}},
        },
    }  # fmt: skip
    assert document(client, "guest").json == CONF


def test_an_arbiter_gets_the_dsl_and_no_runtime_conf(client: FlaskClient, services: Any) -> None:
    arbiter = Site(Role.ARBITER, PartyId("10000"))
    services.jobs_known = [make_job(key=JobKey(job_id=JOB_ID, site=arbiter), conf=CONF)]
    assert document(client, "arbiter").json["code"] == 10008
    assert document(client, "arbiter", "dsl").json == make_job().dsl


def test_the_command_for_outputs_is_told_for_components_that_are_here(client: FlaskClient) -> None:
    data = ask(client, "/job/componentCommand", READER)["data"]
    assert data == (
        f"flow component output-data -j {JOB_ID} -r guest -p 9999 -cpn reader_0 --output-path ./"
    )
    body = {**READER, "component_name": "x; rm -rf /"}
    assert ask(client, "/job/componentCommand", body)["code"] == 10006


# --- the DAG --------------------------------------------------------------------------------------


def test_the_dag_has_the_status_of_each_component_at_the_site(
    client: FlaskClient, services: Any
) -> None:
    services.tasks_known = [make_task(party_status=TaskStatus.TIMEOUT, started_ms=7)]
    data = ask(client, "/v1/pipeline/dag/dependencies", SHARE)["data"]
    assert data["component_list"] == [{"component_name": "reader_0", "status": "failed", "time": 7}]


def test_progress_has_what_never_changes_in_its_first_message_only(
    client: FlaskClient, services: Any
) -> None:
    services.jobs_known = [make_job(started_ms=1_000, ended_ms=5_000, progress=40)]
    path = f"/websocket/progress/{JOB_ID}/guest/9999"
    first = ask(client, path, method="GET")["data"]
    assert (first["process"], first["duration"], first["status"]) == (40, 4_000, "running")
    assert "dataset" in first["summary_date"]
    again = ask(client, f"{path}?again=1", method="GET")["data"]
    assert list(again["dependency_data"]) == ["component_list"]
    assert list(again["summary_date"]) == ["job"]


# --- what jobs produced ---------------------------------------------------------------------------


def test_metrics_come_alone_and_in_batches(client: FlaskClient) -> None:
    assert ask(client, "/v1/tracking/component/metrics", READER)["data"] == {"train": ["loss"]}
    one = {**READER, "metric_namespace": "train", "metric_name": "loss"}
    shown = {
        "retcode": 0, "retmsg": "success", "data": [[0, 0.7], [1, 0.5]], "meta": {"name": "loss"},
    }  # fmt: skip
    assert ask(client, "/v1/tracking/component/metric_data", one)["data"] == shown
    nothing = {"retcode": 0, "retmsg": "no data", "data": [], "meta": {}}
    wanted = {"train": ["loss", "none"]}
    for body in (
        {**READER, "metrics": wanted},
        {
            "jobId": JOB_ID, "role": "guest", "partyId": 9999, "componentName": "reader_0",
            "metrics": wanted,
        },
    ):  # fmt: skip
        data = ask(client, "/v1/tracking/component/metric_data/batch", body)["data"]
        assert data == {"train": {"loss": shown, "none": nothing}}


def test_a_batch_without_a_component_names_what_is_missing(client: FlaskClient) -> None:
    body = {"role": "guest", "metrics": {}}
    answer = ask(client, "/v1/tracking/component/metric_data/batch", body)
    assert answer["code"] == 10008
    assert "job_id,party_id,component_name" in answer["msg"]


def test_parameters_and_data_are_passed_on(client: FlaskClient) -> None:
    found = ask(client, "/v1/tracking/component/parameters", READER)["data"]
    assert found == {"module": "Reader", "ReaderParam": {}}
    data = ask(client, "/v1/tracking/component/output/data", READER)["data"]
    assert data["meta"] == {"header": [["id", "y", "x0"]], "total": [3], "names": ["data"]}
    assert data["data"][0][0] == ["1", "0", "2.5"]


def test_a_model_is_shown_without_what_its_site_may_not_see(
    client: FlaskClient, services: Any
) -> None:
    assert ask(client, "/v1/tracking/component/output/model", READER)["data"]["retmsg"] == "no data"
    services.model_known = StoredModel(
        key=make_task().key, alias="model", meta_name="M", param_name="P", meta={"a_b": 1},
        param={"weight": {"x0": 1.0}, "cipher": {"private_key": "p"}, "is_converged": True},
    )  # fmt: skip
    data = ask(client, "/v1/tracking/component/output/model", READER)["data"]
    assert data["data"] == {"weight": {"x0": 1.0}, "isConverged": True}
    assert data["meta"] == {"meta_data": {"aB": 1}, "module_name": "Reader"}


@pytest.mark.parametrize(
    "path", ["parameters", "output/model", "output/data"],
)  # fmt: skip
def test_what_is_not_here_is_not_told(client: FlaskClient, services: Any, path: str) -> None:
    services.parameters = services.task  # the fake has no parameters of its own to miss
    services.tasks_known = [replace(make_task(), here=False)]
    body = {**READER, "party_id": "1"}
    assert ask(client, f"/v1/tracking/component/{path}", body)["code"] == 10006


# --- logs -----------------------------------------------------------------------------------------


class Logs:
    """Logs of three lines; remembers which were asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def size(self, which: Any) -> int:
        self.asked.append(which)
        return 3

    def lines(self, which: Any, begin: int, end: int | None) -> list[LogLine]:
        self.asked.append(which)
        return [LogLine(line_num=begin, content="<i>line</i>")]


def test_messages_of_the_log_websocket_are_answered(client: FlaskClient, services: Any) -> None:
    services.administration.job_logs = logs = Logs()
    services.instance_id = lambda: "me"
    path = f"/log/new/{JOB_ID}/guest/9999"
    assert ask(client, f"{path}/default", {"type": "logSize"})["data"] == {
        "jobSchedule": 3, "jobError": 3, "partyError": 3, "partyWarning": 3, "partyInfo": 3,
        "partyDebug": 3,
    }  # fmt: skip
    assert ask(client, f"{path}/reader_0", {"type": "logSize"})["data"] == {"componentInfo": 3}
    answer = ask(client, f"{path}/default", {"type": "jobError", "begin": 2, "instanceId": "me"})
    assert answer["type"] == "jobError"
    assert answer["data"] == [{"lineNum": 2, "content": "<i>line</i>"}]
    assert logs.asked[-1].log_type == "jobScheduleError"
    assert ask(client, f"{path}/default", {"type": "no"})["code"] == 10008
    other = {"type": "partyInfo", "instanceId": "other"}
    assert ask(client, f"{path}/default", other)["code"] == 10016
    assert ask(client, f"/log/new/{JOB_ID}/host/1/default", {"type": "logSize"})["code"] == 10006


def test_an_unknown_job_is_no_data(client: FlaskClient, services: Any) -> None:
    services.fail = JobNotFound(job_id="x")
    assert ask(client, "/job/v1/pipeline/job/stop", {"job_id": "x"})["code"] == 10006


# --- the same of FATE Flow's routes ---------------------------------------------------------------


def test_a_hosts_records_have_its_own_part_of_the_conf(client: FlaskClient, services: Any) -> None:
    host = make_job(key=JobKey(job_id=JOB_ID, site=HOST), conf=CONF, train_conf=CONF)
    services.jobs_known = [host]
    share = {"job_id": JOB_ID, "role": "host", "party_id": "10000"}
    for path in ("config", "query", "list/job"):
        answer = client.post(f"/v1/job/{path}", json=share)
        assert "max_iter" in answer.text, path
        assert "label_name" not in answer.text, path
    services.jobs_known = [make_job(conf=CONF)]
    assert "label_name" in client.post("/v1/job/config", json=SHARE).text
