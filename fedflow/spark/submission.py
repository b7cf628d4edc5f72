"""Starts a driver with spark-submit, and says in fedflow's words why that does not work.

Client deploy mode, always: the driver must reach its server's unix sockets. No shell sees any
option: spark-submit gets a list of arguments, and Spark's properties, which may hold secrets, in a
file that nobody else can read.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import (
    JavaMissing,
    SparkMasterUnreachable,
    SparkMissing,
    SparkNotStarted,
)
from fedflow.wire.spark_application import ApplicationSpec, write_private

logger = logging.getLogger(__name__)

PROPERTIES: Final = "spark.properties"
LOCAL: Final = "local"  #: folder of the driver's own files
_CONNECT_S: Final = 5.0  #: longest wait for one master to answer
_TAIL_BYTES: Final = 64 * 1024
_REASON_CHARACTERS: Final = 300
_MASTER: Final = re.compile(r"spark://(?P<hosts>.+)")
_OWN_MACHINE: Final = re.compile(r"local(\[[^\]]*\])?")  #: the driver computes itself
_CORE: Final = re.compile(r"spark-core_[\d.]+-(?P<version>\d+\.\d+)[\d.]*.*\.jar")
_SPEAKS: Final = re.compile(
    r"^(?:Error: |Exception in thread \"main\" |Unrecognized |Invalid |Caused by: |\S*Exception: )"
)
_PATH: Final = re.compile(r"file:/[\w./-]*|(?<![\w:/])/[\w./-]{2,}")
_NO_START: Final = "Error occurred during initialization of VM"
_CLASS_PREFIX: Final = re.compile(
    r"^(?:Caused by: |Exception in thread \"main\" )?(?:(?:[\w$]+\.)+[\w$]+: )?"
)


def start_driver(spec: ApplicationSpec, folder: Path) -> tuple[Any, Any]:
    """Return py4j's gateway to a new driver, whose process is `gateway.proc`, and its SparkContext.

    Takes seconds. The driver ends when this process does: its standard input closes then.

    Raises: JavaMissing, SparkMissing, SparkMasterUnreachable, SparkNotStarted.
    """
    log = Path(spec.log)
    begin = log.stat().st_size if log.exists() else 0
    home = spark_home(spec.home)
    _check_java()
    _check_master(spec.master)
    os.environ.update(_environment(spec, home, folder))
    from pyspark import SparkContext  # after the checks, which are in plainer words
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    try:
        gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as exc:
        raise _refusal(log, begin) from exc
    try:
        return gateway, SparkContext(gateway=gateway)
    except Exception as exc:
        logger.exception("The Spark context could not be made.")
        with contextlib.suppress(OSError):
            gateway.proc.kill()
        gateway.proc.wait()
        raise _context_failure(exc, log, begin) from exc


def is_loopback(master: str) -> bool:
    """Tell whether a cluster is this machine alone, so that nothing else needs to reach it."""
    if master.startswith("local"):
        return True
    hosts = [host for host, _ in masters_of(master)]
    return bool(hosts) and all(host in {"127.0.0.1", "localhost", "[::1]"} for host in hosts)


def masters_of(master: str) -> list[tuple[str, int]]:
    """Return host and port of each master of a standalone cluster; none of another cluster."""
    found = _MASTER.fullmatch(master)
    if found is None:
        return []
    places = []
    for place in found["hosts"].split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            return []
        places.append((host, int(port)))
    return places


def spark_home(given: str | None) -> Path:
    """Return the folder of Spark. Raises: SparkMissing."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        raise SparkMissing(reason="the Python package pyspark is not installed")
    home = Path(given) if given else Path(package.origin).parent
    submit = home / "bin" / "spark-submit"
    if not os.access(submit, os.X_OK):
        logger.error("%s is no program.", submit)
        raise SparkMissing(reason="the folder of Spark has no program bin/spark-submit")
    theirs = _version_of(home)
    ours = ".".join(_package_version().split(".")[:2])
    if theirs is not None and theirs != ours:
        logger.error("%s holds Spark %s.", home, theirs)
        reason = f"its folder holds Spark {theirs}, the Python package is pyspark {ours}"
        raise SparkMissing(reason=reason)
    return home


def _version_of(home: Path) -> str | None:
    """Return major and minor version of a Spark folder, None if its files do not tell."""
    for path in sorted((home / "jars").glob("spark-core_*.jar")):
        found = _CORE.fullmatch(path.name)
        if found:
            return found["version"]
    return None


def _package_version() -> str:
    from pyspark.version import __version__ as version  # only where Spark is used

    return str(version)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home:
        if not os.access(Path(home) / "bin" / "java", os.X_OK):
            logger.error("JAVA_HOME is %s.", home)
            raise JavaMissing(reason="JAVA_HOME names a folder without the program bin/java")
    elif shutil.which("java") is None:
        raise JavaMissing(reason="JAVA_HOME is not set, and no program `java` is on the PATH")


