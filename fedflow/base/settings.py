"""Every setting of a server: one frozen tree with defaults, units and ranges.

Key names are FATE's where FATE has the key. `parse_settings` is the only way in: an unknown key, a
wrong type or a bad range stops the start with the path of the key. Nothing here reads a file or
the environment; `server/configuration.py` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

from fedflow.base.decoding import read_as
from fedflow.base.errors.start import BadSetting, NotOverExchange

Port = Annotated[int, Meta(ge=0, le=65535)]
Positive = Annotated[float, Meta(gt=0, le=31_536_000)]  #: a time, at most a year in seconds
Count = Annotated[int, Meta(ge=1)]

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class SettingsSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of keys."""


S = TypeVar("S", bound=SettingsSection)


class Fateflow(SettingsSection, frozen=True, kw_only=True):
    """Where this server listens."""

    host: str = "127.0.0.1"  #: address of the REST API, and of calls of other parties
    grpc_host: str | None = None  #: address for calls of other parties, if it is another one
    http_port: Port = 9380  #: REST API and board; 0 = any free port
    grpc_port: Port = 9360  #: calls and data of other parties; 0 = any free port
    address: str | None = None  #: host under which other servers of this party reach this one
    http_behind_tls_proxy: bool = False  #: a proxy on this machine terminates TLS for the REST API

    @property
    def parties_host(self) -> str:
        """Return the address that other parties call."""
        return self.grpc_host or self.host


class Database(SettingsSection, frozen=True, kw_only=True):
    """Where the server keeps its state."""

    engine: Literal["sqlite", "mysql"] = "sqlite"  #: sqlite: a file in the home folder
    name: str = "fedflow"  #: database name (mysql)
    user: str = "root"
    passwd: str = ""
    host: str = "127.0.0.1"
    port: Port = 3306
    max_connections: Count = 32  #: connections kept open (mysql)
    stale_timeout: Count = 30  #: seconds after which an idle connection is renewed (mysql)
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"  #: sqlite: FULL also survives power loss


class Tls(SettingsSection, frozen=True, kw_only=True):
    """Certificates of the gRPC listener and of calls to other parties; all three, or none."""

    ca: str | None = None  #: PEM file: the authority that signed every party's certificate
    certificate: str | None = None  #: PEM file; its common name is this party's id
    key: str | None = None  #: PEM file of the private key

    @property
    def on(self) -> bool:
        return self.ca is not None


class ClientAuthentication(SettingsSection, frozen=True, kw_only=True):
    """Signed client requests (HMAC), as FATE does them."""

    switch: bool = False
    http_app_key: str = ""
    http_secret_key: str = ""


class SiteAuthentication(SettingsSection, frozen=True, kw_only=True):
    """Signed calls between parties (RSA), as FATE does them; needed where an exchange passes calls
    on.
    """

    switch: bool = False


class Authentication(SettingsSection, frozen=True, kw_only=True):
    client: ClientAuthentication = ClientAuthentication()
    site: SiteAuthentication = SiteAuthentication()


class Permission(SettingsSection, frozen=True, kw_only=True):
    """What other parties' jobs may use here; without a grant nothing of what is checked."""

    switch: bool = False
    component: bool = False  #: check the components that run here
    dataset: bool = False  #: check the tables that are read here


class Server(SettingsSection, frozen=True, kw_only=True):
    """Another program of this party."""

    host: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    protocol: Literal["http", "https"] = "http"


class Engine(SettingsSection, frozen=True, kw_only=True):
    """The computing engine of this server."""

    cores_per_node: Count = 20  #: cores that jobs may hold together
    nodes: Count = 1
    #: memory that jobs may hold together, MiB; 0: it is not counted
    memory_per_node: Annotated[int, Meta(ge=0, le=2_000_000_000)] = 0
    #: share of the cores that one job may hold, more than 0 and at most 1
    max_cores_percent_per_job: Annotated[float, Meta(gt=0, le=1)] = 1.0


