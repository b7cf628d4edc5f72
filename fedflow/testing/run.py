"""Runs one component at all its sites in threads of this process, as a task attempt would."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fedflow
from fedflow.base.clock import SystemClock
from fedflow.base.errors.data_plane import PeerFailed
from fedflow.cores.workers import LocalWorkers
from fedflow.domain.job.elastic import Elastic
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.site import Site
from fedflow.sdk.component import ComponentSpec, spec_of
from fedflow.sdk.context import Checkpoints, Context, Identity, Inputs, RunWarnings
from fedflow.sdk.outputs import Outputs, check_plain
from fedflow.sdk.params import check_params, check_planned, warnings_of
from fedflow.sdk.protocol import names_of
from fedflow.sdk.table import TableStore
from fedflow.sdk.workers import Workers
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.tracker import RecordedMetric, RecordingTracker

NO_INPUTS = Inputs(data={}, model={})


@dataclass(frozen=True, kw_only=True, slots=True)
class RunResult:
    """What one site's run left behind; exactly one of `outputs` and `error` is set."""

    outputs: Outputs | None  #: what `run` returned
    metrics: Mapping[tuple[str, str], RecordedMetric]  #: by (namespace, name)
    progress: tuple[float, ...]  #: all reports, in order
    warnings: tuple[JobWarning, ...]  #: of `ctx.warn` and of `Params.doubts`
    error: Exception | None  #: what it raised


def run_component(
    cls: Any,
    *,
    sites: Iterable[Site],
    work_dir: Path,
    params: Mapping[Site, Mapping[str, Any]] | None = None,
    inputs: Mapping[Site, Inputs] | None = None,
    tables: Mapping[Site, TableStore] | None = None,
    cores: int = 1,
    workers: Mapping[Site, Workers] | None = None,
    timeout_s: float = 50.0,
    federation: LocalFederation | None = None,
    only: Iterable[Site] | None = None,
    job_id: str = "202611200000000000000",
    checkpoints: Mapping[Site, Checkpoints] | None = None,
    task_version: int = 0,
    output_names: tuple[str, ...] = (),
    strict: bool = False,
    launch: int = 0,
    elastic: Elastic | None = None,
    nn_folder: Path | None = None,
    identities: Mapping[Site, Identity] | None = None,
) -> dict[Site, RunResult]:
    """Return every site's result of running `cls`, one thread per site.

    Parameters are checked as a server does. When one site raises, the others see PeerFailed at
    their next wait for it. What a site is not given is a default, none, or an empty store.

    Args:
        cls: the class or function that `@component` declares.
        work_dir: a folder for the sites' private folders, such as pytest's `tmp_path`.
        inputs: `{site: Inputs(data={"data": [("reader_0", table)]}, model={})}`.
        tables: stores of the sites; a table of `MemoryTableStore.add` goes into `inputs`.
        workers: `PicklingWorkers()` shows that the work can be sent to other machines.
        timeout_s: for the whole run, seconds.
        only: just these sites are run; the caller plays the others on `federation`.
        checkpoints: a `MemoryCheckpoints` per site; a second run goes on from the first's.
        strict: the run fails where it would warn, or where parameters are doubtful.
        launch, elastic, nn_folder: what `ctx` has under these names, at all sites.
        identities: `ctx.identity` of the sites that have one; the others have no certificate.

    Raises: TimeoutError: a site did not end in time; it says in which line each of them is.
    """
    sites = tuple(sites)
    fed = federation or LocalFederation(sites, receive_timeout_s=timeout_s)
    spec = spec_of(cls)
    name = f"{spec.module.lower()}_0"

    def context_at(site: Site, tracker: RecordingTracker) -> Context:
        folder = work_dir / site.key
        folder.mkdir(parents=True, exist_ok=True)
        return Context(
            job_id=job_id,
            component=name,
            task_version=task_version,
            site=site,
            sites=sites,
            params=check_params(spec.params, (params or {}).get(site, {}), path="$"),
            inputs=(inputs or {}).get(site, NO_INPUTS),
            federation=fed.at(site),
            tracker=tracker,
            tables=(tables or {}).get(site) or MemoryTableStore(),
            checkpoints=(checkpoints or {}).get(site) or MemoryCheckpoints(),
            work_dir=folder,
            cores=cores,
            workers=(workers or {}).get(site) or LocalWorkers(cores),
            log=logging.getLogger(f"fedflow.task.{name}.{site.key}"),
            output_names=output_names,
            launch=launch,
            elastic=elastic,
            nn_folder=nn_folder,
            identity=(identities or {}).get(site),
            warnings=RunWarnings(strict=strict),
        )

    fed.declare(names_of(spec.messages))
    ran = sites if only is None else only
    runs = [_SiteRun(spec, site, context_at=context_at, federation=fed) for site in ran]
    _end_late(_run_all(runs, timeout_s=timeout_s), sites, fed, timeout_s=timeout_s)
    return {run.site: run.result() for run in runs}


