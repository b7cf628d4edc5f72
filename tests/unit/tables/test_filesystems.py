"""URIs of places become file systems; whatever is more than a place is refused."""

from __future__ import annotations

import pytest

from fedflow.base.errors.data import BadData
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.tables.filesystems import FilesystemAccess, below, open_place


@pytest.mark.parametrize(
    ("uri", "engine", "path"),
    [
        ("/data/tables/", "LOCALFS", "/data/tables"),
        ("/with ?#%41", "LOCALFS", "/with ?#%41"),
        ("file:/data", "LOCALFS", "/data"),
        ("file:///a%20b", "LOCALFS", "/a b"),
        ("file://localhost/data", "LOCALFS", "/data"),
        ("s3://bucket/a/b/", "S3", "bucket/a/b"),
        ("s3://bucket", "S3", "bucket"),
    ],
)
def test_a_uri_names_a_place(uri: str, engine: str, path: str) -> None:
    place = open_place(uri, FilesystemAccess(anonymous=True))
    assert (place.engine, place.path) == (engine, path)
    assert below(place, "t").path == f"{path}/t"


@pytest.mark.parametrize(
    "uri",
    [
        "", "relative/path", "//host/share", "/a/../b", "file:///a/../b", "file:///a/%2e%2e/b",
        "file://other/a", "file:a", "s3://key:secret@bucket/a", "s3://b", "s3:///a", "s3://b_$/x",
        "s3://bucket/../other", "s3://bucket/a?endpoint_override=evil", "s3://bucket/#x",
        "hdfs://user@host/a", "s3://bucket:99999/a", "/a\0b", "/a\nb", "/" + "x" * 3000,
        "hdfs://ho st/a",
    ],
)  # fmt: skip
def test_a_uri_that_says_more_is_refused(uri: str) -> None:
    with pytest.raises(BadData) as caught:
        open_place(uri)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("uri", ["http://h/a", "gs://b/a", "ftp://h/", "jar:file:/x"])
def test_other_schemes_are_not_supported(uri: str) -> None:
    with pytest.raises(NotSupportedYet, match="scheme"):
        open_place(uri)


@pytest.mark.parametrize("endpoint", ["ftp://h", "http://", "http://u:p@h", "http://h/x", "a b"])
def test_an_endpoint_is_a_host(endpoint: str) -> None:
    with pytest.raises(BadData, match="endpoint"):
        open_place("s3://bucket/a", FilesystemAccess(endpoint=endpoint))


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\0"])
def test_a_name_below_a_place_is_plain(name: str) -> None:
    with pytest.raises(BadData, match="no plain file name"):
        below(open_place("/data"), name)


def test_an_access_does_not_show_its_keys() -> None:
    assert "secret" not in repr(
        FilesystemAccess(access_key="secret", secret_key="secret", user="secret")
    )
