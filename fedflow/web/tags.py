"""What each noun of the API is about, for readers of its description."""

from __future__ import annotations

from typing import Final

TAGS: Final = {
    "board": "Accounts of people who sign in to the board.",
    "checkpoint": "Models as they stood while a task was running.",
    "component": "The component modules that jobs are made of.",
    "data": "Files that become tables, and tables that become files.",
    "docs": "This description.",
    "fateboard": "What FATE-Board's endpoints answer, for programs that ask those.",
    "forward": "Requests that are passed on to a registered server.",
    "info": "Who this server is, and whether others can be reached.",
    "job": "Submit, look at, stop and repeat jobs and their tasks.",
    "key": "Public keys of other parties.",
    "log": "Single log files of a job, by lines.",
    "model": "Trained models: deploy, move, tag, look at.",
    "openapi": "This description.",
    "operation": "Configurations of jobs, for programs beside this server.",
    "party": "Other parties: whether they can be reached.",
    "permission": "What other parties may use here.",
    "pipeline": "How the components of a job depend on each other.",
    "provider": "Where component modules come from.",
    "resource": "Cores and memory, and which jobs hold them.",
    "server": "This server and others that it knows.",
    "service": "HTTP services that were registered here.",
    "table": "This party's data sets.",
    "template": "Examples to start from.",
    "tracking": "What jobs produced: metrics, models, tables, summaries.",
    "version": "Versions of the software.",
    "worker": "Configurations, for programs beside this server.",
}
"""First word of the path below `/v1` -> sentence."""
