"""Makes adapters, and what they go by, from the settings of a server."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Final

from flask import Flask

from fedflow.app.administration.permissions import PermissionRules
from fedflow.app.administration.servers import Servers
from fedflow.app.core import Core
from fedflow.app.data.allowed_folders import AllowedFolders
from fedflow.app.participant.launcher import WorkerSettings
from fedflow.app.participant.processes import Processes
from fedflow.app.ports.store import Store
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.job_limits import JobLimits
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.deleting import Deletions
from fedflow.base.descriptors import connections_of_parties
from fedflow.base.settings import Settings
from fedflow.domain.job.engines import SPARK, STANDALONE, OwnEngines
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.spark_options import SparkSite, property_text
from fedflow.domain.states import JobStatus
from fedflow.executor.limits import executor_memory
from fedflow.executor.plain import PlainExecutor, local_executor
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.federation.messages import MAX_MESSAGE_BYTES
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.rpc.client.routes import Routes, make_routes
from fedflow.rpc.client.servers import ServerLinks
from fedflow.rpc.credentials import Credentials, credentials_in
from fedflow.rpc.data_plane.relays import Relays
from fedflow.rpc.server.listener import RpcServer, RpcSettings
from fedflow.rpc.server.unary import UnarySettings
from fedflow.server.threads import RetentionThread
from fedflow.spark.applications import ApplicationSettings, SparkApplications
from fedflow.store.connect import open_mysql, open_sqlite
from fedflow.web.app import Mounted, application
from fedflow.web.context import Built
from fedflow.web.errors import UNKNOWN_PAGE
from fedflow.web.settings import BoardSettings, ClientKeys, WebSettings
from fedflow.wire.versions import OURS, Speaks

if TYPE_CHECKING:
    from fedflow.app.ports.data import TableWindows
    from fedflow.app.ports.serving import ServingServers

_RETENTION_S: Final = 600.0  #: longest pause between two rounds that delete old jobs


def own_parties(settings: Settings) -> tuple[str, ...] | None:
    """Return the parties that this server hosts; None = all, in standalone mode."""
    return None if settings.party_id is None else (settings.party_id,)


def routes_of(settings: Settings) -> Routes:
    """Return where parties are, and whose calls are answered. Raises: BadSetting."""
    own, tls = own_parties(settings), settings.tls.on
    return make_routes(own, settings.routes, tls=tls, partners=settings.partners)


def permission_rules(settings: Settings) -> PermissionRules:
    """Return what is checked when other parties create jobs."""
    given = settings.permission
    return PermissionRules(switch=given.switch, component=given.component, dataset=given.dataset)


def allowed_sources(settings: Settings) -> AllowedFolders:
    """Return the folders of this machine whose files may become tables."""
    given = (*settings.upload.allowed_folders, *settings.storage.allowed_folders)
    return AllowedFolders(tuple(Path(folder) for folder in given))


def timing_of(settings: Settings) -> Timing:
    """Return the times that scheduling goes by, from the settings."""
    given = settings.scheduling
    return Timing(
        create_timeout_ms=int(given.create_timeout_s * 1000),
        starving_after_ms=int(given.starving_after_s * 1000),
        lease_ms=int(given.lease_s * 1000),
        heartbeat_ms=int(given.heartbeat_s * 1000),
        call_timeout_s=given.call_timeout_s,
        preflight_timeout_s=given.preflight_timeout_s,
        retry_cap_ms=int(given.retry_cap_s * 1000),
        hold_limit_ms=int(given.hold_limit_s * 1000),
        launch_grace_ms=int(given.launch_grace_s * 1000),
        stop_grace_s=given.stop_grace_s,
    )


def retention_of(settings: Settings, core: Core) -> Callable[[], RetentionThread] | None:
    """Return what makes the thread that deletes old jobs, None if they stay."""
    given = settings.retention
    if given.jobs_days is None:
        return None
    age_s = given.jobs_days * 86_400

    def made() -> RetentionThread:
        from fedflow.app.queries.retention import Retention  # most servers keep all jobs

        kernel = core.kernel
        retention = Retention(
            Deletions(
                store=kernel.servers.guarded(kernel.store),
                folders=kernel.folders,
                specs=kernel.specs,
            ),
            clock=kernel.clock,
            age_ms=int(age_s * 1000),
            statuses=frozenset(JobStatus(word) for word in given.status),
        )
        return RetentionThread(retention.look, interval_s=min(_RETENTION_S, max(1.0, age_s / 100)))

    return made


def open_store(settings: Settings, folders: Folders) -> Store:
    """Return the store that the settings name, opened. Raises: StoreUnavailable, SchemaTooNew."""
    database = settings.database
    if database.engine == "sqlite":
        return open_sqlite(folders.home / "fedflow.sqlite", synchronous=database.synchronous)
    return open_mysql(
        host=database.host,
        port=database.port,
        user=database.user,
        password=database.passwd,
        database=database.name,
        max_connections=database.max_connections,
        stale_timeout_s=database.stale_timeout,
    )


def job_defaults_of(settings: Settings) -> JobParameters:
    """Return the job parameters of jobs that do not say."""
    return JobParameters(strict=settings.jobs.strict)


def command_limits(settings: Settings, speaks: Speaks | None = OURS) -> UnarySettings:
    """Return how large commands of other parties may be: some carry the documents of a job."""
    largest = max(4 * MIB, 2 * settings.jobs.max_kib * 1024)
    return UnarySettings(body_bytes=largest, speaks=speaks)


def job_limits_of(settings: Settings) -> JobLimits:
    """Return how large a job may be, and how much the jobs of another party may take."""
    given = settings.jobs
    return JobLimits(
        job_bytes=given.max_kib * 1024,
        open_jobs=given.open_per_party,
        stored_bytes=given.stored_mib_per_party * MIB,
        free_bytes=settings.health.min_free_mib * MIB,
    )


def engines_of(settings: Settings) -> OwnEngines:
    """Return on which engines this server's sites may compute."""
    return OwnEngines(
        default=settings.default_engines.computing.upper(),
        spark=settings.fate_on_spark.spark.master is not None,
    )