def _end_late(
    late: Sequence[str], sites: Iterable[Site], federation: LocalFederation, *, timeout_s: float
) -> None:
    """End what did not end in time, if anything did not. Raises: TimeoutError."""
    if late:
        for site in sites:
            federation.fail(site, f"the run took longer than {timeout_s} s")
        raise TimeoutError(f"still running after {timeout_s} s: {', '.join(late)}")


def _run_all(runs: Sequence[_SiteRun], *, timeout_s: float) -> list[str]:
    """Run all, each in a thread; return those that have not ended in time, and where they are."""
    threads = [
        threading.Thread(target=run.run, name=f"fedflow-run-{run.site}", daemon=True)
        for run in runs
    ]
    for thread in threads:
        thread.start()
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    for thread in threads:
        thread.join(max(0.0, deadline_s - clock.monotonic_s()))
    alive = [(run, thread) for run, thread in zip(runs, threads, strict=True) if thread.is_alive()]
    return [f"{run.site}{_now_at(thread)}" for run, thread in alive]


def outputs_of(results: Mapping[Site, RunResult]) -> dict[Site, Outputs]:
    """Return the outputs of a run that succeeded everywhere.

    Raises: the error of the site that failed first-hand (not the PeerFailed of those who waited).
    """
    errors = [r.error for r in results.values() if r.error is not None]
    for error in sorted(errors, key=lambda e: isinstance(e, PeerFailed)):
        raise error
    return {site: r.outputs for site, r in results.items() if r.outputs is not None}


def place_of(frames: Iterable[tuple[str, int]]) -> str:
    """Return ` (<file>, line <n>)` of the last frame outside of Python and fedflow, or nothing.

    `frames` are pairs of file and line, the innermost first.
    """
    own = (str(Path(fedflow.__file__).parent), "<frozen", str(Path(os.__file__).parent))
    for file, line in frames:
        if not file.startswith(own):
            return f" ({Path(file).name}, line {line})"
    return ""


def _now_at(thread: threading.Thread) -> str:
    """Return where a thread is."""
    frame = sys._current_frames().get(thread.ident or 0)
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return place_of(frames)


class _SiteRun:
    """One site's thread."""

    def __init__(
        self,
        spec: ComponentSpec,
        site: Site,
        *,
        context_at: Callable[[Site, RecordingTracker], Context],
        federation: LocalFederation,
    ) -> None:
        self.site = site
        self._spec = spec
        self._context_at = context_at
        self._federation = federation
        self._tracker = RecordingTracker()
        self._warnings: tuple[JobWarning, ...] = ()
        self._outputs: Outputs | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        """Run the component and tell the others how it ended."""
        try:
            context = self._context_at(self.site, self._tracker)
            check_planned(context.params, context.planned, path="$")
            try:
                for warning in warnings_of(context.params, path=context.component):
                    context.warnings.add(warning)
                    context.log.warning("%s", warning)
                outputs = self._spec.factory().run(context)
            finally:
                self._warnings = context.warnings.found
            if not isinstance(outputs, Outputs):
                raise TypeError(f"it returned a {type(outputs).__name__}, not Outputs")
            check_plain(outputs)
            self._outputs = outputs
        except Exception as exc:  # noqa: BLE001  component code; the error is the result
            self._error = exc
            logging.getLogger(__name__).info("%s failed: %r", self.site, exc)
            self._federation.fail(self.site, f"{type(exc).__name__}: {exc}")
        else:
            self._federation.finish(self.site)

    def result(self) -> RunResult:
        return RunResult(
            outputs=self._outputs,
            metrics=self._tracker.metrics,
            progress=tuple(self._tracker.progresses),
            warnings=self._warnings,
            error=self._error,
        )
