"""Connects a party task to the Spark application of its job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.decoding import decode_as
from fedflow.domain.records import Handle
from fedflow.executor.processes import is_running
from fedflow.spark.scratch import Scratch
from fedflow.spark.session import Session, TaskName, open_session
from fedflow.spark.tables.jobs import Cluster
from fedflow.spark.tables.store import SparkTableStore
from fedflow.spark.workers import SparkWorkers
from fedflow.tables.catalog import TableCatalog
from fedflow.tables.parts import folder_at
from fedflow.tables.parts_store import NewFolder
from fedflow.wire.spark_application import PROCESS, ProcessFile, read_private
from fedflow.wire.task_spec import TaskSpec
from fedflow.worker.tracker import ServerTracker


def open_spark(spec: TaskSpec, tracker: ServerTracker) -> Session:
    """Return the Spark session of a task that computes there, once there are executors.

    Raises: as `spark.session.open_session`.
    """
    assert spec.spark is not None  # noqa: S101  the task computes on Spark
    folder = Path(spec.spark.application)
    task = TaskName(
        job_id=spec.job_id,
        component=spec.component,
        version=spec.task_version,
        launch_id=spec.launch_id,
    )
    return open_session(spec.spark, task, lives=lambda: _lives(folder), sink=tracker)


def spark_workers(spec: TaskSpec, session: Session) -> SparkWorkers:
    """Return what does the task's arithmetic on the executors; close it before the session."""
    assert spec.spark is not None  # noqa: S101  there is a session
    root, uri = Path(spec.tables_root), spec.spark.tables_uri
    return SparkWorkers(
        session.context,
        cores=spec.spark.cores,
        scratch=Scratch(lambda: SweptFolder(root, uri)),
        errors=session.errors,
        little_s=spec.spark.small_work_s,
    )


def spark_tables(spec: TaskSpec, session: Session, catalog: TableCatalog) -> SparkTableStore:
    """Return the task's tables, whose block work is done on the executors."""
    assert spec.spark is not None  # noqa: S101  there is a session
    cluster = Cluster(
        spark=session.spark,
        errors=session.errors,
        partitions=spec.spark.partitions,
        small_rows=spec.spark.small_rows,
    )
    return SparkTableStore(
        Path(spec.tables_root),
        cluster=cluster,
        tables_uri=spec.spark.tables_uri,
        catalog=catalog,
        output_namespace=spec.output_namespace,
        party_id=spec.own_site.party_id,
        cores=spec.cores,
    )


class SweptFolder:
    """A scratch folder that, for who finds it left over, is a table that was never finished."""

    def __init__(self, root: Path, tables_uri: str) -> None:
        """Raises: as `NewFolder`."""
        self._new = NewFolder(root, tables_uri)
        place = folder_at(self._new.uri)
        self.files: Any = place.files
        self.path = place.path

    def keep(self) -> None:
        self._new.keep()

    def discard(self) -> None:
        self._new.discard()


def _lives(folder: Path) -> bool:
    """Tell whether the process that the server started for a folder is there."""
    try:
        process = decode_as(read_private(folder / PROCESS), ProcessFile)
    except (OSError, msgspec.MsgspecError):
        return False
    return is_running(Handle(pid=process.pid, start_time=process.start_time, host=process.host))
