"""Whether a server can run jobs: its parts, and the space on its disks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedflow.app.administration import bounded
from fedflow.app.administration import info as info_of
from fedflow.app.administration.info import (
    KEEP_S,
    MIB,
    NOT_STORED,
    Disks,
    Info,
    Probes,
    ServerIdentity,
)
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.store import StoreUnavailable
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


# --- what was seen to work ------------------------------------------------------------------------


class Trouble(MemoryStore):
    """A store whose changes fail with `error`, or wait for `gate`."""

    def __init__(self) -> None:
        super().__init__()
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.changes = 0
        with super().transaction() as tx:
            tx.engines.put(STANDALONE, 4, now_ms=1)

    @contextmanager
    def transaction(self) -> Iterator[Tx]:
        self.changes += 1
        assert self.gate.wait(30)
        if self.error is not None:
            raise self.error
        with super().transaction() as tx:
            yield tx


def over(store: Trouble, disks: Disks | None = None) -> Info:
    return Info(
        store=store, engines=OwnEngines(), place=PLACE, clock=FakeClock(),
        probes=Probes(
            executor_fault=str, disks=disks or Disks(),
            warnings=lambda: ["descriptors: 900 of 1000 are used"],
        ),
    )  # fmt: skip


def ago(server: Info) -> None:
    """Let what was seen be too old to count, without waiting for that."""
    server._stored_s = server._written_s = -KEEP_S


def test_a_store_that_can_be_read_only_is_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    store = Trouble()
    server = over(store)
    assert server.ready()[0]
    server.require_store()
    store.error = StoreUnavailable(reason="/home/x/fedflow.sqlite: the disk reports an error")
    ago(server)
    ready, parts = server.ready()
    assert (ready, parts["store"], parts["cores"]["total"]) == (False, False, 4)
    assert parts["reasons"] == [f"store: {NOT_STORED}"]
    assert "/home/x" in caplog.text
    with pytest.raises(StoreUnavailable):
        server.require_store()
    store.error = None
    assert server.ready()[0]
    server.require_store()


def test_the_store_is_written_to_once_in_two_seconds_however_many_ask() -> None:
    store = Trouble()
    server = over(store)
    for _ in range(20):
        assert server.ready()[0]
        server.require_store()
    assert store.changes == 1


def test_a_store_that_hangs_is_a_fault_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "SEEN_S", 0.0)
    monkeypatch.setattr(info_of, "ANSWER_S", 0.1)
    store = Trouble()
    server = over(store)
    store.gate.clear()
    for _ in range(3):
        begun_s = time.monotonic()
        ready, parts = server.ready()
        assert time.monotonic() - begun_s < 60.0
        assert (ready, parts["store"]) == (False, False)
        assert parts["reasons"][0].startswith("store: it has not answered for")
    assert store.changes == 1  # nobody else waits behind the one that hangs
    store.gate.set()
    monkeypatch.setattr(bounded, "SEEN_S", 5.0)
    monkeypatch.setattr(info_of, "ANSWER_S", 5.0)
    assert server.ready()[0]


def test_a_folder_in_which_no_file_can_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = Folders(tmp_path)
    for folder in folders.all():
        folder.mkdir(parents=True, exist_ok=True)
    server = over(Trouble(), Disks(folders.written()))
    assert server.ready()[0]
    assert not list(tmp_path.glob(".health*"))

    def fails(_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "fsync", fails)
    ago(server)
    ready, parts = server.ready()
    assert (ready, parts["disk"]) == (False, False)
    assert parts["reasons"] == ["home: no file can be written: Read-only file system"]
    assert not list(tmp_path.glob(".health*"))


def test_what_should_be_looked_at_is_told_of_a_ready_server() -> None:
    ready, parts = over(Trouble()).ready()
    assert (ready, parts["warnings"]) == (True, ["descriptors: 900 of 1000 are used"])
