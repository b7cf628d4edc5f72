"""Where things lie below the server's home folder.

| folder | holds |
|---|---|
| `logs/<job>/<role>/<party>/<component>/<version>` | logs of one attempt |
| `jobs/<job>/<role>-<party>-<component>-<version>` | private work folder of one attempt |
| `tables` | data sets, each in a folder with a random name |
| `spool` | values in transit between executors |
| `uploads` | files being uploaded |
| `run` | sockets, pid file |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedflow.domain.records import TaskKey


@dataclass(frozen=True, slots=True)
class Folders:
    """The layout of one home folder. Ids in paths were checked when they were parsed."""

    home: Path

    @property
    def tables(self) -> Path:
        return self.home / "tables"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @property
    def uploads(self) -> Path:
        return self.home / "uploads"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def server_logs(self) -> Path:
        return self.home / "logs" / "server"

    def job_logs(self, job_id: str) -> Path:
        """Return the folder with everything that was logged for a job."""
        return self.home / "logs" / job_id

    def logs(self, key: TaskKey) -> Path:
        """Return the log folder of one attempt."""
        site = key.site
        folder = self.job_logs(key.job_id) / site.role.value / site.party_id
        return folder / key.component / str(key.version)

    def work(self, key: TaskKey) -> Path:
        """Return the work folder of one attempt; one level, since making folders is dear."""
        name = f"{key.site.key}-{key.component}-{key.version}"
        return self.home / "jobs" / key.job_id / name

    def all(self) -> tuple[Path, ...]:
        """Return the folders that must exist before the server starts."""
        return (self.home, self.tables, self.spool, self.uploads, self.run, self.server_logs)
