"""What an exception of Spark means to the task that asked for the work.

A block of a component runs in a Python process of some executor. What it raises arrives here as
text: its traceback, inside an exception of the driver. An error of fedflow is raised again as what
it was, with its sentence. Everything else becomes `SparkFailed`; its text stays in the log of this
party, for it may quote cells.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from fedflow.base.error_text import printed_error
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import SparkFailed

logger = logging.getLogger(__name__)

Lost: TypeAlias = Callable[[], FedflowError]
"""Says why there is no driver any more."""

_LOGGED_CHARACTERS: Final = 20_000
_OURS: Final = ("py4j.", "pyspark.")  #: modules of the exceptions that are Spark's
_BROKEN: Final = ("Py4JNetworkError", "Py4JError", "ConnectionError", "ConnectionRefusedError")
_MEMORY: Final = re.compile(r"^MemoryError\b", re.MULTILINE)
_STOPPED: Final = ("Cannot call methods on a stopped SparkContext", "SparkContext was shut down")
_RAISED: Final = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt))(?::|$)")
_LIBRARY: Final = re.compile(r"^(?:ModuleNotFoundError|ImportError): (?P<what>[^(/]{1,200})")
_CAUSES: Final = (
    (re.compile(r"Cannot run program \"[^\"]*\""), "its Python program is not there"),
    (re.compile(r"PYTHON_VERSION_MISMATCH"), "its Python is of another version than the server's"),
    (re.compile(r"ExecutorLostFailure.{0,200}"), "an executor was lost too often"),
    (re.compile(r"java\.lang\.OutOfMemoryError"), "Spark ran out of memory"),
    (re.compile(r"No space left on device"), "a disk of Spark is full"),
    (re.compile(r"spark\.driver\.maxResultSize"), "a result is larger than the driver takes"),
    (re.compile(r"Job.{0,40}cancelled|cancelled because|was cancelled"), "it was cancelled"),
)


@contextmanager
def spark_errors(lost: Lost) -> Iterator[None]:
    """Raise what Spark's exceptions inside mean.

    Raises: FedflowError: that of a block, as it was; SparkFailed; what `lost` says, if the driver
        is gone. MemoryError: a block had too little.
    """
    try:
        yield
    except Exception as exc:
        meant = meaning_of(exc, lost=lost)
        if meant is None:
            raise
        logger.error("Spark says: %s", text_of(exc)[:_LOGGED_CHARACTERS])
        raise meant from exc


def meaning_of(error: BaseException, *, lost: Lost) -> Exception | None:
    """Return what an exception of Spark or of the way to it means; None: it is somebody else's."""
    if not _is_of_spark(error):
        return None
    text = _asked(error)
    if text is None:  # it came, and then its driver went
        return lost()
    told = printed_error(text)
    if told is not None:
        return told
    if _is_broken(error) or any(words in text for words in _STOPPED):
        return lost()
    if _MEMORY.search(text):
        return MemoryError("a worker of Spark ran out of memory")
    return SparkFailed(reason=last_line(text))


def text_of(error: BaseException) -> str:
    """Return what an exception says, or else its name."""
    text = _asked(error)
    return type(error).__name__ if text is None else text


def last_line(text: str) -> str:
    """Return what a traceback or Spark's message says it was, without any text of cells."""
    for pattern, sentence in _CAUSES:
        if pattern.search(text):
            return sentence
    lines = [line.strip() for line in text.splitlines()]
    for line in reversed(lines):
        library = _LIBRARY.match(line)
        if library:
            return library["what"].rstrip()
    kinds = [found["kind"] for line in lines if (found := _RAISED.match(line))]
    kinds = [kind for kind in kinds if not kind.startswith(("org.apache.spark", "py4j", "pyspark"))]
    if not kinds:
        return "Spark's message is in the log of this party"
    return f"{kinds[-1].rpartition('.')[2]}; the log of this party has its text"


def _asked(error: BaseException) -> str | None:
    """Return what an exception says; py4j's ask the driver for it. None: it does not answer."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  whatever py4j raises then
        return None


def _is_of_spark(error: BaseException) -> bool:
    kinds = type(error).__mro__
    return any(kind.__module__.startswith(_OURS) for kind in kinds) or (
        isinstance(error, ConnectionError) and _passed_py4j(error)
    )


def _passed_py4j(error: BaseException) -> bool:
    trace = error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__", "")).startswith(_OURS):
            return True
        trace = trace.tb_next
    return False


def _is_broken(error: BaseException) -> bool:
    """Tell whether the connection to the driver broke, rather than a call over it."""
    return type(error).__name__ in _BROKEN or isinstance(error, ConnectionError)
