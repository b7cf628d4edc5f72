"""What a server does about files of `run/` that somebody removed."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.start import HomeInUse, HomeNotUsable
from fedflow.base.home import HomeLock, OwnFile
from fedflow.server.health import OwnParts


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path)


def test_a_removed_lock_is_taken_again_before_anybody_else_takes_it(folders: Folders) -> None:
    with closing(HomeLock(folders.home)) as lock:
        parts = OwnParts()
        parts.keep({"lock": lock})
        (folders.run / "lock").unlink()
        assert parts.faults() == ["files: run/lock was removed; it is made anew within seconds"]
        parts.look()
        assert parts.faults() == []
        with pytest.raises(HomeInUse):
            HomeLock(folders.home)


def test_nothing_is_touched_in_a_home_that_another_server_took(folders: Folders) -> None:
    with ExitStack() as stack:
        lock = stack.enter_context(closing(HomeLock(folders.home)))
        file = OwnFile(folders.run / "server.json", "mine")
        parts = OwnParts()
        parts.keep({"lock": lock})
        parts.keep({"server.json": file})
        (folders.run / "lock").unlink()
        other = stack.enter_context(closing(HomeLock(folders.home)))
        parts.look()
        assert not (folders.run / "server.json").exists()
        assert not other.is_lost()
        (taken,) = parts.faults()
        assert taken.startswith("files: run/lock was removed, and cannot be made anew: Another")
        (folders.run / "server.json").write_text("theirs")
        file.remove()
        assert (folders.run / "server.json").read_text() == "theirs"


def test_a_file_that_cannot_be_written_holds_no_other_up(folders: Folders) -> None:
    folders.run.mkdir(parents=True)
    parts = OwnParts()
    below = OwnFile(folders.run / "a folder that is not there" / "a", "1")
    parts.keep({"a": below, "b": OwnFile(folders.run / "b", "2")})
    parts.look()
    assert (folders.run / "b").read_text() == "2"
    (fault,) = parts.faults()
    assert fault.startswith("files: run/a was removed, and cannot be made anew: The home folder")
    with pytest.raises(HomeNotUsable):
        below.restore()
