"""The keys that encrypt credentials: made once, private, changed without loss."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from fedflow.base.errors.start import HomeNotUsable
from fedflow.store.connector_key import KeyFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "connectors.key"


def test_a_key_is_made_at_first_use_for_the_servers_user_only(path: Path) -> None:
    sealer = KeyFile(path)
    assert sealer.unseal("x") is None
    assert not path.exists()
    sealed = sealer.seal("gehéim")
    assert "geh" not in sealed
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["connectors.key"]
    assert KeyFile(path).unseal(sealed) == "gehéim"
    assert KeyFile(path).is_fresh(sealed)
    assert sealer.seal("gehéim") != sealed


def test_a_new_key_on_top_seals_and_the_old_one_still_opens(path: Path) -> None:
    sealed = KeyFile(path).seal("a")
    path.write_bytes(Fernet.generate_key() + b"\n" + path.read_bytes())
    sealer = KeyFile(path)
    assert sealer.unseal(sealed) == "a"
    assert not sealer.is_fresh(sealed)
    again = sealer.seal("a")
    assert sealer.is_fresh(again)
    path.write_bytes(path.read_bytes().splitlines()[0])
    assert KeyFile(path).unseal(again) == "a"
    assert KeyFile(path).unseal(sealed) is None
    assert KeyFile(path).is_fresh(sealed), "nothing could make it anew"


@pytest.mark.parametrize("content", [b"", b"no key\n", b"\xff\xfe", b"A" * 40 + b"\n"])
def test_a_file_that_holds_no_keys_is_refused_and_stays(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.touch(mode=0o600)
    path.write_bytes(content)
    for ask in (KeyFile(path).seal, KeyFile(path).unseal, KeyFile(path).is_fresh):
        with pytest.raises(HomeNotUsable):
            ask("x")
    assert path.read_bytes() == content


def test_a_key_that_other_users_may_read_is_refused(path: Path) -> None:
    KeyFile(path).seal("a")
    path.chmod(0o640)
    with pytest.raises(HomeNotUsable, match="600"):
        KeyFile(path).seal("a")


def test_servers_that_make_the_key_at_once_agree_on_one(path: Path) -> None:
    start = threading.Barrier(8)
    sealed: list[str] = []

    def one() -> None:
        start.wait()
        sealed.append(KeyFile(path).seal("a"))

    threads = [threading.Thread(target=one, name=f"server-{i}") for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [KeyFile(path).unseal(one) for one in sealed] == ["a"] * 8
    assert len(list(path.parent.iterdir())) == 1
