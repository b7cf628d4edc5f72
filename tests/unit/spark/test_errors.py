"""What exceptions of Spark mean, from their texts alone."""

from __future__ import annotations

import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkFailed, SparkLost
from fedflow.spark.errors import last_line, meaning_of, spark_errors, text_of

GONE = SparkLost(job_id="1", reason="it is gone")


def lost() -> FedflowError:
    return GONE


def of_spark(name: str, text: str) -> Exception:
    """Return an exception as py4j and pyspark have them, without either."""
    kind = type(name, (Exception,), {"__module__": "py4j.protocol"})
    made: Exception = kind(text)
    return made


PYTHON = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure
Traceback (most recent call last):
  File "x.py", line 1, in block
{raised}

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:572)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
"""


def test_somebody_elses_exception_is_left_alone() -> None:
    assert meaning_of(ValueError("no"), lost=lost) is None
    assert meaning_of(ConnectionRefusedError("a peer"), lost=lost) is None
    with pytest.raises(ValueError, match="no"), spark_errors(lost):
        raise ValueError("no")


def test_an_error_of_a_block_is_raised_again() -> None:
    error = CodecError(reason="bad row")
    text = PYTHON.format(raised=f"fedflow.base.errors.data_plane.CodecError: {error}")
    with pytest.raises(CodecError, match="bad row"), spark_errors(lost):
        raise of_spark("Py4JJavaError", text)


@pytest.mark.parametrize("name", ["Py4JNetworkError", "Py4JError"])
def test_a_broken_connection_means_that_the_application_is_lost(name: str) -> None:
    meant = meaning_of(of_spark(name, "Answer from Java side is empty"), lost=lost)
    assert meant is GONE


def test_a_stopped_context_means_that_the_application_is_lost() -> None:
    text = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    assert meaning_of(of_spark("Py4JJavaError", text), lost=lost) is GONE


def test_memory_that_ran_out_in_a_block_is_a_memory_error() -> None:
    text = PYTHON.format(raised="MemoryError")
    assert isinstance(meaning_of(of_spark("Py4JJavaError", text), lost=lost), MemoryError)


def test_the_text_of_another_exception_is_not_told() -> None:
    text = PYTHON.format(raised="KeyError: 'a secret cell'")
    meant = meaning_of(of_spark("Py4JJavaError", text), lost=lost)
    assert isinstance(meant, SparkFailed)
    assert "secret" not in meant.message
    assert "KeyError" in meant.message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('IOException: Cannot run program "/no/python": 2', "its Python program is not there"),
        ("ExecutorLostFailure (executor 1 exited", "an executor was lost too often"),
        ("ModuleNotFoundError: No module named 'fedflow'", "No module named 'fedflow'"),
        (
            "ImportError: cannot import name 'x' from 'fedflow' (/home/secret/fedflow.py)",
            "cannot import name 'x' from 'fedflow'",
        ),
        ("ImportError: /opt/a.so: no symbol", "ImportError; the log of this party has its text"),
        ("Job 3 cancelled part of cancelled job group x", "it was cancelled"),
        ("java.lang.OutOfMemoryError: Java heap space", "Spark ran out of memory"),
        ("", "Spark's message is in the log of this party"),
    ],
)  # fmt: skip
def test_known_causes_have_a_sentence(text: str, sentence: str) -> None:
    assert last_line(text) == sentence


def test_an_exception_whose_text_cannot_be_asked_for_means_that_the_driver_is_gone() -> None:
    class Py4JJavaError(Exception):
        def __str__(self) -> str:
            raise ConnectionError

    Py4JJavaError.__module__ = "py4j.protocol"
    assert meaning_of(Py4JJavaError(), lost=lost) is GONE
    assert text_of(Py4JJavaError()) == "Py4JJavaError"
