"""Files that an executor writes for its server: nothing is left whoever is killed meanwhile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedflow.federation import spool


def test_a_file_has_no_name_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_all, seen = spool.write_all, []

    def look(fd: int, parts: list[bytes | memoryview]) -> None:
        seen.append(list(tmp_path.iterdir()))
        write_all(fd, parts)

    monkeypatch.setattr(spool, "write_all", look)
    reader = spool.write_out_file(tmp_path, [b"some", memoryview(b" bytes")])
    try:
        assert seen == [[]]
        assert os.read(reader, 100) == b"some bytes"
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(reader, b"more")
    finally:
        os.close(reader)


def test_a_full_disk_leaves_neither_file_nor_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, parts: list[bytes | memoryview]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool, "write_all", fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No space left"):
        spool.write_out_file(tmp_path, [b"some"])
    assert os.listdir("/proc/self/fd") == before
    assert list(tmp_path.iterdir()) == []
