"""The file that keeps a server's own time over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.base.clock import LivedTime, SteadyClock
from fedflow.server.lived_time import KEEP_S, LivedTimeFile
from tests.unit.base.test_steady_clock import Machine

DAY_S = 86_400
YEAR_BEHIND_S = 400 * DAY_S


def begin(path: Path, machine: Machine) -> tuple[SteadyClock, LivedTimeFile]:
    """Return the clock of a server that starts now, and its file."""
    clock = SteadyClock(machine)
    file = LivedTimeFile(path, clock)
    file.resume()
    clock.tick()
    return clock, file


def live(machine: Machine, clock: SteadyClock, file: LivedTimeFile, seconds: int) -> None:
    for _ in range(seconds):
        machine.live(1)
        clock.tick()
        file.keep()


def test_a_corrected_clock_does_not_make_time_jump_at_the_next_start(tmp_path: Path) -> None:
    """It was 400 days behind: a job of then must not be 400 days old after the restart."""
    path, machine = tmp_path / "lived-time", Machine()
    clock, file = begin(path, machine)
    live(machine, clock, file, 5)
    machine.step(YEAR_BEHIND_S)
    live(machine, clock, file, 1)  # at once: the next kill may come soon
    before_ms = clock.now_ms()
    machine.live(30)  # it is down
    again, file = begin(path, machine)
    assert 25_000 <= again.now_ms() - before_ms <= 35_000
    live(machine, again, file, 100)
    assert 120_000 <= again.now_ms() - before_ms <= 160_000  # it still comes after slowly


def test_time_goes_on_between_the_start_and_the_first_beat(tmp_path: Path) -> None:
    path, machine = tmp_path / "lived-time", Machine()
    path.write_text(f"{machine.wall_ms - 1_000_000} {machine.wall_ms}\n")
    clock = SteadyClock(machine)
    LivedTimeFile(path, clock).resume()
    machine.live(60)
    assert clock.now_ms() == machine.wall_ms - 1_000_000
    assert clock.tick().still_s == 0


@pytest.mark.parametrize("step_s", [YEAR_BEHIND_S, -YEAR_BEHIND_S])
def test_a_clock_that_is_put_back_or_forward_lets_time_go_back_by_seconds_at_most(
    tmp_path: Path, step_s: int
) -> None:
    path, machine = tmp_path / "lived-time", Machine(wall_ms=10**12)
    clock, file = begin(path, machine)
    machine.step(step_s)
    live(machine, clock, file, 3)
    before_ms = clock.now_ms()
    machine.step(-step_s)  # while it is down
    again, file = begin(path, machine)
    assert again.now_ms() >= before_ms - 1.25 * KEEP_S * 1000  # since it was written


def test_nothing_is_written_while_both_times_agree_and_the_file_goes_once_they_do(
    tmp_path: Path,
) -> None:
    path, machine = tmp_path / "lived-time", Machine()
    clock, file = begin(path, machine)
    live(machine, clock, file, 20)
    assert not path.exists()
    machine.step(8)
    live(machine, clock, file, 1)
    assert path.exists()
    live(machine, clock, file, 40)
    assert not path.exists()


def test_it_is_written_once_in_some_seconds_and_a_full_disk_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, machine = tmp_path / "lived-time", Machine()
    clock, file = begin(path, machine)
    machine.step(DAY_S)
    live(machine, clock, file, 1)
    written = path.read_text()
    live(machine, clock, file, int(KEEP_S) - 1)
    assert path.read_text() == written
    live(machine, clock, file, 1)
    assert path.read_text() != written
    nowhere = LivedTimeFile(tmp_path / "no" / "folder", clock)
    nowhere.keep()
    nowhere.keep()
    assert len([r for r in caplog.records if "could not be written" in r.getMessage()]) == 1


@pytest.mark.parametrize("text", ["", "1", "a b", "1 2 3"])
def test_a_damaged_file_counts_as_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path, machine = tmp_path / "lived-time", Machine()
    path.write_text(text)
    clock, _ = begin(path, machine)
    assert clock.lived() == LivedTime(machine.wall_ms, machine.wall_ms)
    assert "is not used" in caplog.text
