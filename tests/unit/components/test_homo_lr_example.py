"""The job of `examples/homo_lr` is one that a server accepts, elastic settings included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedflow.app.administration.modules import Modules
from fedflow.client.job_file import read_job_file
from fedflow.components.registry import load_registry
from fedflow.domain.job.spec import parse_job

EXAMPLE = Path(__file__).parents[3] / "examples" / "homo_lr" / "job.yaml"


class BuiltIn:
    def describe(self) -> list[dict[str, Any]]:
        return load_registry().described()


def test_a_server_accepts_the_example_without_a_warning_and_one_host_may_be_absent() -> None:
    job = read_job_file(EXAMPLE)
    spec = parse_job(job.dsl, job.conf, modules=Modules(BuiltIn()).modules())
    assert not spec.warnings
    assert spec.elastic is not None
    assert spec.elastic.min_parties == len(job.conf["role"]["host"])
