"""On which engine a site computes its share, and what it takes of it."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.executors import EngineMissing
from fedflow.base.errors.jobs import NotEnoughResources
from fedflow.base.ids import PartyId
from fedflow.domain.job.amounts import Capacity, ComputeResources
from fedflow.domain.job.conf import Conf, parse_conf
from fedflow.domain.job.document import Report
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.domain.job.parameters import JobParameters, check_job_parameters
from fedflow.domain.job.resources import check_ceiling, demand_at, shortage
from fedflow.domain.site import Role, Site

GUEST, HOST, ARBITER, LOCAL = (
    Site(role, PartyId("9999")) for role in (Role.GUEST, Role.HOST, Role.ARBITER, Role.LOCAL)
)
BOTH = OwnEngines(default=SPARK, spark=True)
ON_SPARK = JobParameters(computing_engine="SPARK")


@pytest.mark.parametrize("asked", [None, "EGGROLL", "LINKIS_SPARK"])
def test_the_default_is_used_where_a_job_names_no_engine_of_this_version(asked: Any) -> None:
    parameters = JobParameters(computing_engine=asked)
    assert OwnEngines().at(GUEST, parameters) == STANDALONE
    assert OwnEngines(spark=True).at(GUEST, parameters) == STANDALONE
    assert BOTH.at(GUEST, parameters) == SPARK


@pytest.mark.parametrize("engine", [STANDALONE, SPARK])
@pytest.mark.parametrize("asked", ["EGGROLL", "LINKIS_SPARK"])
def test_no_name_of_an_engine_makes_a_share_free_of_charge(asked: Any, engine: str) -> None:
    parameters = JobParameters(computing_engine=asked, task_cores=3)
    assert demand_at(GUEST, parameters, engine=engine).of_job == ComputeResources(cores=3)


def test_a_job_that_names_an_engine_gets_it() -> None:
    assert OwnEngines(spark=True).at(HOST, ON_SPARK) == SPARK
    assert BOTH.at(HOST, JobParameters(computing_engine="STANDALONE")) == STANDALONE


@pytest.mark.parametrize("site", [ARBITER, LOCAL])
def test_an_arbiter_and_a_local_job_need_no_cluster(site: Site) -> None:
    assert BOTH.at(site, ON_SPARK) == STANDALONE
    OwnEngines().check(conf(), site, ON_SPARK)


@pytest.mark.parametrize(
    ("common", "role", "path"),
    [
        ({"computing_engine": "SPARK"}, {}, "common"),
        ({}, {"guest": {"0": {"computing_engine": "spark"}}}, 'role.guest["0"]'),
        (
            {"computing_engine": "SPARK"},
            {"guest": {"0": {"computing_engine": "SPARK"}}, "host": {"0": {}}},
            'role.guest["0"]',
        ),
    ],
)
def test_a_party_without_a_cluster_refuses_it_with_the_path(
    common: dict[str, Any], role: dict[str, Any], path: str
) -> None:
    with pytest.raises(EngineMissing) as info:
        OwnEngines().check(conf(common, role), GUEST, ON_SPARK)
    at = f"$.conf.job_parameters.{path}.computing_engine"
    assert info.value.message == f"{at}: SPARK is not an engine of guest 9999."
    assert "fate_on_spark.spark.master" in info.value.hint


def test_spark_is_an_engine_that_no_warning_is_given_for() -> None:
    report = Report()
    values: dict[str, object] = {"computing_engine": "spark", "storage_engine": "HDFS"}
    assert check_job_parameters(values, "$", report=report)["computing_engine"] == "SPARK"
    assert [warning.split(":")[0] for warning in map(str, report.warnings)] == ["$.storage_engine"]


def test_the_options_of_the_engine_that_is_used_count() -> None:
    parameters = JobParameters(
        computing_engine="EGGROLL",
        task_cores=4,
        eggroll_run={"eggroll.session.processors.per.node": 6},
        spark_run={"num-executors": 3, "executor-cores": 5},
    )
    assert demand_at(GUEST, parameters, engine=STANDALONE).job_cores == 6
    assert demand_at(GUEST, parameters, engine=SPARK).job_cores == 15
    assert demand_at(GUEST, JobParameters(task_cores=4), engine=SPARK).job_cores == 4


def test_an_amount_of_a_share_is_one_of_its_engine_among_all() -> None:
    share = ComputeResources(cores=3, memory=50)
    assert share.on(STANDALONE) == share
    assert share.on(SPARK) == ComputeResources(spark=3)
    assert share.on(SPARK).of(SPARK) == ComputeResources(cores=3)
    assert share.on(SPARK).of(STANDALONE) == ComputeResources()
    assert str(share + share.on(SPARK)) == "3 cores and 50 MiB of memory and 3 cores on Spark"
    assert str(share.on(SPARK)) == "3 cores on Spark"
    assert share.on(SPARK).fits(ComputeResources(spark=3))
    assert not share.on(SPARK).fits(ComputeResources(cores=9, memory=99, spark=2))


def test_what_is_short_is_said_with_its_engine() -> None:
    need, free = ComputeResources(cores=8), ComputeResources(cores=2)
    assert shortage(need, free, Capacity(cores=8)) == ("8 cores", "2 of 8 free")
    found = shortage(need, free, Capacity(cores=8, engine=SPARK))
    assert found == ("8 cores on Spark", "2 of 8 free on Spark")


def test_a_job_that_the_cluster_never_holds_is_refused_with_the_keys() -> None:
    options: dict[str, object] = {"num-executors": 3, "executor-cores": "2"}
    demand = demand_at(GUEST, JobParameters(spark_run=options, task_parallelism=2), engine=SPARK)
    with pytest.raises(NotEnoughResources) as info:
        check_ceiling({GUEST: demand}, Capacity(cores=8, engine=SPARK))
    assert info.value.message == (
        "job_parameters.common.spark_run.executor-cores x num-executors x task_parallelism (6 x 2)"
        " = 12 cores on Spark; guest 9999 has 8. Request less, or raise"
        " fate_on_spark.spark.cores_per_node at that party."
    )


def conf(common: Any = None, role: Any = None) -> Conf:
    report = Report()
    text: dict[str, object] = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9999},
        "role": {name: [9999] for name in ("guest", "host", "arbiter", "local")},
        "job_parameters": {"common": common or {}, "role": role or {}},
    }
    found = parse_conf(text, component_names=(), report=report)
    assert found is not None, report
    return found
