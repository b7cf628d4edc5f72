"""Where the rows of bound tables lie: a typed address per storage engine, and how it is reached.

`table/bind` gets an engine, an address in FATE's words and perhaps a connector's name. Here these
become an `Address` (never with credentials; it is stored and shown) and `Secrets` (stored only
encrypted). Whoever reads the rows gets both in a `Connection` from its server at run time; that is
never stored or logged.
Source: `docs/reference/data-formats.md#storage-addresses`; S3 and `query` are fedflow's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from fedflow.base.decoding import read_as
from fedflow.base.errors.data import BadStorage, ConnectorMismatch
from fedflow.domain.data.select_query import check_select
from fedflow.domain.data.table_names import has_control

Format: TypeAlias = Literal["parquet", "csv", "arrow"]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1000)]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]
T = TypeVar("T")

CONNECTOR: Final = "connector_name"  #: member of an address: the connector that completes it


class _Address(msgspec.Struct, frozen=True, kw_only=True, tag_field="engine"):
    """A place of rows. `engine` in its JSON says which."""

    @property
    def engine(self) -> str:
        """Return the engine in FATE's words: PATH, LOCALFS, S3, HDFS, MYSQL or HIVE."""
        return str(self.__struct_config__.tag)


class PathFile(_Address, frozen=True, kw_only=True, tag="PATH"):
    """One file of the server's machine; its first bytes say what it is."""

    path: Text  #: absolute, links resolved


class LocalFiles(_Address, frozen=True, kw_only=True, tag="LOCALFS"):
    """A data set on the server's machine."""

    path: Text  #: absolute: a file, a folder, or a glob (`*` and `?` within a name)
    format: Format | None = None  #: None: as the files' endings say


class S3Files(_Address, frozen=True, kw_only=True, tag="S3"):
    """A data set in a bucket of S3, or of a server that speaks its protocol."""

    bucket: Text
    path: str = ""  #: key, folder or glob inside the bucket, no `/` in front
    endpoint: str | None = None  #: `http[s]://host[:port]`; None: AWS
    region: str | None = None
    format: Format | None = None


class HdfsFiles(_Address, frozen=True, kw_only=True, tag="HDFS"):
    """A data set on HDFS."""

    name_node: Text  #: `hdfs://host[:port]`
    path: Text  #: absolute: a file, a folder or a glob
    format: Format | None = None


class MysqlRows(_Address, frozen=True, kw_only=True, tag="MYSQL"):
    """A table of MySQL or MariaDB, or what one SELECT returns; one of `name` and `query`."""

    host: Text
    port: Port = 3306
    db: Text
    name: str | None = None  #: of a table or view
    query: str | None = None  #: one SELECT, checked by `select_query.check_select`


class HiveRows(_Address, frozen=True, kw_only=True, tag="HIVE"):
    """A table of Hive, or what one SELECT returns; reached through Spark."""

    host: Text
    port: Port = 10000
    database: Text = "default"
    name: str | None = None
    query: str | None = None
    auth_mechanism: str | None = None


Address: TypeAlias = PathFile | LocalFiles | S3Files | HdfsFiles | MysqlRows | HiveRows
Files: TypeAlias = PathFile | LocalFiles | S3Files | HdfsFiles


