"""What the submit page shows of a job: mistakes with places, texts out of files, shares."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.documents import Problem
from fedflow.board.presenters.json_text import read_json
from fedflow.board.presenters.submit import (
    FIELDS,
    in_order,
    mistakes,
    shares,
    split,
    steps,
    without_key,
)
from fedflow.domain.job.spec import ModuleInfo, parse_job
from fedflow.domain.site import Role

DSL = '{\n  "components": {\n    "a": {"module": "Reader"}\n  }\n}'
CONF = '{\n  "role": {"guest": [1]}\n}'
TEXTS = {"dsl": read_json(DSL), "conf": read_json(CONF)}


def test_a_mistake_leads_to_its_member_or_to_what_should_have_it() -> None:
    found = mistakes(
        [
            Problem("$.conf.initiator.role", "is missing", "X"),
            Problem("$.dsl.components.a.module", "unknown", "Y"),
            Problem("$", "too many", "Z"),
        ],
        TEXTS,  # type: ignore[arg-type]
    )
    ordered = in_order(found)
    assert [m.rule for m in ordered] == ["Y", "X", "Z"]
    first, second, third = ordered
    assert first.spot is not None
    assert (first.spot.field, first.spot.line, first.spot.column) == ("dsl", 3, 11)
    assert DSL[first.spot.start : first.spot.end] == '"module": "Reader"'
    assert second.spot is not None
    assert (second.spot.line, second.spot.column, second.spot.start) == (1, 1, 0)
    assert third.spot is None


def test_a_file_is_a_dsl_a_conf_both_or_neither() -> None:
    assert list(split(read_json(DSL))) == ["dsl"]
    assert list(split(read_json(CONF))) == ["conf"]
    both = read_json(f'{{"dsl": {DSL}, "job_runtime_conf": {CONF}}}')
    assert {name: read_json(text).value for name, text in split(both).items()} == {
        name: TEXTS[name].value for name in FIELDS
    }
    assert split(read_json("[1]")) == {}
    assert split(read_json('{"name": 1}')) == {}
    assert split(read_json("{")) == {}


def test_the_idempotency_key_of_a_job_is_left_out_of_its_copy() -> None:
    conf = {"job_parameters": {"common": {"idempotency_key": "k", "task_cores": 1}}}
    assert without_key(conf) == ({"job_parameters": {"common": {"task_cores": 1}}}, True)
    assert conf["job_parameters"]["common"]["idempotency_key"] == "k"
    assert without_key({"job_parameters": {"idempotency_key": "k"}}) == (
        {"job_parameters": {}}, True,
    )  # fmt: skip
    assert without_key({}) == ({}, False)
    assert without_key([1]) == ([1], False)


def test_each_site_gets_its_components_cores_and_tables() -> None:
    reader = ModuleInfo(
        module="Reader", roles=(Role.GUEST, Role.HOST), data_ports=(), needs_input=False,
        outputs=("data",),
    )  # fmt: skip
    table: dict[str, Any] = {"name": "t", "namespace": "ns"}
    spec = parse_job(
        {"components": {"reader_0": {"module": "Reader", "output": {"data": ["data"]}}}},
        {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": 9999},
            "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
            "job_parameters": {"common": {"task_cores": 2, "task_parallelism": 3}},
            "component_parameters": {"role": {"guest": {"0": {"reader_0": {"table": table}}}}},
        },
        modules={"reader": reader},
    )
    guest, host, arbiter = shares(spec, own={"9999"})
    assert (guest.components, guest.cores, guest.tables) == (("reader_0",), 6, ("ns.t",))
    assert guest.is_initiator
    assert guest.is_here
    assert (host.is_here, host.tables) == (False, ())
    assert (arbiter.components, arbiter.cores) == ((), 0)
    assert [s.name for s in steps(spec)] == ["reader_0"]
