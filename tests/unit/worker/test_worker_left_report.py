"""What a worker does with its result if its server stays away."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.start import ServerNotReachable
from fedflow.components.registry import load_registry
from fedflow.wire.task_report import EndReport, RunningReport
from fedflow.wire.undelivered_reports import left_report
from fedflow.worker import run
from fedflow.worker.spec import read_spec
from tests.support.executors import write_launch


class GoneAtTheEnd:
    """A server that hears of the start and then stays away."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._calls = 0

    def report(self, _: RunningReport | EndReport) -> None:
        self._calls += 1
        if self._calls > 1:
            raise ServerNotReachable(address="s", reason="connection refused")

    def close(self) -> None:
        return


def test_a_result_that_no_server_takes_is_left_in_the_work_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = write_launch(tmp_path, launch_id="a", module="Empty", server_socket=tmp_path / "s")
    launch.work_dir.mkdir()
    monkeypatch.setattr(run, "ServerLink", GoneAtTheEnd)
    with pytest.raises(ServerNotReachable):
        run._run(read_spec(launch.spec_path), load_registry())
    left = left_report(launch.work_dir, "a")
    assert left is not None
    assert (left["launch_id"], left["party_status"]) == ("a", "success")
    (file,) = launch.work_dir.glob("report-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
