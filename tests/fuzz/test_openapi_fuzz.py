"""Property-based tests of every route that clients may call, against a real server over HTTP.

The cases come from the server's own description: values that fit it, values that do not, values
that name what is really there, and bytes that are no request at all. Whatever is sent, the server
answers, as it says it does, and never with a defect.
FEDFLOW_FUZZ_CASES is the number of cases per operation and kind; more than in the ordinary suite
are drawn anew in every run.
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Iterator
from typing import Any

import msgspec
import psutil
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fedflow.app.protocol.folders import Folders
from fedflow.base.settings import parse_settings
from fedflow.server.build import FedflowServer
from fedflow.web.openapi import Operation, operations
from fedflow.web.settings import WebSettings
from tests.support.executors import wait_until
from tests.unit.web.applications import whole_app

CASES = int(os.environ.get("FEDFLOW_FUZZ_CASES", "4"))
CALL_S = 60.0  #: an answer that takes longer is a hang
NOTHING: Any = None
#: `/` leads to a page, which is not described
ALL = [one for one in operations(whole_app(NOTHING, WebSettings())) if one.rule.rule != "/"]
CHECKED = [
    one
    for one in ALL
    if any(f.encode_name and f.type is not Any for f in msgspec.structs.fields(one.route.body))
]
CHECKS: list[CheckFunction] = [
    content_type_conformance, response_schema_conformance, status_code_conformance,
]  # fmt: skip
TABLES = [f"t{i}" for i in range(4)]

drawn = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize="FEDFLOW_FUZZ_CASES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
by_id = {"argvalues": ALL, "ids": lambda one: one.operation_id}


# --- a server with something in it ----------------------------------------------------------------


class Running:
    """A real server in this process, and how to reach it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.job_ids = [self._upload(name) for name in TABLES]
        self.schema = schemathesis.openapi.from_dict(self.get("/v1/openapi.json").json())

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.url + path, timeout=CALL_S)

    def send(self, one: Operation, path: str, **given: Any) -> requests.Response:
        return self.session.request(one.method, self.url + path, timeout=CALL_S, **given)

    def post(self, path: str, body: Any) -> Any:
        return self.session.post(self.url + path, json=body, timeout=CALL_S).json()

    def statuses(self) -> dict[str, str]:
        listed = self.post("/v1/job/list/job", {"limit": 0})["data"]["jobs"]
        return {job["job_id"]: job["status"] for job in listed}

    def is_idle(self) -> bool:
        return not {"waiting", "ready", "running"} & set(self.statuses().values())

    def stop_jobs(self) -> None:
        """End what the cases have started."""
        for job_id, status in self.statuses().items():
            if status in ("waiting", "running"):
                self.post("/v1/job/stop", {"job_id": job_id})
        wait_until(self.is_idle)

    def _upload(self, name: str) -> str:
        answer = self.session.post(
            f"{self.url}/v1/data/upload",
            params={"namespace": "exp", "table_name": name, "head": 1, "partition": 2},
            files={"file": ("d.csv", b"id,y,x0\n1,0,2.5\n2,1,3.5\n3,1,4.5\n")},
            timeout=CALL_S,
        ).json()
        assert answer["retcode"] == 0, answer
        wait_until(self.is_idle)
        return str(answer["jobId"])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    own = psutil.Process()
    before = {child.pid for child in own.children(recursive=True)}
    home = tmp_path_factory.mktemp("fuzz")
    for folder in Folders(home).all():
        folder.mkdir(parents=True, exist_ok=True)
    ports = {"http_port": 0, "grpc_port": 0}
    server = FedflowServer(parse_settings({"fateflow": ports, "upload": {"max_mib": 1}}), home)
    try:
        server.open()
        assert server.place is not None
        there = Running(f"http://127.0.0.1:{server.place.http_port}")
        yield there
        there.stop_jobs()
        there.session.close()
    finally:
        server.close()
    wait_until(lambda: {child.pid for child in own.children(recursive=True)} <= before)


# --- what holds for every answer ------------------------------------------------------------------


def check(answer: Any) -> None:
    """Check that an answer is no sign of a defect."""
    assert answer.status_code != 500, answer.text
    if answer.headers.get("Content-Type") != "application/json":
        return
    body = answer.json()
    if isinstance(body, dict):
        error = body.get("error")
        assert not (isinstance(error, dict) and error.get("name") == "InternalError"), answer.text
        assert body.get("retmsg") != "internal error"


def path_of(one: Operation, values: dict[str, str]) -> str:
    path = one.path
    for name in one.rule.arguments:
        path = path.replace("{" + name + "}", urllib.parse.quote(values[name], safe=""))
    return path


# --- generated from the description ---------------------------------------------------------------


def run_generated(running: Running, one: Operation, mode: GenerationMode) -> None:
    operation = running.schema[one.path][one.method]

    @drawn
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: schemathesis.Case) -> None:
        answer = case.call(base_url=running.url, session=running.session, timeout=CALL_S)
        check(answer)
        case.validate_response(answer, checks=CHECKS)

    run()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.operation_id)
def test_requests_that_fit_the_description_are_answered_as_it_says(
    running: Running, one: Operation
) -> None:
    run_generated(running, one, GenerationMode.POSITIVE)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", CHECKED, ids=lambda one: one.operation_id)
