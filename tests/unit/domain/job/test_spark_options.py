"""What a job may ask of a party's Spark, and the application that follows from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedflow.base.settings import Spark
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.spark_options import (
    SparkSite,
    is_allowed,
    plan_application,
    spark_problems,
)

PATH = "$.conf.job_parameters.common.spark_run"
ALLOWED = Spark().allowed_conf
SITE = SparkSite(master="spark://here:7077", nodes=2, tables_uri="/tables", wait_s=60)


def problems(allowed: tuple[str, ...] = ALLOWED, **options: object) -> dict[str, str]:
    named = {key.replace("_", "-"): value for key, value in options.items()}
    return {
        p.path.removeprefix(PATH): p.message for p in spark_problems(named, PATH, allowed=allowed)
    }


def of_conf(key: str, value: object = "1", allowed: tuple[str, ...] = ALLOWED) -> str | None:
    """Return why a property is refused, None if it is not."""
    found = spark_problems({"conf": {key: value}}, PATH, allowed=allowed)
    return found[0].message if found else None


# --- options --------------------------------------------------------------------------------------


def test_known_options_pass_as_numbers_and_as_text() -> None:
    given = {
        "num_executors": 2,
        "executor_cores": "1",
        "total_executor_cores": 2,
        "executor_memory": "512m",
        "driver_memory": "2G",
        "queue": "root.fate",
        "deploy_mode": "client",
    }
    assert problems(("spark.driver.memory",), **given) == {}


@pytest.mark.parametrize(
    "option",
    [
        "jars", "packages", "py-files", "files", "archives", "class", "master", "name",
        "properties-file", "driver-java-options", "driver-class-path", "driver-library-path",
        "proxy-user", "keytab", "principal", "repositories", "help", "version", "supervise",
        "", "--jars", "num_executors", "conf spark.jars",
    ],
)  # fmt: skip
def test_options_that_could_load_code_or_read_files_are_refused(option: str) -> None:
    (problem,) = spark_problems({option: "x"}, PATH, allowed=("spark.*",))
    assert "is the party's own to set; a job may set num-executors" in problem.message


@pytest.mark.parametrize("value", [0, -1, 10_001, 1.5, True, "two", "1;id", None, [1], "١"])
def test_counts_are_whole_numbers_within_bounds(value: object) -> None:
    assert list(problems(num_executors=value)) == [".num-executors"]


@pytest.mark.parametrize("value", ["", "0g", "1", 1024, "5t", "1g;id", "-1g", "1gg", "9999999t"])
def test_memory_is_a_size(value: object) -> None:
    assert list(problems(executor_memory=value)) == [".executor-memory"]


@pytest.mark.parametrize("value", ["", "-x", "a b", "a\nb", "q" * 101, 1])
def test_a_queue_is_a_plain_name(value: object) -> None:
    assert list(problems(queue=value)) == [".queue"]


def test_the_driver_runs_at_the_partys_server() -> None:
    assert problems(deploy_mode="cluster") == {
        ".deploy-mode": 'must be client, not "cluster": the driver runs at the party\'s server'
    }


def test_the_drivers_memory_is_the_administrators_to_allow() -> None:
    told = problems(("spark.sql.*",), driver_memory="1g")
    assert told == {
        ".driver-memory": "this party does not let jobs set it (fate_on_spark.spark.allowed_conf)"
    }


# --- properties -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.executor.memoryOverhead", "512m"),
        ("spark.executor.heartbeatInterval", "20s"),
        ("spark.sql.shuffle.partitions", 8),
        ("spark.sql.adaptive.enabled", True),
        ("spark.sql.files.maxPartitionBytes", "64m"),
    ],
)
def test_properties_of_the_default_patterns_pass(key: str, value: object) -> None:
    assert of_conf(key, value) is None


@pytest.mark.parametrize(
    "key",
    [
        "spark.executor.extraJavaOptions", "spark.executor.defaultJavaOptions",
        "spark.executor.extraClassPath", "spark.executor.extraLibraryPath",
        "spark.executor.userClassPathFirst", "spark.executor.resource.gpu.discoveryScript",
        "spark.executor.uri", "spark.executorEnv.LD_PRELOAD",
        "spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.driver.host",
        "spark.jars", "spark.jars.packages", "spark.jars.ivySettings", "spark.files",
        "spark.archives", "spark.plugins", "spark.extraListeners", "spark.submit.pyFiles",
        "spark.pyspark.python", "spark.pyspark.driver.python", "spark.python.daemon.module",
        "spark.sql.extensions", "spark.sql.catalog.mine", "spark.sql.warehouse.dir",
        "spark.sql.queryExecutionListeners", "spark.sql.hive.metastore.jars",
        "spark.sql.sources.commitProtocolClass", "spark.sql.cache.serializer",
        "spark.sql.streaming.checkpointLocation", "spark.kerberos.keytab",
        "spark.authenticate.secret", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key",
        "spark.yarn.dist.files", "spark.kubernetes.container.image", "spark.local.dir",
        "spark.master.rest.enabled", "spark.r.command", "spark.serializer",
    ],
)  # fmt: skip
def test_properties_that_run_code_or_name_files_are_refused_by_default(key: str) -> None:
    assert of_conf(key) is not None


@pytest.mark.parametrize(
    "key",
    [
        "spark.files", "spark.submit.pyFiles", "spark.yarn.dist.files", "spark.yarn.dist.pyFiles",
        "spark.kubernetes.container.image", "spark.kubernetes.driver.secrets.x",
        "spark.kubernetes.driver.master", "spark.hadoop.fs.s3a.endpoint",
        "spark.hadoop.fs.file.impl", "spark.hadoop.yarn.resourcemanager.address",
        "spark.metrics.conf", "spark.ui.enabled", "spark.ui.filters", "spark.eventLog.enabled",
        "spark.driver.bindAddress", "spark.network.crypto.enabled", "spark.io.encryption.enabled",
        "spark.acls.enable", "spark.redaction.regex", "spark.kryo.registrator",
        "spark.kryo.classesToRegister", "spark.shuffle.manager", "spark.yarn.access.namenodes",
        "spark.sql.extendedExplainProviders", "spark.sql.files.path",
    ],
)  # fmt: skip
def test_the_widest_pattern_opens_no_door_and_takes_no_protection_away(key: str) -> None:
    assert of_conf(key, allowed=("spark.*",)) is not None
    assert of_conf(key, allowed=(key,)) is None


@pytest.mark.parametrize(
    "value", ["${spark.authenticate.secret}", "${env:HOME}", "a ${system:user.home}"]
)
def test_a_value_cannot_refer_to_secrets_of_the_party(value: str) -> None:
    key = "spark.executor.heartbeatInterval"
    told = "must not refer to other values with ${"
    assert of_conf(key, value) == told
    assert of_conf(key, value, allowed=(key,)) == told


def test_no_pattern_lets_such_a_property_pass_but_its_full_name_does() -> None:
    key = "spark.executor.extraJavaOptions"
    assert of_conf(key, allowed=("spark.*", "spark.executor.*")) is not None
    assert of_conf(key, allowed=(key,)) is None


@pytest.mark.parametrize(
    "key",
    [
        "spark.master", "spark.app.name", "spark.cores.max", "spark.executor.cores",
        "spark.executor.instances", "spark.submit.deployMode", "spark.dynamicAllocation.enabled",
    ],
)  # fmt: skip
def test_what_fedflow_sets_itself_is_refused_even_by_its_full_name(key: str) -> None:
    told = of_conf(key, allowed=(key,))
    assert told is not None
    assert told.startswith("a job cannot set it: ")


@pytest.mark.parametrize(
    "key", ["", "spark", "spark.", "park.sql.x", "spark.sql.a b", "spark.sql.x\n", "spark.sql.x=1"]
)
def test_names_that_are_no_properties_are_refused(key: str) -> None:
    assert of_conf(key, allowed=("spark.*", key)) == "is no name of a Spark property"


@pytest.mark.parametrize(
    "value", [None, [1], {"a": 1}, "a\nspark.jars=x", "a\0b", "x" * 1001, float("inf")]
)
def test_values_are_one_line_of_text_or_a_number(value: object) -> None:
    assert of_conf("spark.sql.x", value) is not None


def test_all_mistakes_are_told_with_their_paths() -> None:
    told = problems(jars="x", num_executors=0, conf={"spark.jars": "x", "spark.sql.x": 1})
    assert list(told) == [".jars", ".num-executors", '.conf["spark.jars"]']


def test_a_conf_that_is_no_object_is_refused() -> None:
    assert problems(conf=["spark.sql.x=1"]) == {".conf": "must be an object, not a list"}


def test_an_allowed_name_without_a_star_is_that_name_only() -> None:
    assert is_allowed("spark.speculation", ("spark.speculation",))
    assert not is_allowed("spark.speculation.quantile", ("spark.speculation",))


# --- the application ------------------------------------------------------------------------------


def parameters(**spark_run: object) -> JobParameters:
    named = {key.replace("_", "-"): value for key, value in spark_run.items()}
    return JobParameters(spark_run=named)


def test_an_application_takes_the_cores_of_its_share_and_no_more() -> None:
    plan = plan_application(parameters(), SITE, cores=4)
    assert plan.properties["spark.cores.max"] == "4"
    assert "spark.executor.cores" not in plan.properties  # each worker gives what it has
    assert (plan.cores, plan.partitions, plan.executors) == (4, 4, 1)
    assert plan.options == {}


def test_executors_that_are_asked_for_are_waited_for() -> None:
    plan = plan_application(parameters(num_executors=2, executor_cores=3), SITE, cores=6)
    assert plan.properties["spark.executor.cores"] == "3"
    assert plan.executors == 2
    conf = {"spark.scheduler.minRegisteredResourcesRatio": "0.5"}
    half = plan_application(parameters(num_executors=4), replace(SITE, conf=conf), cores=4)
    assert half.executors == 2
    assert half.properties["spark.executor.cores"] == "1"


def test_other_clusters_are_asked_for_a_number_of_executors() -> None:
    plan = plan_application(parameters(), replace(SITE, master="yarn"), cores=8)
    assert plan.properties["spark.executor.instances"] == "2"
    assert plan.properties["spark.executor.cores"] == "4"
    assert "spark.cores.max" not in plan.properties


def test_a_driver_that_computes_itself_is_not_cut() -> None:
    plan = plan_application(parameters(), replace(SITE, master="local[2]"), cores=2)
    assert not {"spark.cores.max", "spark.executor.instances"} & plan.properties.keys()


def test_a_job_wins_over_the_partys_conf_but_for_its_size() -> None:
    conf = {
        "spark.sql.x": "party",
        "spark.ui.enabled": "true",
        "spark.cores.max": "100",
        "spark.submit.deployMode": "cluster",
    }
    site = replace(SITE, conf=conf)
    plan = plan_application(parameters(conf={"spark.sql.x": True}), site, cores=2)
    assert plan.properties["spark.sql.x"] == "true"
    assert plan.properties["spark.ui.enabled"] == "true"
    assert plan.properties["spark.cores.max"] == "2"
    assert plan.properties["spark.submit.deployMode"] == "client"


def test_memory_and_queue_are_passed_on() -> None:
    plan = plan_application(
        parameters(executor_memory="512M", queue="Fate", num_executors=1), SITE, cores=1
    )
    assert plan.options == {"executor-memory": "512m", "queue": "Fate"}


def test_fewer_cores_may_be_asked_for_than_the_share_has() -> None:
    plan = plan_application(parameters(total_executor_cores=1), SITE, cores=4)
    assert (plan.properties["spark.cores.max"], plan.cores) == ("1", 1)


def test_the_jobs_partitions_count() -> None:
    given = replace(parameters(), computing_partitions=16)
    plan = plan_application(given, SITE, cores=4)
    assert plan.partitions == 16
    assert plan.properties["spark.sql.shuffle.partitions"] == "16"