class Engines(SettingsSection, frozen=True, kw_only=True):
    standalone: Engine = Engine()


class Spark(SettingsSection, frozen=True, kw_only=True):
    """The Spark cluster of this party. Key names that FATE has are FATE's."""

    master: str | None = None  #: URL of the cluster, such as spark://host:7077; None: there is none
    home: str | None = None  #: folder of Spark; None: SPARK_HOME, or else the package pyspark
    python: str | None = None  #: Python of Spark's workers; None: the server's own path
    cores_per_node: Count = 20  #: cores that jobs may hold together, per node
    nodes: Count = 2
    #: folder that the server and Spark's workers both reach, for tables: a path, file:, hdfs: or
    #: s3: URI; None: the tables folder of the home
    tables_uri: str | None = None
    conf: dict[str, str | int | float | bool] = {}  #: Spark properties of all applications
    #: Spark properties that jobs may set in `spark_run.conf`, `*` at the end stands for any rest
    allowed_conf: tuple[str, ...] = ("spark.executor.*", "spark.sql.*")
    #: tables up to so many rows are worked on by the task itself: Spark takes longer for them
    small_rows: Annotated[int, Meta(ge=0)] = 65_536
    #: arithmetic of less than so many seconds of one core is done by the task itself
    small_work_s: Annotated[float, Meta(ge=0, le=3_600)] = 1.5
    wait_s: Positive = 300.0  #: longest wait for an application and its executors
    idle_timeout_s: Positive = 600.0  #: an application without a task ends after this time
    stop_grace_s: Positive = 5.0  #: pause between SIGTERM and SIGKILL of an application


class SparkEngines(SettingsSection, frozen=True, kw_only=True):
    spark: Spark = Spark()


class DefaultEngines(SettingsSection, frozen=True, kw_only=True):
    """What is used where a job does not say."""

    computing: Literal["standalone", "spark", "STANDALONE", "SPARK"] = "standalone"


class Scheduling(SettingsSection, frozen=True, kw_only=True):
    """How often the threads look, and how long things may take."""

    starving_after_s: Positive = 300.0  #: a job that waits for longer goes before all others
    tick_interval_s: Positive = 2.0  #: pause between two repair passes of the scheduler
    detect_interval_s: Positive = 5.0  #: pause between two passes of the detector
    create_timeout_s: Positive = 10.0  #: all sites must have accepted a job within this time
    lease_s: Positive = 60.0  #: a party that is silent for longer is lost
    heartbeat_s: Positive = 5.0  #: pause between two heartbeats to a party
    call_timeout_s: Positive = 10.0  #: deadline of one call to another party
    preflight_timeout_s: Positive = 3.0  #: at a submit all parties answer within this time
    retry_cap_s: Positive = 5.0  #: longest pause before a command is sent again
    hold_limit_s: Positive = 604_800.0  #: a job that is paused, or awaits a step, for longer ends
    launch_grace_s: Positive = 5.0  #: a launch without a process is repeated after this time
    stop_grace_s: Positive = 3.0  #: pause between SIGTERM and SIGKILL of an executor


class JobDefaults(SettingsSection, frozen=True, kw_only=True):
    """What jobs may be."""

    strict: bool = False  #: jobs that do not say are refused where they would only be warned of
    max_kib: Annotated[int, Meta(ge=1, le=32_768)] = 1_024  #: DSL and conf of one job together, KiB
    open_per_party: Count = 10_000  #: party jobs here of one other party that have not ended
    stored_mib_per_party: Count = 4_096  #: what all stored jobs of one other party may take, MiB


class Executors(SettingsSection, frozen=True, kw_only=True):
    """Worker processes."""

    start_method: Literal["zygote", "plain"] = "zygote"  #: plain: a new interpreter per task
    #: memory that one executor may allocate, MiB; null: half of the machine's; none: all
    memory_mib: Count | Literal["none"] | None = None
    #: absolute folder of this party's own models, losses, datasets and trainers of HomoNN
    nn_folder: Annotated[str, Meta(pattern=r"^/[^\x00]*\Z")] | None = None


