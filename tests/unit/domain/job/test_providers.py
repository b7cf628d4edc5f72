"""Providers that a job names: FATE's two in any version, and those that were registered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fedflow.domain.job.providers import provider_of_module, provider_problems, provider_warnings
from fedflow.domain.job.spec import JobSpec, ModuleInfo, parse_job
from fedflow.domain.site import Role

MODULES = {
    name.lower(): ModuleInfo(
        module=name, roles=(Role.GUEST, Role.HOST), data_ports=("data",), needs_input=False,
        outputs=("data",),
    )
    for name in ("Reader", "HeteroLR")
}  # fmt: skip

CONF = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999},
    "role": {"guest": [9999], "host": [10000]},
}  # fmt: skip


def spec(top: str | None = None, *, reader: str | None = None, conf: Any = None) -> JobSpec:
    read: dict[str, Any] = {"module": "Reader"}
    if reader:
        read["provider"] = reader
    dsl: dict[str, Any] = {"components": {"reader_0": read, "lr_0": {"module": "HeteroLR"}}}
    if top:
        dsl["provider"] = top
    return parse_job(dsl, {**CONF, **({"provider": conf} if conf else {})}, modules=MODULES)


@pytest.mark.parametrize("job", [spec(), spec("fate", reader="fate_flow")])
def test_the_providers_that_the_pipeline_names_are_taken_silently(job: JobSpec) -> None:
    assert provider_problems(job, here=job.sites) == []
    assert provider_warnings(job) == ()


def test_an_unknown_provider_is_a_problem_with_its_path() -> None:
    job = spec("fate_sql@1.0", reader="fate_flow")
    (problem,) = provider_problems(job, here=job.sites)
    assert problem.path == "$.dsl.components.lr_0.provider"
    assert "'fate_sql'" in problem.message
    at_host = {"role": {"host": {"0": {"reader_0": "mine"}}}}
    assert [p.path for p in provider_problems(spec(conf=at_host), here=())] == [
        "$.dsl.components.reader_0.provider"
    ]


def test_a_version_and_a_foreign_module_are_noted() -> None:
    job = spec("fate@1.11.4")
    assert provider_problems(job, here=job.sites) == []
    assert [f"{one.path}: {one.message}" for one in provider_warnings(job)] == [
        "$.dsl.components.lr_0.provider: version 1.11.4 has no effect, this server's own is used",
        "$.dsl.components.reader_0.provider: the module is of provider fate_flow, which is used",
        "$.dsl.components.reader_0.provider: version 1.11.4 has no effect,"
        " this server's own is used",
    ]


def test_a_version_of_a_registered_provider_must_be_at_the_sites_here() -> None:
    lab = replace(MODULES["heterolr"], provider="lab", versions=("1.0", "2.0"))
    modules = {**MODULES, "heterolr": lab}

    def job(provider: str) -> JobSpec:
        dsl = {"components": {"lr_0": {"module": "HeteroLR", "provider": provider}}}
        return parse_job(dsl, CONF, modules=modules)

    for known in ("lab", "lab@1.0", "lab@2.0"):
        assert provider_problems(job(known), here=job(known).sites) == []
        assert provider_warnings(job(known)) == ()
    other = job("lab@3.0")
    guest, host = other.sites
    assert provider_problems(other, here=()) == []
    (problem,) = provider_problems(other, here=(host,))
    assert problem.path == "$.dsl.components.lr_0.provider"
    assert problem.message == "host 10000 has no version 3.0 of provider lab, only 1.0, 2.0"
    assert len(provider_problems(other, here=(guest, host))) == 2
    assert "of provider lab, which is used" in provider_warnings(job("fate@1.11"))[0].message


def test_a_module_has_one_provider_in_any_case() -> None:
    assert provider_of_module("READER") == "fate_flow"
    assert provider_of_module("HeteroLR") == "fate"
