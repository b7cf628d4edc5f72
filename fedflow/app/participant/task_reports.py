"""What executors report: that they run, what they produced, how they ended; and what the executor
adapter tells about their processes.

A process is believed only with the token of its attempt and the launch id that is current: a
process that was replaced is refused before it did anything.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from fedflow.app.data.caches import put_caches
from fedflow.app.data.table_use import make_way, readable, remove_rows, stored
from fedflow.app.models.models import ModelRepository, WrittenModel
from fedflow.app.participant.party_jobs import PartyJobs
from fedflow.app.participant.party_tasks import PartyTasks
from fedflow.app.ports.executors import Execution
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.kernel import Kernel, UseCase
from fedflow.base.errors.data import DiskFull, TableExists
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import ExecutorDied, ExecutorNotStarted, LaunchRefused
from fedflow.base.errors.jobs import TaskNotFound
from fedflow.base.errors.requests import BadRequest, NotAuthenticated
from fedflow.base.errors.store import StoreUnavailable
from fedflow.base.messages import Message, received
from fedflow.domain.job.figures import figures_of
from fedflow.domain.reason import Reason
from fedflow.domain.records import (
    Handle,
    Metric,
    Moved,
    OutputTable,
    StoredModel,
    TableRecord,
    TaskKey,
    TaskRecord,
)
from fedflow.domain.states import TASK_FINAL, TASK_SUCCEEDED, TaskEvent, TaskStatus
from fedflow.wire.task_report import (
    EndReport,
    MetricBatch,
    ReportedError,
    RunningReport,
    read_report,
)
from fedflow.wire.undelivered_reports import left_report

logger = logging.getLogger(__name__)

SERVER_GONE = 14  #: exit status of a worker whose report found no server, see `worker/exit_codes`
_MAX_TRACEBACK = 20_000  #: characters of a traceback that are kept


class Workers(UseCase):
    """The executors' counterpart in the server."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        execution: Execution,
        tasks: PartyTasks,
        jobs: PartyJobs,
        models: ModelRepository,
    ) -> None:
        super().__init__(kernel)
        self._tasks = tasks
        self._jobs = jobs
        self._models = models
        self._host = execution.host

    # --- reports of worker processes ------------------------------------------------------------

    def report(self, key: TaskKey, token: str, report: RunningReport | EndReport) -> None:
        """Take a worker's report.

        Raises: TaskNotFound, NotAuthenticated, LaunchRefused: the worker must exit. BadRequest.
            DiskFull: there is no room for its model.
        """
        effects = AfterCommit()
        if isinstance(report, RunningReport):
            with self._store.transaction() as tx:
                self._running(tx, self._current(tx, key, token, report), report, effects)
        else:
            model = self._write_model(key, token, report)
            with self._store.transaction() as tx:
                task = self._current(tx, key, token, report)
                if report.party_status not in (*TASK_SUCCEEDED, TaskStatus.FAILED):
                    raise BadRequest(reason=f"a worker cannot end as {report.party_status.value}")
                self._ended(tx, task, report, model, effects)
        effects.run()

    def save_metrics(self, key: TaskKey, token: str, metrics: Sequence[MetricBatch]) -> None:
        """Store metric points while the task runs."""
        with self._store.transaction() as tx:
            self.authentic(tx, key, token)
            self._put_metrics(tx, key, metrics)

    def table_get(self, key: TaskKey, token: str, namespace: str, name: str) -> TableRecord:
        """Return a table of this party. Raises: TableNotFound, TableDisabled."""
        return self._readable(key, token, {"namespace": namespace, "name": name})

    def output_get(
        self, key: TaskKey, token: str, job_id: str, component: str, data_name: str
    ) -> TableRecord:
        """Return an output of an earlier job here. Raises: TableNotFound, TableDisabled."""
        which = {"job_id": job_id, "component_name": component, "data_name": data_name}
        return self._readable(key, token, which)

    def _readable(self, key: TaskKey, token: str, table: Mapping[str, str]) -> TableRecord:
        with self._store.read() as tx:
            self.authentic(tx, key, token)
            return readable(tx, key.site, table, path="table")

    def table_create(self, key: TaskKey, token: str, table: TableRecord, *, drop: bool) -> None:
        """Register a table that a task wrote, with `drop` in place of an older one of that name.

        Raises: TableExists.
        """
        with self._store.transaction() as tx:
            self.authentic(tx, key, token)
            old = tx.tables.get(table.namespace, table.name)
            if old is not None and not drop:
                raise TableExists(namespace=table.namespace, name=table.name)
            free = old is not None and make_way(
                tx, old, now_ms=self._clock.now_ms(), but=key.job_id
            )
            tx.tables.put(table)
        if old is not None and free and old.address != table.address:
            remove_rows(self._folders, old)

    def _current(
        self, tx: Tx, key: TaskKey, token: str, report: RunningReport | EndReport
    ) -> TaskRecord:
        """Return the attempt that a report is of. Raises: as `report`."""
        task = self.authentic(tx, key, token)
        if report.launch_id != task.launch_id:
            raise LaunchRefused(launch_id=report.launch_id, task=str(key))
        return task

    def _write_model(self, key: TaskKey, token: str, report: EndReport) -> WrittenModel | None:
        """Store the contents of a reported model, before the transaction that names them."""
        if report.model is None:
            return None
        with self._store.read() as tx:
            self._current(tx, key, token, report)
        return self._models.write(report.model)

    def authentic(self, tx: Tx, key: TaskKey, token: str) -> TaskRecord:
        """Return the running attempt whose token this is: a token ends with its attempt.

        Raises: TaskNotFound, NotAuthenticated. LaunchRefused: it has ended, the process must exit.
        """
        task = tx.tasks.get(key)
        if task is None:
            raise TaskNotFound(task=str(key))
        if task.token is None or not hmac.compare_digest(task.token.encode(), token.encode()):
            raise NotAuthenticated(reason="the task token is not this attempt's")
        if task.party_status in TASK_FINAL:
            raise LaunchRefused(launch_id=task.launch_id, task=str(key))
        return task

    def _running(
        self, tx: Tx, task: TaskRecord, report: RunningReport, effects: AfterCommit
    ) -> None:
        now_ms = self._clock.now_ms()
        if task.party_status is TaskStatus.WAITING:
            tx.tasks.move_party(task.key, TaskEvent.STARTED, seen=task.party_status, now_ms=now_ms)
            effects.add(lambda: self._wakeup.job_changed(task.key.job_id))
        pid, start_time = report.pid, report.start_time
        if pid is not None and start_time is not None and task.handle is None:
            handle = Handle(pid=pid, start_time=start_time, host=self._host)
            if not tx.tasks.set_handle(task.key, str(task.launch_id), handle):
                raise LaunchRefused(launch_id=task.launch_id, task=str(task.key))
        if report.progress is not None:
            tx.tasks.set_progress(task.key, min(1.0, max(0.0, report.progress)), now_ms=now_ms)

    def _ended(
        self,
        tx: Tx,
        task: TaskRecord,
        report: EndReport,
        model: WrittenModel | None,
        effects: AfterCommit,
    ) -> None:
        status = report.party_status
        reason = _reason(task, report.error) if status is TaskStatus.FAILED else None
        traceback = report.traceback[-_MAX_TRACEBACK:]
        if status in TASK_SUCCEEDED:
            self._put_outputs(tx, task, report)
            put_caches(tx, task, report.caches, now_ms=self._clock.now_ms())
            job = None if model is None else tx.jobs.get(task.key.job)
            if model is not None and job is not None:
                self._models.keep_component(tx, job, task, model)
        self._put_metrics(tx, task.key, report.metrics)
        now_ms = self._clock.now_ms()
        if report.warnings:
            tx.jobs.add_warnings(task.key.job, report.warnings, now_ms=now_ms)
        if task.party_status is TaskStatus.WAITING:
            moved = tx.tasks.move_party(
                task.key, TaskEvent.STARTED, seen=task.party_status, now_ms=now_ms
            )
            if isinstance(moved, Moved):
                task = tx.tasks.get(task.key) or task
        if not self._tasks.finish(tx, task, status, effects, reason=reason, traceback=traceback):
            raise LaunchRefused(launch_id=task.launch_id, task=str(task.key))  # it ended just now

    def _put_outputs(self, tx: Tx, task: TaskRecord, report: EndReport) -> None:
        key = task.key
        now_ms = self._clock.now_ms()
        for output in report.outputs:
            table = stored(tx, output.table)
            tx.tracking.put_output(
                OutputTable(
                    key=key,
                    data_name=output.data_name,
                    position=output.position,
                    namespace=table.namespace,
                    name=table.name,
                    address=table.address,
                ),
                now_ms=now_ms,
            )
        if report.model is not None:
            model = StoredModel(key=key, **msgspec.structs.asdict(report.model))
            tx.tracking.put_model(model, now_ms=now_ms)
        if report.summary:
            tx.tracking.put_summary(key, report.summary, now_ms=now_ms)
            figures = figures_of(key.component, task.module, report.summary)
            if figures:
                tx.jobs.set_figures(key.job, key.component, figures, now_ms=now_ms)

    def _put_metrics(self, tx: Tx, key: TaskKey, metrics: Sequence[MetricBatch]) -> None:
        """Store metric points. `start` counts the points before: a batch that is sent again
        because its answer was lost adds nothing.
        """
        if not metrics:
            return
        stored = {
            (m.namespace, m.name): len(m.points)
            for m in tx.tracking.metrics(key.job_id, key.component, key.site, version=key.version)
        }
        for metric in metrics:
            points = tuple(metric.points)
            if metric.start is not None:
                known = stored.get((metric.namespace, metric.name), 0)
                points = points[max(0, known - metric.start) :]
            value = Metric(
                namespace=metric.namespace, name=metric.name, points=points, meta=metric.meta
            )
            tx.tracking.add_metric(key, value, now_ms=self._clock.now_ms())

    # --- what the executor adapter tells --------------------------------------------------------

    def started(self, key: TaskKey, launch_id: str, handle: Handle) -> bool:
        """Store a process that exists now; False if another launch has replaced it."""
        with self._store.transaction() as tx:
            return tx.tasks.set_handle(key, launch_id, handle)

    def not_started(self, key: TaskKey, launch_id: str, reason: str) -> None:
        """A process could not be started: the party task failed."""
        self._gone(key, launch_id, lambda: ExecutorNotStarted(task=str(key), reason=reason))

    def refused(self, key: TaskKey, launch_id: str, error: FedflowError) -> None:
        """A task cannot be run, as something that it needs is not there: the party task failed."""
        self._gone(key, launch_id, lambda: error)

    def exited(
        self, key: TaskKey, launch_id: str, exit_code: int | None, signal: int | None
    ) -> None:
        """A process is gone. If it neither reported its end nor left that report, its task failed.

        Raises: StoreUnavailable, DiskFull: what it left could not be stored now; ask again.
        """
        self._take_left(key, launch_id)
        self._gone(
            key,
            launch_id,
            lambda: ExecutorDied(task=str(key), reason=_end_of(exit_code, signal)),
        )

    def _take_left(self, key: TaskKey, launch_id: str) -> None:
        """Take the report that a process left when its server did not come back in time."""
        body = left_report(self._folders.work(key), launch_id)
        if body is None:
            return
        with self._store.read() as tx:
            task = tx.tasks.get(key)
        if task is None or task.token is None:
            return
        try:
            self.report(key, task.token, read_report(body))
        except (StoreUnavailable, DiskFull):
            raise
        except FedflowError as exc:
            logger.info("The report that %s left has no effect: %s", key, exc.message)

    def _gone(self, key: TaskKey, launch_id: str, why: Callable[[], FedflowError]) -> None:
        """Note that a process is gone; `why` is asked if its task has not ended."""
        effects = AfterCommit()
        with self._store.transaction() as tx:
            task = tx.tasks.get(key)
            if task is None or task.launch_id != launch_id:
                return
            tx.tasks.clear_handle(key, launch_id)
            if task.party_status not in TASK_FINAL:
                error = why()
                reason = Reason(code=error.name, message=error.message, site=key.site)
                self._tasks.finish(tx, task, TaskStatus.FAILED, effects, reason=reason)
            elif task.party_status not in TASK_SUCCEEDED:  # maybe by another server of this party
                effects.add(lambda: self._tasks.fail_session(task))
            self._jobs.return_if_still(tx, key.job, effects)
        effects.run()


def _end_of(exit_code: int | None, signal: int | None) -> Message:
    if signal is not None:
        return Message("killed by signal {signal}", signal)
    if exit_code == SERVER_GONE:
        return Message(
            "it could not reach its server at {socket} for a minute (exit code {code})",
            "run/server.sock", exit_code,
        )  # fmt: skip
    if exit_code is not None:
        return Message("exit code {code} without a report", exit_code)
    return Message("it is gone, and its exit status could not be learnt")


def _reason(task: TaskRecord, error: ReportedError | None) -> Reason:
    error = error or ReportedError()
    message = received(error.message, error.said)
    return Reason(code=error.code[:100], message=message, site=task.key.site)
