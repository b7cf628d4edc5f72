"""What each noun of the API is about, for readers of its description."""

from __future__ import annotations

from typing import Final

TAGS: Final = {
    "board": "Accounts of people who sign in to the board.",
    "checkpoint": "Models that were saved while a task was running.",
    "component": "The component modules that jobs are made of.",
    "data": "Files that become tables, and tables that become files.",
    "docs": "This description.",
    "fateboard": "The responses of FATE-Board's endpoints, for programs that use them.",
    "forward": "Requests that are forwarded to a registered server.",
    "info": "Who this server is, and whether others can be reached.",
    "job": "Submit, show, stop and repeat jobs and their tasks.",
    "key": "Public keys of other parties.",
    "log": "Single log files of a job, by lines.",
    "model": "Trained models: deploy, migrate, tag, show.",
    "openapi": "This description.",
    "operation": "Configurations of jobs, for programs beside this server.",
    "party": "Other parties: whether they can be reached.",
    "permission": "What other parties may use at this server.",
    "pipeline": "How the components of a job depend on each other.",
    "provider": "Where component modules come from.",
    "rendezvous": "Runs of rendezvous, where members agree on who takes part.",
    "resource": "Cores and memory, and which jobs hold them.",
    "server": "This server and others that it knows.",
    "service": "HTTP services that were registered at this server.",
    "table": "This party's data sets.",
    "template": "Examples to start from.",
    "tracking": "What jobs produced: metrics, models, tables, summaries.",
    "version": "Versions of the software.",
    "worker": "Configurations, for programs beside this server.",
}
"""First word of the path below `/v1` -> sentence."""
