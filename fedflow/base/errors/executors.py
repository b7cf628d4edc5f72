"""Errors 1500: executors."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class ExecutorDied(FedflowError):
    """The executor of {task} died: {reason}."""

    code, retcode, http = 1501, 100, 500
    public = ("task",)
    hint = (
        "`fedflow job log` shows what it printed last; a signal 6 or 9 often means that memory ran "
        "out, see `executor.memory_mib`."
    )


class ExecutorNotStarted(FedflowError):
    """The executor of {task} could not be started: {reason}."""

    code, retcode, http = 1502, 100, 500
    public = ("task",)
    hint = "The server's log has the details; check free memory and process limits."


class LaunchRefused(FedflowError):
    """Launch {launch_id} of {task} was replaced or has ended."""

    code, retcode, http = 1503, 10, 409
    public = ("task",)
    hint = "Another process runs this attempt; this one must exit."


class ServerRefused(FedflowError):
    """The server refused {command} with return code {retcode}: {reason}"""

    code, retcode, http = 1504, 100, 502
    hint = "The reason comes from the server; its log has the details."


class OutOfMemory(FedflowError):
    """The executor of {task} ran out of memory ({limit})."""

    code, retcode, http = 1505, 100, 507
    public = ("task",)
    hint = (
        "Use less data, or raise `executor.memory_mib` in the server's conf: by default a task may "
        "allocate half of the machine's memory."
    )


class ServerLost(FedflowError):
    """The server that ran {task} is lost: {reason}."""

    code, retcode, http = 1506, 100, 502
    public = ("task",)
    hint = "`fedflow server list` shows this party's servers; the task is tried again at another."


class JavaMissing(FedflowError):
    """Spark cannot run at this server, because it finds no Java: {reason}."""

    code, retcode, http = 1507, 100, 500
    hint = "Install Java 17 or newer at the server, or set JAVA_HOME where the server is started."


class SparkMissing(FedflowError):
    """There is no usable Spark at this server: {reason}."""

    code, retcode, http = 1508, 100, 500
    hint = "Install `fedflow[spark]`, or correct SPARK_HOME or fate_on_spark.spark.home."


class SparkMasterUnreachable(FedflowError):
    """The Spark master does not answer: {reason}."""

    code, retcode, http = 1509, 100, 502
    hint = "Check that it runs, and fate_on_spark.spark.master in the conf of that party's server."


class SparkNotStarted(FedflowError):
    """The Spark application could not be started: {reason}."""

    code, retcode, http = 1510, 100, 500
    hint = "spark.log among the job's logs has Spark's output. Options come from `spark_run`."


class SparkExecutorsMissing(FedflowError):
    """Spark gave {there} of {wanted} executors within {seconds} s."""

    code, retcode, http = 1511, 100, 503
    public = ("seconds",)
    hint = "Request less in `spark_run`, free the cluster, or raise fate_on_spark.spark.wait_s."


class SparkLost(FedflowError):
    """The Spark application of job {job_id} died: {reason}."""

    code, retcode, http = 1512, 100, 502
    public = ("job_id",)
    hint = "spark.log among the job's logs says why. A driver without memory needs `driver-memory`."


class SparkFailed(FedflowError):
    """A Spark job of the task failed: {reason}."""

    code, retcode, http = 1513, 100, 500
    hint = "The task's log at this party has Spark's own message with the executor's traceback."


class SparkWorkersDiffer(FedflowError):
    """Spark's workers cannot run fedflow: {reason}."""

    code, retcode, http = 1514, 100, 500
    hint = "Their Python (fate_on_spark.spark.python) needs this release of fedflow."


class LibrariesMissing(FedflowError):
    """This installation of fedflow runs no components; it lacks packages: {packages}."""

    code, retcode, http = 1516, 100, 501
    hint = "Install them where this was run: `pip install fedflow` does. No restart is needed."


class EngineMissing(FedflowError):
    """{path}: {engine} is not an engine of {where}."""

    code, retcode, http = 1521, 103, 409
    public = ("path", "engine", "where")
    hint = (
        "Leave it out or set STANDALONE for that party. Its administrator sets a Spark cluster "
        "with fate_on_spark.spark.master."
    )


class SparkOptionRefused(FedflowError):
    """{path}: {reason}."""

    code, retcode, http = 1515, 101, 400
    public = ("path",)
    hint = "A party's administrator may allow more properties in fate_on_spark.spark.allowed_conf."


class SparkClusterFailed(FedflowError):
    """The Spark cluster of this machine does not start: {reason}."""

    code, retcode, http = 1520, 100, 500
    hint = "It needs Java 17 and the package `fedflow[spark]`, or a Spark folder in SPARK_HOME."
