"""The routes for ended and waiting jobs, and for cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow.app.initiator.parameter_updates import Sections
from fedflow.app.queries.resources import ResourceUse, Returned
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import (
    BadSteps,
    ContinueRefused,
    JobNotFound,
    ParametersRefused,
    PauseRefused,
    RerunRefused,
)
from fedflow.domain.records import Engine
from fedflow.wire.api.jobs import ChangedParameters, CleanedUp
from tests.unit.web.conftest import JOB_ID, SUBMITTED, make_job


class Control:
    """The use cases of these routes; `fail` is raised by the next call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fail: Exception | None = None
        self.rows = [{"component_name": "a", "index": 0, "status": "success"}]

    def _note(self, *call: Any) -> None:
        self.calls.append(call)
        if self.fail is not None:
            raise self.fail

    def rerun(
        self, job_id: str, *, components: Any, force: bool, failed_only: bool, sections: Sections
    ) -> None:
        more = [failed_only] if failed_only else []
        self._note("rerun", job_id, components, force, *more, *([sections] if sections else []))

    def pause(self, job_id: str) -> None:
        self._note("pause", job_id)

    def proceed(self, job_id: str, *, steps: int | None, all_: bool) -> None:
        self._note("proceed", job_id, steps, all_)

    def update(
        self, job_id: str, *, job_parameters: Any, component_parameters: Any
    ) -> ChangedParameters:
        self._note("update", job_id, job_parameters, component_parameters)
        return ChangedParameters(
            job_parameters=job_parameters,
            component_parameters=component_parameters,
            components=("a",),
        )

    def clean(self, job_id: str, *, role: Any, party_id: Any, component: Any) -> CleanedUp:
        self._note("clean", job_id, role, party_id, component)
        return CleanedUp(tables=("n.t",), kept=(), metrics=2)

    def clean_queue(self) -> dict[str, int]:
        self._note("clean_queue")
        return {JOB_ID: 0}

    def query(self, *, in_use: bool = True, engine_name: str | None = None) -> Any:
        self._note("query", in_use, engine_name)
        engine = Engine(name="STANDALONE", cores=20, remaining_cores=16)
        spark = Engine(name="SPARK", cores=8, remaining_cores=8)
        return ResourceUse(engine=engine, engines=(engine, spark), jobs=(make_job(cores=4),))

    def give_back(self, job_id: str) -> list[Returned]:
        self._note("give_back", job_id)
        return [Returned(job=make_job(in_use=True), returned=True)]


@pytest.fixture
def control(services: Any) -> Control:
    fake = Control()
    services.reruns = services.parameter_updates = services.cleaning = services.resources = fake
    return fake


def post(client: FlaskClient, path: str, body: Any = None) -> dict[str, Any]:
    answer = client.post(f"/v1{path}", json=body) if body is not None else client.post(f"/v1{path}")
    assert answer.status_code == 200
    return dict(answer.json or {})


@pytest.mark.parametrize(
    ("more", "components", "force"),
    [
        ({}, None, False),
        ({"component_name": "a", "force": True}, ("a",), True),
        ({"component_name": ["a", "b"], "force": "false"}, ("a", "b"), False),
    ],
)
def test_rerun_takes_a_name_or_a_list_and_answers_fates_words(
    client: FlaskClient, control: Control, more: Any, components: Any, force: bool
) -> None:
    body = post(client, "/job/rerun", {"job_id": JOB_ID, "conf_path": "x", **more})
    assert body == {"retcode": 0, "retmsg": "rerun job success"}
    assert control.calls == [("rerun", JOB_ID, components, force)]


def test_a_rerun_may_bring_parameters_and_leave_out_what_never_ran(
    client: FlaskClient, control: Control
) -> None:
    given = {"component_parameters": {"common": {"a": {"x": 1}}}}
    post(client, "/job/rerun", {"job_id": JOB_ID, "failed_only": 1, **given})
    assert control.calls == [("rerun", JOB_ID, None, False, True, Sections(**given))]
    assert post(client, "/job/rerun", {"job_id": JOB_ID, "job_parameters": [1]})["retcode"] == 101