def test_requests_that_do_not_fit_the_description_are_answered_as_it_says(
    running: Running, one: Operation
) -> None:
    run_generated(running, one, GenerationMode.NEGATIVE)


# --- names of what is there -----------------------------------------------------------------------


def plausible(running: Running, one: Operation) -> st.SearchStrategy[dict[str, Any]]:
    """Return bodies whose members mostly name what is there, or could be."""
    jobs = running.job_ids
    words = {
        "job_id": jobs,
        "model_version": jobs,
        "model_id": ["local-0#model", "guest-9999#host-10000#model"],
        "party_model_id": ["local#0#local-0#model", "guest~9999~model"],
        "role": ["local", "guest", {"guest": [9999]}],
        "party_id": [0, "0", 9999],
        "component_name": ["upload_0", "reader_0", ["upload_0"]],
        "namespace": ["exp"],
        "name": TABLES,
        "table_name": TABLES,
        "filename": ["x.json", "../../etc/passwd", "\r\nX: y", "ü\n"],
        "limit": [0, 1, -1, 10**17],
        "page": [1, 2, 10**17],
        "order_by": ["create_time", "job_id"],
        "status": ["success", ["running"]],
        "log_type": ["jobSchedule", "partyInfo", "componentInfo", "x"],
        "begin": [0, 1, 10**17],
        "end": [0, 1, 10**17],
        "file": ["/etc/passwd", "\0", "../x"],
        "output_path": ["/tmp", "out.csv", "../../x"],
        "train_dsl": ['{"components": {}}', "{"],
        "cpn_list": [["upload_0"], []],
    }
    odd = st.sampled_from(
        [None, "", "x" * 5000, 10**17, -1, [], {}, ["a"], {"a": 1}, True, "ü\u2028"]
    )
    usual = st.sampled_from(["1", "a", 1, 0])
    members = {
        field.encode_name: st.one_of(
            *(
                [st.sampled_from(words[field.encode_name])] * 4
                if field.encode_name in words
                else []
            ),
            usual,
            odd,
        )
        for field in msgspec.structs.fields(one.route.body)
        if field.encode_name
    }
    needed = {n: members.pop(n) for n in _required(one)}
    return st.fixed_dictionaries(needed, optional=members)


def _required(one: Operation) -> list[str]:
    return [f.encode_name for f in msgspec.structs.fields(one.route.body) if f.required]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", [o for o in ALL if not o.route.form], ids=lambda o: o.operation_id)
def test_requests_that_name_what_is_there_are_answered(running: Running, one: Operation) -> None:
    operation = running.schema[one.path][one.method]
    names = st.sampled_from([*running.job_ids, "upload_0", "fate", "9999", "t0", "...", "ü", "a b"])
    path_values = st.fixed_dictionaries(dict.fromkeys(one.rule.arguments, names))

    @drawn
    @given(body=plausible(running, one), values=path_values)
    def run(body: dict[str, Any], values: dict[str, str]) -> None:
        case = operation.Case(path_parameters=values)
        answer = running.send(one, path_of(one, values), json=body)
        check(answer)
        case.validate_response(answer, checks=CHECKS)

    run()


# --- no requests at all ---------------------------------------------------------------------------

NO_REQUESTS = (
    b"", b"{", b"null", b"[]", b'"x"', b"1", b"NaN", b"\x00", b"\xff\xfe", b"{}" * 1000,
    b'{"job_id": "\\ud800"}', b'{"job_id": "\\u0000"}', b'{"job_id": 1e999}',
    b'{"job_id": ' + b"9" * 5000 + b"}", b'{"job_id": "' + b"x" * 100_000 + b'"}',
    b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 100_000, b'{"": {"": [null]}}',
    b'{"job_id": "a", "job_id": "b"}', b"\xef\xbb\xbf{}", b'{"job_id": -0.0}',
)  # fmt: skip
KINDS = (
    "application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
    "multipart/form-data; boundary=x", "application/json; charset=utf-16", "x",
)  # fmt: skip
TARGETS = (
    "", "?", "?%00", "?{", "?%7B%22a%22%3A1%7D", "?a=1&a=2&%ff=%fe", "/", "//", "?" + "x" * 5000,
)  # fmt: skip


@pytest.mark.timeout(600)
@pytest.mark.parametrize("one", ALL, ids=lambda one: one.operation_id)
def test_bytes_that_are_no_request_are_answered_without_a_defect(
    running: Running, one: Operation
) -> None:
    path = path_of(one, dict.fromkeys(one.rule.arguments, "x"))
    for number, raw in enumerate(NO_REQUESTS):
        kind = KINDS[number % len(KINDS)]
        check(running.send(one, path, data=raw, headers={"Content-Type": kind}))
    for target in TARGETS:
        check(running.send(one, path + target, data=b"{}"))
    for value in ("%00", "%FF%FE", "..", "%2e%2e%2f", "x" * 3000, "%0d%0a"):
        if one.rule.arguments:
            raw_path = path.replace("/x", f"/{value}", 1)
            check(running.send(one, raw_path, data=b"{}"))


def test_a_body_that_is_too_large_is_refused_before_it_is_read(running: Running) -> None:
    answer = requests.post(
        f"{running.url}/v1/job/query", data=b" " * (33 * 1024 * 1024), timeout=CALL_S
    )
    assert answer.status_code == 413
