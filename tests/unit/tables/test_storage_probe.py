"""A look at a storage from another process: what it finds, refuses, and how long it may take."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from fedflow.base.decoding import decode_as
from fedflow.base.errors.data import BadData, StorageMissing, StorageUnreachable
from fedflow.base.errors.error import FedflowError
from fedflow.domain.data.storages import (
    Connection,
    HdfsFiles,
    Limits,
    LocalFiles,
    MysqlRows,
    Secrets,
)
from fedflow.tables import storage_probe
from fedflow.tables.csv_header import CsvOptions
from fedflow.tables.storage_probe import Found, StorageProbes
from fedflow.tables.storages import opening


def look(connection: Connection, **changes: Any) -> tuple[Any, tuple[tuple[str, ...], ...]]:
    how = {"head": True, "id_delimiter": ",", "makes_ids": False, **changes}
    return StorageProbes().probe(connection, **how)


def at(folder: Path, path: str = "*.parquet", **more: Any) -> Connection:
    address = LocalFiles(path=f"{folder}/{path}")
    return Connection(address=address, roots=(str(folder),), **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(2):
        table = pa.table({"x": [number, 7], "id": [f"a{number}", f"b{number}"], "y": [1.5, None]})
        parquet.write_table(table, tmp_path / f"{number}.parquet")
    return tmp_path


def test_a_look_tells_columns_and_first_rows(folder: Path) -> None:
    schema, rows = look(at(folder))
    assert (schema["kind"], schema["id"], schema["columns"]) == ("raw", "x", ["id", "y"])
    assert rows[:2] == (("0", "a0", "1.5"), ("7", "b0", ""))


def test_chosen_columns_are_looked_at_in_their_order(folder: Path) -> None:
    schema, rows = look(at(folder, id_column="id", feature_columns=("y", "x")))
    assert (schema["id"], schema["columns"]) == ("id", ["y", "x"])
    assert rows[0] == ("a0", "1.5", "0")


def test_made_ids_are_those_of_the_rows(folder: Path) -> None:
    schema, rows = look(at(folder), makes_ids=True)
    assert schema["columns"] == ["x", "id", "y"]
    assert [row[0] for row in rows[:2]] == ["0", "1"]


def test_an_error_of_the_other_process_arrives_as_itself(folder: Path) -> None:
    with pytest.raises(StorageMissing):
        look(at(folder, "none-*"))
    with pytest.raises(BadData):
        look(at(folder, id_column="z"))
    (folder / "broken.parquet").write_bytes(b"PAR1" + os.urandom(64) + b"PAR1")
    with pytest.raises(FedflowError):
        look(at(folder, "broken.parquet"))


def test_a_server_that_says_nothing_ends_the_look(folder: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = MysqlRows(host="127.0.0.1", port=silent.getsockname()[1], db="d", name="t")
        limits = Limits(connect_s=1, read_s=1, statement_s=1)
        secrets = Secrets(user="u", password="geheim")
        connection = Connection(address=address, secrets=secrets, limits=limits)
        with pytest.raises(StorageUnreachable) as info:
            look(connection)
    assert "geheim" not in str(info.value)


def test_a_look_that_takes_too_long_is_ended(folder: Path) -> None:
    looks = StorageProbes(look_s=0.01)
    connection = at(folder, limits=Limits(connect_s=0.01))
    with pytest.raises(StorageUnreachable, match="no answer within"):
        looks.probe(connection, head=True, id_delimiter=",", makes_ids=False)


def test_a_name_node_out_of_reach_is_named_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def far(*_given: Any) -> Any:
        raise StorageUnreachable(where="hdfs://inner.example.com/x", reason="no answer")

    monkeypatch.setattr(opening, "hdfs_place", far)
    address = HdfsFiles(name_node="hdfs://inner.example.com", path="/x")
    with pytest.raises(StorageUnreachable, match=r"table n\.t") as info:
        opening.open_rows(Connection(address=address), CsvOptions(), where="table n.t")
    assert "inner" not in info.value.message


def test_a_database_ends_the_query_of_a_look_that_was_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Connection] = []

    def run(given: bytes, **_how: Any) -> list[bytes]:
        asked.append(decode_as(given, storage_probe.ProbeRequest).connection)
        return [b'{"schema": {}}']

    monkeypatch.setattr(storage_probe, "_run", run)
    for statement_s, told_s in ((7200.0, 30.0), (3.0, 3.0)):
        limits = Limits(connect_s=10.0, statement_s=statement_s)
        look(at(folder, limits=limits, secrets=Secrets(password="geheim")))
        assert asked[-1].limits == Limits(connect_s=10.0, statement_s=told_s)
        assert asked[-1].secrets.password == "geheim"


def test_too_little_memory_is_an_error_of_the_data(folder: Path) -> None:
    looks = StorageProbes(memory_bytes=1 << 20)
    with pytest.raises(BadData, match="cannot be looked at"):
        looks.probe(at(folder), head=True, id_delimiter=",", makes_ids=False)


def test_credentials_stand_in_no_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    real = storage_probe.subprocess.run

    def run(words: list[str], **how: Any) -> Any:
        seen.append(words)
        return real(words, **how)

    monkeypatch.setattr(storage_probe.subprocess, "run", run)
    look(at(folder, secrets=Secrets(password="geheim")))
    assert "geheim" not in str(seen)


def test_the_other_process_gets_no_settings_of_the_server() -> None:
    given = {"PATH": "/bin", "FEDFLOW__DATABASE__PASSWD": "geheim", "AWS_SECRET_ACCESS_KEY": "x"}
    assert storage_probe._without_secrets(given) == {"PATH": "/bin"}


def test_a_strange_answer_is_no_error_of_ours(folder: Path) -> None:
    for error, fields in (
        ("Nothing", {}),
        ("BadData", {}),
        ("FedflowError", {"x": 1}),
        ("Any", {}),
    ):
        found = storage_probe._rebuilt(Found(error=error, fields=fields), "x")
        assert isinstance(found, FedflowError)
