"""How an upload gets on: a bar on a terminal, else a line every ten seconds on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import click
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from fedflow.base.clock import Clock, SystemClock
from fedflow.cli.output import Output, clean, console
from fedflow.wire.api.jobs import JobStatusView

_PAUSE_S: Final = 10.0  #: between two lines


class UploadProgress:
    """Shows both halves: the file is sent, then a job makes the table. Short ones print no line."""

    def __init__(
        self, out: Output, *, file: str, size_bytes: int, clock: Clock | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._said_s = self._clock.monotonic_s()
        self._silent = out.as_json
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
        )
        self._bar = Progress(*columns, console=console(), disable=not out.is_live, transient=True)
        self._is_live = out.is_live
        self._sending = f"sending {clean(file)}"
        self._line = self._bar.add_task(self._sending, total=1.0)
        self.sent(0, size_bytes)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def sent(self, sent_bytes: int, size_bytes: int) -> None:
        """Show how much of the file has been sent."""
        share = sent_bytes / size_bytes if size_bytes else 1.0
        sizes = f"{sent_bytes / 1e6:.1f} of {size_bytes / 1e6:.1f} MB"
        self._show(f"{self._sending}, {sizes}", share)

    def made(self, view: JobStatusView) -> None:
        """Show how far the job is that makes the table."""
        share = max((task.progress for task in view.tasks), default=0.0)
        self._show(f"creating the table, job {view.job_id} {clean(view.status)}", share)

    def _show(self, text: str, share: float) -> None:
        self._bar.update(self._line, description=text, completed=share)
        now_s = self._clock.monotonic_s()
        if not self._is_live and not self._silent and now_s - self._said_s >= _PAUSE_S:
            self._said_s = now_s
            click.echo(f"{text}, {share:.0%}", err=True)
