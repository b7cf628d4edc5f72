"""Jobs that are as large as they may be: what reading them costs, and which are refused."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.app.protocol.parameter_checks import asked_of
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.domain.job.document import copy_object, lay_over, merge_objects
from fedflow.domain.job.spec import MAX_RUNS, JobSpec, ModuleInfo, parse_job
from fedflow.domain.site import Role, Site
from tests.unit.domain.json_values import json_values

TOOL = ModuleInfo(
    module="Tool", roles=(Role.GUEST, Role.HOST), data_ports=(), needs_input=False, outputs=()
)
HOST = Site(Role.HOST, PartyId("1"))


def job(components: int, hosts: int, **conf: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        {"components": {f"c_{i}": {"module": "Tool"} for i in range(components)}},
        {
            "dsl_version": 2,
            "initiator": {"role": "guest", "party_id": 9999},
            "role": {"guest": [9999], "host": list(range(1, hosts + 1))},
            **conf,
        },
    )


def read(dsl: Any, conf: Any) -> JobSpec:
    return parse_job(dsl, conf, modules={"tool": TOOL})


def calls_to_look_at(dsl: Any, conf: Any) -> int:
    """Return how many calls of Python it takes to read a job and what one site runs of it."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        spec = read(dsl, conf)
        assert len(list(asked_of(spec, (HOST,)))) == len(spec.components)
        assert len(spec.rules.components) == len(spec.components)
    finally:
        sys.setprofile(None)
    return count


def test_other_sites_cost_a_site_nothing_per_component() -> None:
    calls_to_look_at(*job(2, 2))  # the methods of values are compiled at their first use
    few, many = (calls_to_look_at(*job(100, hosts)) for hosts in (50, 550))
    assert many - few < 500 * 20  # a few calls for each site, and not 100 or more


def test_layers_for_other_components_cost_nothing_per_component() -> None:
    def layered(layers: int) -> int:
        role = {"host": {f"0|{i + 1_000}": {"c_0": {f"p_{i}": 1}} for i in range(layers)}}
        return calls_to_look_at(*job(100, 2, component_parameters={"role": role}))

    layered(1)
    assert layered(500) - layered(100) < 400 * 60


def test_a_job_of_too_many_components_at_too_many_sites_is_refused() -> None:
    assert len(read(*job(MAX_RUNS // 1_000, 999)).components) == 100
    with pytest.raises(InvalidJobSpec) as caught:
        read(*job(101, 999))
    (problem,) = caught.value.problems
    assert (problem.path, problem.rule) == ("$.dsl.components", "LimitExceeded")
    assert "101 components at 1000 sites are 101000 runs" in problem.message


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), json_values("abc"), max_size=3), max_size=4),
    st.integers(min_value=1, max_value=4),
)
def test_layers_laid_over_each_other_are_those_merged_one_after_the_other(
    layers: list[dict[str, Any]], depth: int
) -> None:
    merged: dict[str, object] = {}
    laid: dict[str, object] = {}
    given_ones = repr(layers)
    for layer in layers:
        merged = merge_objects(merged, layer, depth=depth)
        lay_over(laid, layer, depth=depth)
    assert repr(laid) == repr(copy_object(merged))  # NaN differs from itself
    assert repr(layers) == given_ones
