"""A job's progress while somebody waits: a live table on a terminal, else a line per change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedflow.base.clock import Clock, SystemClock
from fedflow.cli.output import Output, cell, clean, console, duration, place, table_of
from fedflow.domain.states import TASK_FINAL
from fedflow.wire.api.jobs import FOLLOWERS, JobStatusView, TaskView

_STEP = 0.25  #: progress of a running task is printed in steps of this size
_TIMES_S = (5, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""After which times it is printed that a task runs, if its progress says nothing, seconds."""
_ENDED: Final = frozenset(status.value for status in TASK_FINAL)

WhyAgain = Callable[[str, int], str | None]
"""(component, version of an attempt) -> why the attempt failed, None if nobody knows."""


class JobProgress:
    """Shows how a job gets on; call it with every new view of the job. How it ended is not shown:
    who waits says that, after the last task's line.
    """

    def __init__(
        self, out: Output, *, why_again: WhyAgain | None = None, clock: Clock | None = None
    ) -> None:
        """`why_again` is asked if an attempt failed between two views."""
        self._out = out
        self._why_again = why_again
        self._clock = clock or SystemClock()
        self._seen: JobStatusView | None = None
        self._told: dict[tuple[str, str], str] = {}
        self._versions: dict[str, int] = {}
        self._again: dict[str, str] = {}
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
        again = list(self._tried_again(view))
        self._seen = view
        if self._live is None:
            for line in self._changes(view, again):
                self._out.note(line)

    # --- lines ----------------------------------------------------------------------------------

    def _changes(self, view: JobStatusView, again: list[str]) -> list[str]:
        """Return a line for everything that differs from what was printed before."""
        lines = []
        waits = f": {view.reason}" if view.reason else ""
        if not view.is_final and self._is_news(("", ""), view.status + waits):
            lines.append(f"job {view.job_id} {view.status}{waits}")
        lines += [f"  {line}" for line in again]
        for task in view.tasks:
            key, status = (task.component, task.site), task.status
            if status == "waiting" and (key not in self._told or task.version):
                self._told[key] = status
            elif status in _ENDED and task.ended_ms is None and not view.is_final:
                continue  # a later view knows how long it took
            elif self._is_news(key, status + _step(task)):
                shown = f"{status}{_step(task)}{_took(task)}{_code(task)}"
                lines.append(f"  {task.component} {place(task.site)} {shown}")
        return lines

    def _is_news(self, key: tuple[str, str], text: str) -> bool:
        if self._told.get(key) == text:
            return False
        self._told[key] = text
        return True

    # --- further attempts -----------------------------------------------------------------------

    def _tried_again(self, view: JobStatusView) -> Iterator[str]:
        """Yield a line for each component that is tried again since the last view, with why."""
        for task in view.tasks:
            known = self._versions.get(task.component)
            self._versions[task.component] = max(task.version, known or 0)
            if known is None or task.version <= known:
                continue
            why = self._why_failed(task.component, known)
            self._again[task.component] = f"attempt {task.version}{f': {why}' if why else ''}"
            yield f"{task.component} is tried again, {self._again[task.component]}"

    def _why_failed(self, component: str, version: int) -> str | None:
        """Return why an attempt failed: the reason of the site where that began."""
        tasks = self._seen.tasks if self._seen is not None else ()
        failed = [
            task
            for task in tasks
            if (task.component, task.version) == (component, version)
            if task.reason is not None and task.status in _ENDED
        ]
        if failed:
            first = min(failed, key=lambda t: t.reason is not None and t.reason.code in FOLLOWERS)
            if first.reason is not None and first.reason.code not in FOLLOWERS:
                where = place(first.reason.site or first.site)  # it may have followed another site
                return f"{where}, {first.reason.code}: {first.reason.message}"
        return None if self._why_again is None else self._why_again(component, version)

    # --- the live table -------------------------------------------------------------------------

    def _render(self) -> Group | Text:
        view = self._seen
        if view is None:
            return Text("")
        again = [
            Text(clean(f"{name}: {text}"), style="yellow") for name, text in self._again.items()
        ]
        return Group(self._headline(view), progress_table(view), *again)

    def _headline(self, view: JobStatusView) -> Text:
        until_ms = view.ended_ms if view.ended_ms is not None else self._clock.now_ms()
        elapsed = duration(max(0, until_ms - view.created_ms) / 1000)
        text = Text.assemble("job ", view.job_id, "  ", cell(view.status), f"  {elapsed}")
        if view.reason and not view.is_final:
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
    running_s = (task.running_ms or 0) / 1000
    time = f" {duration(running_s)}" if running_s >= _TIMES_S[0] else _took(task)
    return cell(f"{task.status}{percent}{time}")


def _took(task: TaskView) -> str:
    return f" {duration(task.elapsed_s)}" if task.elapsed_s is not None else ""


def _code(task: TaskView) -> str:
    """Return the short word for why a task failed; who waits prints the sentence at the end."""
    if task.reason is None or task.status not in ("failed", "timeout"):
        return ""
    return f", {task.reason.code}"


def _step(task: TaskView) -> str:
    """Return how far a running task is, or for how long it has been running."""
    if task.status != "running":
        return ""
    if step := int(task.progress / _STEP):
        return f" {step * _STEP:.0%}"
    passed = [time_s for time_s in _TIMES_S if (task.running_ms or 0) >= 1000 * time_s]
    return f" for {duration(passed[-1])}" if passed else ""