class Secrets(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who reads the storage, and what proves it. Never shown: `repr` hides it, too."""

    user: str | None = None  #: of MySQL, Hive, HDFS
    password: str | None = None
    access_key: str | None = None  #: of S3
    secret_key: str | None = None
    session_token: str | None = None

    def __repr__(self) -> str:
        return "Secrets(...)"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return []


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a storage may take, seconds."""

    connect_s: float = 10.0  #: to answer at all
    read_s: float = 60.0  #: between two answers of a running read
    statement_s: float = 7200.0  #: for one whole read


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a bound table (`TableRecord.storage`), without credentials."""

    address: Address
    connector: str | None = None  #: name of the connector that has the credentials
    id_column: str | None = None  #: None: the first column
    feature_columns: tuple[str, ...] | None = None  #: in this order; None: all others, in theirs


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """All that is needed to read a bound table, or to write one: for the process that does it."""

    address: Address
    secrets: Secrets = Secrets()
    id_column: str | None = None  #: None: the first column
    feature_columns: tuple[str, ...] | None = None  #: in this order; None: all others, in theirs
    #: absolute folders of this machine: every local file read, links resolved, must be in one
    roots: tuple[str, ...] = ()
    limits: Limits = Limits()


def bound_to_json(bound: Bound) -> dict[str, Any]:
    """Return what is stored of a bound table as plain JSON."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(bound))
    return plain


def bound_from_json(value: Any) -> Bound:
    """Return what `bound_to_json` wrote. Raises: BadStorage: it is none."""
    return _read(value, Bound)


def connection_without_secrets(source: str | None, storage: Any) -> Connection:
    """Return the connection of a bound table as far as its record says it.

    `source` is `TableRecord.source`: all that older tables of the engine PATH have. Raises:
    BadStorage: the record says nothing.
    """
    if source is not None and not isinstance(storage, dict):
        return Connection(address=PathFile(path=source))
    bound = bound_from_json(storage)
    return Connection(
        address=bound.address, id_column=bound.id_column, feature_columns=bound.feature_columns
    )


def is_bound(engine: str, storage: Any) -> bool:
    """Tell whether somebody else keeps a table's rows, so that readers copy them.

    `storage` is `TableRecord.storage`, which tables made by jobs on Spark have too, in another
    form. Second names of a table keep its storage, and so are what the table is.
    """
    return engine == "PATH" or (isinstance(storage, dict) and "address" in storage)


def _read(value: Any, kind: type[T]) -> T:
    try:
        return read_as(value, kind)
    except msgspec.ValidationError as exc:
        sentence, _, place = str(exc).partition(" - at `")
        raise BadStorage(path=place.removesuffix("`") or "$", reason=_small(sentence)) from exc


# --- what a request says --------------------------------------------------------------------------

_KINDS: Final[Mapping[str, type[Any]]] = {
    "PATH": PathFile,
    "LOCALFS": LocalFiles,
    "S3": S3Files,
    "HDFS": HdfsFiles,
    "MYSQL": MysqlRows,
    "HIVE": HiveRows,
}
ENGINES: Final = tuple(_KINDS)  #: engines that have an address here

#: engine -> the members that are secrets, in FATE's words and in ours -> member of `Secrets`
_SECRETS: Final[Mapping[str, Mapping[str, str]]] = {
    "MYSQL": {"user": "user", "passwd": "password", "password": "password"},
    "HIVE": {"username": "user", "user": "user", "password": "password", "passwd": "password"},
    "HDFS": {"user": "user"},
    "S3": {
        "access_key": "access_key",
        "secret_key": "secret_key",
        "session_token": "session_token",
    },
}
#: members that say which server is reached
TARGETS: Final = frozenset({"host", "port", "endpoint", "name_node"})
_HOST = re.compile(r"(?=.{1,253}$)[0-9A-Za-z]([0-9A-Za-z.-]*[0-9A-Za-z])?|[0-9A-Fa-f:.]{2,45}")
_ENDPOINT = re.compile(r"https?://(\[[0-9A-Fa-f:.]{2,45}\]|[0-9A-Za-z.-]{1,253})(:[0-9]{1,5})?/?")
_NAME_NODE = re.compile(r"hdfs://[0-9A-Za-z][0-9A-Za-z.-]{0,252}(:[0-9]{1,5})?/?")
_BUCKET = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{1,254}")
_REGION = re.compile(r"[0-9A-Za-z-]{1,50}")
_HIVE_NAME = re.compile(r"\w+", re.ASCII)
_MECHANISM = re.compile(r"[A-Z0-9_-]{1,30}")
_LONGEST_SECRET = 4000
_LONGEST_NAME = 64  #: characters of a name of MySQL


def parse_address(
    engine: str, given: Mapping[str, Any], *, at: str = "$.address"
) -> tuple[Address, Secrets]:
    """Return the address that a request gives for an engine of `ENGINES`, and its secrets.

    `at` is the path of `given` in the request.

    Raises: BadStorage: a member is missing, unknown or wrong, with its path. QueryNotAllowed: the
    query is not one SELECT.
    """
    secret_names = _SECRETS.get(engine, {})
    kind = _KINDS[engine]
    known = {field.name for field in msgspec.structs.fields(kind)}
    plain: dict[str, Any] = {"engine": engine}
    secrets: dict[str, str] = {}
    for name, value in given.items():
        path = f"{at}.{str(name)[:100]}"
        if value is None or name == CONNECTOR:
            continue
        if name in secret_names:
            secrets[secret_names[name]] = _secret(value, path)
        elif name in known:
            plain[name] = _plain(value, path, number=name == "port")
        else:
            allowed = ", ".join(sorted(known | set(secret_names) | {CONNECTOR}))
            raise BadStorage(path=path, reason=f"{engine} has no such member; it has {allowed}")
    address: Address = _address(kind, plain, at)
    _CHECKS[engine](address, at)
    _check_keys(secrets, at)
    return address, Secrets(**secrets)


def completed(
    given: Mapping[str, Any], info: Mapping[str, Any], *, connector: str, at: str = "$.address"
) -> dict[str, Any]:
    """Return an address with the members of its connector.

    Raises: ConnectorMismatch: both say the same member, or the address says which server it is. A
    connector's credentials go only where the connector says, so nobody can send them elsewhere.
    """
    own = {name: value for name, value in given.items() if name != CONNECTOR and value is not None}
    if twice := sorted(set(own) & set(info)):
        raise ConnectorMismatch(
            name=connector, path=f"{at}.{twice[0]}", reason="it says this member itself"
        )
    for name in own:
        if any(name in words for words in _SECRETS.values()):
            reason = "credentials are the connector's to say"
            raise ConnectorMismatch(name=connector, path=f"{at}.{name}", reason=reason)
    if found := sorted(TARGETS & set(own)):
        reason = "which server is reached is the connector's to say, beside the credentials"
        raise ConnectorMismatch(name=connector, path=f"{at}.{found[0]}", reason=reason)
    return {**info, **own}


def own_members(bound: Bound, info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a stored address says beside its connector, which may have changed since."""
    return {
        name: value
        for name, value in shown_address(bound).items()
        if name not in info and name not in TARGETS
    }


def check_connector_info(engine: str, info: Mapping[str, Any], *, at: str) -> None:
    """Check that a connector's members are members of its engine's addresses.

    Raises: BadStorage: one is not, or is no text or number. Nothing is said of other engines.
    """
    if engine not in _KINDS:
        return
    known = {field.name for field in msgspec.structs.fields(_KINDS[engine])}
    secret_names = _SECRETS.get(engine, {})
    for name, value in info.items():
        path = f"{at}.{str(name)[:100]}"
        if name not in known and name not in secret_names:
            allowed = ", ".join(sorted(known | set(secret_names)))
            raise BadStorage(path=path, reason=f"{engine} has no such member; it has {allowed}")
        if name in secret_names:
            _secret(value, path)
        elif isinstance(value, bool) or not isinstance(value, str | int):
            raise BadStorage(path=path, reason="it must be a text or a number")


def secrets_of(engine: str, info: Mapping[str, Any]) -> Secrets:
    """Return the secrets among a connector's members."""
    words = _SECRETS.get(engine, {})
    return Secrets(**{words[name]: str(value) for name, value in info.items() if name in words})


def hidden_connector(address: str) -> str:
    """Return the name of the connector that belongs to the table with an address, and to no other.

    It begins with a dot, as no name that people give does.
    """
    return f".{address}"


def secret_info(engine: str, secrets: Secrets) -> dict[str, str]:
    """Return secrets in the words of a connector of an engine."""
    words = {ours: theirs for theirs, ours in reversed(list(_SECRETS.get(engine, {}).items()))}
    plain: dict[str, str] = msgspec.to_builtins(secrets)
    return {words[name]: value for name, value in plain.items()}


def shown_address(bound: Bound) -> dict[str, Any]:
    """Return an address as people see it: no secrets, they are not in it; the connector's name."""
    shown: dict[str, Any] = msgspec.to_builtins(bound.address)
    shown = {name: value for name, value in shown.items() if name != "engine" and value is not None}
    if bound.connector is None or bound.connector.startswith("."):
        return shown
    return {**shown, CONNECTOR: bound.connector}


def place_text(address: Address) -> str:
    """Return what messages call a place."""
    match address:
        case PathFile(path=path):
            return f"file {path}"
        case MysqlRows():
            what = "a query" if address.name is None else f"table {address.name}"
            return f"{what} of database {address.db} at {address.host}:{address.port}"
        case HiveRows():
            what = "a query" if address.name is None else f"table {address.name}"
            return f"{what} of Hive database {address.database} at {address.host}:{address.port}"
        case S3Files():
            return f"{address.endpoint or 's3:/'}/{address.bucket}/{address.path}"
        case HdfsFiles():
            return f"{address.name_node.rstrip('/')}{address.path}"
        case LocalFiles(path=path):
            return f"data set {path}"


def _address(kind: type[Any], plain: dict[str, Any], at: str) -> Any:
    try:
        return read_as(plain, kind)
    except msgspec.ValidationError as exc:
        sentence, _, place = str(exc).partition(" - at `")
        found = re.fullmatch(r"Object missing required field `(.*)`", sentence)
        if found:
            raise BadStorage(path=f"{at}.{found[1]}", reason="it is missing") from exc
        path = at + place.removesuffix("`").removeprefix("$")
        raise BadStorage(path=path, reason=_small(sentence)) from exc


def _small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _secret(value: Any, path: str) -> str:
    """Return a secret as text; messages never repeat it."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadStorage(path=path, reason="it must be a text")
    if len(value) > _LONGEST_SECRET or "\0" in value:
        raise BadStorage(path=path, reason=f"it has a NUL, or over {_LONGEST_SECRET} characters")
    return value


def _plain(value: Any, path: str, *, number: bool) -> Any:
    """Return a member as it is stored. FATE's clients send numbers as texts, and texts as numbers.

    Raises: BadStorage: it has control characters.
    """
    if number and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value[:10])
    if not number and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and has_control(value.translate(_SPACES)):
        raise BadStorage(path=path, reason="it has control characters")
    return value


_SPACES = str.maketrans("\n\r\t", "   ")  # a query may have these

# --- checks of one engine -------------------------------------------------------------------------


def _check_path(path: str, at: str, *, absolute: bool) -> None:
    if absolute and not path.startswith("/"):
        raise BadStorage(path=at, reason="it must be an absolute path")
    if not absolute and path.startswith("/"):
        raise BadStorage(path=at, reason="it must not begin with a slash")
    if len(path) > 1000 or has_control(path):
        raise BadStorage(path=at, reason="it has control characters, or more than 1000 characters")
    parts = path.rstrip("/").split("/")[1 if absolute else 0 :]
    if ".." in parts or "." in parts or ("" in parts and path not in ("", "/")):
        raise BadStorage(path=at, reason="it has empty parts, `.` or `..`")
    if "**" in path or "[" in path:
        raise BadStorage(path=at, reason="only `*` and `?` may stand for parts of names")


def _check_file(address: PathFile, at: str) -> None:
    if has_control(address.path):
        raise BadStorage(path=f"{at}.path", reason="it has control characters")


def _check_local(address: LocalFiles, at: str) -> None:
    _check_path(address.path, f"{at}.path", absolute=True)


def _check_s3(address: S3Files, at: str) -> None:
    if not _BUCKET.fullmatch(address.bucket):
        raise BadStorage(path=f"{at}.bucket", reason=f"{address.bucket[:100]!r} is no bucket")
    _check_path(address.path, f"{at}.path", absolute=False)
    if address.endpoint is not None and not _ENDPOINT.fullmatch(address.endpoint):
        raise BadStorage(path=f"{at}.endpoint", reason="it must be http[s]://host[:port]")
    if address.region is not None and not _REGION.fullmatch(address.region):
        raise BadStorage(path=f"{at}.region", reason="it is no region")


def _check_keys(secrets: Mapping[str, str], at: str) -> None:
    """Raises: BadStorage: one key of S3 without the other one."""
    has = [bool(secrets.get(name)) for name in ("access_key", "secret_key")]
    if has[0] != has[1] or (secrets.get("session_token") and not has[0]):
        missing = "secret_key" if has[0] else "access_key"
        reason = "`access_key` and `secret_key` are needed both, or none of them"
        raise BadStorage(path=f"{at}.{missing}", reason=reason)


def _check_hdfs(address: HdfsFiles, at: str) -> None:
    if not _NAME_NODE.fullmatch(address.name_node):
        raise BadStorage(path=f"{at}.name_node", reason="it must be hdfs://host[:port]")
    _check_path(address.path, f"{at}.path", absolute=True)


def _check_rows(address: MysqlRows | HiveRows, db: str, at: str) -> None:
    if not _HOST.fullmatch(address.host):
        raise BadStorage(path=f"{at}.host", reason=f"{address.host[:100]!r} is no host")
    if (address.name is None) == (address.query is None):
        raise BadStorage(path=at, reason="it needs one of `name` and `query`")
    for member, value in ((db, getattr(address, db)), ("name", address.name)):
        if value is not None and (not 1 <= len(value) <= _LONGEST_NAME or has_control(value)):
            reason = f"a name has 1 to {_LONGEST_NAME} characters"
            raise BadStorage(path=f"{at}.{member}", reason=reason)
    if address.query is not None:
        check_select(address.query, path=f"{at}.query")


def _check_mysql(address: MysqlRows, at: str) -> None:
    _check_rows(address, "db", at)


def _check_hive(address: HiveRows, at: str) -> None:
    _check_rows(address, "database", at)
    for member in ("database", "name"):
        value = getattr(address, member)
        if value is not None and not _HIVE_NAME.fullmatch(value):  # Spark takes some for paths
            raise BadStorage(path=f"{at}.{member}", reason="it has letters, digits and _ only")
    if address.auth_mechanism is not None and not _MECHANISM.fullmatch(address.auth_mechanism):
        raise BadStorage(path=f"{at}.auth_mechanism", reason="it must be a word in capitals")


_CHECKS: Final[Mapping[str, Callable[[Any, str], None]]] = {
    "PATH": _check_file,
    "LOCALFS": _check_local,
    "S3": _check_s3,
    "HDFS": _check_hdfs,
    "MYSQL": _check_mysql,
    "HIVE": _check_hive,
}
