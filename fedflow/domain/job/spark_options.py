"""What a job may ask of a party's Spark in `spark_run`, and the application that follows from it.

`spark_run` comes from the initiator, who may be another company, and the application runs as the
user of this party's server. So only what is known passes: the options of the table below, and
properties that the party's administrator allows in `fate_on_spark.spark.allowed_conf`. A pattern
there with a `*` never stands for a property that loads code, names files, starts programs, opens a
door or takes protection away (`spark.executor.extraJavaOptions`), nor for one that fedflow sets
itself: such a one passes only if it is named in full, and the latter not at all.

No value may refer to another one: Spark replaces `${spark.authenticate.secret}` and `${env:HOME}`
by what they stand for here, and complains with the result, in a sentence that the initiator reads.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import Final

from fedflow.base.errors.documents import Problem
from fedflow.base.values import dataclass
from fedflow.domain.job.conf import Conf
from fedflow.domain.job.document import JsonObject, child, kind_of, shown
from fedflow.domain.job.parameters import (
    EXECUTOR_CORES_KEY,
    EXECUTORS_KEY,
    JobParameters,
    cores_option,
)
from fedflow.domain.site import Site

DEPLOY_MODE: Final = "deploy-mode"
CONF: Final = "conf"
TOTAL_CORES_KEY: Final = "total-executor-cores"
DRIVER_MEMORY_KEY: Final = "driver-memory"

WITHOUT_SPARK: Final = frozenset({"cacheloader", "modelloader"})
"""Modules, in lower case, that read no rows: their tasks need no Spark application. Those of local
jobs do not either (a local party job never computes on Spark), nor arbiters, nor the modules of
providers, whose interpreters have other libraries."""

RULE: Final = "SparkOptionError"
_MOST_VALUE: Final = 1_000  #: characters of a property
_MEMORY: Final = re.compile(r"(?P<size>[1-9][0-9]{0,6})(?P<unit>[kmgt])b?", re.IGNORECASE)
_MOST_MEMORY: Final = 4 * 2**40  #: bytes
_QUEUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PROPERTY: Final = re.compile(r"spark(?:\.[A-Za-z0-9_-]+){1,12}")
_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SCALE: Final = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}

_OWN: Final = {
    "spark.master": "it is the party's own",
    "spark.app.name": "fedflow gives the name",
    "spark.app.id": "fedflow gives the name",
    "spark.cores.max": f"it follows from {EXECUTORS_KEY} and {EXECUTOR_CORES_KEY}",
    "spark.executor.cores": f"say {EXECUTOR_CORES_KEY} instead",
    "spark.executor.instances": f"say {EXECUTORS_KEY} instead",
    "spark.submit.deployMode": "the deploy mode is always client",
}
"""Properties that fedflow sets, and why a job does not."""
_OWN_PREFIXES: Final = ("spark.dynamicAllocation.",)  # the job would take what it was not given
_CAREFUL: Final = frozenset(
    {
        "acl", "acls", "address", "archive", "archives", "artifact", "authenticate",
        "authentication", "catalog", "cipher", "class", "classes", "classpath", "command",
        "credential", "credentials", "crypto", "dir", "directory", "dirs", "encryption", "endpoint",
        "env", "extension", "extensions", "file", "filename", "filenames", "files", "filters",
        "hadoop", "hive", "host", "hosts", "image", "impl", "jar", "jars", "java", "keystore",
        "keytab", "kubernetes", "library", "listener", "listeners", "location", "manager", "mapper",
        "metastore", "namenodes", "options", "password", "path", "paths", "plugin", "plugins",
        "principal", "program", "provider", "providers", "proxy", "python", "redaction",
        "registrator", "repositories", "repository", "sasl", "script", "secret", "secrets",
        "serializer", "services", "ssl", "submit", "token", "transpilers", "truststore", "ui",
        "uri", "uris", "url", "urls", "user", "users", "volumes", "warehouse",
    }
)  # fmt: skip
"""Words in the name of a property that may load code, name files, hold secrets or open a door."""
_CAREFUL_PREFIXES: Final = ("spark.eventLog.", "spark.metrics.")
_HARMLESS_PREFIXES: Final = ("spark.sql.files.",)  # how files are cut, not which ones
_REFERS: Final = "${"


def spark_problems(options: JsonObject, path: str, *, allowed: Collection[str]) -> list[Problem]:
    """Return what is wrong with the `spark_run` of a job at a party, whose conf has `allowed`.

    `path` is where it stands, `$.conf.job_parameters.common.spark_run`.
    """
    problems = []
    for key, value in options.items():
        at = child(path, key)
        if key == CONF:
            problems += _conf_problems(value, at, allowed=allowed)
            continue
        wrong = _wrong_option(key, value, allowed=allowed)
        if wrong is not None:
            problems.append(Problem(at, wrong, RULE))
    return problems


def spark_problems_at(
    conf: Conf, site: Site, parameters: JobParameters, *, allowed: Collection[str], cores: int
) -> list[Problem]:
    """Return what is wrong with a job's `spark_run` at one of this server's sites on Spark.

    `cores` are those that the job holds there; it may not use more.
    """
    layers = conf.job_parameters.with_paths(site.role, conf.index_of(site), "job_parameters")
    naming = [path for path, values in layers if values.get("spark_run")]
    path = f"{(naming or [layers[0][0]])[-1]}.spark_run"
    options = parameters.spark_run
    problems = spark_problems(options, path, allowed=allowed)
    total = cores_option(options, TOTAL_CORES_KEY)
    if total is not None and total > cores:
        message = f"{total} cores are more than the job has at {site}, which are {cores}"
        problems.append(Problem(child(path, TOTAL_CORES_KEY), message, RULE))
    return problems


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkSite:
    """What a party's conf says of its Spark."""

    master: str
    nodes: int
    conf: Mapping[str, str] = field(default_factory=dict)
    allowed_conf: tuple[str, ...] = ()
    tables_uri: str
    small_rows: int = 65_536  #: tables up to so many are worked on by the task itself
    small_work_s: float = 1.5  #: so is arithmetic that takes one core less time
    wait_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkPlan:
    """The application of a party job."""

    options: Mapping[str, str]  #: of spark-submit, without the dashes
    properties: Mapping[str, str]
    executors: int  #: that must be there before work begins
    cores: int  #: of all executors together
    partitions: int  #: into which new tables are cut