@pytest.mark.parametrize(
    ("error", "retcode"),
    [(JobNotFound(job_id="j"), 102), (RerunRefused(job_id="j", reason="it is running"), 103)],
)
def test_a_refused_rerun_has_its_code(
    client: FlaskClient, control: Control, error: Exception, retcode: int
) -> None:
    control.fail = error
    assert post(client, "/job/rerun", {"job_id": "j"})["retcode"] == retcode


def test_new_parameters_come_back_with_the_components_that_they_concern(
    client: FlaskClient, control: Control
) -> None:
    sections = {"job_parameters": {"common": {"timeout": 5}}}
    body = post(client, "/job/parameter/update", {"job_id": JOB_ID, **sections})
    assert body["data"] == {**sections, "component_parameters": {}, "components": ["a"]}
    assert post(client, "/job/parameter/update", {"job_id": JOB_ID})["retcode"] == 101
    control.fail = ParametersRefused(job_id="j", reason="no", parties={"host": {"1": 101}})
    refused = post(client, "/job/parameter/update", {"job_id": JOB_ID, **sections})
    assert (refused["retcode"], refused["data"]) == (103, {"host": {"1": 101}})


def test_cleaning_tells_what_went_and_what_stayed(client: FlaskClient, control: Control) -> None:
    body = post(client, "/job/clean", {"job_id": JOB_ID, "role": "guest", "party_id": 9999})
    assert body["data"] == {"tables": ["n.t"], "kept": [], "metrics": 2}
    assert control.calls[0][1:] == (JOB_ID, "guest", "9999", None)
    assert post(client, "/job/clean", {"job_id": JOB_ID, "role": "nobody"})["retcode"] == 101


@pytest.mark.parametrize("sent", [None, "", "not json", "[]"])
def test_the_queue_is_cleaned_without_any_body(
    client: FlaskClient, control: Control, sent: str | None
) -> None:
    answer = client.post("/v1/job/clean/queue", data=sent)
    assert answer.json["data"] == {JOB_ID: 0}


def test_a_report_without_rows_is_an_argument_error(
    client: FlaskClient, control: Control, services: Any
) -> None:
    rows = [{"component_name": "a", "index": 0, "status": "success"}]
    services.jobs.report = lambda *_, **__: rows
    assert post(client, "/job/report", {"job_id": JOB_ID})["data"] == rows
    rows.clear()
    assert post(client, "/job/report", {"job_id": JOB_ID})["retcode"] == 101


def test_a_jobs_page_is_one_of_the_board_with_a_port(client: FlaskClient, control: Control) -> None:
    where = {"job_id": JOB_ID, "role": "guest", "party_id": 9999}
    body = post(client, "/job/url/get", where)
    page = f"/board/jobs/{JOB_ID}/guest/9999"
    assert body["data"] == {"board_url": [f"http://localhost:80{page}"]}
    answer = client.post("/v1/job/url/get", json=where, base_url="http://127.0.0.1:9380")
    assert answer.json["data"] == {"board_url": [f"http://127.0.0.1:9380{page}"]}
    assert post(client, "/job/url/get", {**where, "job_id": "no"})["retcode"] == 101
    assert post(client, "/job/url/get", {"job_id": JOB_ID})["retcode"] == 101


def test_the_cores_and_who_holds_them(client: FlaskClient, control: Control) -> None:
    body = post(client, "/resource/query", {"unknown": 1})
    assert body["data"]["use_resource_job"] == [
        {
            "job_id": JOB_ID, "role": "guest", "party_id": "9999", "core": 4, "memory": 0,
            "engine": "STANDALONE",
        }
    ]  # fmt: skip
    entrances = [(e["f_engine_name"], e["f_engine_entrance"]) for e in body["data"]["engines"]]
    assert entrances == [("STANDALONE", "fate_on_standalone"), ("SPARK", "fate_on_spark")]
    engine = body["data"]["computing_engine_resource"]
    assert (engine["f_engine_name"], engine["f_cores"], engine["f_remaining_cores"]) == (
        "STANDALONE", 20, 16,
    )  # fmt: skip
    post(client, "/resource/query", {"resource_in_use": False, "engine_name": "STANDALONE"})
    assert control.calls[-1] == ("query", False, "STANDALONE")


