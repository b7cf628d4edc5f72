"""The job parameter `elastic`: what is read, and which jobs are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.domain.job.elastic import Elastic
from fedflow.domain.job.spec import JobSpec, ModuleInfo, parse_job
from fedflow.domain.site import Role

COMMON = "$.conf.job_parameters.common"


def module(name: str, absence: str | None, *roles: Role) -> ModuleInfo:
    return ModuleInfo(
        module=name, roles=roles or (Role.GUEST, Role.HOST), data_ports=("data",),
        needs_input=False, outputs=("data", "model"), absence=absence,
    )  # fmt: skip


MODULES = {
    "reader": module("Reader", "apart"),
    "train": module("Train", "rounds", Role.GUEST, Role.HOST, Role.ARBITER),
    "heterolr": module("HeteroLR", None),
    "local": module("Local", None, Role.GUEST),
}


def parse(
    elastic: Any, *, modules: tuple[str, ...] = ("Reader", "Train"), hosts: int = 3,
    role: Any = None, **common: Any,
) -> JobSpec:  # fmt: skip
    components = {f"{m.lower()}_{i}": {"module": m} for i, m in enumerate(modules)}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10_000 + i for i in range(hosts)], "arbiter": [20_000]},
        "job_parameters": {"common": {"elastic": elastic, **common}, "role": role or {}},
    }
    if not hosts:
        del conf["role"]["host"]  # type: ignore[attr-defined]
    return parse_job({"components": components}, conf, modules=MODULES)


def problems(elastic: Any, **more: Any) -> list[tuple[str, str]]:
    with pytest.raises(InvalidJobSpec) as refused:
        parse(elastic, **more)
    return [(p.path, p.message) for p in refused.value.problems]


def test_what_is_not_given_has_its_default() -> None:
    assert parse({"min_parties": 2}).elastic == Elastic(min_parties=2)


def test_all_settings_are_read() -> None:
    given = {
        "min_parties": 2, "max_parties": 3, "round_deadline_s": 7, "last_call_s": 0.5,
        "rejoin": False,
    }  # fmt: skip
    assert parse(given).elastic == Elastic(
        min_parties=2, max_parties=3, round_deadline_s=7.0, last_call_s=0.5, rejoin=False
    )


def test_a_job_without_it_is_not_elastic() -> None:
    assert parse(None).elastic is None


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "min_parties"),
        ({"min_parties": 0}, "min_parties"),
        ({"min_parties": True}, "min_parties"),
        ({"min_parties": "2"}, "min_parties"),
        ({"min_parties": 5}, "min_parties"),
        ({"min_parties": 2, "max_parties": 1}, "max_parties"),
        ({"min_parties": 2, "round_deadline_s": 0}, "round_deadline_s"),
        ({"min_parties": 2, "round_deadline_s": float("nan")}, "round_deadline_s"),
        ({"min_parties": 2, "last_call_s": -1}, "last_call_s"),
        ({"min_parties": 2, "rejoin": "yes"}, "rejoin"),
        ({"min_parties": 2, "mni": 1}, "mni"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(given: Any, path: str) -> None:
    assert [p for p, _ in problems(given)] == [f"{COMMON}.elastic.{path}"]


@pytest.mark.parametrize("given", [True, 3, "yes", [2]])
def test_anything_but_an_object_is_refused(given: Any) -> None:
    assert [p for p, _ in problems(given)] == [f"{COMMON}.elastic"]


def test_a_component_that_needs_all_hosts_is_named() -> None:
    found = problems({"min_parties": 2}, modules=("Reader", "Train", "HeteroLR"))
    assert found == [
        (
            "$.dsl.components.heterolr_2.module",
            "heterolr_2 cannot be part of an elastic job: HeteroLR needs all of its hosts",
        )
    ]


def test_a_component_that_runs_at_no_host_is_allowed() -> None:
    assert parse({"min_parties": 2}, modules=("Reader", "Train", "Local")).elastic


def test_a_job_without_rounds_is_refused() -> None:
    assert problems({"min_parties": 2}, modules=("Reader",)) == [
        (
            "$.dsl.components",
            "an elastic job needs a component that trains in rounds, and this one has none",
        )
    ]


def test_a_job_without_hosts_is_refused() -> None:
    assert [p for p, _ in problems({"min_parties": 1}, hosts=0)] == [f"{COMMON}.elastic"]


def test_settings_of_single_parties_are_refused() -> None:
    role = {"host": {"0": {"elastic": {"min_parties": 2}}}}
    found = problems({"min_parties": 2}, role=role)
    assert [p for p, _ in found] == ['$.conf.job_parameters.role.host["0"].elastic']


@pytest.mark.parametrize(
    "taken", [{"reuse": True}, {"inheritance_info": {"job_id": "1", "component_list": ["a"]}}]
)
def test_an_elastic_job_takes_over_no_results(taken: dict[str, Any]) -> None:
    assert [p for p, _ in problems({"min_parties": 2}, **taken)] == [
        f"{COMMON}.{next(iter(taken))}"
    ]


@given(least=st.integers(-2, 6), most=st.none() | st.integers(-2, 6), hosts=st.integers(1, 4))
def test_counts_are_ordered_and_no_more_than_there_are(
    least: int, most: int | None, hosts: int
) -> None:
    right = 1 <= least <= hosts + 1 and (most is None or most >= least)
    given_ = {"min_parties": least, "max_parties": most}
    if right:
        assert parse(given_, hosts=hosts).elastic == Elastic(min_parties=least, max_parties=most)
    else:
        assert problems(given_, hosts=hosts)
