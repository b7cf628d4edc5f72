"""Opens the file systems on which data sets and tables lie: this machine's, S3 and its likes, HDFS.

A place is a URI without credentials: `/path`, `file:/path`, `s3://bucket/path`,
`hdfs://name-node:8020/path` (`hdfs:///path`: the cluster of Hadoop's own configuration). What a
store needs beyond that stands in a `FilesystemAccess`, never in the URI. Who may name which place
is checked by the server (`domain/data/storages.py`); here a URI that says more than a place is
refused.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from pyarrow import fs

from fedflow.base.errors.data import BadData, StorageUnreachable
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.base.values import dataclass

CONNECT_S: Final = 10.0  #: longest wait for a connection of an object store
ANSWER_S: Final = 60.0  #: longest silence of an object store within a request

_REGION: Final = "us-east-1"  #: else each opening looks for one in the network
#: AWS' library signs for `us-east-1` then, and follows no redirect to a host that nobody allowed
_STAYS: Final = "aws-global"
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")
_HOST: Final = re.compile(r"[0-9A-Za-z._-]{1,253}|[0-9A-Fa-f:]{2,45}")


@dataclass(frozen=True, kw_only=True, slots=True)
class FilesystemAccess:
    """How a file system beyond this machine is entered; all of it is optional.

    An object store that gets neither keys nor `anonymous` is entered with what its own libraries
    find: environment, `~/.aws`, the role of the machine.
    """

    endpoint: str | None = None  #: URL of an object store other than AWS, `http://host:port`
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    anonymous: bool = False
    user: str | None = None  #: of HDFS
    ticket_cache: str | None = None  #: path of a Kerberos ticket, for HDFS

    def __repr__(self) -> str:
        return f"Access(endpoint={self.endpoint!r}, region={self.region!r})"  # no credentials


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenPath:
    """A path on an open file system."""

    files: Any  #: a `pyarrow.fs.FileSystem`
    path: str  #: as that file system names it
    uri: str  #: for messages; without credentials

    @property
    def engine(self) -> str:
        """Return the name of its storage engine: LOCALFS, S3 or HDFS."""
        return {"s3": "S3", "hdfs": "HDFS"}.get(self.files.type_name, "LOCALFS")


def open_place(uri: str, access: FilesystemAccess | None = None) -> OpenPath:
    """Return a place; nothing is read yet, except that HDFS is connected to.

    Raises: BadData: the URI is not one of a place, or has credentials, `..` or options in it.
        NotSupportedYet: another scheme, or HDFS without its library. StorageUnreachable: HDFS.
    """
    access = access or FilesystemAccess()
    parts = _parts(uri)
    match parts.scheme:
        case "" | "file":
            return OpenPath(files=fs.LocalFileSystem(), path=_plain(parts.path, uri), uri=uri)
        case "s3":
            return object_place(parts.netloc, _plain(parts.path or "/", uri), access)
        case "hdfs":
            path = _plain(parts.path or "/", uri)
            return hdfs_place(parts.hostname or "default", parts.port, path, access)
    raise NotSupportedYet(what=f"a file system of the scheme {parts.scheme[:20]!r}")


def below(place: OpenPath, *names: str) -> OpenPath:
    """Return a place inside a folder. Raises: BadData: a name is no plain one."""
    for name in names:
        if not name or name in (".", "..") or "/" in name or "\0" in name:
            raise BadData(where=place.uri, reason=f"{name[:100]!r} is no plain file name")
    path = "/".join((place.path.rstrip("/"), *names))
    return OpenPath(files=place.files, path=path, uri="/".join((place.uri.rstrip("/"), *names)))


def _parts(uri: str) -> SplitResult:
    def bad(reason: str) -> BadData:
        return BadData(where="the URI of a storage", reason=reason)

    if not uri or len(uri) > 2000 or not uri.isprintable():
        raise bad("it is empty, too long, or has control characters")
    if uri.startswith("/") and not uri.startswith("//"):
        return SplitResult("", "", uri, "", "")
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        raise bad("it cannot be read") from None
    if "@" in parts.netloc:
        raise bad("it holds credentials; they belong into a connector")
    if parts.query or parts.fragment:
        raise bad("`?` and `#` may not stand in it")
    if parts.scheme == "file" and parts.netloc not in ("", "localhost"):
        raise bad("a file: URI names a path of this machine")
    if not parts.scheme:
        raise bad("it is no absolute path")
    return parts._replace(path=unquote(parts.path) if parts.scheme == "file" else parts.path)


def _plain(path: str, uri: str) -> str:
    """Return an absolute path without tricks. Raises: BadData."""
    if not path.startswith("/") or "\0" in path or ".." in PurePosixPath(path).parts:
        raise BadData(where=uri[:300], reason="its path is not absolute, or goes up by `..`")
    return path.rstrip("/") or "/"


def object_place(bucket: str, path: str, access: FilesystemAccess) -> OpenPath:
    """Return a place in a bucket of an object store; nothing is asked of it yet.

    Raises: BadData: the bucket or the endpoint is none.
    """
    if not _BUCKET.fullmatch(bucket):
        raise BadData(where=f"s3://{bucket[:300]}", reason="it names no bucket")
    endpoint, scheme = _endpoint(access.endpoint)
    region = access.region or _REGION
    files = fs.S3FileSystem(
        access_key=access.access_key,
        secret_key=access.secret_key,
        session_token=access.session_token,
        anonymous=access.anonymous,
        region=_STAYS if endpoint is not None and region == _REGION else region,
        endpoint_override=endpoint,
        scheme=scheme,
        connect_timeout=CONNECT_S,
        request_timeout=ANSWER_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=3),
    )
    inside = "/".join((bucket, path.strip("/"))).rstrip("/")
    return OpenPath(files=files, path=inside, uri=f"s3://{inside}")


def _endpoint(url: str | None) -> tuple[str | None, str]:
    if not url:
        return None, "https"
    parts = urlsplit(url if "//" in url else f"https://{url}")
    strange = parts.username or parts.query or parts.fragment or parts.path not in ("", "/")
    if (
        parts.scheme not in ("http", "https")
        or not _HOST.fullmatch(parts.hostname or "")
        or strange
    ):
        raise BadData(where="the endpoint of a storage", reason="it is no `http(s)://host:port`")
    return parts.netloc, parts.scheme


def hdfs_place(host: str, port: int | None, path: str, access: FilesystemAccess) -> OpenPath:
    """Return a place on HDFS, connected; host `default` is the cluster of Hadoop's configuration.

    Raises: BadData: the host is none. NotSupportedYet: Hadoop's library is not here.
    StorageUnreachable.
    """
    uri = f"hdfs://{'' if host == 'default' else host}{path}"
    if not _HOST.fullmatch(host):
        raise BadData(where=uri[:300], reason="it names no host")
    try:
        files = fs.HadoopFileSystem(
            host,
            port or (0 if host == "default" else 8020),
            user=access.user,
            kerb_ticket=access.ticket_cache,
        )
    except OSError as exc:
        if "libhdfs" in str(exc) or "libjvm" in str(exc):
            what = "HDFS without libhdfs (Hadoop's library, JAVA_HOME and CLASSPATH are needed)"
            raise NotSupportedYet(what=what) from exc
        raise StorageUnreachable(where=uri[:300], reason="the name node does not answer") from exc
    return OpenPath(files=files, path=path, uri=uri)