def plan_application(parameters: JobParameters, site: SparkSite, *, cores: int) -> SparkPlan:
    """Return the application of a party job that holds `cores` of the cluster.

    The party's conf wins over what is set here, and the job's `spark_run` over the party's conf:
    it was checked. How many cores and executors there are nobody overrules.
    """
    options = parameters.spark_run
    asked = cores_option(options, EXECUTORS_KEY) or 0
    per_executor = cores_option(options, EXECUTOR_CORES_KEY) or 0
    total = max(1, min(cores_option(options, TOTAL_CORES_KEY) or cores, cores))
    partitions = parameters.computing_partitions or total
    given = options.get(CONF)
    jobs = {k: property_text(v) for k, v in given.items()} if isinstance(given, dict) else {}
    properties = {
        **_defaults(total, partitions),
        **site.conf,
        **jobs,
        **_sizes(site, total=total, asked=asked, per_executor=per_executor),
        "spark.submit.deployMode": "client",
        "spark.scheduler.mode": "FAIR",  # tasks of a job that run at once share the executors
    }
    taken = {EXECUTORS_KEY, EXECUTOR_CORES_KEY, TOTAL_CORES_KEY, DEPLOY_MODE, CONF}
    passed = {k: str(v).lower() if k.endswith("memory") else str(v) for k, v in options.items()}
    return SparkPlan(
        options={k: v for k, v in passed.items() if k not in taken},
        properties=properties,
        executors=_needed(asked, properties),
        cores=total,
        partitions=partitions,
    )


def _defaults(cores: int, partitions: int) -> dict[str, str]:
    one_thread = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": str(max(1, cores, partitions)),
        # A result of the driver is bounded by its memory, not by a second limit.
        "spark.driver.maxResultSize": "0",
        **{f"spark.executorEnv.{name}": "1" for name in one_thread},
    }


