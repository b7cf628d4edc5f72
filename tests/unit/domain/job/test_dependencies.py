"""What a board draws: edges by kind and position, and what runs where."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.ids import PartyId
from fedflow.domain.job.dependencies import dependency_info
from fedflow.domain.job.spec import JobSpec, ModuleInfo, parse_job
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
BOTH = (Role.GUEST, Role.HOST)
PORTS = ("data", "train_data", "validate_data", "test_data", "eval_data")


def module(name: str, *roles: Role) -> ModuleInfo:
    return ModuleInfo(
        module=name,
        roles=roles or BOTH,
        data_ports=PORTS,
        needs_input=False,
        outputs=("data", "model", "cache"),
    )


MODULES = {
    m.module.lower(): m for m in (module("Reader"), module("Tool"), module("Own", Role.GUEST))
}
DSL: dict[str, Any] = {
    "components": {
        "last": {
            "module": "Tool",
            "input": {
                "data": {
                    "train_data": ["split.first"],
                    "eval_data": ["split.second", "reader.data"],
                },
                "model": ["split.model"],
                "isometric_model": ["own.model"],
                "cache": ["split.cache_1"],
            },
        },
        "own": {"module": "own", "output": {"model": ["model"]}},
        "split": {
            "module": "Tool",
            "input": {"data": {"data": ["reader.data"]}},
            "output": {
                "data": ["first", "second"],
                "model": ["model"],
                "cache": ["cache_0", "cache_1"],
            },
        },
        "reader": {"module": "Reader", "output": {"data": ["data"]}},
    }
}
CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
    "component_parameters": {"role": {"host": {"0": {"split": {"need_run": False}}}}},
}


def spec() -> JobSpec:
    return parse_job(DSL, CONF, modules=MODULES)


def test_components_are_listed_after_those_that_they_depend_on() -> None:
    info = dependency_info(spec(), GUEST)
    assert info["component_list"] == ["own", "reader", "split", "last"]
    assert info["component_module"]["own"] == "own"
    assert [list(level) for level in spec().dag.levels] == [["own", "reader"], ["split"], ["last"]]


def test_an_input_names_the_kind_and_the_position_of_the_output() -> None:
    dependencies = dependency_info(spec(), GUEST)["dependencies"]
    assert dependencies.keys() == {"split", "last"}
    assert [
        (one["component_name"], one["type"], one["up_output_info"]) for one in dependencies["last"]
    ] == [
        ("split", "train_data", ("data", 0)),
        ("split", "validate_data", ("data", 1)),
        ("reader", "validate_data", ("data", 0)),
        ("split", "model", ("model", 0)),
        ("own", "model", ("model", 0)),
        ("split", "cache", ("cache", 1)),
    ]


def test_what_runs_depends_on_the_site() -> None:
    everywhere = {"last": True, "own": True, "split": True, "reader": True}
    assert dependency_info(spec(), GUEST)["component_need_run"] == everywhere
    at_host = {**everywhere, "own": False, "split": False}
    assert dependency_info(spec(), HOST)["component_need_run"] == at_host


def test_a_site_of_another_job_has_no_view() -> None:
    with pytest.raises(KeyError):
        dependency_info(spec(), Site(Role.GUEST, PartyId("10000")))


def test_a_stored_model_is_no_dependency() -> None:
    dsl = {
        "components": {
            "reader": DSL["components"]["reader"],
            "lr": {
                "module": "Tool",
                "input": {"data": {"test_data": ["reader.data"]}, "model": ["pipeline.lr.model"]},
            },
        }
    }
    common = {"job_type": "predict", "model_id": "m", "model_version": "1"}
    conf = {**CONF, "component_parameters": {}, "job_parameters": {"common": common}}
    info = dependency_info(parse_job(dsl, conf, modules=MODULES), GUEST)
    assert [one["component_name"] for one in info["dependencies"]["lr"]] == ["reader"]