class FederationLimits(SettingsSection, frozen=True, kw_only=True):
    """Values between executors of different parties."""

    receive_timeout_s: Positive = 3600.0  #: longest wait for one value
    spool_mib: Count = 20_480  #: values in transit on disk, all jobs; of one party 3/4
    memory_mib: Count = 64  #: values in transit in memory, all jobs together


class Upload(SettingsSection, frozen=True, kw_only=True):
    allowed_folders: tuple[str, ...] = ()  #: server folders that `use_local_data: 0` may read
    max_mib: Count = 102_400  #: largest file that a client may send


class Download(SettingsSection, frozen=True, kw_only=True):
    #: server folders that `data/download` may write to, beside `downloads` in the home folder
    allowed_folders: tuple[str, ...] = ()


class Storage(SettingsSection, frozen=True, kw_only=True):
    """Storages of others that tables may be bound to; empty lists: none."""

    #: server folders of data sets (LOCALFS), beside `upload.allowed_folders`
    allowed_folders: tuple[str, ...] = ()
    mysql_hosts: tuple[str, ...] = ()  #: host:port of MYSQL; `*` stands for any characters
    hive_hosts: tuple[str, ...] = ()  #: host:port of HIVE; the same
    #: s3://bucket/folder or http[s]://host[:port]/bucket/folder
    s3_buckets: tuple[str, ...] = ()
    hdfs_folders: tuple[str, ...] = ()  #: hdfs://host[:port]/folder
    may_write: bool = False  #: the Writer may also write to what the lists name
    connect_timeout_s: Positive = 10.0  #: longest wait for a connection
    read_timeout_s: Positive = 60.0  #: longest silence while rows are read
    statement_timeout_s: Positive = 7200.0  #: longest read of one table


class ProviderSettings(SettingsSection, frozen=True, kw_only=True):
    #: server folders below which providers may be registered, beside `providers` in the home folder
    allowed_folders: tuple[str, ...] = ()


class ModelStoreAddress(SettingsSection, frozen=True, kw_only=True):
    """Where `model/store` copies models to, and `model/restore` fetches them from."""

    storage: Literal["mysql", "folder", "s3"] | None = None  #: null: there is no such store
    folder: str = ""  #: absolute path (folder)
    uri: str = ""  #: s3://bucket/prefix (s3)
    endpoint: str | None = None  #: URL of another object store than AWS, `http://host:port` (s3)
    region: str | None = None  #: (s3)
    #: (s3) without keys the environment, `~/.aws` or the role of the machine are used
    access_key: str | None = None
    secret_key: str | None = None
    name: str = "fedflow_models"  #: database name (mysql)
    user: str = "root"
    passwd: str = ""
    host: str = "127.0.0.1"
    port: Port = 3306
    timeout: Count = 30  #: seconds that one statement may take (mysql)


class Servings(SettingsSection, frozen=True, kw_only=True):
    """The serving processes of this party, to which `model/load` publishes models."""

    hosts: tuple[str, ...] = ()  #: `host:port` of each one's admin port, or its URL
    token: str | None = None  #: what their admin ports ask for


class HealthLimits(SettingsSection, frozen=True, kw_only=True):
    """What `/readyz` goes by."""

    #: less free space in a folder of the server, MiB, and it is not ready
    min_free_mib: Annotated[int, Meta(ge=0, le=1_000_000_000)] = 256


class RetentionSettings(SettingsSection, frozen=True, kw_only=True):
    """Ended jobs that the server deletes by itself."""

    #: those that ended longer ago, days, at most 36,500; None: none
    jobs_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None
    #: and ended so
    status: Annotated[
        tuple[Literal["success", "failed", "canceled", "timeout"], ...], Meta(min_length=1)
    ] = ("success", "failed", "canceled", "timeout")


