"""Options of single components, `run_to` and `step`: what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import ComputeResources
from fedflow.domain.job.spec import JobSpec, ModuleInfo, parse_job
from fedflow.domain.job.task_rule import PLAIN
from fedflow.domain.policies import Policy
from fedflow.domain.site import Role, Site

GUEST = Site(Role.GUEST, PartyId("9999"))
HOST = Site(Role.HOST, PartyId("10000"))
MODULES = {
    "step": ModuleInfo(
        module="Step", roles=(Role.GUEST, Role.HOST), data_ports=("data",), needs_input=False,
        outputs=("data",),
    )
}  # fmt: skip
COMMON = "$.conf.job_parameters.common"


def parse(role: Any = None, **common: Any) -> JobSpec:
    """Return the job a -> b -> c, d -> c with these job parameters."""
    step: dict[str, Any] = {"module": "Step", "output": {"data": ["data"]}}

    def after(*names: str) -> dict[str, Any]:
        return {**step, "input": {"data": {"data": [f"{n}.data" for n in names]}}}

    dsl = {"components": {"a": step, "b": after("a"), "d": step, "c": after("b", "d")}}
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {"guest": [9999], "host": [10000]},
        "job_parameters": {"common": common, "role": role or {}},
    }
    return parse_job(dsl, conf, modules=MODULES)


def problems(role: Any = None, **common: Any) -> list[tuple[str, str]]:
    """Return (path, message) of all mistakes."""
    with pytest.raises(InvalidJobSpec) as caught:
        parse(role, **common)
    return [(p.path, p.message) for p in caught.value.problems]


def test_a_component_without_options_is_run_as_the_job_says() -> None:
    rules = parse(auto_retries=2, auto_retry_delay=3, retry_on=["ExecutorDied"]).rules
    assert rules.selected is None
    assert rules.shares == {}
    for rule in rules.components.values():
        assert (rule.policy, rule.timeout_ms) == (Policy.ALL_SUCCESS, None)
        assert (rule.retries, rule.retry_delay_ms) == (2, 3_000)
        assert rule.retry_on == {"ExecutorDied"}
    assert parse(auto_retry_delay=0).rules.components["a"] == PLAIN


def test_options_of_a_component_win_over_those_of_the_job() -> None:
    options = {
        "schedule_policy": "all_done", "timeout": 60, "auto_retries": 0, "auto_retry_delay": 7,
        "retry_on": [], "launcher": "default",
    }  # fmt: skip
    rules = parse(auto_retries=2, task_conf={"b": options}).rules.components
    assert (rules["b"].policy, rules["b"].timeout_ms) == (Policy.ALL_DONE, 60_000)
    assert (rules["b"].retries, rules["b"].retry_delay_ms) == (0, 7_000)
    assert rules["b"].retry_on == frozenset()
    assert rules["a"].retries == 2


def test_a_null_is_no_option() -> None:
    assert parse(task_conf={"b": {"timeout": None}}).rules.components["b"].timeout_ms is None


def test_the_initiators_options_count_but_each_site_has_its_own_cores() -> None:
    role = {
        "guest": {"0": {"task_conf": {"a": {"timeout": 5}}}},
        "host": {"0": {"task_conf": {"a": {"timeout": 9, "task_cores": 3}}}},
    }
    rules = parse(role, task_cores=4, task_parallelism=2).rules
    assert rules.components["a"].timeout_ms == 5_000
    assert rules.components["a"].takes == {
        GUEST: ComputeResources(cores=4),
        HOST: ComputeResources(cores=3),
    }
    assert rules.components["b"].takes == {
        GUEST: ComputeResources(cores=4),
        HOST: ComputeResources(cores=4),
    }
    assert rules.shares == {GUEST: ComputeResources(cores=8), HOST: ComputeResources(cores=8)}


@pytest.mark.parametrize(
    ("asked", "selected"),
    [("b", {"a", "b"}), (["b", "d"], {"a", "b", "d"}), ("c", {"a", "b", "c", "d"}), (["a"], {"a"})],
)
def test_run_to_selects_components_and_all_that_they_need(asked: Any, selected: set[str]) -> None:
    assert parse(run_to=asked).rules.selected == selected


@pytest.mark.parametrize("asked", [None, "", []])
def test_an_empty_run_to_selects_everything(asked: Any) -> None:
    assert parse(run_to=asked).rules.selected is None


@pytest.mark.parametrize(
    ("options", "member", "said"),
    [
        ({"schedule_policy": "sometimes"}, "schedule_policy", "sometimes"),
        ({"schedule_policy": "sometimes"}, "schedule_policy", "known are all_success, none_failed"),
        ({"timeout": 0}, "timeout", ">= 1"),
        ({"timeout": "1h"}, "timeout", "int"),
        ({"auto_retries": -1}, "auto_retries", ">= 0"),
        ({"auto_retry_delay": -1}, "auto_retry_delay", ">= 0"),
        ({"auto_retries": 101}, "auto_retries", "<= 100"),
        ({"retry_on": "ExecutorDied"}, "retry_on", "array"),
        ({"retry_on": ["Oops"]}, "retry_on[0]", "no name of an error"),
        ({"task_cores": 0}, "task_cores", ">= 1"),
        ({"task_memory": -1}, "task_memory", ">= 0"),
        ({"launcher": "deepspeed"}, "launcher", "deepspeed"),
    ],
)
def test_a_wrong_option_is_refused_at_its_place(
    options: dict[str, Any], member: str, said: str
) -> None:
    ((path, message),) = problems(task_conf={"b": options})
    assert path == f"{COMMON}.task_conf.b.{member}"
    assert said in message


@pytest.mark.parametrize(
    ("common", "path"),
    [
        ({"task_conf": {"b": 5}}, f"{COMMON}.task_conf.b"),
        ({"task_conf": []}, f"{COMMON}.task_conf"),
        ({"run_to": "zzz"}, f"{COMMON}.run_to"),
        ({"run_to": ["a", "zzz"]}, f"{COMMON}.run_to[1]"),
        ({"run_to": 5}, f"{COMMON}.run_to"),
        ({"step": "maybe"}, f"{COMMON}.step"),
        ({"retry_on": ["Oops"]}, f"{COMMON}.retry_on[0]"),
        ({"infrastructure_retries": -1}, f"{COMMON}.infrastructure_retries"),
        ({"auto_retry_delay": -1}, f"{COMMON}.auto_retry_delay"),
    ],
)
def test_a_wrong_parameter_is_refused_at_its_place(common: dict[str, Any], path: str) -> None:
    assert [at for at, _ in problems(**common)] == [path]


def test_an_unknown_component_is_found_in_the_layer_of_a_role_too() -> None:
    ((path, _),) = problems({"host": {"all": {"run_to": "zzz"}}})
    assert path == "$.conf.job_parameters.role.host.all.run_to"


def test_a_task_that_takes_more_than_the_whole_job_is_refused_with_the_numbers() -> None:
    found = problems(task_cores=2, task_parallelism=2, task_conf={"b": {"task_cores": 5}})
    assert [path for path, _ in found] == [f"{COMMON}.task_conf.b.task_cores"] * 2
    assert found[0][1] == (
        "b would take 5 at guest 9999, where the whole job has 4 (task_cores x task_parallelism):"
        " raise one of these, or lower it"
    )
    ((path, message),) = problems(
        {"host": {"0": {"task_conf": {"b": {"task_memory": 9}}}}}, task_memory=8
    )
    assert path == f"{COMMON}.task_conf.b.task_memory"
    assert "9 at host 10000, where the whole job has 8" in message


def test_an_unknown_option_is_ignored_with_a_warning() -> None:
    spec = parse(task_conf={"b": {"world_size": 2, "timeout": 5}})
    (warning,) = spec.warnings
    assert (warning.code, warning.path) == ("UnknownMember", f"{COMMON}.task_conf.b.world_size")
    assert spec.job_parameters_at(spec.initiator).task("b").timeout == 5
