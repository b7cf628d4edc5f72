"""Paths of requests: below the declared folders, or refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.base.errors.data import FileNotAllowed, PlaceNotAllowed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    return allowed


@pytest.fixture
def allowed(folder: Path) -> AllowedFolders:
    return AllowedFolders((folder,))


def test_a_relative_path_is_below_an_allowed_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = tmp_path / "second"
    for place, name in ((folder, "a.csv"), (second, "b.csv")):
        (place / "data").mkdir(parents=True)
        (place / "data" / name).write_text("id\n")
    monkeypatch.chdir(second)
    allowed = AllowedFolders((folder, second))
    assert allowed.existing_file("data/a.csv") == folder / "data" / "a.csv"
    assert allowed.existing_file("data/b.csv") == second / "data" / "b.csv"
    with pytest.raises(FileNotAllowed):
        AllowedFolders((folder,)).existing_file("data/b.csv")
    assert allowed.new_file("new/c.csv") == folder / "new" / "c.csv"


HOSTILE = [
    "/etc/passwd", "../outside.csv", "a/../../outside.csv", "a\0b", "x" * 5000, "/" + "y/" * 3000,
    "", " ", ".", "..", "/", "//etc/passwd", "link-out", "link-dir/x.csv", "loop",
]  # fmt: skip


@pytest.fixture
def traps(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "outside.csv").write_text("id\n1\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.csv").write_text("id\n1\n")
    (folder / "link-out").symlink_to(tmp_path / "outside.csv")
    (folder / "link-dir").symlink_to(tmp_path / "elsewhere")
    (folder / "loop").symlink_to(folder / "loop")


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_path_is_neither_read_nor_written(
    allowed: AllowedFolders, folder: Path, traps: None, path: str
) -> None:
    for one in (path, f"{folder}/{path}") if not path.startswith("/") else (path,):
        with pytest.raises(FileNotAllowed) as read:
            allowed.existing_file(one)
        with pytest.raises(PlaceNotAllowed):
            allowed.new_file(one)
        assert len(read.value.message) < 400


def test_nothing_is_allowed_without_folders() -> None:
    none = AllowedFolders(())
    for path in ("/etc/passwd", "x", "."):
        with pytest.raises(FileNotAllowed):
            none.existing_file(path)
        with pytest.raises(PlaceNotAllowed):
            none.new_file(path)


def test_only_a_regular_file_may_be_replaced(allowed: AllowedFolders, folder: Path) -> None:
    (folder / "old.csv").write_text("x")
    (folder / "dir").mkdir()
    os.mkfifo(folder / "pipe")
    assert allowed.new_file("old.csv") == folder / "old.csv"
    for path in ("dir", "dir/", "pipe", "old.csv/below", str(folder)):
        with pytest.raises(PlaceNotAllowed):
            allowed.new_file(path)
    with pytest.raises(FileNotAllowed):
        allowed.existing_file("pipe")


def test_a_link_that_stays_inside_is_followed(allowed: AllowedFolders, folder: Path) -> None:
    (folder / "true.csv").write_text("id\n")
    (folder / "link.csv").symlink_to("true.csv")
    assert allowed.existing_file("link.csv") == folder / "true.csv"
    assert allowed.new_file("link.csv") == folder / "true.csv"
