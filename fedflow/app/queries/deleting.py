"""Deleting ended jobs: all that this server knows of them and all that they made here.

The rows of a job go in one transaction, the files after it. Before the transaction commits, a note
in the job's folder names the tables whose rows are to go, so that after a crash in between a second
delete removes what is left: it finds no job, but its folder. Other parties keep what they have.

Old jobs are deleted some at a time, one transaction each. What open jobs need is looked up once for
all of them.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Final

from fedflow.app.data import row_folders
from fedflow.app.data.caches import drop_caches
from fedflow.app.data.table_use import is_free, named_table
from fedflow.app.models.models import trained_key
from fedflow.app.participant.party_jobs import has_process
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.parsed_jobs import ParsedJobs
from fedflow.app.queries.model_references import loaded_version, reference_to
from fedflow.base.errors.jobs import DeleteRefused, JobFilesNotDeleted, JobNotFound
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.data.caches import CacheFilter
from fedflow.domain.data.table_parts import parts_uri
from fedflow.domain.job_lines import EndedJob, EndedJobs
from fedflow.domain.models.model import ModelFilter, ModelKey
from fedflow.domain.records import JobRecord, ScheduledJob, TableRecord, TaskFilter
from fedflow.domain.site import Site
from fedflow.domain.states import JOB_FINAL, TASK_FINAL, JobStatus, TaskStatus
from fedflow.wire.paths import fits

logger = logging.getLogger(__name__)

NOTE: Final = "deleting.json"
_MADE: Final = ("output", "reader")  #: origins of tables that a job made for itself
_OPEN_TASKS: Final = tuple(s for s in TaskStatus if s not in TASK_FINAL)
_MOST: Final = 1_000_000  #: rows that are looked through
_READER: Final = "reader"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnTable:
    """A table that goes."""

    namespace: str
    name: str
    rows: int
    size_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class RetainedTable:
    """A table that the job made and that stays, as these jobs use it."""

    namespace: str
    name: str
    jobs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnModel:
    """One site's part of a model that the job trained; it stays if `kept` says why."""

    key: ModelKey
    size_bytes: int = 0
    kept: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """What deleting a job removes at this server, or removed."""

    job_id: str
    status: JobStatus | None = None
    ended_ms: int = 0
    sites: tuple[Site, ...] = ()  #: whose party jobs are deleted
    partners: tuple[str, ...] = ()  #: other parties, which keep theirs
    tasks: int = 0  #: attempts
    metrics: int = 0
    caches: int = 0
    tags: tuple[str, ...] = ()
    tables: tuple[OwnTable, ...] = ()
    kept_tables: tuple[RetainedTable, ...] = ()
    models: tuple[OwnModel, ...] = ()
    log_files: int = 0
    log_bytes: int = 0
    file_bytes: int = 0  #: what was submitted, and work folders
    left_over: bool = False  #: the job is deleted already; only files are left


