"""Runs one party task: from its spec file to the report of its end.

Also `python -m fedflow.worker.run SPEC`, for a process that was not forked.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.executors import LaunchRefused, OutOfMemory, ServerRefused
from fedflow.base.errors.start import ServerNotReachable
from fedflow.base.messages import Message, beside, verbatim
from fedflow.components.registry import ComponentRegistry, load_provider, load_registry
from fedflow.cores.workers import LocalWorkers
from fedflow.domain.job.elastic import read_elastic
from fedflow.domain.records import TableRecord
from fedflow.domain.site import Site
from fedflow.domain.states import TaskStatus
from fedflow.executor.processes import start_time_of
from fedflow.federation.handle import FederationHandle
from fedflow.sdk.context import Context, Inputs, RunWarnings
from fedflow.sdk.outputs import Model, NotPlain, Outputs, check_plain
from fedflow.sdk.params import check_params, check_planned, warnings_of
from fedflow.sdk.protocol import names_of
from fedflow.sdk.table import Table
from fedflow.tables.local import LocalTableStore
from fedflow.tables.stored_table import StoredTable
from fedflow.wire.task_report import (
    EndReport,
    ReportedCache,
    ReportedError,
    ReportedModel,
    ReportedOutput,
    RunningReport,
    member_values,
)
from fedflow.wire.task_spec import TaskSpec
from fedflow.wire.undelivered_reports import leave_report
from fedflow.worker.caches import cache_of, cache_to_wire, own_tables
from fedflow.worker.catalog import WorkerCatalog
from fedflow.worker.checkpoints import ServerCheckpoints, model_to_wire
from fedflow.worker.exit_codes import ExitCode
from fedflow.worker.identity import WorkerIdentity
from fedflow.worker.lazy_pandas import without_pandas
from fedflow.worker.logs import set_up_logs, traceback_of
from fedflow.worker.model_store import ServerModelStore
from fedflow.worker.process import Stopped, become_worker, ignore_stops, limit_memory
from fedflow.worker.report import MAX_REPORT_BYTES, ServerLink
from fedflow.worker.spec import SpecError, read_spec
from fedflow.worker.threads import limit_threads, start_arrow_threads
from fedflow.worker.tracker import ServerTracker

if TYPE_CHECKING:
    from fedflow.spark.session import Session
    from fedflow.spark.workers import SparkWorkers

logger = logging.getLogger(__name__)

_SCARCE = 2**30
"""Bytes of memory: with less, a task may have used all before Arrow starts its threads, which takes
some milliseconds. With more it has read its tables by then, and they run."""
_MESSAGE_LIMIT = 2000  #: characters of an error's text that are reported


def run_worker(
    spec_path: Path,
    *,
    log_dir: Path,
    work_dir: Path,
    gate: int | None = None,
    registry: ComponentRegistry | None = None,
) -> ExitCode:
    """Run the task of a spec file in this process and return how that ended.

    `gate` is a pipe that gives one byte when the server knows of this process; if it gives none,
    nothing is done. `registry` saves a forked process from loading the components.
    """
    try:
        if gate is not None and not _passed(gate):
            return ExitCode.REFUSED
        become_worker(log_dir=log_dir, work_dir=work_dir)
        spec = read_spec(spec_path)
        shared = Path(spec.party_log_dir) if spec.party_log_dir else None
        set_up_logs(log_dir, level=spec.log_level, shared=shared)
        return _run(spec, registry)
    except Stopped:
        logger.info("stopped")
        return ExitCode.STOPPED
    except SpecError as exc:
        print(f"fedflow: bad spec: {exc}", file=sys.stderr)
        return ExitCode.BAD_SPEC
    except LaunchRefused as exc:
        logger.warning("%s", exc.message)
        return ExitCode.REFUSED
    except (ServerNotReachable, ServerRefused) as exc:
        logger.error("The end could not be reported: %s", exc.message)
        return ExitCode.SERVER_GONE


def _passed(gate: int) -> bool:
    with os.fdopen(gate, "rb", buffering=0) as file:
        return file.read(1) == b"g"


def _run(spec: TaskSpec, registry: ComponentRegistry | None) -> ExitCode:
    link = ServerLink(spec.server_socket, key=spec.key, token=spec.token, launch_id=spec.launch_id)
    pid = os.getpid()
    link.report(RunningReport(pid=pid, start_time=start_time_of(pid)))
    run = _Run(spec, link, registry)
    try:
        outcome = run.outcome()
        run.end_progress()
        report = replace(
            outcome,
            metrics=run.tracker.rest(),
            warnings=list(run.warnings.found),
            launch_id=spec.launch_id,
        )
        try:
            link.report(report)
        except ServerNotReachable:
            _leave(spec, report)
            raise
    finally:
        ignore_stops()
        run.clean_up()
        link.close()
    failed = report.party_status is TaskStatus.FAILED
    return ExitCode.FAILED if failed else ExitCode.SUCCESS


def _leave(spec: TaskSpec, report: EndReport) -> None:
    """Leave the report of the end for the next server."""
    try:
        leave_report(Path(spec.work_dir), report)
    except OSError as exc:
        logger.error("The end could not be left in %s: %s", spec.work_dir, exc.strerror)


class _BadOutputs(Exception):
    """What a component returned cannot be reported."""


class _Run:
    """One run of a component with everything that it is given."""

    def __init__(
        self, spec: TaskSpec, link: ServerLink, registry: ComponentRegistry | None
    ) -> None:
        self._spec = spec
        self._registry = registry
        self._catalog = WorkerCatalog(link, output_namespace=spec.output_namespace)
        self._tables = LocalTableStore(
            Path(spec.tables_root),
            catalog=self._catalog,
            output_namespace=spec.output_namespace,
            party_id=spec.own_site.party_id,
            cores=spec.cores,
        )
        self._federation = FederationHandle(
            Path(spec.federation_socket),
            session=spec.session,
            site=spec.own_site,
            token=spec.token,
            timeout_s=spec.receive_timeout_s,
            run=spec.federation_run,
            incarnation=spec.launch,
        )
        self.tracker = ServerTracker(link)
        self.warnings = RunWarnings(strict=spec.strict)
        self._alias = spec.output_model[0] if spec.output_model else "model"
        self._checkpoints = ServerCheckpoints(link, component=spec.component, alias=self._alias)
        self._model_store = ServerModelStore(link)
        self._identity = WorkerIdentity(link) if spec.has_certificate else None
        self._session: Session | None = None  #: to Spark, if it computes there
        self._workers: SparkWorkers | None = None  #: None: the cores of this machine
        self._kept: tuple[TableRecord, ...] = ()
        self._cached: tuple[TableRecord, ...] = ()

    def outcome(self) -> EndReport:
        """Run the component and return the report of its end, success or failure.

        Raises: LaunchRefused, Stopped.
        """
        try:
            limit_threads(self._spec.cores)
            if self._spec.memory_bytes is not None:
                if self._spec.memory_bytes < _SCARCE:
                    start_arrow_threads()
                limit_memory(self._spec.memory_bytes)
            if self._spec.spark is not None:
                self._connect_spark()
            outputs = self._compute()
            self._federation.flush()
            report = self._success(outputs)
        except (LaunchRefused, Stopped):
            raise
        except BaseException as exc:  # noqa: BLE001  component code may raise anything, even SystemExit
            return self._failure(exc)
        logger.info("%s ended: %s", self._spec.component, report.party_status)
        return report

    def _connect_spark(self) -> None:
        """Let the task's heavy work be done by Spark. Raises: as `open_spark`."""
        from fedflow.worker import spark  # with its libraries, which other tasks need not have

        self._session = spark.open_spark(self._spec, self.tracker)
        self._workers = spark.spark_workers(self._spec, self._session)
        self._tables = spark.spark_tables(self._spec, self._session, self._catalog)

    def end_progress(self) -> None:
        """Let the metrics of the task's engine be complete."""
        if self._session is not None:
            self._session.end_progress()

    def clean_up(self) -> None:
        """Close the data plane and delete the tables that are not outputs."""
        self._federation.close()
        if self._workers is not None:
            self._workers.close()
        if self._session is not None:
            self._session.close()
        for entry in self._catalog.own():
            if entry not in self._kept:
                self._tables.remove_files(entry)

    def _compute(self) -> Outputs:
        spec = self._spec
        kind = self._components().find(spec.module)
        params = check_params(kind.params, spec.parameters, path=spec.component)
        context = Context(
            job_id=spec.job_id,
            component=spec.component,
            task_version=spec.task_version,
            site=spec.own_site,
            sites=tuple(Site.from_key(key) for key in spec.sites),
            params=params,
            inputs=self._inputs(),
            federation=self._federation,
            tracker=self.tracker,
            tables=self._tables,
            checkpoints=self._checkpoints,
            model_store=self._model_store,
            work_dir=Path(spec.work_dir),
            cores=spec.cores,
            workers=self._workers or LocalWorkers(spec.cores),
            log=logging.getLogger(f"fedflow.task.{spec.component}"),
            output_names=tuple(spec.output_data),
            launch=spec.launch,
            elastic=read_elastic(spec.elastic),
            nn_folder=None if spec.nn_folder is None else Path(spec.nn_folder),
            warnings=self.warnings,
            identity=self._identity,
        )
        for warning in warnings_of(params, path=spec.component):
            logger.warning("%s", warning)
        check_planned(params, context.planned, path=spec.component)
        logger.info("%s (%s) starts at %s", spec.component, kind.module, spec.own_site)
        self._federation.declare(names_of(kind.messages))
        outputs = kind.factory().run(context)
        if not isinstance(outputs, Outputs):
            raise _BadOutputs(f"it returned a {type(outputs).__name__}, not Outputs")
        return outputs

    def _components(self) -> ComponentRegistry:
        """Return the components of the task's provider; importing them may raise anything."""
        if self._spec.provider is not None:
            return load_provider(self._spec.provider.components)
        return self._registry or load_registry()

    def _inputs(self) -> Inputs:
        data: dict[str, list[tuple[str, Table | None]]] = {}
        for port, tables in self._spec.inputs.data.items():
            data[port] = [
                (upstream, self._tables.table_of(self._catalog.know(table)) if table else None)
                for upstream, table in tables
            ]
        model = {
            upstream: Model(
                meta_name=share.meta_name,
                param_name=share.param_name,
                meta=share.meta,
                param=share.param,
            )
            for upstream, share in self._spec.inputs.model.items()
        }
        cache = {
            upstream: cache_of(share, catalog=self._catalog, tables=self._tables)
            for upstream, share in self._spec.inputs.cache.items()
        }
        return Inputs(data=data, model=model, cache=cache)

    def _success(self, outputs: Outputs) -> EndReport:
        """Return the report. Raises: _BadOutputs: an output cannot be reported."""
        spec = self._spec
        entries = [(i, self._entry(t)) for i, t in enumerate(outputs.data) if t is not None]
        named = [(i, entry) for i, entry in entries if i < len(spec.output_data)]
        report = EndReport(
            party_status=TaskStatus.PASS if outputs.passed else TaskStatus.SUCCESS,
            outputs=[
                ReportedOutput(data_name=spec.output_data[i], position=i, table=entry)
                for i, entry in named
            ],
            model=self._model(outputs.model),
            caches=self._caches(outputs, kept=[entry for _, entry in named]),
            summary=dict(outputs.summary),
        )
        try:
            size = len(json.dumps(report, allow_nan=False, default=member_values))
        except (TypeError, ValueError, RecursionError):
            try:
                check_plain(outputs)
            except NotPlain as exc:
                raise _BadOutputs(exc.for_all) from exc
            raise
        if size > MAX_REPORT_BYTES:
            limit = MAX_REPORT_BYTES // 2**20
            raise _BadOutputs(f"its model and summary are larger than {limit} MiB of JSON")
        self._kept = (*(entry for _, entry in named), *self._cached)
        return report

    def _entry(self, table: Table) -> TableRecord:
        if not isinstance(table, StoredTable):
            raise _BadOutputs(f"an output is a {type(table).__name__}, no table of this engine")
        return table.entry

    def _caches(self, outputs: Outputs, *, kept: list[TableRecord]) -> list[ReportedCache]:
        """Return the reports of the declared caches. Raises: _BadOutputs."""
        spec = self._spec
        own = {(e.namespace, e.name): e for e in self._catalog.own()}
        reports = []
        for name, cache in zip(spec.output_cache, outputs.cache, strict=False):
            made = own_tables(cache, own)
            if any(entry in kept for entry in made):
                raise _BadOutputs("a table is both an output and part of a cache")
            self._cached += tuple(made)
            try:
                report = cache_to_wire(cache, name=name, namespace=spec.cache_namespace, made=made)
            except TypeError as exc:
                raise _BadOutputs(f"its cache holds {exc}") from exc
            reports.append(report)
        return reports

    def _model(self, model: Model | None) -> ReportedModel | None:
        return None if model is None else model_to_wire(model, alias=self._alias)

    def _failure(self, exc: BaseException) -> EndReport:
        """Return the report of a failure, and log it.

        What is wrong with its outputs has no traceback of its code: nothing there raised.
        """
        error = self._as_error(exc)
        own = exc.__cause__ if isinstance(exc, _BadOutputs) else exc
        named = f"{self._spec.component} failed"
        said = error.message if error.message.startswith(named) else f"{named}: {error.message}"
        logger.error("%s", said, exc_info=own)
        message = verbatim(error.message, _MESSAGE_LIMIT)
        return EndReport(
            party_status=TaskStatus.FAILED,
            error=ReportedError(
                code=error.name, message=message, hint=error.hint, **beside(message)
            ),
            traceback=traceback_of(own) if own else "",
        )

    def _as_error(self, exc: BaseException) -> FedflowError:
        meant = self._session.meaning_of(exc) if self._session is not None else None
        exc = meant or exc
        if isinstance(exc, FedflowError):
            return exc
        if isinstance(exc, _BadOutputs):
            return self._broken(str(exc))
        if isinstance(exc, MemoryError):
            size = self._spec.memory_bytes
            limit = "the machine has no more"
            if size is not None:
                limit = Message("it allocated more than {mib} MiB", size // 2**20)
            return OutOfMemory(task=str(self._spec.key), limit=limit)
        if isinstance(exc, SystemExit):
            code = exc.code if isinstance(exc.code, int) else "..."
            return self._broken(f"it called sys.exit({code})")
        # An exception's text may quote a cell: it is in the log only.
        kind = type(exc).__name__
        return self._broken(Message("{kind}; the log of this party has its text.", kind))

    def _broken(self, reason: str) -> ComponentFailed:
        return ComponentFailed(component=self._spec.component, reason=reason)


def main(arguments: list[str]) -> int:
    """Run `SPEC [LOG_DIR WORK_DIR GATE]`; without the others the spec's own folders are used."""
    without_pandas()
    spec_path = Path(arguments[0])
    if len(arguments) > 1:
        log_dir, work_dir = Path(arguments[1]), Path(arguments[2])
        return run_worker(spec_path, log_dir=log_dir, work_dir=work_dir, gate=int(arguments[3]))
    try:
        spec = read_spec(spec_path)
    except SpecError as exc:
        print(f"fedflow: bad spec: {exc}", file=sys.stderr)
        return ExitCode.BAD_SPEC
    return run_worker(spec_path, log_dir=Path(spec.log_dir), work_dir=Path(spec.work_dir))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