def _sizes(site: SparkSite, *, total: int, asked: int, per_executor: int) -> dict[str, str]:
    """Return how many executors of how many cores; a standalone cluster counts cores only."""
    if site.master.startswith("local"):
        return {}
    if site.master.startswith("spark://"):
        sizes = {"spark.cores.max": str(total)}
        if per_executor:
            sizes["spark.executor.cores"] = str(min(per_executor, total))
        elif asked:
            sizes["spark.executor.cores"] = str(max(1, total // asked))
        return sizes
    executors = asked or site.nodes
    each = per_executor or max(1, total // executors)
    return {
        "spark.executor.cores": str(each),
        "spark.executor.instances": str(max(1, total // each)),
    }


def _needed(asked: int, properties: Mapping[str, str]) -> int:
    """Return how many executors must be there: those that were asked for, or Spark's share."""
    try:
        ratio = float(properties.get("spark.scheduler.minRegisteredResourcesRatio", "1"))
    except ValueError:
        ratio = 1.0
    return max(1, math.ceil(asked * min(1.0, max(0.0, ratio))))


def _wrong_option(key: str, value: object, *, allowed: Collection[str]) -> str | None:
    """Return why an option cannot be passed to spark-submit, None if it can."""
    check = _OPTIONS.get(key)
    if check is None:
        known = ", ".join((*_OPTIONS, CONF))
        return f"this option of spark-submit is the party's own to set; a job may set {known}"
    wrong = check(value)
    if (
        wrong is None
        and key == DRIVER_MEMORY_KEY
        and not is_allowed("spark.driver.memory", allowed)
    ):
        return "this party does not let jobs set it (fate_on_spark.spark.allowed_conf)"
    return wrong


def _conf_problems(value: object, path: str, *, allowed: Collection[str]) -> list[Problem]:
    if not isinstance(value, dict):
        return [Problem(path, f"must be an object, not {kind_of(value)}", RULE)]
    problems = []
    for key, given in value.items():
        wrong = _wrong_property(key, given, allowed=allowed)
        if wrong is not None:
            problems.append(Problem(child(path, key), wrong, RULE))
    return problems


def _wrong_property(key: str, value: object, *, allowed: Collection[str]) -> str | None:
    if not _PROPERTY.fullmatch(key):
        return "is no name of a Spark property"
    own = _OWN.get(key)
    if own is not None or key.startswith(_OWN_PREFIXES):
        return f"a job cannot set it: {own or 'it has the executors that it asked for'}"
    if not is_allowed(key, allowed):
        return "this party does not let jobs set it (fate_on_spark.spark.allowed_conf)"
    if isinstance(value, bool | int | float):
        return None if math.isfinite(value) else "must be a finite number"
    if not isinstance(value, str):
        return f"must be a text, a number or a boolean, not {kind_of(value)}"
    if len(value) > _MOST_VALUE or not value.isprintable():
        return f"must be a text of one line, of at most {_MOST_VALUE} characters"
    if _REFERS in value:
        return f"must not refer to other values with {_REFERS}"
    return None


def property_text(value: object) -> str:
    """Return a value as Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def is_allowed(key: str, allowed: Collection[str]) -> bool:
    """Tell whether the administrator's patterns let a job set a property."""
    if key in allowed:
        return True
    rest = next((key.removeprefix(p) for p in _HARMLESS_PREFIXES if key.startswith(p)), key)
    words = {word.lower() for word in _PARTS.findall(rest)}
    if words & _CAREFUL or key.startswith(_CAREFUL_PREFIXES):
        return False
    return any(p.endswith("*") and key.startswith(p.removesuffix("*")) for p in allowed)


def _count(value: object) -> str | None:
    number = cores_option({"n": value}, "n")
    if not number:
        return f"must be a whole number from 1 to 10000, not {shown(value)}"
    return None


def _memory(value: object) -> str | None:
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return f"must be a size such as 512m or 4g, not {shown(value)}"
    if int(found["size"]) * _SCALE[found["unit"].lower()] > _MOST_MEMORY:
        return "must be at most 4t"
    return None


def _queue(value: object) -> str | None:
    if isinstance(value, str) and _QUEUE.fullmatch(value):
        return None
    return f"must be the name of a queue, not {shown(value)}"


def _deploy_mode(value: object) -> str | None:
    if value == "client":
        return None
    return f"must be client, not {shown(value)}: the driver runs at the party's server"


_OPTIONS: Final[Mapping[str, Callable[[object], str | None]]] = {
    EXECUTORS_KEY: _count,
    EXECUTOR_CORES_KEY: _count,
    TOTAL_CORES_KEY: _count,
    "executor-memory": _memory,
    DRIVER_MEMORY_KEY: _memory,
    "queue": _queue,
    DEPLOY_MODE: _deploy_mode,
}
"""Options of spark-submit that a job may set, and what is wrong with a value."""
