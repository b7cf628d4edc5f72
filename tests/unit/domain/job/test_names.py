"""What a job is called if nobody says so, and which names people may give."""

from __future__ import annotations

import json

import pytest

from fedflow.domain.job.names import job_name
from fedflow.domain.job.parameters import MAX_NAME, name_problem
from fedflow.domain.job.spec import parse_job
from tests.unit.domain.job.test_spec import EXAMPLE, GUEST, HOST, MODULES


def example():
    dsl = json.loads((EXAMPLE / "dsl.json").read_text())
    return dsl, json.loads((EXAMPLE / "conf.json").read_text())


def parsed(dsl, conf):
    return parse_job(dsl, conf, modules=MODULES)


def test_a_job_is_called_by_its_last_model_and_the_own_table_of_each_site():
    spec = parsed(*example())
    assert job_name(spec, GUEST) == "HeteroLR · breast_hetero_guest"
    assert job_name(spec, HOST) == "HeteroLR · breast_hetero_host"


def test_a_name_that_the_job_brings_is_taken():
    dsl, conf = example()
    conf["job_parameters"] = {"common": {"name": "夜间 run"}}
    assert job_name(parsed(dsl, conf), GUEST) == "夜间 run"


def test_a_job_of_equal_components_says_how_many():
    components = {f"tool_{n}": {"module": "Tool"} for n in range(3)}
    _, conf = example()
    conf.pop("component_parameters", None)
    assert job_name(parsed({"components": components}, conf), GUEST) == "Tool (3 components)"


def test_a_long_name_is_cut():
    dsl, conf = example()
    conf["component_parameters"]["role"]["guest"]["0"]["reader_0"]["table"]["name"] = "x" * 200
    name = job_name(parsed(dsl, conf), GUEST)
    assert (len(name), name[-1]) == (MAX_NAME, "…")


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "x" * 101])
def test_what_cannot_be_a_name_is_refused(name):
    assert name_problem(name)


@pytest.mark.parametrize("name", ["a", "a b · c", "名", "<b>"])
def test_any_text_of_one_line_is_a_name(name):
    assert name_problem(name) is None
