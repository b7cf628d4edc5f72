"""What was submitted with a job, for FATE's routes that read it by path or by job.

FATE reads any path of its server; here only the files that a submit wrote below `jobs/` are given
out. Beside them lie the executors' spec files, which hold secrets. Source:
`docs/reference/rest.md#administration`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.data import FileNotAllowed, NoData
from fedflow.base.errors.jobs import JobNotFound
from fedflow.domain.records import JobKey, JobRecord
from fedflow.domain.site import Site
from fedflow.wire.json_text import decode_json

READABLE: Final = frozenset(
    {
        "job_dsl.json", "job_runtime_conf.json", "job_runtime_on_party_conf.json",
        "pipeline_dsl.json", "train_runtime_conf.json",
    }
)  # fmt: skip
"""Names of the files that a submit writes."""

MAX_BYTES: Final = 32 * 1024 * 1024


class JobFiles:
    """The use cases of `/v1/operation` and `/v1/worker/config/load`."""

    def __init__(self, *, store: Store, folders: Folders) -> None:
        self._store = store
        self._folders = folders

    def load(self, path: str) -> Any:
        """Return the content of a job's file, `{}` if it does not exist.

        Raises: FileNotAllowed: it is none of those. BadRequest: it is not JSON.
        """
        root = (self._folders.shared / "jobs").resolve()
        try:
            real = Path(path).resolve()
            allowed = real.name in READABLE and real.is_relative_to(root)
            if not allowed:
                raise FileNotAllowed(path=path[:200])
            if not real.is_file():
                return {}
            with real.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
            raise FileNotAllowed(path=path[:200]) from exc
        if len(content) > MAX_BYTES:
            raise NoData(reason=f"the file is larger than {MAX_BYTES} bytes")
        return decode_json(content)

    def job(self, job_id: str, site: Site) -> JobRecord:
        """Return this server's party job. Raises: JobNotFound."""
        with self._store.read() as tx:
            found = tx.jobs.get(JobKey(job_id=job_id, site=site))
        if found is None:
            raise JobNotFound(job_id=job_id[:100])
        return found

    def submitted(self, job: JobRecord) -> tuple[Any, Any]:
        """Return DSL and conf of a job that this server initiated, as they were submitted.

        Without its files, they are as the job was stored: in the form of version 2.
        """
        found: list[Any] = [job.dsl, job.conf]
        for i, name in enumerate(("submitted_dsl.json", "submitted_runtime_conf.json")):
            try:
                content = (self._folders.job_files(job.key.job_id) / name).read_bytes()
            except OSError:
                return job.dsl, job.conf
            found[i] = decode_json(content)
        return found[0], found[1]