@dataclass(frozen=True, kw_only=True, slots=True)
class RefusedDeletion:
    """An old job that stays for now, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class OldDeletions:
    """What one look at old jobs deleted, or would delete."""

    deleted: tuple[Deletion, ...] = ()
    refused: tuple[RefusedDeletion, ...] = ()
    last: EndedJob | None = None  #: after which the next look goes on; None: all were looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class _Plan:
    """What a transaction found: what it removes, and what of it lies in files."""

    shares: tuple[JobRecord, ...]
    deletion: Deletion
    tables: tuple[TableRecord, ...]
    model_keys: tuple[ModelKey, ...] = field(default=())


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenWork:
    """What jobs that have not ended are going to use."""

    tables: Mapping[tuple[str, str], list[str]]  #: namespace and name -> jobs
    jobs: Mapping[str, str]  #: job whose outputs are read without a name -> job that reads them
    models: Mapping[str, str]  #: version of a model -> job that uses it


class Deletions:
    """The use case of deleting jobs."""

    def __init__(self, *, store: Store, folders: Folders, specs: ParsedJobs) -> None:
        self._store = store
        self._folders = folders
        self._specs = specs

    def preview(self, job_id: str) -> Deletion:
        """Return what deleting a job would remove, and what would stay.

        Raises: JobNotFound, DeleteRefused.
        """
        with self._store.read() as tx:
            plan = _plan(tx, job_id, _open_work(tx))
        return self._sized(self._left_over(job_id) if plan is None else plan.deletion, plan)

    def delete(self, job_id: str) -> Deletion:
        """Delete an ended job at this server, and return what went.

        A delete that broke off is finished by another one. Raises: JobNotFound, DeleteRefused,
        JobFilesNotDeleted: the job is gone, but not all of its files.
        """
        before = self.preview(job_id)
        with self._store.transaction() as tx:
            tx.models.lock(job_id)
            plan = _plan(tx, job_id, _open_work(tx))
            if plan is not None:
                self._drop(tx, plan)
        self._remove_rest(job_id)
        if plan is not None:
            _log(plan)
        return before

    # --- old jobs ---------------------------------------------------------------------------------

    def preview_old(
        self, which: EndedJobs, *, limit: int, after: EndedJob | None = None
    ) -> OldDeletions:
        """Return what deleting the next old jobs would remove; at most `limit` are looked at."""
        with self._store.read() as tx:
            found = tx.job_lists.ended(which, after=after, limit=limit)
            work = _open_work(tx)
        deleted: list[Deletion] = []
        refused: list[RefusedDeletion] = []
        for one in found:
            try:
                with self._store.read() as tx:
                    plan = _plan(tx, one.job_id, work) if _is_old(tx, one, which) else None
            except DeleteRefused as exc:
                refused.append(RefusedDeletion(job_id=one.job_id, reason=str(exc.fields["reason"])))
                continue
            if plan is not None:
                deleted.append(self._sized(plan.deletion, plan))
        return _looked(deleted, refused, found, limit)

    def delete_old(
        self, which: EndedJobs, *, limit: int, after: EndedJob | None = None, sized: bool = True
    ) -> OldDeletions:
        """Delete the next old jobs, and return what went; at most `limit` are looked at.

        A job that cannot be deleted now stays, and is named. Without `sized` the sizes of files are
        not looked up.
        """
        with self._store.read() as tx:
            found = tx.job_lists.ended(which, after=after, limit=limit)
            if not found:
                return OldDeletions()
            work = _open_work(tx)
        deleted: list[Deletion] = []
        refused: list[RefusedDeletion] = []
        for one in found:
            try:
                gone = self._delete_one(one, which, work, sized=sized)
            except (DeleteRefused, JobFilesNotDeleted) as exc:
                refused.append(RefusedDeletion(job_id=one.job_id, reason=str(exc.fields["reason"])))
                continue
            if gone is not None:
                deleted.append(gone)
        return _looked(deleted, refused, found, limit)

    def _delete_one(
        self, one: EndedJob, which: EndedJobs, work: _OpenWork, *, sized: bool
    ) -> Deletion | None:
        """Delete a job if it is still old; return what went. Raises: DeleteRefused,
        JobFilesNotDeleted.
        """
        with self._store.transaction() as tx:
            tx.models.lock(one.job_id)
            plan = _plan(tx, one.job_id, work) if _is_old(tx, one, which) else None
            if plan is None:
                return None
            self._drop(tx, plan)
        gone = self._sized(plan.deletion, plan) if sized else plan.deletion
        self._remove_rest(one.job_id)
        _log(plan)
        return gone

    def finish(self) -> int:
        """Remove what deletes that broke off left; return of how many jobs."""
        finished = 0
        for note in self._folders.job_files("*").parent.glob(f"*/{NOTE}"):
            job_id = note.parent.name
            with self._store.read() as tx:
                known = bool(tx.jobs.shares(job_id)) or tx.schedules.status(job_id) is not None
            if known:
                continue  # its transaction did not commit
            try:
                self._remove_rest(job_id)
            except JobFilesNotDeleted as exc:
                logger.warning("%s", exc.message)
                continue
            finished += 1
        return finished

    # --- what there is ----------------------------------------------------------------------------

    def _left_over(self, job_id: str) -> Deletion:
        """Return what an earlier delete left. Raises: JobNotFound: it left nothing."""
        if not fits("job_id", job_id) or not (self._folders.job_files(job_id) / NOTE).exists():
            raise JobNotFound(job_id=job_id[:100])
        return Deletion(job_id=job_id, left_over=True)

    def _sized(self, found: Deletion, plan: _Plan | None) -> Deletion:
        """Return the same with the sizes of files."""
        addresses = {} if plan is None else {(t.namespace, t.name): t.address for t in plan.tables}
        tables = tuple(
            replace(t, size_bytes=_size(self._folders.tables / addresses[t.namespace, t.name])[1])
            for t in found.tables
        )
        log_files, log_bytes = _size(self._folders.job_logs(found.job_id))
        return replace(
            found,
            tables=tables,
            log_files=log_files,
            log_bytes=log_bytes,
            file_bytes=_size(self._folders.job_files(found.job_id))[1],
        )

    # --- removing ---------------------------------------------------------------------------------

    def _drop(self, tx: Tx, plan: _Plan) -> None:
        job_id = plan.deletion.job_id
        dropped = list(plan.tables)
        for table in plan.tables:
            tx.tables.drop(table.namespace, table.name)
        for share in plan.shares:
            dropped += drop_caches(tx, CacheFilter(site=share.key.site, job_id=job_id))
        for key in plan.model_keys:
            tx.models.drop(key)
        tx.tracking.drop(job_id)
        tx.tasks.drop(job_id)
        tx.job_tags.drop(job_id)
        tx.schedules.drop(job_id)
        tx.jobs.drop(job_id)
        tx.events.drop(job_id)
        tx.reply_cache.drop(job_id)
        for created_ms in {share.created_ms for share in plan.shares if share.is_initiator}:
            tx.submits.drop(job_id, created_ms=created_ms)
        self._write_note(job_id, [table for table in dropped if is_free(tx, table)])

    def _write_note(self, job_id: str, tables: Iterable[TableRecord]) -> None:
        """Remember which rows of tables are to go. Raises: DeleteRefused."""
        folder = self._folders.job_files(job_id)
        note = [{"address": t.address, "storage": t.storage} for t in tables]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / NOTE).write_text(json.dumps(note), encoding="utf-8")
        except OSError as exc:
            reason = f"nothing can be written to {folder}: {exc.strerror or exc}"
            raise DeleteRefused(job_id=job_id, reason=reason) from exc

    def _remove_rest(self, job_id: str) -> None:
        """Forget the parsed job, remove what the note names, then the folders, the note's last.

        Raises: JobFilesNotDeleted.
        """
        self._specs.forget(job_id)
        folder = self._folders.job_files(job_id)
        for table in _noted(folder / NOTE):
            with self._store.read() as tx:
                named = tx.tables.at_address(str(table.get("address")))
            if not named:
                row_folders.remove_rows(
                    self._folders.tables, str(table.get("address")), parts_uri(table.get("storage"))
                )
        for path in (self._folders.job_logs(job_id), folder):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue
            except OSError as exc:
                reason = exc.strerror or str(exc)
                raise JobFilesNotDeleted(job_id=job_id, path=path, reason=reason) from exc


def _plan(tx: Tx, job_id: str, work: _OpenWork) -> _Plan | None:
    """Return what goes, None if the store does not know the job. Raises: DeleteRefused."""
    shares = tuple(tx.jobs.shares(job_id))
    scheduled = tx.schedules.get(job_id)
    if not shares and scheduled is None:
        return None
    parties = {p for share in shares for ps in share.roles.values() for p in ps}
    if scheduled is not None:
        parties |= {site.site.party_id for site in scheduled.sites}
    _check_ended(tx, job_id, shares, scheduled)
    _check_told(tx, job_id, sorted(parties))
    reader = work.jobs.get(job_id)
    if reader is not None:
        reason = Message("job {job_id} is going to read what it made", reader)
        raise DeleteRefused(job_id=job_id, reason=reason)
    own, kept = _tables(tx, job_id, work)
    models = _models(tx, job_id, shares, work)
    here = {share.key.site.party_id for share in shares}
    caches = [
        cache
        for share in shares
        for cache in tx.caches.find(CacheFilter(site=share.key.site, job_id=job_id))
    ]
    deletion = Deletion(
        job_id=job_id,
        status=_status(shares, scheduled),
        ended_ms=_ended_ms(shares, scheduled),
        sites=tuple(share.key.site for share in shares),
        partners=tuple(sorted(parties - here)),
        tasks=tx.tasks.count(TaskFilter(job_id=job_id, all_versions=True)),
        metrics=tx.tracking.count_metrics(job_id),
        caches=len(caches),
        tags=tx.job_tags.of([job_id]).get(job_id, ()),
        tables=tuple(OwnTable(namespace=t.namespace, name=t.name, rows=t.count) for t in own),
        kept_tables=kept,
        models=models,
    )
    kept_keys = {model.key for model in models if model.kept}
    trained = {key for share in shares if (key := trained_key(share)) is not None}
    return _Plan(
        shares=shares,
        deletion=deletion,
        tables=own,
        model_keys=tuple((trained | {m.key for m in models}) - kept_keys),
    )


def _status(shares: Sequence[JobRecord], scheduled: ScheduledJob | None) -> JobStatus:
    return scheduled.status if scheduled is not None else shares[0].status


def _ended_ms(shares: Sequence[JobRecord], scheduled: ScheduledJob | None) -> int:
    """Return when a job ended: with its last party job here."""
    of_job = [] if scheduled is None else [scheduled.ended_ms or scheduled.created_ms]
    return max([*of_job, *(share.ended_ms or share.created_ms for share in shares)])


def _is_old(tx: Tx, one: EndedJob, which: EndedJobs) -> bool:
    """Tell whether all of a job is as old as `which` wants, and ended so.

    A job is looked at with the last of its party jobs, so that it is met once.
    """
    shares = tx.jobs.shares(one.job_id)
    if shares and one.created_ms < max(share.created_ms for share in shares):
        return False
    scheduled = tx.schedules.get(one.job_id)
    ends = [(s.status, s.ended_ms or s.created_ms) for s in shares]
    if scheduled is not None:
        ends.append((scheduled.status, scheduled.ended_ms or scheduled.created_ms))
    return bool(ends) and all(
        status in which.statuses and ended_ms < which.before_ms for status, ended_ms in ends
    )


def _looked(
    deleted: Sequence[Deletion], refused: Sequence[RefusedDeletion], found: Sequence[EndedJob],
    limit: int,
) -> OldDeletions:  # fmt: skip
    last = found[-1] if len(found) >= limit else None
    return OldDeletions(deleted=tuple(deleted), refused=tuple(refused), last=last)


def _log(plan: _Plan) -> None:
    logger.info(
        "Job %s was deleted: %s tables, %s metrics", plan.deletion.job_id, len(plan.tables),
        plan.deletion.metrics,
        extra={"action": "job_deleted", "deleted_job": plan.deletion.job_id},
    )  # fmt: skip


def _check_ended(
    tx: Tx, job_id: str, shares: Iterable[JobRecord], scheduled: ScheduledJob | None
) -> None:
    """Raises: DeleteRefused."""
    for status in [*(s.status for s in shares), *([scheduled.status] if scheduled else [])]:
        if status not in JOB_FINAL:
            shown = JobStatus.WAITING if status is JobStatus.READY else status
            reason = Message("it is {status}; stop it first", shown.value)
            raise DeleteRefused(job_id=job_id, reason=reason)
    for share in shares:
        if share.in_use or has_process(tx, share.key):
            reason = Message("its processes at {site} are still being stopped", share.key.site)
            raise DeleteRefused(job_id=job_id, reason=reason)


def _check_told(tx: Tx, job_id: str, parties: list[str]) -> None:
    """See that nobody waits for a command that still has to be sent. Raises: DeleteRefused."""
    waiting = tx.outbox.of_job(job_id, parties) if parties else []
    if waiting:
        reason = Message("{site} has not been told of its end yet", waiting[0].destination)
        raise DeleteRefused(job_id=job_id, reason=reason)


def _open_work(tx: Tx) -> _OpenWork:
    """Return what jobs that have not ended are going to use."""
    tables: dict[tuple[str, str], list[str]] = {}
    jobs: dict[str, str] = {}
    models = {
        str(version): job.key.job_id
        for job in tx.jobs.open_jobs()
        if (version := job.parameters.get("model_version")) is not None
    }
    for task in tx.tasks.find(TaskFilter(statuses=_OPEN_TASKS, limit=_MOST)):
        table = task.parameters.get("table") if task.module.lower() == _READER else None
        if isinstance(table, dict) and table.get("job_id") is not None:
            jobs.setdefault(str(table["job_id"]), task.key.job_id)
        named = named_table(task)
        if named is not None:
            tables.setdefault(named, []).append(task.key.job_id)
        version = loaded_version(task)
        if version is not None:
            models.setdefault(version, task.key.job_id)
    return _OpenWork(tables=tables, jobs=jobs, models=models)


def _tables(
    tx: Tx, job_id: str, work: _OpenWork
) -> tuple[tuple[TableRecord, ...], tuple[RetainedTable, ...]]:
    """Return the tables that a job made and that go, and those that others use."""
    own: dict[tuple[str, str], TableRecord] = {}
    kept: dict[tuple[str, str], RetainedTable] = {}
    for output in tx.tracking.every_output(job_id):
        place = (output.namespace, output.name)
        if place in own or place in kept:
            continue
        table = tx.tables.get(*place)
        if table is None or not output.is_of(table) or table.origin not in _MADE:
            continue  # it was deleted or replaced before, or the job only read it
        uses = [u.key.job_id for u in tx.tracking.uses_of_table(*place) if u.is_of(table)]
        users = (*uses, *work.tables.get(place, ()))
        others = tuple(dict.fromkeys(user for user in users if user != job_id))
        if others:
            kept[place] = RetainedTable(namespace=place[0], name=place[1], jobs=others)
        else:
            own[place] = table
    return tuple(own.values()), tuple(kept.values())


def _models(
    tx: Tx, job_id: str, shares: Iterable[JobRecord], work: _OpenWork
) -> tuple[OwnModel, ...]:
    """Return the sites' parts of the trained model, each with why it stays, if it does."""
    which = ModelFilter(model_version=job_id, with_unready=True)
    versions = [v for v in tx.models.find(which) if v.job_id == job_id]
    user = work.models.get(job_id)
    return tuple(
        OwnModel(
            key=version.key,
            size_bytes=version.size_bytes,
            kept=reference_to(tx, version, user=None if user == job_id else user),
        )
        for version in versions
    )


def _noted(note: Path) -> Iterator[dict[str, Any]]:
    """Yield what a note says of tables; nothing if there is none, or it was cut off."""
    with suppress(OSError, ValueError):
        found = json.loads(note.read_text(encoding="utf-8"))
        yield from (one for one in found if isinstance(one, dict))


def _size(folder: Path) -> tuple[int, int]:
    """Return how many files lie below a folder, and their bytes."""
    files = size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and not path.is_symlink():
                files += 1
                size += path.stat().st_size
    return files, size
