"""Turns an uploaded file into a table: a local job with one component, `Upload`, as in FATE."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.initiator.submissions import Submissions, Submitted
from fedflow.app.local_jobs.submission import (
    OWN_PARTY,
    component_of,
    refuse_other_storage,
    submit_local,
)
from fedflow.app.ports.store import Store, Tx
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import TableExists
from fedflow.base.errors.requests import BadRequest, MissingArgument
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.data.table_names import checked_name, new_namespace
from fedflow.domain.job.document import child
from fedflow.domain.job.warning import warning
from fedflow.domain.records import JobFilter, JobRecord, TableRecord
from fedflow.domain.site import Role
from fedflow.wire.json_text import decode_json

_MODULE: Final = "Upload"
_REQUIRED: Final = ("namespace", "table_name", "head", "partition")
_INTEGERS: Final = (
    "head", "partition", "drop", "extend_sid", "auto_increasing_sid", "with_meta", "task_cores",
)  # fmt: skip
_OBJECTS: Final = ("meta", "schema")
_PASSED: Final = (
    *_REQUIRED,
    "id_delimiter",
    "extend_sid",
    "auto_increasing_sid",
    "with_meta",
    *_OBJECTS,
)
_KNOWN: Final = frozenset(
    {
        *_PASSED, *_INTEGERS, "file", "destroy", "party_id",
        # FATE's settings of engines, which each server has its own of
        "block_size", "storage_engine", "storage_address", "computing_engine", "federation_engine",
        "eggroll_run", "spark_run",
        # FATE's clients send them with each upload
        "use_local_data", "verbose", "conf_path", "work_mode", "backend", "local",
    }
)  # fmt: skip
_FLAGS: Final = {"true": 1, "false": 0}
_CORES: Final = range(1, 1025)


@dataclass(frozen=True, kw_only=True, slots=True)
class PastUpload:
    """An upload that made a table: what is known of it, whatever became of the table."""

    job: JobRecord
    namespace: str
    name: str
    partitions: int
    count: int  #: rows of this upload; 0: unknown
    table: TableRecord | None  #: None: it is deleted, or the name has other rows by now


class Uploads:
    """The use case of the upload routes."""

    def __init__(
        self,
        *,
        store: Store,
        submissions: Submissions,
        folders: Folders,
        allowed_folders: tuple[Path, ...],
    ) -> None:
        self._store = store
        self._submissions = submissions
        self._folders = folders
        self._sources = AllowedFolders(allowed_folders)

    @property
    def spool_dir(self) -> Path:
        """Return the folder where a file is kept while it is received."""
        return self._folders.uploads

    def check(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the Upload component, checked.

        Raises: MissingArgument, BadRequest, BadTableName, NotSupportedYet: another storage is
            named. TableExists: there is one, and neither `drop` nor `destroy` is set.
        """
        missing = [name for name in _REQUIRED if parameters.get(name) is None]
        if missing:
            raise MissingArgument(names=",".join(missing))
        refuse_other_storage(parameters.get("storage_engine"), what="Upload to")
        checked = {name: parameters[name] for name in _PASSED if parameters.get(name) is not None}
        for name in _INTEGERS:
            if name in checked:
                checked[name] = _integer(name, parameters[name])
        for name in _OBJECTS:
            if name in checked:
                checked[name] = _object(name, parameters[name])
        if checked["head"] not in (0, 1):
            raise BadRequest(reason="`head` must be 0 or 1")
        if not 0 < checked["partition"] < 1024:
            raise BadRequest(reason="`partition` must be between 1 and 1023")
        if not isinstance(checked.get("id_delimiter", ","), str):
            raise BadRequest(reason="`id_delimiter` must be a text")
        checked["namespace"] = new_namespace(checked["namespace"])
        checked["table_name"] = checked_name("table_name", checked["table_name"])
        drop = _drops(parameters)
        with self._store.read() as tx:
            exists = tx.tables.get(checked["namespace"], checked["table_name"]) is not None
        if exists and not drop:
            raise TableExists(namespace=checked["namespace"], name=checked["table_name"])
        return {**checked, "drop": int(drop)}

    def submit(
        self, parameters: Mapping[str, Any], path: Path, *, keep_file: bool = False
    ) -> Submitted:
        """Start the job that reads `path` into a table; without `keep_file` it deletes the file.

        A member of `parameters` that nothing reads is a warning. Raises: what `check` does, and
        InvalidJobSpec: there is such a member, and jobs of this server are strict.
        """
        checked = self.check(parameters)
        asked = parameters.get("task_cores")
        cores = 1 if asked is None else _integer("task_cores", asked)
        if cores not in _CORES:
            raise BadRequest(reason=f"`task_cores` must be between 1 and {_CORES[-1]}")
        return submit_local(
            self._submissions,
            _MODULE,
            {**checked, "file": str(path), "delete_file": not keep_file},
            outputs=("data",),
            party_id=_party_id(parameters.get("party_id")),
            task_cores=cores,
            warnings=[
                warning("UnknownMember", child("$", name), "unknown member, it has no effect")
                for name in parameters
                if name not in _KNOWN
            ],
        )

    def check_local(self, path: str) -> Path:
        """Return the path of a file on this server that may be read. Raises: FileNotAllowed."""
        return self._sources.existing_file(path)

    def sweep(self, older_than_ms: int) -> None:
        """Delete received files that no job took up: what an interrupted upload left."""
        for folder in self.spool_dir.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if folder.stat().st_mtime * 1000 < older_than_ms:
                    shutil.rmtree(folder, ignore_errors=True)

    def history(self, limit: int, job_id: str | None) -> list[PastUpload]:
        """Return the uploads that made a table, newest first. 0 = no limit."""
        answer: list[PastUpload] = []
        with self._store.read() as tx:
            for job in tx.jobs.find(JobFilter(job_id=job_id, roles=(Role.LOCAL,))):
                if limit and len(answer) >= limit:
                    break
                past = _past(tx, job)
                if past is not None:
                    answer.append(past)
        return answer