def servings_of(settings: Settings) -> ServingServers | None:
    """Return the serving processes that the settings name, None if they name none."""
    given = settings.servings
    if not given.hosts:
        return None
    from fedflow.client.serving_servers import HttpServingServers  # few servers need it

    return HttpServingServers(given.hosts, token=given.token)


def windows_of(settings: Settings, folders: Folders) -> TableWindows | None:
    """Return what reads the reference of drift, None if no serving process is named."""
    if not settings.servings.hosts:
        return None
    from fedflow.tables.row_ranges import LocalWindows  # few servers need it

    return LocalWindows(folders.tables)


def register_engines(settings: Settings, store: Store, now_ms: int) -> None:
    """Store what the engines have; a cluster that the conf does not name any more has nothing."""
    here, spark = settings.fate_on_standalone.standalone, settings.fate_on_spark.spark
    with store.transaction() as tx:
        tx.engines.put(
            STANDALONE,
            here.cores_per_node * here.nodes,
            memory=here.memory_per_node * here.nodes,
            cores_percent=here.max_cores_percent_per_job,
            now_ms=now_ms,
        )
        if spark.master is not None:
            tx.engines.put(SPARK, spark.cores_per_node * spark.nodes, now_ms=now_ms)
        elif tx.engines.get(SPARK) is not None:
            tx.engines.put(SPARK, 0, now_ms=now_ms)


def executor_of(settings: Settings, processes: Processes) -> ZygoteExecutor:
    """Return the executor, not yet opened."""
    if settings.executor.start_method == "plain":
        return PlainExecutor(events=processes, python=sys.executable)
    return local_executor(events=processes, python=sys.executable)


def credentials_of(settings: Settings, now_ms: int) -> Credentials | None:
    """Return what proves this party to others, None without TLS. Raises: BadSetting."""
    return credentials_in(settings.tls, party_id=settings.party_id or "0", now_ms=now_ms)


def federation_settings(settings: Settings) -> FederationSettings:
    """Return the limits of the data plane."""
    given = settings.federation
    return FederationSettings(
        receive_timeout_s=given.receive_timeout_s,
        spool_bytes=given.spool_mib * MIB,
        memory_bytes=given.memory_mib * MIB,
    )


def worker_settings(settings: Settings, folders: Folders, sockets: Path) -> WorkerSettings:
    """Return what every worker process gets."""
    return WorkerSettings(
        server_socket=sockets / "server.sock",
        federation_socket=sockets / "federation.sock",
        tables_root=folders.tables,
        memory_bytes=executor_memory(settings.executor.memory_mib),
        receive_timeout_s=settings.federation.receive_timeout_s,
        log_level=settings.log.level,
        nn_folder=settings.executor.nn_folder,
        spark=spark_of(settings, folders),
        has_certificate=settings.tls.on,
    )


