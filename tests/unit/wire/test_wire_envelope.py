"""The response envelope and JSON within limits."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import TableNotFound
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.jobs import SubmitRefused
from fedflow.base.errors.parties import BadPacket
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.domain.records import Reply
from fedflow.domain.site import Role
from fedflow.wire import envelope
from fedflow.wire.json_text import decode_json


def test_null_members_are_left_out() -> None:
    assert envelope.success() == {"retcode": 0, "retmsg": "success"}


@pytest.mark.parametrize("data", [[], {}, 0, "", False])
def test_empty_data_that_is_not_null_is_present(data: object) -> None:
    assert envelope.success(data)["data"] == data


def test_an_error_has_message_hint_and_a_part_for_machines() -> None:
    exc = TableNotFound(namespace="exp", name="g", party_id="9999")
    body = envelope.failure(exc)
    assert body["retcode"] == 101
    assert body["retmsg"] == f"{exc.message} {exc.hint}"
    said = {
        "template": "No table {namespace}.{name} at party {party_id}.",
        "fields": {"namespace": "exp", "name": "g", "party_id": "9999"},
    }
    assert body["error"] == {"code": 1401, "name": "TableNotFound", "hint": exc.hint, "said": said}
    assert "data" not in body


def test_a_missing_argument_has_fates_sentence() -> None:
    body = envelope.failure(MissingArgument(names="job_id,role"))
    assert body["retmsg"].startswith("required argument are missing: job_id,role; ")
    assert body["retcode"] == 101


def test_an_error_with_a_path_tells_it() -> None:
    body = envelope.failure(BadParameter(path="$.max_iter", reason="must be > 0"))
    assert body["error"]["path"] == "$.max_iter"


def test_an_invalid_job_lists_all_problems() -> None:
    problems = [Problem("$.dsl", "a", rule="X"), Problem("$.conf", "b", rule="Y")]
    body = envelope.failure(InvalidJobSpec(problems))
    assert body["error"]["path"] == "$.dsl"
    assert [p["path"] for p in body["error"]["problems"]] == ["$.dsl", "$.conf"]


def test_a_refused_submit_keeps_its_job_id() -> None:
    assert envelope.failure(SubmitRefused(reason="x", job_id="j1"))["jobId"] == "j1"


def test_a_status_error_repeats_its_status() -> None:
    assert envelope.status_failure(404) == {"retmsg": "Not Found", "retcode": 404}
    assert envelope.status_failure(210)["retcode"] == 210


def test_enums_and_sets_are_plain_json() -> None:
    assert json.loads(envelope.encode({"a": Role.GUEST, "b": {1}})) == {"a": "guest", "b": [1]}


def test_a_reply_survives_the_envelope() -> None:
    reply = Reply(retcode=10, retmsg="not effective", data={"a": [1]})
    assert envelope.parse_reply(envelope.encode(envelope.of_reply(reply))) == reply


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"retcode":"0"}',
        b'{"retcode":true}',
        b'{"retcode":0,"retmsg":1}',
        b"\xff",
    ],
)
def test_an_answer_that_is_no_envelope_is_refused(body: bytes) -> None:
    with pytest.raises(BadPacket):
        envelope.parse_reply(body)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused_at_the_limit(opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    allowed = opening * 99 + "[]" + closing * 99
    decode_json(allowed)
    for depth in (100, 5_000, 200_000):
        with pytest.raises(BadRequest, match="nested deeper"):
            decode_json(opening * depth + "[]" + closing * depth)


def test_many_brackets_side_by_side_are_no_depth() -> None:
    assert len(decode_json("[" + ",".join(["[]"] * 10_000) + "]")) == 10_000


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_json_or_a_bad_request(raw: bytes) -> None:
    with suppress(BadRequest):
        decode_json(raw)
