"""Which components of an earlier job may be taken over, and every reason why not."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fedflow.domain.job.inheritance import check_inheritance
from fedflow.domain.job.spec import JobSpec, ModuleInfo, parse_job
from fedflow.domain.site import Role

PORTS = ("data", "train_data", "validate_data", "test_data")
MODULES = {
    name.lower(): ModuleInfo(
        module=name,
        roles=(Role.GUEST, Role.HOST),
        data_ports=PORTS,
        needs_input=False,
        outputs=("data", "model"),
    )
    for name in ("Reader", "Clean", "Other", "Train")
}
DSL: dict[str, Any] = {
    "components": {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "clean_0": {
            "module": "Clean",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "train_0": {
            "module": "Train",
            "input": {"data": {"train_data": ["clean_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
    }
}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000, 10001]},
    "component_parameters": {
        "common": {"clean_0": {"x": 1}, "train_0": {"rounds": 3}},
        "role": {"host": {"0|1": {"clean_0": {"y": 2}}}},
    },
}
TAKEN = ["reader_0", "clean_0"]
LIST = "$.conf.job_parameters.common.inheritance_info.component_list"
C, P = "$.dsl.components", "$.conf.component_parameters.role"


def job(dsl: Any = DSL, conf: Any = CONF) -> JobSpec:
    return parse_job(dsl, conf, modules=MODULES)


def put(document: Any, path: str, value: Any) -> Any:
    """Return a copy with one member replaced; the path is split at slashes."""
    changed = copy.deepcopy(document)
    *parents, last = path.split("/")
    target = changed
    for key in parents:
        target = target[key]
    target[last] = value
    return changed


def paths(old: JobSpec, new: JobSpec, components: list[str] = TAKEN) -> list[str]:
    return [p.path for p in check_inheritance(old, new, components)]


def test_an_equal_part_of_another_job_is_taken_over() -> None:
    new = job(
        put(DSL, "components/train_0/module", "Other"),
        put(CONF, "component_parameters/common/train_0", {"rounds": 4}),
    )
    assert paths(job(), new) == []
    assert paths(job(), job(), list(DSL["components"])) == []


def test_how_parameters_are_written_does_not_matter() -> None:
    by_index = {"1": {"clean_0": {"y": 2}}, "0": {"clean_0": {"y": 2}}}
    assert paths(job(), job(conf=put(CONF, "component_parameters/role/host", by_index))) == []


def test_everything_before_must_be_taken_over_too() -> None:
    assert paths(job(), job(), ["clean_0"]) == [f"{LIST}[0]"]
    assert paths(job(), job(), ["reader_0", "train_0"]) == [f"{LIST}[1]"]


def test_a_name_must_be_known_in_both_jobs() -> None:
    more = put(DSL, "components/reader_1", {"module": "Reader"})
    assert paths(job(), job(more), ["reader_0", "reader_1"]) == [f"{LIST}[1]"]
    assert paths(job(more), job(), ["reader_1"]) == [f"{LIST}[0]"]


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("components/clean_0/module", "Other", [f"{C}.clean_0"]),
        ("components/clean_0/output", {"data": ["data"]}, [f"{C}.clean_0"]),
        ("components/clean_0/input/data", {"train_data": ["reader_0.data"]}, [f"{C}.clean_0"]),
        ("components/clean_0/provider", "fate@1.11.4", [f"{C}.clean_0.provider"] * 3),
    ],
)
def test_a_component_must_be_the_same(path: str, value: Any, where: list[str]) -> None:
    assert paths(job(), job(put(DSL, path, value))) == where
    assert paths(job(put(DSL, path, value)), job()) == where


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        (
            "component_parameters/common/clean_0",
            {"x": 2},
            [f'{P}.guest["0"].clean_0', f'{P}.host["0"].clean_0', f'{P}.host["1"].clean_0'],
        ),
        (
            "component_parameters/role/host",
            {"0": {"clean_0": {"y": 2}}},
            [f'{P}.host["1"].clean_0'],
        ),
        ("component_parameters/role/host/1", {"reader_0": {"z": 1}}, [f'{P}.host["1"].reader_0']),
        ("role/host", [10000], ["$.conf.role"] * 2),
    ],
)
def test_parties_and_parameters_must_be_the_same(path: str, value: Any, where: list[str]) -> None:
    new = put(CONF, path, value)
    if path == "role/host":
        new["component_parameters"]["role"] = {}
    assert sorted(paths(job(), job(conf=new))) == sorted(where)
    assert len(paths(job(conf=new), job())) == len(where)
