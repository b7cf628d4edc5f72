"""Cache keys: equal when the work is, and different when anything that it depends on is."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from fedflow.domain.job.reuse import cache_keys, closed, named_tables
from fedflow.domain.job.spec import JobSpec
from tests.unit.domain.job.test_inheritance import CONF, DSL, job, put

ALL = ["reader_0", "clean_0", "train_0"]
SITES = ("guest-9999", "host-10000", "host-10001")


def document() -> Any:
    """Return the conf with a table of its own for every site."""
    conf = copy.deepcopy(CONF)
    table = {"reader_0": {"table": {"namespace": "n", "name": "t"}}}
    conf["component_parameters"]["role"]["guest"] = {"0": table}
    conf["component_parameters"]["role"]["host"]["all"] = table
    return conf


def keys(
    dsl: Any = DSL, conf: Any = None, *, version: str = "1", read: Any = None, **more: Any
) -> dict[str, str]:
    spec = job(dsl, conf or document())
    return keys_of(spec, version=version, read=read, **more)


def keys_of(spec: JobSpec, *, version: str = "1", read: Any = None, **more: Any) -> dict[str, str]:
    seen = {**dict.fromkeys(SITES, "t1"), **(read or {})}
    tables = {("reader_0", site): seen[site.key] for site in spec.sites}
    return cache_keys(spec, version=version, tables=tables, **more)


def changed(*args: Any, **more: Any) -> list[str]:
    """Return the components whose key differs from that of the unchanged job, or that lost it."""
    before, after = keys(), keys(*args, **more)
    return [name for name in ALL if before[name] != after.get(name)]


def test_the_same_job_has_the_same_keys_however_it_is_written() -> None:
    conf = document()
    hosts = conf["component_parameters"]["role"]["host"]
    hosts["0"] = hosts["1"] = hosts.pop("0|1")
    assert list(keys()) == ALL
    assert changed(conf=conf) == []
    assert len(set(keys().values())) == 3


def test_names_of_components_do_not_matter_but_what_they_take_does() -> None:
    renamed = copy.deepcopy(DSL)
    renamed["components"]["other"] = renamed["components"].pop("clean_0")
    renamed["components"]["train_0"]["input"]["data"]["train_data"] = ["other.data"]
    conf = document()
    params = conf["component_parameters"]
    params["common"]["other"] = params["common"].pop("clean_0")
    hosts = params["role"]["host"]["0|1"]
    hosts["other"] = hosts.pop("clean_0")
    assert keys(renamed, conf)["other"] == keys()["clean_0"]
    assert keys(renamed, conf)["train_0"] == keys()["train_0"]


@pytest.mark.parametrize(
    ("path", "value", "differ"),
    [
        ("component_parameters/common/train_0/rounds", 4, ["train_0"]),
        ("component_parameters/common/clean_0/x", 2, ["clean_0", "train_0"]),
        ("component_parameters/role/host/0|1/clean_0/y", 3, ["clean_0", "train_0"]),
        ("component_parameters/role/guest/0/reader_0/table/name", "u", ALL),
        ("role/host", [10001, 10000], ALL),
        ("role/host", [10000, 10002], ALL),
        ("job_parameters", {"common": {"task_cores": 2, "priority": 5}}, []),
    ],
)
def test_a_parameter_counts_for_its_component_and_all_that_follow(
    path: str, value: Any, differ: list[str]
) -> None:
    conf = put(document(), path, value)
    read = {"host-10002": "t1"}
    assert changed(conf=conf, read=read) == differ


@pytest.mark.parametrize(
    ("path", "value", "differ"),
    [
        ("components/clean_0/module", "Other", ["clean_0", "train_0"]),
        ("components/train_0/output", {"data": ["data"]}, ["train_0"]),
        ("components/train_0/output/model", ["other"], ["train_0"]),
        ("components/train_0/input", {"data": {"data": ["clean_0.data"]}}, ["train_0"]),
        ("components/train_0/provider", "fate_flow", ["train_0"]),
    ],
)
def test_module_ports_outputs_and_provider_count(path: str, value: Any, differ: list[str]) -> None:
    assert changed(put(DSL, path, value)) == differ


def test_another_release_has_other_keys() -> None:
    assert changed(version="2") == ALL


def test_another_table_under_the_same_name_at_one_site_gives_other_keys() -> None:
    assert changed(read={"host-10001": "t2"}) == ALL


def test_without_the_identity_of_a_table_there_is_no_key_nor_for_what_follows() -> None:
    assert keys(read={"host-10000": None}) == {}


def test_a_module_that_is_not_repeatable_has_no_key_nor_has_what_follows() -> None:
    spec = job(conf=document())
    modules = {**spec.modules, "clean_0": replace(spec.modules["clean_0"], repeatable=False)}
    assert list(keys_of(replace(spec, modules=modules))) == ["reader_0"]


def test_tables_are_named_by_the_readers_of_a_site() -> None:
    spec = job(conf=document())
    table = {"namespace": "n", "name": "t"}
    assert [named_tables(spec, site) for site in spec.sites] == [{"reader_0": table}] * 3
    assert named_tables(job(), spec.sites[0]) == {}


def test_what_takes_from_others_is_taken_over_with_them_only() -> None:
    dag = job().dag
    assert closed(dag, ["train_0", "reader_0"]) == {"reader_0"}
    assert closed(dag, ["clean_0"]) == frozenset()
    assert closed(dag, ALL) == set(ALL)
