"""The client's calls about jobs: submit, look, wait, stop, logs."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors.jobs import StillRunning
from fedflow.base.errors.requests import BadDocument
from fedflow.base.errors.start import ServerNotReachable
from fedflow.client.archive import unpack
from fedflow.client.connection import Connection
from fedflow.client.created_jobs import called, submit_job
from fedflow.client.documents import Document, read_document
from fedflow.client.events import JobEvent, events_between
from fedflow.client.job_file import read_job_file
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL
from fedflow.wire.api.administration import LogLine
from fedflow.wire.api.job_delete import DeletedJob, DeletedJobs
from fedflow.wire.api.job_history import Explanation, HistoryEvent, HistoryPage
from fedflow.wire.api.job_lists import JobPage, OutputTable, TaskPage
from fedflow.wire.api.jobs import (
    ChangedParameters,
    CleanedUp,
    Dependencies,
    JobConfig,
    JobStatusView,
    Submitted,
)
from fedflow.wire.api.queue import Queue

OnChange = Callable[[JobStatusView], None]

_SECTIONS = ("job_parameters", "component_parameters")  #: of a conf, that may change
_POLL_S = 0.2  #: pause between two looks at a job, at first
_SLOW_POLL_S = 1.0  #: and when it has run for a minute
_STEP_MS = 5_000  #: of the time that a task has been running, milliseconds
_LATE_EVENTS = 50  #: how far back events are asked for again, to miss none
_OUTAGE_S = 60.0  #: for so long a server may be away while somebody waits: it may be restarting


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands after it was stopped."""

    job_id: str
    status: str
    had_ended: bool = False  #: there was nothing to stop

    @property
    def is_final(self) -> bool:
        """Return whether the job has ended: else a party was not reached yet, or stops it now."""
        return self.status in {status.value for status in JOB_FINAL}

    def __repr__(self) -> str:
        return f"<Stopped job {self.job_id}: {self.status}>"


