"""Deleting an ended job: all that this server knows of it and all that it made here.

The rows go in one transaction, the files after it. Before the transaction commits, a note in the
job's folder names the tables whose rows are to go, so that after a crash in between a second delete
removes what is left: it finds no job, but its folder. Other parties keep what they have.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterable, Iterator
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
from fedflow.base.errors.jobs import DeleteRefused, JobFilesNotDeleted, JobNotFound
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.data.caches import CacheFilter
from fedflow.domain.data.table_parts import parts_uri
from fedflow.domain.models.model import ModelFilter, ModelKey
from fedflow.domain.records import JobRecord, TableRecord, TaskFilter
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
class _Plan:
    """What a transaction found: what it removes, and what of it lies in files."""

    shares: tuple[JobRecord, ...]
    deletion: Deletion
    tables: tuple[TableRecord, ...]
    model_keys: tuple[ModelKey, ...] = field(default=())


class Deletions:
    """The use case of deleting jobs."""

    def __init__(self, *, store: Store, folders: Folders) -> None:
        self._store = store
        self._folders = folders

    def preview(self, job_id: str) -> Deletion:
        """Return what deleting a job would remove, and what would stay.

        Raises: JobNotFound, DeleteRefused.
        """
        with self._store.read() as tx:
            plan = self._plan(tx, job_id)
        return self._sized(self._left_over(job_id) if plan is None else plan.deletion, plan)

    def delete(self, job_id: str) -> Deletion:
        """Delete an ended job at this server, and return what went.

        A delete that broke off is finished by another one. Raises: JobNotFound, DeleteRefused,
        JobFilesNotDeleted: the job is gone, but not all of its files.
        """
        before = self.preview(job_id)
        with self._store.transaction() as tx:
            plan = self._plan(tx, job_id)
            if plan is not None:
                self._drop(tx, plan)
        self._remove_files(job_id)
        if plan is None:
            return before
        logger.info(
            "Job %s was deleted: %s tables, %s metrics", job_id, len(plan.tables),
            plan.deletion.metrics, extra={"action": "job_deleted", "deleted_job": job_id},
        )  # fmt: skip
        return before

    # --- what there is ----------------------------------------------------------------------------

    def _plan(self, tx: Tx, job_id: str) -> _Plan | None:
        """Return what goes, None if the store does not know the job. Raises: DeleteRefused."""
        shares = tuple(tx.jobs.shares(job_id))
        scheduled = tx.schedules.get(job_id)
        if not shares and scheduled is None:
            return None
        parties = {p for share in shares for ps in share.roles.values() for p in ps}
        if scheduled is not None:
            parties |= {site.site.party_id for site in scheduled.sites}
        _check_ended(tx, job_id, shares, scheduled.status if scheduled is not None else None)
        _check_told(tx, job_id, sorted(parties))
        own, kept = _tables(tx, job_id, _open_readers(tx, job_id))
        models = _models(tx, job_id, shares)
        here = {share.key.site.party_id for share in shares}
        caches = [
            cache
            for share in shares
            for cache in tx.caches.find(CacheFilter(site=share.key.site, job_id=job_id))
        ]
        deletion = Deletion(
            job_id=job_id,
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

    def _remove_files(self, job_id: str) -> None:
        """Remove what the note names, then the folders, that of the note last.

        Raises: JobFilesNotDeleted.
        """
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


def _check_ended(
    tx: Tx, job_id: str, shares: Iterable[JobRecord], scheduled: JobStatus | None
) -> None:
    """Raises: DeleteRefused."""
    for status in [*(s.status for s in shares), *([scheduled] if scheduled else [])]:
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


def _open_readers(tx: Tx, job_id: str) -> dict[tuple[str, str], list[str]]:
    """Return the jobs that have not ended and will read a table, by namespace and name.

    Raises: DeleteRefused: one will read what this job created, without a name.
    """
    readers: dict[tuple[str, str], list[str]] = {}
    for task in tx.tasks.find(TaskFilter(statuses=_OPEN_TASKS, limit=_MOST)):
        table = task.parameters.get("table") if task.module.lower() == _READER else None
        if isinstance(table, dict) and str(table.get("job_id")) == job_id:
            reason = Message("job {job_id} is going to read what it made", task.key.job_id)
            raise DeleteRefused(job_id=job_id, reason=reason)
        named = named_table(task)
        if named is not None and task.key.job_id != job_id:
            readers.setdefault(named, []).append(task.key.job_id)
    return readers


def _tables(
    tx: Tx, job_id: str, readers: dict[tuple[str, str], list[str]]
) -> tuple[tuple[TableRecord, ...], tuple[RetainedTable, ...]]:
    """Return the tables that a job made and that go, and those that others use."""
    own: dict[tuple[str, str], TableRecord] = {}
    kept: dict[tuple[str, str], RetainedTable] = {}
    for output in tx.tracking.every_output(job_id):
        place = (output.namespace, output.name)
        if place in own or place in kept:
            continue
        table = tx.tables.get(*place)
        if table is None or table.origin not in _MADE:
            continue  # it was deleted before, or the job only read it
        uses = [u.key.job_id for u in tx.tracking.uses_of_table(*place) if u.key.job_id != job_id]
        others = tuple(dict.fromkeys((*uses, *readers.get(place, ()))))
        if others:
            kept[place] = RetainedTable(namespace=place[0], name=place[1], jobs=others)
        else:
            own[place] = table
    return tuple(own.values()), tuple(kept.values())


def _models(tx: Tx, job_id: str, shares: Iterable[JobRecord]) -> tuple[OwnModel, ...]:
    """Return the sites' parts of the trained model, each with why it stays, if it does."""
    which = ModelFilter(model_version=job_id, with_unready=True)
    versions = [v for v in tx.models.find(which) if v.job_id == job_id]
    users = _predicting(tx, job_id) if versions else []
    found = []
    for version in versions:
        key = version.key
        siblings = tx.models.find(
            ModelFilter(model_id=key.model_id, role=key.site.role, party_id=key.site.party_id)
        )
        children = [
            v.key.model_version
            for v in siblings
            if _object(v.parent_info).get("parent_model_version") == job_id
        ]
        kept = ""
        if children:
            kept = f"version {children[0]} was deployed from it"
        elif version.loaded_times:
            kept = "it was loaded for serving"
        elif users:
            kept = f"job {users[0]} predicts with it"
        found.append(OwnModel(key=key, size_bytes=version.size_bytes, kept=kept))
    return tuple(found)


def _predicting(tx: Tx, job_id: str) -> list[str]:
    """Return the jobs that have not ended and predict with the model that a job trained."""
    return [
        job.key.job_id
        for job in tx.jobs.open_jobs()
        if job.key.job_id != job_id and str(job.parameters.get("model_version")) == job_id
    ]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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
