"""Whether a server can run jobs: its parts, and the space on its disks."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedflow.app.administration.info import MIB, Disks, Info, Probes, ServerIdentity
from fedflow.app.protocol.folders import Folders
from fedflow.domain.job.engines import STANDALONE, OwnEngines
from tests.memory_store import MemoryStore
from tests.unit.app.fakes import FakeClock

PLACE = ServerIdentity(
    host="h", http_port=1, grpc_host="h", grpc_port=2, party_id=None, insecure=False
)


def info(disks: Disks, *, engine: bool = True, executor: str = "") -> Info:
    store = MemoryStore()
    if engine:
        with store.transaction() as tx:
            tx.engines.put(STANDALONE, 4, now_ms=1)
    return Info(
        store=store, engines=OwnEngines(), place=PLACE, clock=FakeClock(),
        probes=Probes(executor_fault=lambda: executor, disks=disks or Disks()),
    )  # fmt: skip


def disk_with(monkeypatch: pytest.MonkeyPatch, free_bytes: int, *, files: int = 9) -> None:
    found = SimpleNamespace(f_bavail=free_bytes, f_frsize=1, f_files=9, f_favail=files)
    monkeypatch.setattr(os, "statvfs", lambda _: found)


def test_a_server_with_space_is_ready_and_tells_how_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_with(monkeypatch, 1000)
    ready, parts = info(Disks({"home": tmp_path}, least_bytes=1000)).ready()
    assert (ready, parts["disk"], parts["free_bytes"]) == (True, True, {"home": 1000})
    assert parts["reasons"] == []


def test_a_full_disk_is_named_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_with(monkeypatch, 256 * MIB - 1)
    ready, parts = info(Disks({"home": tmp_path}, least_bytes=256 * MIB)).ready()
    assert (ready, parts["disk"]) == (False, False)
    assert parts["reasons"] == ["home: 255 MiB are free, health.min_free_mib asks for 256"]


def test_a_disk_without_room_for_a_file_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_with(monkeypatch, 10**9, files=0)
    assert Disks({"home": tmp_path}).free() == {"home": 0}


def test_folders_of_one_disk_count_once_and_missing_ones_not_at_all(tmp_path: Path) -> None:
    folders = Folders(tmp_path, tmp_path / "shared")
    assert list(Disks(folders.written()).free()) == ["home"]


def test_a_folder_that_cannot_be_looked_at_has_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "statvfs", fails)
    disks = Disks({"shared_home": tmp_path}, least_bytes=1)
    assert disks.free() == {"shared_home": 0}
    assert info(disks).ready()[0] is False


def test_every_reason_is_told() -> None:
    ready, parts = info(Disks(), engine=False, executor="it is starting").ready()
    assert not ready
    assert parts["reasons"] == ["store: it has no engine", "executor: it is starting"]
    assert (parts["executor"], parts["starting"]) == (False, True)


def test_a_folder_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = Folders(tmp_path)
    for folder in folders.all():
        folder.mkdir(parents=True, exist_ok=True)
    disks = Disks(folders.written())
    assert disks.closed() == []
    closed = {folders.tables, folders.home / "logs"}
    monkeypatch.setattr(os, "access", lambda path, _: path not in closed)
    ready, parts = info(disks).ready()
    assert (ready, parts["disk"], parts["closed"]) == (False, True, ["tables", "logs"])
    assert [reason.split(":")[0] for reason in parts["reasons"]] == ["tables", "logs"]
    assert str(tmp_path) not in str(parts["reasons"])
