"""The use cases of one server in one value, for the doors."""

from __future__ import annotations

from dataclasses import dataclass

from fedflow.app.commands import Commands
from fedflow.app.info import Info
from fedflow.app.jobs import Jobs
from fedflow.app.modules import Modules
from fedflow.app.submissions import Submissions
from fedflow.app.tables import Tables
from fedflow.app.tracking import Tracking
from fedflow.app.uploads import Uploads
from fedflow.app.workers import Workers


@dataclass(frozen=True, kw_only=True, slots=True)
class Services:
    """What HTTP and gRPC may call."""

    commands: Commands
    info: Info
    jobs: Jobs
    submissions: Submissions
    modules: Modules
    tables: Tables
    tracking: Tracking
    uploads: Uploads
    workers: Workers