class Log(SettingsSection, frozen=True, kw_only=True):
    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["console", "json"] = "console"
    #: size of `server.log` at which a new one is begun, MiB; 0: never
    max_mib: Annotated[int, Meta(ge=0, le=1_000_000)] = 64
    kept: Annotated[int, Meta(ge=0, le=1_000)] = 5  #: older ones that are kept: server.log.1 ...


class Board(SettingsSection, frozen=True, kw_only=True):
    """The web pages below `/board`."""

    switch: bool = True  #: serve the board
    #: ask who looks; None: as `authentication.client.switch`. False: everybody is an admin
    sign_in: bool | None = None
    session_idle_s: Positive = 14_400.0  #: a session that is not used for longer ends
    session_s: Positive = 43_200.0  #: longest session
    #: names of this server, without port, under which board and REST API answer without sign-in and
    #: signatures, beside addresses, localhost and the machine's own name
    host_names: tuple[str, ...] = ()


class Settings(SettingsSection, frozen=True, kw_only=True):
    """All settings of one server."""

    party_id: str | None = None  #: the party that this server is; null = standalone, hosts every id
    insecure: bool = False  #: allow listeners without TLS and authentication on other addresses
    #: absolute folder of tables, models, jobs and logs, for all servers of this party; null: home
    shared_home: str | None = None
    fateflow: Fateflow = Fateflow()
    database: Database = Database()
    #: party id -> host:port of its gRPC listener; several servers: addresses with commas between;
    #: exchange://host:port: over the exchange there, sealed for the party
    routes: Mapping[str, str] = {}
    #: host:port of exchanges that this server keeps connections open to, for calls that come back
    #: over them: for a server that cannot be called
    dial_in: tuple[str, ...] = ()
    #: ids of the parties whose calls are answered; null: all with a route, a default one included
    partners: tuple[str, ...] | None = None
    tls: Tls = Tls()
    authentication: Authentication = Authentication()
    permission: Permission = Permission()
    servers: Mapping[str, Server] = {}  #: name -> where it listens; `/v1/forward` may call it
    fate_on_standalone: Engines = Engines()
    fate_on_spark: SparkEngines = SparkEngines()
    default_engines: DefaultEngines = DefaultEngines()
    scheduling: Scheduling = Scheduling()
    jobs: JobDefaults = JobDefaults()
    executor: Executors = Executors()
    federation: FederationLimits = FederationLimits()
    upload: Upload = Upload()
    download: Download = Download()
    storage: Storage = Storage()
    provider: ProviderSettings = ProviderSettings()
    model_store_address: ModelStoreAddress = ModelStoreAddress()
    servings: Servings = Servings()
    retention: RetentionSettings = RetentionSettings()
    health: HealthLimits = HealthLimits()
    log: Log = Log()
    board: Board = Board()

    @property
    def board_asks(self) -> bool:
        """Tell whether people sign in to the board."""
        given = self.board.sign_in
        return self.authentication.client.switch if given is None else given


_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_EXCHANGE: Final = "exchange"  #: the common name in an exchange's certificate
OVER_EXCHANGE: Final = "exchange://"  #: before the address of an exchange, in a route
_ROUTE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")
_HOST_PATTERN = re.compile(r"(\[[0-9A-Fa-f:.*]+\]|[A-Za-z0-9.*-]+):(\d{1,5}|\*)")
_BUCKET_PLACE = re.compile(
    r"(s3://|https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?/)[A-Za-z0-9._-]+(/[^?#]*)?"
)
_ENDPOINT = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?/?")
_HDFS_PLACE = re.compile(r"hdfs://[A-Za-z0-9.-]+(:\d{1,5})?/[^?#]*")
_MYSQL_KEYS = frozenset({"name", "user", "passwd", "host", "port"})
PARTY = re.compile(r"[0-9A-Za-z]{1,32}")
_SERVER = re.compile(r"[0-9A-Za-z_-]{1,30}")
_HOST = re.compile(r"[0-9A-Za-z.-]{1,253}|[0-9A-Fa-f:.]{2,45}")


