"""Which tables are fedflow's own, and which folders may go with them."""

from __future__ import annotations

import pytest

from fedflow.domain.data.table_parts import (
    is_own,
    is_parts_folder,
    local_path,
    parts_storage,
    parts_uri,
)

ADDRESS = "0123456789abcdef" * 2


def test_only_tables_that_fedflow_made_are_its_own() -> None:
    assert is_own("STANDALONE", None)
    assert is_own("S3", parts_storage(f"s3://b/parts/{ADDRESS}"))
    assert not is_own("PATH", None)
    assert not is_own("LOCALFS", {"address": {"engine": "LOCALFS", "path": "/data"}})


@pytest.mark.parametrize("storage", [None, "parts", {}, {"parts": 3}, ["parts"]])
def test_other_storages_have_no_parts(storage: object) -> None:
    assert parts_uri(storage) is None


@pytest.mark.parametrize(
    ("uri", "address", "is_one"),
    [
        (f"/t/parts/{ADDRESS}", ADDRESS, True),
        (f"s3://bucket/parts/{ADDRESS}", ADDRESS, True),
        (f"/t/parts/{ADDRESS}/..", ADDRESS, False),
        (f"/t/{ADDRESS}", ADDRESS, False),
        ("/t/parts/..", "..", False),
        ("/t/parts/", "", False),
    ],
    ids=["path", "bucket", "goes up", "not among parts", "no address", "empty address"],
)
def test_a_folder_of_parts_is_named_by_the_address(uri: str, address: str, is_one: bool) -> None:
    assert is_parts_folder(uri, address) is is_one


def test_paths_of_this_machine_are_told_from_others() -> None:
    assert local_path("/a/b") == "/a/b"
    assert local_path("file:///a%20b") == "/a b"
    assert local_path("s3://bucket/a") is None
    assert local_path("hdfs://host:1/a") is None
