"""Which settings people may see: those that are named here. What is new is hidden until it is
listed, and a test asks for a decision about each.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from fedflow.base.settings import Settings
from fedflow.base.values import dataclass

SHOWN: Final = (
    "party_id", "insecure", "shared_home", "servings.hosts",
    "fateflow.host", "fateflow.grpc_host", "fateflow.http_port", "fateflow.grpc_port",
    "fateflow.address", "fateflow.http_behind_tls_proxy",
    "database.engine", "database.name", "database.host", "database.port",
    "database.max_connections", "database.stale_timeout", "database.synchronous",
    "routes", "dial_in", "partners", "authentication.client.switch", "authentication.site.switch",
    "permission.switch", "permission.component", "permission.dataset",
    "fate_on_standalone.standalone.cores_per_node", "fate_on_standalone.standalone.nodes",
    "fate_on_standalone.standalone.memory_per_node",
    "fate_on_standalone.standalone.max_cores_percent_per_job",
    "fate_on_spark.spark.master", "fate_on_spark.spark.cores_per_node",
    "fate_on_spark.spark.nodes", "fate_on_spark.spark.tables_uri",
    "fate_on_spark.spark.allowed_conf", "fate_on_spark.spark.small_rows",
    "fate_on_spark.spark.small_work_s", "fate_on_spark.spark.wait_s",
    "fate_on_spark.spark.idle_timeout_s", "fate_on_spark.spark.stop_grace_s",
    "default_engines.computing",
    "scheduling.starving_after_s", "scheduling.tick_interval_s", "scheduling.detect_interval_s",
    "scheduling.create_timeout_s", "scheduling.lease_s", "scheduling.heartbeat_s",
    "scheduling.call_timeout_s", "scheduling.preflight_timeout_s", "scheduling.retry_cap_s",
    "scheduling.hold_limit_s", "scheduling.launch_grace_s", "scheduling.stop_grace_s",
    "jobs.strict", "jobs.max_kib", "jobs.open_per_party", "jobs.stored_mib_per_party",
    "executor.start_method", "executor.memory_mib", "executor.nn_folder",
    "federation.receive_timeout_s", "federation.spool_mib", "federation.memory_mib",
    "upload.allowed_folders", "upload.max_mib", "download.allowed_folders",
    "storage.allowed_folders", "storage.mysql_hosts", "storage.hive_hosts", "storage.s3_buckets",
    "storage.hdfs_folders", "storage.may_write", "storage.connect_timeout_s",
    "storage.read_timeout_s", "storage.statement_timeout_s",
    "provider.allowed_folders",
    "model_store_address.storage", "model_store_address.folder", "model_store_address.name",
    "model_store_address.host", "model_store_address.port", "model_store_address.timeout",
    "model_store_address.uri", "model_store_address.endpoint", "model_store_address.region",
    "retention.jobs_days", "retention.status", "health.min_free_mib",
    "log.level", "log.format", "log.max_mib", "log.kept",
    "board.switch", "board.sign_in", "board.session_idle_s", "board.session_s",
    "board.host_names",
)  # fmt: skip
"""Paths of settings."""

HIDDEN: Final = (
    "servings.token",
    "database.user", "database.passwd",
    "tls.ca", "tls.certificate", "tls.key",
    "authentication.client.http_app_key", "authentication.client.http_secret_key",
    "servers", "fate_on_spark.spark.home", "fate_on_spark.spark.python",
    "fate_on_spark.spark.conf", "model_store_address.user", "model_store_address.passwd",
    "model_store_address.access_key", "model_store_address.secret_key",
)  # fmt: skip
"""Paths of settings that are secret, or may hold what is."""

_USER: Final = re.compile(r"//[^/@\s]*@")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicSetting:
    """A setting that people may see."""

    path: str
    value: str
    is_default: bool


def shown_settings(settings: Settings) -> tuple[PublicSetting, ...]:
    """Return the settings that people may see, in the order of the conf."""
    defaults = Settings()
    return tuple(
        PublicSetting(
            path=path,
            value=_text(_at(settings, path)),
            is_default=_at(settings, path) == _at(defaults, path),
        )
        for path in SHOWN
    )


def _at(settings: Settings, path: str) -> Any:
    value: Any = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def _text(value: Any) -> str:
    """Return a value as the conf writes it, without a user and password in an address."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return _USER.sub("//***@", text)