def parse_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings tree.

    Raises: BadSetting: with the paths of all unknown keys, or else of the first wrong value.
    """
    settings = parse_section(texts(values), Settings)
    _check_database(values)
    _check_parties(settings)
    _check_tls(settings)
    _check_servers(settings)
    _check_model_store(settings)
    _check_servings(settings)
    _check_place(settings)
    _check_storage(settings.storage)
    _check_engines(settings)
    _check_board(settings.board)
    return settings


def parse_section(values: Mapping[str, Any], kind: type[S]) -> S:
    """Return a tree of settings.

    Raises: BadSetting: with the paths of all unknown keys, or else of the first wrong value.
    """
    unknown = list(_unknown_keys(values, kind))
    if unknown:
        reason = "there is no such key" if len(unknown) == 1 else "there are no such keys"
        raise BadSetting(path=", ".join(unknown), reason=reason)
    try:
        return read_as(_filled(values, kind), kind)
    except msgspec.ValidationError as exc:
        raise _bad_setting(str(exc), kind) from exc


def _bad_setting(text: str, tree: type[SettingsSection]) -> BadSetting:
    """Return the error that a sentence of the validation library means, with the key's path."""
    found = _AT.match(text)
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    unknown = _UNKNOWN.fullmatch(what)
    if unknown:
        what, path = "there is no such key", f"{path}.{unknown[1]}".removeprefix(".")
    elif words := _words_at(path, tree):
        what = f"{what}; known are {', '.join(words)}"
    return BadSetting(path=path or "(top level)", reason=what)


def _words_at(path: str, tree: type[SettingsSection]) -> list[str]:
    """Return the words that a setting may be; none if it is not a choice of words."""
    kinds: list[Any] = [tree]
    for key in re.findall(r"[A-Za-z_]\w*", path):
        section = next((kind for kind in kinds if _is_section(kind)), None)
        if section is not None:
            found = next((f.type for f in msgspec.structs.fields(section) if f.name == key), None)
            kinds = list(_parts_of(found))
    return [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]


def _parts_of(kind: Any) -> Iterator[Any]:
    """Yield a type and the types it is made of."""
    yield kind
    if get_origin(kind) is not Literal:
        for part in get_args(kind):
            yield from _parts_of(part)


def _unknown_keys(values: Mapping[str, Any], section: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the paths of keys that no section has."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(section)}
    for key, value in values.items():
        if key not in kinds:
            yield str(key)[:100]
        elif _is_section(kinds[key]) and isinstance(value, Mapping):
            yield from (f"{key}.{path}" for path in _unknown_keys(value, kinds[key]))


def _filled(values: Mapping[str, Any], section: type[msgspec.Struct]) -> dict[str, Any]:
    """Return `values` without texts that were left blank, as FATE's own file leaves some."""
    kinds = {field.name: field.type for field in msgspec.structs.fields(section)}
    filled: dict[str, Any] = {}
    for key, value in values.items():
        if _is_section(kinds[key]) and isinstance(value, Mapping):
            filled[key] = _filled(value, kinds[key])
        elif value is not None or kinds[key] is not str:
            filled[key] = value
    return filled


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, SettingsSection)


def texts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with party ids as text: YAML reads them as numbers."""
    changed = dict(values)
    party_id = changed.get("party_id")
    if isinstance(party_id, int) and not isinstance(party_id, bool):
        changed["party_id"] = str(party_id)
    routes = changed.get("routes")
    if isinstance(routes, Mapping):
        changed["routes"] = {str(party): address for party, address in routes.items()}
    partners = changed.get("partners")
    if isinstance(partners, list):
        changed["partners"] = [str(one) if type(one) is int else one for one in partners]
    return changed


def _check_database(values: Mapping[str, Any]) -> None:
    """Refuse an address without an engine: FATE's file has none, and means MySQL."""
    given = values.get("database", {})
    if "engine" not in given and not _MYSQL_KEYS.isdisjoint(given):
        raise BadSetting(path="database.engine", reason="say `mysql`, or `sqlite`")