class JobCalls:
    """What can be asked about jobs."""

    def __init__(self, connection: Connection, *, clock: Clock | None = None) -> None:
        self._connection = connection
        self._clock = clock or SystemClock()

    def submit(
        self, dsl: Document, conf: Document, *, idempotency_key: str | None = None,
        strict: bool = False, name: str | None = None,
    ) -> Submitted:  # fmt: skip
        """Submit a job, a DSL and a runtime conf as FATE writes them, and return its id.

        Both are objects or paths of JSON files; a predict job has the DSL `{}`. The call is made
        again if the connection breaks, and makes one job: the server knows it by its key, which is
        a new one unless it is given (1 to 255 characters; for the same job again, for a week).
        A `strict` job is refused where another one has `warnings` in the answer. `name` is what
        people call it, in place of the job parameter of this name.

        Raises: InvalidJobSpec: every mistake with its path. NoRoute. SubmitRefused. BadDocument.
        IdempotencyKeyReused: another job was submitted with the key.
        """
        return submit_job(
            self._connection,
            read_document(dsl),
            called(read_document(conf), name),
            idempotency_key=idempotency_key,
            strict=strict,
        )

    def submit_file(
        self, path: str | os.PathLike[str], *, idempotency_key: str | None = None,
        strict: bool = False, name: str | None = None,
    ) -> Submitted:  # fmt: skip
        """Submit the job of one file, YAML or `.json`, with the members `dsl` and `conf`.

        Raises: as `submit`. BadDocument: with line and column.
        """
        job = read_job_file(path)
        return self.submit(
            job.dsl, job.conf, idempotency_key=idempotency_key, strict=strict, name=name
        )

    def job(self, job_id: str) -> JobStatusView:
        """Return how a job stands at this moment. Raises: JobNotFound."""
        found: JobStatusView = self._connection.look_up(
            "job/status", {"job_id": job_id}, JobStatusView
        )
        return found

    def jobs(
        self, limit: int = 20, *, page: int = 1, status: str | None = None,
        role: str | None = None, tag: str | None = None,
    ) -> JobPage:  # fmt: skip
        """Return this server's shares of jobs, newest first; `limit` 0 means all."""
        body = _given(limit=limit, page=page, status=status, role=role, tag=tag)
        found: JobPage = self._connection.look_up("job/list/job", body, JobPage)
        return found

    def tasks(
        self, limit: int = 20, *, page: int = 1, job_id: str | None = None,
        component: str | None = None, site: Site | None = None,
    ) -> TaskPage:  # fmt: skip
        """Return this server's shares of tasks, newest first; `limit` 0 means all."""
        body = {
            **_given(limit=limit, page=page, job_id=job_id, component_name=component),
            **_site(site),
        }
        found: TaskPage = self._connection.look_up("job/list/task", body, TaskPage)
        return found

    def config(self, job_id: str, site: Site) -> JobConfig:
        """Return DSL and confs of a job as a site has them."""
        found: JobConfig = self._connection.look_up(
            "job/config", {"job_id": job_id, **_site(site)}, JobConfig
        )
        return found

    def outputs(
        self, job_id: str, *, component: str | None = None, site: Site | None = None
    ) -> list[OutputTable]:
        """Return the output tables of a job at this server."""
        body = {**_given(job_id=job_id, component_name=component), **_site(site)}
        found: list[OutputTable] = self._connection.find("job/data/view/query", body, OutputTable)
        return found

    def dependencies(self, job_id: str, site: Site) -> Dependencies:
        """Return the DAG of a job: its components, each after those it depends on."""
        found: Dependencies = self._connection.look_up(
            "pipeline/dag/dependency", {"job_id": job_id, **_site(site)}, Dependencies
        )
        return found

    def predict_dsl_from(self, train_dsl: Document, components: Sequence[str]) -> dict[str, Any]:
        """Return the predict DSL of a training DSL; `components` stay. Raises: NoPredictDsl."""
        found: dict[str, Any] = self._connection.look_up(
            "job/dsl/generate",
            {"train_dsl": read_document(train_dsl), "cpn_str": list(components), "version": "2"},
            dict[str, Any],
        )
        return found

    def rerun(
        self, job_id: str, *, components: Sequence[str] | None = None, force: bool = False,
        failed_only: bool = False, conf: Document | None = None,
    ) -> None:  # fmt: skip
        """Run an ended job again: what did not succeed and all that depends on it.

        `components` narrows that down, `force` also repeats what succeeded, `failed_only` leaves
        out what never ran. `conf` has new `job_parameters` or `component_parameters`, as for
        `update_parameters`; they change with the rerun or not at all. Returns when all sites have
        agreed. Raises: JobNotFound, RerunRefused, InvalidJobSpec, ParametersRefused, BadDocument.
        """
        body: dict[str, Any] = {"job_id": job_id, "force": force}
        if failed_only:
            body["failed_only"] = True
        if conf is not None:
            sections = read_document(conf)
            given = {name: sections[name] for name in _SECTIONS if sections.get(name)}
            if not given:
                reason = f"it must hold {' or '.join(_SECTIONS)}"
                raise BadDocument(where="the parameters of a rerun", reason=reason)
            body |= given
        if components:
            body["component_name"] = list(components)
        self._connection.do("job/rerun", body)

    def pause(self, job_id: str) -> None:
        """Let nothing new of a job start; what runs goes on, then it gives its cores back.

        Raises: JobNotFound. PauseRefused: it has ended, or is paused.
        """
        self._connection.do("job/pause", {"job_id": job_id})

    def proceed(self, job_id: str, *, steps: int | None = None, all_: bool = False) -> None:
        """Let a job go on that is paused, or waits for its next step.

        `steps` is how many components may begin, `all_` lets all; without either a pause ends, and
        a job that waits for a step begins one. Raises: JobNotFound, BadSteps, ContinueRefused.
        """
        body: dict[str, Any] = {"job_id": job_id, "all": all_}
        if steps is not None:
            body["steps"] = steps
        self._connection.do("job/continue", body)

    def update_parameters(self, job_id: str, conf: Document) -> ChangedParameters:
        """Change parameters of an ended job for its next rerun.

        `conf` has `job_parameters` or `component_parameters`, sections of a runtime conf that are
        laid over the job's own. Raises: JobNotFound, InvalidJobSpec.
        """
        found: ChangedParameters = self._connection.do(
            "job/parameter/update", {**read_document(conf), "job_id": job_id}, ChangedParameters
        )
        return found

    def note(self, job_id: str, text: str, site: Site) -> None:
        """Store notes about a job, which lists show as its description."""
        self._connection.do("job/update", {"job_id": job_id, **_site(site), "notes": text})

    def rename(self, job_id: str, name: str, site: Site) -> None:
        """Store what people call a job at a site of this server.

        Raises: JobNotFound. BadRequest: it cannot be called so.
        """
        self._connection.do("job/update", {"job_id": job_id, **_site(site), "name": name})

    def clean(self, job_id: str) -> CleanedUp:
        """Delete output tables and metrics that an ended job left at this server."""
        found: CleanedUp = self._connection.do("job/clean", {"job_id": job_id}, CleanedUp)
        return found

    def delete(self, job_id: str, *, preview: bool = False) -> DeletedJob:
        """Forget an ended job at this server, with all that it made here; return what went.

        With `preview` nothing is deleted. Raises: JobNotFound, DeleteRefused, JobFilesNotDeleted.
        """
        found: DeletedJob = self._connection.do(
            "job/delete", {"job_id": job_id, "preview": preview}, DeletedJob
        )
        return found

    def delete_old(
        self, older_than: str, *, statuses: Sequence[str] = (), preview: bool = False
    ) -> Iterator[DeletedJobs]:
        """Delete the jobs here that ended longer ago than `older_than`, such as `30d`, and yield
        what went, some at a time; with `preview` nothing is deleted.

        Without `statuses`: jobs of all final statuses. Raises: BadRequest.
        """
        after = ""
        while True:
            sent = {
                "older_than": older_than, "status": list(statuses), "after": after,
                "preview": preview,
            }  # fmt: skip
            found: DeletedJobs = self._connection.do("job/delete/old", sent, DeletedJobs)
            yield found
            after = found.after
            if not after:
                return

    def queue(self, *, limit: int = 100, offset: int = 0) -> Queue:
        """Return the jobs that wait, in the order in which they go, and what each waits for."""
        sent = {"limit": limit, "offset": offset}
        found: Queue = self._connection.look_up("job/queue", sent, Queue)
        return found

    def clean_queue(self) -> list[str]:
        """Cancel every job that waits for cores; return their ids."""
        found: dict[str, int] = self._connection.do("job/clean/queue", {}, dict[str, int])
        return list(found)

    def stop(self, job_id: str) -> Stopped:
        """Stop a job at all its sites; one that has ended stays as it is. Raises: JobNotFound."""
        answer = self._connection.envelope("/v1/job/stop", {"job_id": job_id}, command="job/stop")
        had_ended = str(answer.get("retmsg", "")).startswith("nothing to stop")
        return Stopped(job_id=job_id, status=self.job(job_id).status, had_ended=had_ended)

    def wait(
        self, job_id: str, *, timeout_s: float | None = None, on_change: OnChange | None = None
    ) -> JobStatusView:
        """Wait until a job has ended and return how; `on_change` is told of every change.

        A server that goes away meanwhile has a minute to come back. Raises: JobNotFound;
        StillRunning: it has not ended after `timeout_s` seconds.
        """
        for view in self.views(job_id, timeout_s=timeout_s):
            if on_change is not None:
                on_change(view)
            if view.is_final:
                return view
        raise AssertionError("views() ends with a final one or raises")

    def events(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[JobEvent]:
        """Yield what happens to a job until it has ended, first what happened before.

        Raises: as `wait`.
        """
        before: JobStatusView | None = None
        for view in self.views(job_id, timeout_s=timeout_s):
            yield from events_between(before, view)
            before = view

    def explain(self, job_id: str) -> Explanation:
        """Return what a job waits for, where, since when, and what helps; or why it ended.

        Raises: JobNotFound.
        """
        found: Explanation = self._connection.look_up(
            "job/explain", {"job_id": job_id}, Explanation
        )
        return found

    def history(
        self, job_id: str, *, component: str | None = None, since: int = 0
    ) -> Iterator[HistoryEvent]:
        """Yield what happened to a job after the event `since`, as the server knows it, oldest
        first. Raises: JobNotFound.
        """
        more = True
        while more:
            body = _given(job_id=job_id, component_name=component, since=since)
            page: HistoryPage = self._connection.look_up("job/events", body, HistoryPage)
            yield from page.events
            since, more = page.next, page.more

    def follow_history(
        self, job_id: str, *, component: str | None = None, timeout_s: float | None = None
    ) -> Iterator[HistoryEvent]:
        """Yield what happened to a job and what happens until its end. Raises: as `wait`."""
        told: set[int] = set()
        for view in self.looks(job_id, timeout_s=timeout_s):
            # transactions that end late may bring numbers before the last one
            since = max(0, max(told, default=0) - _LATE_EVENTS)
            try:
                for event in self.history(job_id, component=component, since=since):
                    if event.number not in told:
                        told.add(event.number)
                        yield event
            except ServerNotReachable:  # `looks` judges for how long it may be away
                if view.is_final:
                    raise

    def views(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[JobStatusView]:
        """Yield how a job stands whenever that changed; the last one is final. Raises: as `wait`.

        That a task still runs is a change every five seconds.
        `timeout_s` counts from the first look; what the caller does meanwhile counts too.
        """
        before: JobStatusView | None = None
        for view in self.looks(job_id, timeout_s=timeout_s):
            now = _in_steps(view)
            if now != before:
                before = now
                yield view

    def looks(self, job_id: str, *, timeout_s: float | None = None) -> Iterator[JobStatusView]:
        """Yield how a job stands at each look, changed or not. Raises: as `wait`."""
        begin_s = heard_s = self._clock.monotonic_s()
        view: JobStatusView | None = None
        never = threading.Event()
        while True:
            now_s = self._clock.monotonic_s()
            try:
                view = self.job(job_id)
                heard_s = now_s
            except ServerNotReachable:
                if view is None or now_s - heard_s > _OUTAGE_S:
                    raise
            yield view
            if view.is_final:
                return
            waited_s = self._clock.monotonic_s() - begin_s
            if timeout_s is not None and waited_s >= timeout_s:
                raise StillRunning(job_id=job_id, status=view.status, seconds=timeout_s)
            rest_s = timeout_s - waited_s if timeout_s is not None else _SLOW_POLL_S
            pause(min(_POLL_S if waited_s < 60 else _SLOW_POLL_S, rest_s), never)

    def log_download(self, job_id: str, target: Path) -> list[Path]:
        """Unpack this server's logs of a job into the folder `target`; return the files.

        Their paths below `target` are `role/party/component/version/LEVEL.log`. Raises:
        JobNotFound; BadData: the archive is not acceptable.
        """
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            archive = Path(folder) / "log.tar.gz"
            with archive.open("wb") as file:
                self._connection.fetch(
                    "/v1/job/log/download", {"job_id": job_id}, file, command="job/log/download"
                )
            return unpack(archive, target)

    def log_lines(
        self, job_id: str, log_type: str, *, site: Site | None = None,
        component: str | None = None, begin: int = 1, end: int | None = None,
    ) -> list[LogLine]:  # fmt: skip
        """Return lines of one log, from 1, at most 5,000.

        `log_type`: jobSchedule, jobScheduleError; with a site partyError, partyWarning, partyInfo,
        partyDebug; with a component too componentInfo.
        """
        body = {
            **_given(job_id=job_id, log_type=log_type, component_name=component,
                     begin=begin, end=end),
            **_site(site),
        }  # fmt: skip
        found: list[LogLine] = self._connection.look_up("log/cat", body, list[LogLine])
        return found

    def follow_log(
        self, job_id: str, log_type: str, *, site: Site | None = None, component: str | None = None
    ) -> Iterator[LogLine]:
        """Yield the lines of a log as they come, until the job has ended and all were read."""
        begin, never = 1, threading.Event()
        while True:
            ended = self.job(job_id).is_final
            lines = self.log_lines(job_id, log_type, site=site, component=component, begin=begin)
            yield from lines
            if lines:
                begin = lines[-1].line_num + 1
            elif ended:
                return
            else:
                pause(_POLL_S, never)


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _site(site: Site | None) -> dict[str, str]:
    return {} if site is None else {"role": site.role.value, "party_id": site.party_id}


def _in_steps(view: JobStatusView) -> JobStatusView:
    """Return a view whose running tasks have times in steps of five seconds."""
    tasks = tuple(
        task if task.running_ms is None else replace(task, running_ms=task.running_ms // _STEP_MS)
        for task in view.tasks
    )
    return replace(view, tasks=tasks)