def _drops(parameters: Mapping[str, Any]) -> bool:
    """Tell whether an upload may replace a table: `drop` is 1 (old clients say 2 for no)."""
    destroy = parameters.get("destroy")
    if destroy is not None and _integer("destroy", destroy) == 1:
        return True
    drop = parameters.get("drop")
    return drop is not None and _integer("drop", drop) == 1


def _past(tx: Tx, job: JobRecord) -> PastUpload | None:
    """Return what came of an upload; None: the job is none, or made no table."""
    given, component = _upload_of(job.conf), component_of(_MODULE)
    if not given:
        return None
    job_id, site = job.key.job_id, job.key.site
    made = tx.tracking.outputs(job_id, component, site)
    if not made:
        return None
    table = tx.tables.get(made[0].namespace, made[0].name)
    if table is not None and not made[0].is_of(table):
        table = None
    summary = tx.tracking.summary(job_id, component, site)
    count = summary.get("count") if isinstance(summary, dict) else None
    if count is None:
        count = 0 if table is None else table.count
    return PastUpload(
        job=job,
        namespace=str(given.get("namespace")),
        name=str(given.get("table_name")),
        partitions=int(given.get("partition") or 0),
        count=int(count),
        table=table,
    )


def _upload_of(conf: Any) -> dict[str, Any]:
    try:
        found = conf["component_parameters"]["role"]["local"]["0"][component_of(_MODULE)]
    except (KeyError, TypeError):
        return {}
    return dict(found)


def _integer(name: str, value: Any) -> int:
    if isinstance(value, str):
        value = _FLAGS.get(value.lower(), value[:20])
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise BadRequest(reason=Message("`{name}` must be a number", name)) from exc


def _object(name: str, value: Any) -> dict[str, Any]:
    """Return an object, also one that is sent as JSON text (in a form, or as `k=v`)."""
    if isinstance(value, str):
        value = decode_json(value.encode())
    if not isinstance(value, dict):
        raise BadRequest(reason=f"`{name}` must be an object")
    return value


def _party_id(value: Any) -> str:
    text = OWN_PARTY if value is None else str(value)
    if not (text.isascii() and text.isalnum() and len(text) <= 32):
        raise BadRequest(reason="`party_id` is not a party id")
    return text
