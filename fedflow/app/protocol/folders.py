"""Where things lie below the server's home folder.

| folder | holds |
|---|---|
| `logs/<job>` | logs about the job as a whole |
| `logs/<job>/<role>/<party>` | what all tasks of one site logged, in one file per level |
| `logs/<job>/<role>/<party>/<component>/<version>` | logs of one attempt |
| `server-logs` | what a server in the background logs |
| `jobs/<job>` | what was submitted: DSL, confs |
| `jobs/<job>/<role>-<party>-<component>-<version>` | private work folder of one attempt |
| `tables` | data sets, each in a folder with a random name |
| `spool` | values in transit between executors |
| `uploads` | files being uploaded |
| `downloads` | files that jobs wrote for people |
| `providers` | folders with components, which may be registered |
| `models` | contents of models, and archives made for other programs |
| `run` | sockets, pid file, who this server is |
| `spark` | private folders of the Spark applications that run |
| `keys` | this party's own key pair, for signing, and keys for stored credentials |

`spool`, `spark`, `run` and `server-logs` are a server's own. All others lie below `shared`, which
several servers of one party have in common; for a server alone that is its home.
"""

from __future__ import annotations

from pathlib import Path

from fedflow.base.values import dataclass
from fedflow.domain.records import JobKey, TaskKey


@dataclass(frozen=True, slots=True)
class Folders:
    """The layout of one home folder. Ids in paths were checked when they were parsed."""

    home: Path
    common: Path | None = None  #: folder of all servers of one party; None: the home

    @property
    def shared(self) -> Path:
        return self.common or self.home

    @property
    def instance(self) -> Path:
        """Return the file with the id of this server among those of its party."""
        return self.run / "instance"

    @property
    def lived_time(self) -> Path:
        """Return the file with this server's time, while that is not the machine's."""
        return self.run / "lived-time"

    @property
    def shared_mark(self) -> Path:
        """Return the file by which servers see that they share a folder."""
        return self.shared / ".fedflow-shared"

    @property
    def providers(self) -> Path:
        return self.home / "providers"

    @property
    def provider_book(self) -> Path:
        """Return the file that remembers which providers are registered."""
        return self.home / "providers.json"

    @property
    def tables(self) -> Path:
        return self.shared / "tables"

    @property
    def spool(self) -> Path:
        return self.home / "spool"

    @property
    def uploads(self) -> Path:
        return self.shared / "uploads"

    @property
    def downloads(self) -> Path:
        return self.shared / "downloads"

    @property
    def model_blobs(self) -> Path:
        """Return the folder with the contents of models, by digest."""
        return self.shared / "models" / "blobs"

    @property
    def model_archives(self) -> Path:
        """Return the folder with archives that were made for other programs of this machine."""
        return self.shared / "models" / "archives"

    @property
    def run(self) -> Path:
        return self.home / "run"

    @property
    def spark(self) -> Path:
        """Return the folder with what this server's Spark applications and their tasks share."""
        return self.home / "spark"

    @property
    def site_key(self) -> Path:
        """Return the file with this party's private key."""
        return self.shared / "keys" / "site.pem"

    @property
    def connector_key(self) -> Path:
        """Return the file with the keys that encrypt credentials of other storages."""
        return self.shared / "keys" / "connectors.key"

    @property
    def server_logs(self) -> Path:
        """Return the folder with this server's logs, beside those of jobs."""
        return self.home / "server-logs"

    @property
    def server_log(self) -> Path:
        """Return the file that a server in the background writes what it logs to."""
        return self.server_logs / "server.log"

    def job_logs(self, job_id: str) -> Path:
        """Return the folder with everything that was logged for a job."""
        return self.shared / "logs" / job_id

    def party_logs(self, key: JobKey) -> Path:
        """Return the log folder of one party job."""
        return self.job_logs(key.job_id) / key.site.role.value / key.site.party_id

    def logs(self, key: TaskKey) -> Path:
        """Return the log folder of one attempt."""
        return self.party_logs(key.job) / key.component / str(key.version)

    def job_files(self, job_id: str) -> Path:
        """Return the folder with what was submitted as a job."""
        return self.shared / "jobs" / job_id

    def work(self, key: TaskKey) -> Path:
        """Return the work folder of one attempt; one level, since creating folders is expensive."""
        name = f"{key.site.key}-{key.component}-{key.version}"
        return self.shared / "jobs" / key.job_id / name

    def written(self) -> dict[str, Path]:
        """Return the folders that a running server writes to, by the names of their settings."""
        return {
            "home": self.home,  # the SQLite file is here
            "shared_home": self.shared,
            "tables": self.tables,
            "models": self.model_blobs.parent,
            "jobs": self.job_files("-").parent,
            "logs": self.job_logs("-").parent,
            "uploads": self.uploads,
            "spool": self.spool,
        }

    def all(self) -> tuple[Path, ...]:
        """Return the folders that must exist before the server starts."""
        return (
            self.home,
            self.shared,
            self.tables,
            self.spool,
            self.uploads,
            self.model_blobs,
            self.model_archives,
            self.run,
            self.job_logs("-").parent,
            self.server_logs,
        )
