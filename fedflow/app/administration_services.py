"""The use cases of administrators in one value, for the doors, and reloading the settings."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from fedflow.app.administration.accounts import Accounts
from fedflow.app.administration.keys import Keys
from fedflow.app.administration.permissions import Permissions
from fedflow.app.administration.providers import Providers
from fedflow.app.administration.registry import Registry
from fedflow.app.administration.templates import Templates
from fedflow.app.initiator.neighbours import Neighbours
from fedflow.app.logs.job_logs import JobLogs
from fedflow.app.queries.job_files import JobFiles
from fedflow.base.errors.requests import ReloadRefused
from fedflow.base.public_settings import PublicSetting
from fedflow.base.values import dataclass
from fedflow.domain.job.parameters import JobParameters


@dataclass(frozen=True, kw_only=True, slots=True)
class Administration:
    """What HTTP may call. `read_again` puts the settings of the conf in force."""

    accounts: Accounts
    permissions: Permissions
    keys: Keys
    job_logs: JobLogs
    providers: Providers
    registry: Registry
    templates: Templates
    job_files: JobFiles
    neighbours: Neighbours
    call_timeout_s: float
    upload_max_bytes: int
    read_again: Callable[[], None] | None = None
    settings: Callable[[], Sequence[PublicSetting]] = tuple  #: in force, as far as people may see
    _reloading: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def reload(self) -> dict[str, Any]:
        """Read the conf again and put in force what needs no restart; return the job defaults.

        Routes to parties, permissions and `servers` are put in force.
        Raises: BadSetting: the conf is wrong, nothing was changed. ReloadRefused: there is no conf.
        """
        if self.read_again is None:
            raise ReloadRefused(reason="this server was started without a conf that can be read")
        with self._reloading:
            self.read_again()
        return self.job_defaults()

    def job_defaults(self) -> dict[str, Any]:
        """Return the defaults of job parameters under FATE's names, times in FATE's units."""
        defaults = JobParameters()
        return {
            "task_parallelism": defaults.task_parallelism,
            "task_cores": defaults.task_cores,
            "task_memory": defaults.task_memory,
            "max_cores_percent_per_job": 1,
            "job_timeout": defaults.timeout,
            "remote_request_timeout": int(self.call_timeout_s * 1000),
            "auto_retries": defaults.auto_retries,
            "auto_retry_delay": defaults.auto_retry_delay,
            "federated_status_collect_type": defaults.federated_status_collect_type,
            "output_data_summary_count_limit": 100,
            "upload_block_max_bytes": self.upload_max_bytes,
        }