def test_cores_are_given_back_per_share(client: FlaskClient, control: Control) -> None:
    assert post(client, "/resource/return", {"job_id": JOB_ID})["data"] == [
        {
            "job_id": JOB_ID, "role": "guest", "party_id": "9999", "resource_in_use": True,
            "resource_return_status": True,
        }
    ]  # fmt: skip
    assert post(client, "/resource/return", {})["retcode"] == 101


def test_the_answer_to_a_submit_names_files_and_warns_of_old_parameters(
    client: FlaskClient, services: Any
) -> None:
    ask = {"job_dsl": {}, "job_runtime_conf": {"a": 1}}
    first = post(client, "/job/submit", ask)
    assert first["retmsg"] == "success"
    assert first["data"]["dsl_path"] == f"/srv/jobs/{JOB_ID}/job_dsl.json"
    assert first["data"]["runtime_conf_on_party_path"].endswith(
        "/guest/9999/job_runtime_on_party_conf.json"
    )
    services.submit = lambda *_, **__: replace(SUBMITTED, obsolete=("work_mode",))
    services.submissions = services
    second = post(client, "/job/submit", ask)
    assert second["retmsg"].startswith("[WARN]")
    assert second["retcode"] == 0


@pytest.mark.parametrize(
    ("header", "member", "keys"),
    [('"k 1"', None, ("k 1",)), ("k", "m", ("k", "m")), (None, 7, ("7",)), (None, None, ())],
)
def test_an_idempotency_key_may_come_as_a_header_and_in_the_body(
    client: FlaskClient, services: Any, header: str | None, member: Any, keys: Any
) -> None:
    body = {"job_dsl": {}, "job_runtime_conf": {"a": 1}, "idempotency_key": member}
    headers = {} if header is None else {"Idempotency-Key": header}
    assert client.post("/v1/job/submit", json=body, headers=headers).json["retcode"] == 0
    assert services.calls == [("submit", {}, {"a": 1}, *keys)]


def test_a_refused_submit_has_the_jobs_id_and_no_data(client: FlaskClient, services: Any) -> None:
    services.fail = JobNotFound(job_id="j7")
    body = post(client, "/job/submit", {"job_dsl": {}, "job_runtime_conf": {"a": 1}})
    assert (body["retcode"], body["jobId"]) == (103, "j7")
    assert "data" not in body


# --- pause and continue ---------------------------------------------------------------------------


@pytest.fixture
def holding(services: Any, control: Control) -> Control:
    services.control = control
    return control


def test_pause_and_continue_pass_on_what_was_asked(client: FlaskClient, holding: Control) -> None:
    assert post(client, "/job/pause", {"job_id": JOB_ID})["retmsg"] == "pause job success"
    for more in ({}, {"steps": "2"}, {"all": 1}, {"steps": 0}):
        answer = post(client, "/job/continue", {"job_id": JOB_ID, **more})
        assert answer["retmsg"] == "continue job success"
    assert holding.calls == [
        ("pause", JOB_ID),
        ("proceed", JOB_ID, None, False),
        ("proceed", JOB_ID, 2, False),
        ("proceed", JOB_ID, None, True),
        ("proceed", JOB_ID, 0, False),
    ]


@pytest.mark.parametrize("path", ["/job/pause", "/job/continue"])
@pytest.mark.parametrize(
    ("error", "retcode"),
    [
        (PauseRefused(job_id="j", reason="it has ended"), 103),
        (ContinueRefused(job_id="j", reason="it has ended"), 103),
        (BadSteps(given=0, reason="it is not from 1 to 1000000"), 101),
        (JobNotFound(job_id="j"), 102),
    ],
)
def test_a_refused_pause_or_continue_has_its_code_and_hint(
    client: FlaskClient, holding: Control, path: str, error: FedflowError, retcode: int
) -> None:
    holding.fail = error
    answer = post(client, path, {"job_id": "j"})
    assert answer["retcode"] == retcode
    assert error.message in answer["retmsg"]


@pytest.mark.parametrize("body", [{}, {"job_id": JOB_ID, "steps": "many"}, {"job_id": [1]}])
def test_a_wrong_continue_asks_for_nothing(
    client: FlaskClient, holding: Control, body: dict[str, Any]
) -> None:
    assert post(client, "/job/continue", body)["retcode"] == 101
    assert holding.calls == []
