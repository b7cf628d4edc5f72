"""Archives of a hostile server write nothing outside, and nothing at all."""

from __future__ import annotations

import gzip
import io
import tarfile

import pytest

from fedflow.base.errors.data import BadData
from fedflow.client.archive import unpack


def _member(name, content=b"x", *, kind=tarfile.REGTYPE, link=""):
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = link
    member.size = len(content) if kind == tarfile.REGTYPE else 0
    member.mode = 0o7777
    member.uid = 0
    return member, content


def _archive(path, *members):
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content) if member.isreg() else None)
    return path


def _below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_files_and_folders_are_unpacked_in_order(tmp_path):
    archive = _archive(
        tmp_path / "a.tgz",
        _member("guest/9999/b/0/INFO.log", b"hello"),
        _member("guest/9999/a", kind=tarfile.DIRTYPE),
    )
    (file,) = unpack(archive, tmp_path / "new" / "out")
    assert file.read_bytes() == b"hello"
    assert file.is_relative_to((tmp_path / "new" / "out").resolve())
    assert file.stat().st_mode & 0o7022 == 0


def test_python_without_filters_of_archives_unpacks_too(tmp_path, monkeypatch):
    for name in ("data_filter", "FilterError"):  # since 3.11.4
        monkeypatch.delattr(tarfile, name, raising=False)
    (file,) = unpack(_archive(tmp_path / "a.tgz", _member("a/b", b"hello")), tmp_path / "out")
    assert file.read_bytes() == b"hello"


def test_a_link_that_leads_out_of_the_folder_is_not_followed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadData, match="outside"):
        unpack(_archive(tmp_path / "a.tgz", _member("a/b")), tmp_path / "out")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "bad",
    [
        _member("../evil"),
        _member("/etc/evil"),
        _member("a/../../evil"),
        _member("link", kind=tarfile.SYMTYPE, link="/etc/passwd"),
        _member("link", kind=tarfile.SYMTYPE, link="fine"),
        _member("hard", kind=tarfile.LNKTYPE, link="../../etc/passwd"),
        _member("device", kind=tarfile.CHRTYPE),
        _member("pipe", kind=tarfile.FIFOTYPE),
    ],
    ids=lambda pair: f"{pair[0].name}-{pair[0].type.decode()}",
)
def test_one_bad_member_refuses_the_whole_archive(tmp_path, bad):
    archive = _archive(tmp_path / "a.tgz", _member("fine"), bad)
    target = tmp_path / "out"
    with pytest.raises(BadData, match="archive"):
        unpack(archive, target)
    assert _below(target) == []
    assert _below(tmp_path) == ["a.tgz", "out"]


def test_too_many_members_are_refused(tmp_path):
    archive = _archive(tmp_path / "a.tgz", *(_member(str(i)) for i in range(4)))
    with pytest.raises(BadData, match="more than 3 members"):
        unpack(archive, tmp_path / "out", max_members=3)


def test_a_bomb_is_refused_by_its_unpacked_size(tmp_path):
    archive = _archive(tmp_path / "a.tgz", _member("zeros", b"\0" * 1_000_000))
    with pytest.raises(BadData, match="more than 1000 bytes"):
        unpack(archive, tmp_path / "out", max_bytes=1000)
    assert _below(tmp_path / "out") == []


@pytest.mark.parametrize("content", [b"", b"no archive", gzip.compress(b"no tar" * 200, mtime=0)])
def test_what_is_no_archive_is_bad_data(tmp_path, content):
    archive = tmp_path / "a.tgz"
    archive.write_bytes(content)
    with pytest.raises(BadData):
        unpack(archive, tmp_path / "out")


def test_an_archive_that_was_cut_off_is_bad_data(tmp_path):
    import random

    noise = random.Random(1).randbytes(50_000)
    archive = _archive(tmp_path / "a.tgz", _member("noise", noise))
    archive.write_bytes(archive.read_bytes()[:20_000])
    with pytest.raises(BadData):
        unpack(archive, tmp_path / "out")
