"""Makes adapters, and what they go by, from the settings of a server."""

from __future__ import annotations

import sys
from pathlib import Path

from fedflow.app.folders import Folders
from fedflow.app.party.launcher import WorkerSettings
from fedflow.app.party.processes import Processes
from fedflow.app.ports import Store
from fedflow.app.timing import Timing
from fedflow.base.ids import PartyId
from fedflow.base.settings import Settings
from fedflow.executor.plain import PlainExecutor, local_executor
from fedflow.executor.zygote import ZygoteExecutor
from fedflow.federation.settings import MIB, FederationSettings
from fedflow.rpc.credentials import Credentials, load_credentials
from fedflow.store.connect import open_mysql, open_sqlite
from fedflow.web.settings import ClientKeys, WebSettings


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


def executor_of(settings: Settings, processes: Processes) -> ZygoteExecutor:
    """Return the executor, not yet opened."""
    if settings.executor.start_method == "plain":
        return PlainExecutor(events=processes, python=sys.executable)
    return local_executor(events=processes, python=sys.executable)


def credentials_of(settings: Settings, now_ms: int) -> Credentials | None:
    """Return what proves this party to others, None without TLS. Raises: BadSetting."""
    tls = settings.tls
    if tls.ca is None or tls.certificate is None or tls.key is None:
        return None
    return load_credentials(
        Path(tls.certificate),
        Path(tls.key),
        authorities=Path(tls.ca),
        party_id=PartyId(settings.party_id or "0"),
        now_ms=now_ms,
    )


def federation_settings(settings: Settings) -> FederationSettings:
    """Return the limits of the data plane."""
    given = settings.federation
    return FederationSettings(
        receive_timeout_s=given.receive_timeout_s,
        spool_bytes=given.spool_mib * MIB,
        memory_bytes=given.memory_mib * MIB,
    )


def worker_settings(settings: Settings, folders: Folders, sockets: Path) -> WorkerSettings:
    """Return what every executor process is told."""
    memory_mib = settings.executor.memory_mib
    return WorkerSettings(
        server_socket=sockets / "server.sock",
        federation_socket=sockets / "federation.sock",
        tables_root=folders.tables,
        memory_bytes=memory_mib * MIB if memory_mib else None,
        receive_timeout_s=settings.federation.receive_timeout_s,
        log_level=settings.log.level,
    )


def web_settings(settings: Settings) -> WebSettings:
    """Return what the HTTP doors go by."""
    client = settings.authentication.client
    keys = (
        ClientKeys(app_key=client.http_app_key, secret=client.http_secret_key)
        if client.switch
        else None
    )
    return WebSettings(client_keys=keys, upload_bytes=settings.upload.max_mib * MIB)