def _check_engines(settings: Settings) -> None:
    """Refuse jobs on a cluster by default if there is none."""
    wants_spark = settings.default_engines.computing.upper() == "SPARK"
    if wants_spark and settings.fate_on_spark.spark.master is None:
        reason = "there is no cluster; name its URL with fate_on_spark.spark.master"
        raise BadSetting(path="default_engines.computing", reason=reason)


def check_routes(
    routes: Mapping[str, str],
    own: str | None,
    *,
    section: str = "routes",
    over_exchange: bool = False,
    or_else: str | None = None,
) -> None:
    """Refuse routes that are none; `over_exchange`: they may lead there, `or_else`: a word that may
    stand in place of one. Raises: BadSetting.
    """
    for party, address in routes.items():
        path = f"{section}.{party}"
        if not PARTY.fullmatch(party):
            raise BadSetting(path=path, reason=f"{party!r} is not a party id")
        for one in address.split(","):
            text = one.strip()
            if not over_exchange:
                check_direct(text, path)
            at = text.removeprefix(OVER_EXCHANGE)
            found = _ROUTE.fullmatch(at)
            if address != or_else and (found is None or not 0 < int(found[2]) < 65536):
                other = "" if or_else is None else f", and not `{or_else}`"
                raise BadSetting(path=path, reason=f"{text!r} is not host:port{other}")
        if party == own:
            raise BadSetting(path=path, reason="this is the server's own party")


def check_direct(address: str, path: str) -> None:
    """Refuse the way over an exchange to what is called directly. Raises: NotOverExchange."""
    if address.startswith(OVER_EXCHANGE):
        raise NotOverExchange(path=path, address=address[:200])


@contextmanager
def explained_by(kind: type[BadSetting]) -> Iterator[None]:
    """Raise a wrong setting as `kind`, whose hint names the conf that it stands in.

    Raises: BadSetting: of that kind, or NotOverExchange.
    """
    try:
        yield
    except NotOverExchange:
        raise
    except BadSetting as exc:
        raise kind(path=exc.fields["path"], reason=exc.fields["reason"]) from exc


def check_tls_files(tls: Tls, path: str) -> None:
    """Refuse some of the three files without the others. Raises: BadSetting."""
    files = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}
    given = [name for name, value in files.items() if value is not None]
    if given and len(given) < len(files):
        missing = next(name for name in files if name not in given)
        raise BadSetting(
            path=f"{path}.{missing}", reason="TLS needs ca, certificate and key together"
        )


def _check_parties(settings: Settings) -> None:
    own = settings.party_id
    if own is not None and (own == _EXCHANGE or not PARTY.fullmatch(own)):
        raise BadSetting(path="party_id", reason=f"{settings.party_id!r} is not a party id")
    check_routes(settings.routes, settings.party_id, over_exchange=True)
    _check_exchanges(settings)
    for party in settings.partners or ():
        if not PARTY.fullmatch(party):
            raise BadSetting(path="partners", reason=f"{party!r} is not a party id")


def _check_exchanges(settings: Settings) -> None:
    """Refuse routes over an exchange of a server that cannot prove who it is."""
    needs = "over an exchange, a server needs a party_id and tls"
    knows_itself = settings.party_id is not None and settings.tls.on
    for party, address in settings.routes.items():
        if OVER_EXCHANGE in address and not knows_itself:
            raise BadSetting(path=f"routes.{party}", reason=needs)
    if settings.dial_in and not knows_itself:
        raise BadSetting(path="dial_in", reason=needs)
    for address in settings.dial_in:
        found = _ROUTE.fullmatch(address.removeprefix(OVER_EXCHANGE))
        if found is None or not 0 < int(found[2]) < 65536:
            raise BadSetting(path="dial_in", reason=f"{address!r} is not host:port")


