"""What goes with a deleted job at a server."""

from __future__ import annotations

import msgspec


class DeletedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that goes; `size_bytes` of its rows at the server's machine."""

    namespace: str
    name: str
    rows: int = 0
    size_bytes: int = 0


class UsedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table that stays, since these jobs use it."""

    namespace: str
    name: str
    jobs: tuple[str, ...] = ()


class DeletedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A site's part of a model that goes; it stays if `kept` says why."""

    model_id: str
    model_version: str
    role: str = ""
    party_id: str = ""
    size_bytes: int = 0
    kept: str = ""


class DeletedJob(msgspec.Struct, frozen=True, kw_only=True):
    """What deleting a job removes, or removed, at this server."""

    job_id: str
    status: str = ""
    ended: int = 0  #: milliseconds since the epoch
    sites: tuple[str, ...] = ()
    partners: tuple[str, ...] = ()  #: parties that keep what they have of the job
    tasks: int = 0
    metrics: int = 0
    caches: int = 0
    tags: tuple[str, ...] = ()
    tables: tuple[DeletedTable, ...] = ()
    kept_tables: tuple[UsedTable, ...] = ()
    models: tuple[DeletedModel, ...] = ()
    log_files: int = 0
    log_bytes: int = 0
    file_bytes: int = 0
    left_over: bool = False  #: the job was deleted before, and only files of it are left

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all its files."""
        rows = sum(table.size_bytes for table in self.tables)
        models = sum(model.size_bytes for model in self.models if not model.kept)
        return rows + models + self.log_bytes + self.file_bytes


class RetainedJob(msgspec.Struct, frozen=True, kw_only=True):
    """An old job that cannot be deleted now, and why."""

    job_id: str
    reason: str


class DeletedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """What deleting some old jobs removes, or removed, at this server."""

    jobs: tuple[DeletedJob, ...] = ()
    kept: tuple[RetainedJob, ...] = ()
    after: str = ""  #: the next request goes on after it; empty: all were looked at
