"""Turns an uploaded file into a table: a local job with one component, `Upload`, as in FATE."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedflow.app.folders import Folders
from fedflow.app.ports import Store
from fedflow.app.submissions import Submissions, Submitted
from fedflow.base.errors import (
    BadRequest,
    BadTableName,
    FileNotAllowed,
    MissingArgument,
    TableExists,
)
from fedflow.domain.records import JobFilter
from fedflow.domain.site import Role

COMPONENT = "upload_0"
_REQUIRED = ("namespace", "table_name", "head", "partition")
_INTEGERS = ("head", "partition", "drop", "extend_sid", "auto_increasing_sid")
_PASSED = (
    *_REQUIRED,
    "id_delimiter",
    "extend_sid",
    "auto_increasing_sid",
    "with_meta",
    "meta",
    "schema",
)


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
        self._allowed = tuple(folder.resolve() for folder in allowed_folders)

    @property
    def spool_dir(self) -> Path:
        """Return the folder where a file is kept while it is received."""
        return self._folders.uploads

    def check(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of the Upload component, checked.

        Raises: MissingArgument, BadRequest, BadTableName, TableExists: there is one and `drop` is
        not set.
        """
        missing = [name for name in _REQUIRED if parameters.get(name) is None]
        if missing:
            raise MissingArgument(names=",".join(missing))
        checked = {name: parameters[name] for name in _PASSED if parameters.get(name) is not None}
        for name in _INTEGERS:
            if name in checked or parameters.get(name) is not None:
                checked[name] = _integer(name, parameters[name])
        if checked["head"] not in (0, 1):
            raise BadRequest(reason="`head` must be 0 or 1")
        if not 0 < checked["partition"] < 1024:
            raise BadRequest(reason="`partition` must be between 1 and 1023")
        for name in ("namespace", "table_name"):
            checked[name] = _table_name(name, checked[name])
        drop = checked.pop("drop", 0) == 1  # an old client says 2 for no
        with self._store.read() as tx:
            exists = tx.tables.get(checked["namespace"], checked["table_name"]) is not None
        if exists and not drop:
            raise TableExists(namespace=checked["namespace"], name=checked["table_name"])
        return {**checked, "drop": int(drop)}

    def submit(
        self, parameters: Mapping[str, Any], path: Path, *, keep_file: bool = False
    ) -> Submitted:
        """Start the job that reads `path` into a table; without `keep_file` it deletes the file."""
        checked = self.check(parameters)
        dsl = {"components": {COMPONENT: {"module": "Upload"}}}
        conf = {
            "dsl_version": 2,
            "initiator": {"role": "local", "party_id": 0},
            "role": {"local": [0]},
            "job_parameters": {"common": {"task_cores": 1, "federated_mode": "SINGLE"}},
            "component_parameters": {
                "role": {
                    "local": {
                        "0": {
                            COMPONENT: {**checked, "file": str(path), "delete_file": not keep_file}
                        }
                    }
                }
            },
        }
        return self._submissions.submit(dsl, conf, internal=True)

    def check_local(self, path: str) -> Path:
        """Return the path of a file on this server that may be read. Raises: FileNotAllowed."""
        resolved = Path(path).resolve()
        inside = any(resolved.is_relative_to(folder) for folder in self._allowed)
        if not inside or not resolved.is_file():
            raise FileNotAllowed(path=path)
        return resolved

    def sweep(self, older_than_ms: int) -> None:
        """Delete received files that no job took up: what an interrupted upload left."""
        for folder in self.spool_dir.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if folder.stat().st_mtime * 1000 < older_than_ms:
                    shutil.rmtree(folder, ignore_errors=True)

    def history(self, limit: int, job_id: str | None) -> list[dict[str, Any]]:
        """Return what was uploaded, newest first; tables that are gone are left out. 0 = no
        limit.
        """
        answer: list[dict[str, Any]] = []
        with self._store.read() as tx:
            for job in tx.jobs.find(JobFilter(job_id=job_id, roles=(Role.LOCAL,))):
                if limit and len(answer) >= limit:
                    break
                given = _upload_of(job.conf)
                table = tx.tables.get(given.get("namespace", ""), given.get("table_name", ""))
                if table is None:
                    continue
                info = {
                    "table_name": table.name,
                    "namespace": table.namespace,
                    "partition": table.partitions,
                    "upload_count": table.count,
                }
                entry = {"upload_info": info, "notes": job.description, "schema": table.schema}
                answer.append({job.key.job_id: entry})
        return answer


def _upload_of(conf: Any) -> dict[str, Any]:
    try:
        found = conf["component_parameters"]["role"]["local"]["0"][COMPONENT]
    except (KeyError, TypeError):
        return {}
    return dict(found)


def _integer(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as exc:
        raise BadRequest(reason=f"`{name}` must be a number") from exc


def _table_name(what: str, value: Any) -> str:
    text = str(value)
    if not 1 <= len(text) <= 100 or any(ord(c) < 32 for c in text):
        raise BadTableName(what=what, value=text[:120])
    return text