def _check_place(settings: Settings) -> None:
    shared, address = settings.shared_home, settings.fateflow.address
    if shared is not None and not shared.startswith("/"):
        raise BadSetting(path="shared_home", reason="it must be an absolute path")
    if address is not None and not _HOST.fullmatch(address):
        raise BadSetting(path="fateflow.address", reason=f"{address!r} is no host")


def _check_storage(storage: Storage) -> None:
    rules = (
        ("allowed_folders", storage.allowed_folders, re.compile(r"/.*"), "an absolute path"),
        ("mysql_hosts", storage.mysql_hosts, _HOST_PATTERN, "host:port"),
        ("hive_hosts", storage.hive_hosts, _HOST_PATTERN, "host:port"),
        ("s3_buckets", storage.s3_buckets, _BUCKET_PLACE, "s3://bucket or http://host/bucket"),
        ("hdfs_folders", storage.hdfs_folders, _HDFS_PLACE, "hdfs://host:port/folder"),
    )
    for name, values, pattern, form in rules:
        for value in values:
            if not pattern.fullmatch(value) or ".." in value.split("/"):
                raise BadSetting(path=f"storage.{name}", reason=f"{value!r} is not {form}")


def _check_board(board: Board) -> None:
    for name in board.host_names:
        if not _HOST.fullmatch(name):
            reason = f"{name!r} is no name of a host; ports do not matter"
            raise BadSetting(path="board.host_names", reason=reason)


def _check_servers(settings: Settings) -> None:
    for name, server in settings.servers.items():
        if not _SERVER.fullmatch(name):
            raise BadSetting(path=f"servers.{name}", reason="a name has letters, digits, _ and -")
        if not _HOST.fullmatch(server.host):
            raise BadSetting(path=f"servers.{name}.host", reason=f"{server.host!r} is no host")


def _check_model_store(settings: Settings) -> None:
    address = settings.model_store_address
    if address.storage == "folder" and not address.folder.startswith("/"):
        raise BadSetting(path="model_store_address.folder", reason="an absolute path is needed")
    if address.storage == "s3":
        _check_bucket(address)
    if address.storage == "mysql" and not re.fullmatch(r"[0-9A-Za-z_$]{1,64}", address.name):
        reason = f"{address.name!r} is no database name"
        raise BadSetting(path="model_store_address.name", reason=reason)


def _check_bucket(address: ModelStoreAddress) -> None:
    path = "model_store_address"
    named = _BUCKET_PLACE.fullmatch(address.uri) and ".." not in address.uri.split("/")
    if not named or not address.uri.startswith("s3://"):
        raise BadSetting(path=f"{path}.uri", reason="s3://bucket or s3://bucket/prefix is needed")
    if address.endpoint is not None and not _ENDPOINT.fullmatch(address.endpoint):
        raise BadSetting(path=f"{path}.endpoint", reason="it must be http(s)://host:port")
    if (address.access_key is None) != (address.secret_key is None):
        missing = "access_key" if address.access_key is None else "secret_key"
        raise BadSetting(path=f"{path}.{missing}", reason="the two keys go together")


def _check_servings(settings: Settings) -> None:
    for place, one in enumerate(settings.servings.hosts):
        found = _ROUTE.fullmatch(re.sub(r"^https?://", "", one.strip()).rstrip("/"))
        if found is None or not 0 < int(found[2]) < 65_536:
            reason = f"{one[:100]!r} is no host:port"
            raise BadSetting(path=f"servings.hosts[{place}]", reason=reason)


def _check_tls(settings: Settings) -> None:
    check_tls_files(settings.tls, "tls")
    client = settings.authentication.client
    if client.switch and not (client.http_app_key and client.http_secret_key):
        raise BadSetting(
            path="authentication.client",
            reason="switch is on without http_app_key and http_secret_key",
        )
