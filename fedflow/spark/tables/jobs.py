"""One Spark job: a function of a number, done for some numbers at once by Spark's workers.

Results come back as bytes, in order. Long ones travel through a file of a scratch folder, so that
neither driver nor executor holds all of them; their digest comes through Spark itself. A
`FedflowError` of a function is a result too: it arrives as it is, that of the lowest number first,
and Spark does not try again what fails again. Anything else that is raised fails the Spark job.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import cloudpickle
import pyarrow as pa

from fedflow.base.errors.data import BadData, TablesNotShared
from fedflow.base.errors.error import FedflowError
from fedflow.base.ids import new_request_id
from fedflow.base.values import dataclass
from fedflow.tables.file_errors import told
from fedflow.tables.filesystems import below
from fedflow.tables.parts import folder_at, require_folder, storing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INLINE_BYTES: Final = 1 << 20  #: longest result that travels through Spark
INLINE_IN_ALL: Final = 64 << 20  #: of all results of a job: the driver holds them at once

DONE: Final = 0
FILED: Final = 1
FAILED: Final = 2
RESULTS: Final = "number long, kind int, content binary"

Results = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """The Spark session of a task."""

    spark: SparkSession
    errors: Callable[[], AbstractContextManager[None]]  #: turns Spark's exceptions into fedflow's
    partitions: int  #: into how many blocks a table is cut
    small_rows: int = 0  #: tables up to so many are worked on in the driver: Spark takes longer


def run_numbers(
    cluster: Cluster, count: int, work: Callable[[int], bytes], *, folder: str
) -> Iterator[bytes]:
    """Return what `work` makes of 0 to `count` - 1, in order; all is done when this returns.

    `folder` is one that the driver made: workers must see it, and long results are put there; they
    are gone with it. Raises: SparkFailed, SparkLost; the iterator: as `work`, in its place, and
    TablesNotShared.
    """
    if count == 0:
        return iter(())
    numbers = cluster.spark.range(0, count, 1, count)
    longest = min(INLINE_BYTES, INLINE_IN_ALL // count)
    frame = numbers.mapInArrow(_each(work, folder, longest), RESULTS)
    return contents_of(results_of(cluster, frame), folder)


def results_of(cluster: Cluster, frame: DataFrame) -> dict[int, tuple[int, bytes]]:
    """Run a job whose rows are `RESULTS` and return kind and content by number.

    Raises: SparkFailed, SparkLost.
    """
    with cluster.errors():
        rows = frame.toArrow().to_pydict()
    found = {
        number: (kind, content)
        for number, kind, content in zip(rows["number"], rows["kind"], rows["content"], strict=True)
    }
    failed = min((n for n, (kind, _) in found.items() if kind == FAILED), default=None)
    if failed is not None:
        raise pickle.loads(found[failed][1])  # noqa: S301  of this party's own workers
    return found


def pickled_values(values: Iterable[Any]) -> bytes:
    """Return values as bytes, and what they end with if that is an error of fedflow."""
    found: list[Any] = []
    try:
        found.extend(values)
    except FedflowError as exc:
        return cloudpickle.dumps((found, exc))  # type: ignore[no-any-return]
    return cloudpickle.dumps((found, None))  # type: ignore[no-any-return]


def unpickled_values(content: bytes) -> Iterator[Any]:
    """Yield what `pickled_values` got. Raises: what it ended with."""
    found, error = pickle.loads(content)  # noqa: S301  of this party's own workers
    yield from found
    if error is not None:
        raise error


def failure(error: FedflowError) -> bytes:
    """Return an error as the content of a result."""
    return pickle.dumps(error)


def result(number: int, kind: int, content: bytes) -> pa.RecordBatch:
    """Return one row of `RESULTS`."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number], pa.int64()),
            pa.array([kind], pa.int32()),
            pa.array([content], pa.binary()),
        ],
        names=["number", "kind", "content"],
    )


def _each(work: Callable[[int], bytes], folder: str, longest: int) -> Results:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _done(work, number, folder, longest=longest)

    return run


def _done(
    work: Callable[[int], bytes], number: int, folder: str, *, longest: int
) -> pa.RecordBatch:
    try:
        require_folder(folder)
        content = work(number)
        if len(content) <= longest:
            return result(number, DONE, content)
        return result(number, FILED, _filed(folder, content))
    except FedflowError as exc:
        return result(number, FAILED, failure(exc))


def _filed(folder: str, content: bytes) -> bytes:
    """Put a result into a file and return its name and digest."""
    name = new_request_id()
    place = below(folder_at(folder), name)
    with storing(folder), told(folder), place.files.open_output_stream(place.path) as file:
        file.write(content)
    return f"{name} {hashlib.sha256(content).hexdigest()}".encode()


def contents_of(found: dict[int, tuple[int, bytes]], folder: str) -> Iterator[bytes]:
    """Yield the contents by number. Raises: the error of the lowest number that has one."""
    for number in sorted(found):
        kind, content = found.pop(number)
        if kind == FAILED:
            raise pickle.loads(content)  # noqa: S301  of this party's own workers
        yield content if kind == DONE else _read(folder, content.decode())


def _read(folder: str, where: str) -> Any:
    name, digest = where.split(" ")
    place = below(folder_at(folder), name)
    try:
        with told(folder), place.files.open_input_stream(place.path) as file:
            content = file.read()
    except FedflowError as exc:
        raise TablesNotShared(uri=folder) from exc
    if hashlib.sha256(content).hexdigest() != digest:
        raise BadData(where="a result of a Spark worker", reason="its file was changed")
    return content
