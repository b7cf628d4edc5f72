"""What is told to spark-submit, and what is read from what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.spark.submission import (
    driver_properties,
    is_loopback,
    masters_of,
    property_lines,
    reason_in,
)
from fedflow.wire.spark_application import ApplicationSpec


@pytest.mark.parametrize(
    ("master", "places"),
    [
        ("spark://a:7077", [("a", 7077)]),
        ("spark://a:1,b:2", [("a", 1), ("b", 2)]),
        ("spark://[::1]:7077", [("[::1]", 7077)]),
        ("spark://a", []),
        ("spark://a:x", []),
        ("yarn", []),
        ("k8s://https://a:443", []),
        ("local[2]", []),
    ],
)
def test_the_masters_of_a_standalone_cluster(master: str, places: list[tuple[str, int]]) -> None:
    assert masters_of(master) == places


@pytest.mark.parametrize(
    ("master", "is_one"),
    [
        ("local", True),
        ("local[*]", True),
        ("spark://127.0.0.1:7077", True),
        ("spark://localhost:7077", True),
        ("spark://127.0.0.1:7077,other:7077", False),
        ("spark://10.0.0.1:7077", False),
        ("yarn", False),
    ],
)
def test_a_cluster_of_this_machine_is_bound_to_it(master: str, is_one: bool) -> None:
    assert is_loopback(master) is is_one


def spec(master: str, **properties: str) -> ApplicationSpec:
    return ApplicationSpec(
        job_id="1",
        name="1#guest-9999",
        master=master,
        home=None,
        python="/python",
        log="/log",
        properties={key.replace("_", "."): value for key, value in properties.items()},
        wait_s=1,
        idle_timeout_s=1,
    )


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2,3]"])
def test_a_driver_that_computes_itself_talks_to_nobody_else(master: str) -> None:
    assert driver_properties(spec(master), Path("/a")) == {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": "/a/local",
        "spark.authenticate": "true",
    }


@pytest.mark.parametrize("master", ["spark://10.0.0.1:7077", "yarn", "local-cluster[2,1,1024]"])
def test_the_secret_of_a_cluster_is_the_administrators_to_set(master: str) -> None:
    assert "spark.authenticate" not in driver_properties(spec(master), Path("/a"))


def test_the_partys_own_properties_win() -> None:
    given = spec("local[2]", spark_authenticate="false", spark_local_dir="/big")
    found = driver_properties(given, Path("/a"))
    assert (found["spark.authenticate"], found["spark.local.dir"]) == ("false", "/big")


def test_executors_of_kubernetes_get_no_folder_of_this_machine() -> None:
    assert driver_properties(spec("k8s://https://10.0.0.1:443"), Path("/a")) == {}


def test_properties_are_escaped_so_that_none_can_become_two() -> None:
    lines = property_lines({"spark.a": "x\nspark.jars=y", "b c": "\u00fc\\"})
    assert lines == "spark.a=x\\u000aspark.jars\\u003dy\nb\\u0020c=\\u00fc\\u005c\n"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        ("", ""),
        ("WARNING: Using incubator modules\n", ""),
        ("Error: Unrecognized option: --x\n\nUsage: spark-submit ...", "Unrecognized option: --x"),
        (
            'WARN x\nException in thread "main" org.apache.spark.SparkException: Could not parse'
            " Master URL: 'x'\n\tat a",
            "Could not parse Master URL: 'x'",
        ),
        (
            "Error: File file:/opt/secret/a.jar, file:///b and /opt/c are not at hdfs://there/x",
            "File <path>, <path> and <path> are not at hdfs://there/x",
        ),
        (
            "Error occurred during initialization of VM\nToo small maximum heap\n",
            "Too small maximum heap",
        ),
        ("Error: Missing file /home/me/secret.conf", "Missing file <path>"),
    ],
)
def test_the_sentence_in_which_spark_says_what_is_wrong(printed: str, reason: str) -> None:
    assert reason_in(printed) == reason