def _check_master(master: str) -> None:
    """Try to connect, since Spark itself retries for a minute and then tells its log only."""
    places = masters_of(master)
    reason = ""
    for host, port in places:
        try:
            socket.create_connection((host.strip("[]"), port), _CONNECT_S).close()
        except OSError as exc:
            logger.warning("The master at %s:%s does not answer: %s", host, port, exc)
            reason = exc.strerror or str(exc)
        else:
            return
    if places:
        raise SparkMasterUnreachable(reason=reason)


def driver_properties(spec: ApplicationSpec, folder: Path) -> dict[str, str]:
    """Return Spark's properties of a driver whose application has a folder."""
    given = dict(spec.properties)
    if is_loopback(spec.master):
        for key in ("spark.driver.host", "spark.driver.bindAddress"):
            given.setdefault(key, "127.0.0.1")
    if not spec.master.startswith("k8s:"):  # there it would name a folder of the executors
        # What the driver spills, and what a killed one leaves, goes with the folder.
        given.setdefault("spark.local.dir", str(folder / LOCAL))
    if _OWN_MACHINE.fullmatch(spec.master):  # Spark makes the secret, which no other user has
        given.setdefault("spark.authenticate", "true")
    return given


def _environment(spec: ApplicationSpec, home: Path, folder: Path) -> dict[str, str]:
    """Return what spark-submit and pyspark read from the environment."""
    properties = folder / PROPERTIES
    lines = property_lines(driver_properties(spec, folder))
    write_private(properties, lines.encode("ascii"))
    arguments = ["--master", spec.master, "--deploy-mode", "client", "--name", spec.name]
    arguments += ["--properties-file", str(properties), "--load-spark-defaults"]
    for key, value in spec.options.items():
        arguments += [f"--{key}", value]
    environment = {
        "SPARK_HOME": str(home),
        "PYSPARK_SUBMIT_ARGS": shlex.join([*arguments, "pyspark-shell"]),
        "PYSPARK_PYTHON": spec.python,
        "PYSPARK_PIN_THREAD": "true",  # job groups belong to threads of the driver
    }
    if is_loopback(spec.master):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


def property_lines(properties: Mapping[str, str]) -> str:
    """Return a file of Java properties, in ASCII. Source: java.util.Properties.load."""
    return "".join(f"{_escaped(k)}={_escaped(v)}\n" for k, v in properties.items())


def _escaped(text: str) -> str:
    """Return one key or value; characters beyond 16 bits become two escapes, as Java reads them."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[i : i + 2], "big") for i in range(0, len(units), 2)]
    plain = frozenset(range(0x21, 0x7F)) - frozenset(map(ord, "\\:=#!"))
    return "".join(chr(c) if c in plain else f"\\u{c:04x}" for c in codes)


def _refusal(log: Path, begin: int) -> FedflowError:
    """Return why spark-submit ended, from what it printed."""
    text = printed(log, begin)
    if "UnsupportedClassVersionError" in text:
        return JavaMissing(reason="the one that was found is too old for this Spark")
    return SparkNotStarted(reason=reason_in(text) or "spark-submit ended and said nothing")


def _context_failure(exc: Exception, log: Path, begin: int) -> FedflowError:
    """Return why the context could not be made, from the exception of the driver."""
    text = printed(log, begin)
    if "All masters are unresponsive" in text or "Application has been killed" in text:
        return SparkMasterUnreachable(reason="it did not accept the application")
    java = getattr(exc, "java_exception", None)
    with contextlib.suppress(Exception):  # the driver may be gone
        if java is not None:
            return SparkNotStarted(reason=_short(str(java.toString())))
    return SparkNotStarted(reason=reason_in(text) or f"its driver failed with {type(exc).__name__}")


def printed(log: Path, begin: int) -> str:
    """Return the end of what was printed to the log since it had `begin` bytes."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(begin, end - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def reason_in(text: str) -> str:
    """Return the sentence in which Spark says what is wrong, empty if there is none."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if _SPEAKS.match(line)]
    if not said and _NO_START in lines[:-1]:  # the virtual machine says why in the next line
        said = [lines[lines.index(_NO_START) + 1]]
    return _short(said[0]) if said else ""


def _short(line: str) -> str:
    """Return a sentence without names of Java classes before it and paths in it."""
    text = _CLASS_PREFIX.sub("", line.splitlines()[0]).removeprefix("Error: ")
    return _PATH.sub("<path>", text)[:_REASON_CHARACTERS].rstrip(".")