def spark_of(settings: Settings, folders: Folders) -> SparkSite | None:
    """Return what the launcher knows of this party's Spark, None if there is none."""
    given = settings.fate_on_spark.spark
    if given.master is None:
        return None
    return SparkSite(
        master=given.master,
        nodes=given.nodes,
        conf={key: property_text(value) for key, value in given.conf.items()},
        allowed_conf=given.allowed_conf,
        tables_uri=given.tables_uri or str(folders.tables),
        small_rows=given.small_rows,
        small_work_s=given.small_work_s,
        wait_s=given.wait_s,
    )


def applications_of(settings: Settings, folders: Folders) -> SparkApplications | None:
    """Return what starts Spark applications, not yet opened; None: there is no cluster.

    If there was one once, what is left of its applications is looked after. Raises: BadSetting.
    """
    given = settings.fate_on_spark.spark
    if given.master is None and not folders.spark.exists():
        return None
    return SparkApplications(
        folders.spark,
        settings=ApplicationSettings(
            master=given.master or "",  # nothing starts there then
            home=given.home,
            python=given.python or sys.executable,
            interpreter=sys.executable,
            wait_s=given.wait_s,
            idle_timeout_s=given.idle_timeout_s,
            stop_grace_s=given.stop_grace_s,
        ),
        logs=folders.party_logs,
    )


def web_settings(settings: Settings) -> WebSettings:
    """Return what the HTTP doors go by."""
    client = settings.authentication.client
    keys = (
        ClientKeys(app_key=client.http_app_key, secret=client.http_secret_key)
        if client.switch
        else None
    )
    return WebSettings(
        board=_board_settings(settings),
        host_names=_host_names(settings),
        client_keys=keys,
        upload_bytes=settings.upload.max_mib * MIB,
    )


def _host_names(settings: Settings) -> frozenset[str]:
    """Return the names of this server that nobody else can point at it: its machine's, where it
    listens, where others of its party reach it, and what the conf names.
    """
    listens = (settings.fateflow.host, settings.fateflow.address or "", gethostname())
    return frozenset(name.lower() for name in (*settings.board.host_names, *listens) if name)


def _board_settings(settings: Settings) -> BoardSettings | None:
    if not settings.board.switch:
        return None
    return BoardSettings(
        asks=settings.board_asks,
        host_names=tuple(name.lower() for name in settings.board.host_names),
        has_tls=settings.fateflow.http_behind_tls_proxy,
        cookie_mark=settings.party_id,
    )


# --- what is mounted beside the API; imported with the first request for it -----------------------


def mounted_by(settings: WebSettings) -> Mounted:
    """Return FATE-Board's routes, and the board if the settings have one."""
    return _FATE_BOARD if settings.board is None else {**_FATE_BOARD, **_BOARD}


def _fate_board(built: Built) -> Flask:
    from fedflow.board.fate_board import fateboard

    return application(built, fateboard, below="")


def _board(built: Built) -> Flask:
    from fedflow.board.blueprints import blueprints
    from fedflow.board.page import not_found, prepare

    app = application(built, *blueprints(), below="")
    app.extensions[UNKNOWN_PAGE] = not_found
    prepare(app)
    return app


_FATE_BOARD: Final[Mounted] = {("/fateboard",): _fate_board}
_BOARD: Final[Mounted] = {("/board", "/index.html"): _board}


def relays_of(servers: Servers, links: ServerLinks, limits: FederationSettings) -> Relays:
    """Return the ways of values between the servers of this party; call it on the event loop."""
    return Relays(
        runs_at=servers.runs_at,
        has_others=lambda: servers.has_others,
        open_channel=links.open_aio_channel,
        secret=lambda: servers.secret,
        settings=limits,
    )


def rpc_server_of(
    settings: Settings, credentials: Credentials | None, *, admits: Callable[[str], bool]
) -> RpcServer:
    """Return the gRPC server for other parties, which is not open yet."""
    at = settings.fateflow
    return RpcServer(
        RpcSettings(
            host=at.parties_host,
            port=at.grpc_port,
            message_bytes=max(command_limits(settings).body_bytes, MAX_MESSAGE_BYTES) + MIB,
            connections=connections_of_parties(),
        ),
        credentials=credentials.for_server() if credentials else None,
        admits=admits,
    )
