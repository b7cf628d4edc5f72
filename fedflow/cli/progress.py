"""A job's progress while somebody waits: a live table on a terminal, else a line per change."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedflow.base.clock import Clock, SystemClock
from fedflow.cli.output import Output, cell, clean, console, duration, place, table_of
from fedflow.wire.api.jobs import JobStatusView, TaskView

_STEP = 0.25  #: progress of a running task is printed in steps of this size


class JobProgress:
    """Shows how a job gets on; call it with every new view of the job."""

    def __init__(self, out: Output, *, clock: Clock | None = None) -> None:
        self._out = out
        self._clock = clock or SystemClock()
        self._seen: JobStatusView | None = None
        self._told: dict[tuple[str, str], str] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._out.is_live:
            self._live = Live(get_renderable=self._render, console=console(), refresh_per_second=5)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, view: JobStatusView) -> None:
        self._seen = view
        if self._live is None:
            for line in self._changes(view):
                self._out.note(line)

    # --- lines ----------------------------------------------------------------------------------

    def _changes(self, view: JobStatusView) -> list[str]:
        """Return a line for everything that differs from what was printed before."""
        lines = []
        waits = f": {view.reason}" if view.reason and not view.succeeded else ""
        if self._is_news(("", ""), view.status + waits):
            lines.append(f"job {view.job_id} {view.status}{waits}")
        for task in view.tasks:
            status = task.status
            if status == "waiting" and (task.component, task.site) not in self._told:
                self._told[task.component, task.site] = status
            elif self._is_news((task.component, task.site), status + _step(task)):
                shown = f"{status}{_step(task)}{_took(task)}"
                lines.append(f"  {task.component} {place(task.site)} {shown}")
        return lines

    def _is_news(self, key: tuple[str, str], text: str) -> bool:
        if self._told.get(key) == text:
            return False
        self._told[key] = text
        return True

    # --- the live table -------------------------------------------------------------------------

    def _render(self) -> Group | Text:
        view = self._seen
        if view is None:
            return Text("")
        return Group(self._headline(view), progress_table(view))

    def _headline(self, view: JobStatusView) -> Text:
        until_ms = view.ended_ms if view.ended_ms is not None else self._clock.now_ms()
        elapsed = duration(max(0, until_ms - view.created_ms) / 1000)
        text = Text.assemble("job ", view.job_id, "  ", cell(view.status), f"  {elapsed}")
        if view.reason and not view.succeeded:
            text.append(f"  {clean(str(view.reason))}", style="dim")
        return text


def progress_table(view: JobStatusView) -> Table:
    """Return a table with a row per component and a column per site."""
    tasks = {(task.component, task.site): task for task in view.tasks}
    names = view.components or tuple(dict.fromkeys(task.component for task in view.tasks))
    rows = [[name, *(_cell(tasks.get((name, site))) for site in view.sites)] for name in names]
    return table_of(["component", *(place(site) for site in view.sites)], rows)


def _cell(task: TaskView | None) -> Text:
    if task is None:
        return Text("")
    percent = f" {task.progress:.0%}" if task.status == "running" and task.progress else ""
    return cell(f"{task.status}{percent}{_took(task)}")


def _took(task: TaskView) -> str:
    return f" {duration(task.elapsed_s)}" if task.elapsed_s is not None else ""


def _step(task: TaskView) -> str:
    step = int(task.progress / _STEP)
    return f" {step * _STEP:.0%}" if task.status == "running" and step else ""
