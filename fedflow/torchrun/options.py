"""What the options of torchrun say, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedflow.base.settings import check_direct
from fedflow.base.values import dataclass
from fedflow.elastic.state import RendezvousSettings

HTTP_PORT: Final = 9380
GRPC_PORT: Final = 9360
TRANSPORTS: Final = ("http", "grpc")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How an agent takes part in a run."""

    host: str  #: of the fedflow server
    port: int
    settings: RendezvousSettings
    local_address: str | None  #: where other agents reach this one; None: the machine's name
    transport: str = "http"
    job_id: str | None = None
    app_key: str | None = None
    secret: str | None = None
    party_id: str = "0"  #: of the agent
    server_party: str = "0"
    ca: str | None = None  #: PEM file of authorities; without it gRPC has no TLS
    certificate: str | None = None
    key: str | None = None
    connect_timeout_s: float = 30.0  #: how long an agent that starts waits for the server
    reconnect_timeout_s: float = 120.0  #: how long who joins or leaves waits for the server


def read_options(
    endpoint: str, run_id: str, *, min_nodes: int, max_nodes: int, local_addr: str | None,
    config: Mapping[str, Any],
) -> Options:  # fmt: skip
    """Return the options; `config` is that of `--rdzv-conf`, without what torch adds to it.

    Raises: ValueError: a key is not known, or a value is none of its kind. NotOverExchange.
    """
    check_direct(endpoint.strip(), "--rdzv-endpoint")
    given = {key: value for key, value in config.items() if key not in _OF_TORCH}
    if unknown := sorted(given.keys() - _TIMES.keys() - _TEXTS - {"keep_alive_max_attempt"}):
        raise ValueError(f"--rdzv-conf of fedflow has no {', '.join(unknown)}")
    texts: dict[str, Any] = {key: str(given[key]) for key in _TEXTS & given.keys()}
    transport = texts.get("transport", "http")
    if transport not in TRANSPORTS:
        raise ValueError(f"transport is one of {', '.join(TRANSPORTS)}, not {transport!r}")
    files = [texts.get(name) for name in ("ca", "certificate", "key")]
    if any(files) and not all(files):
        raise ValueError("ca, certificate and key go together")
    times = {_TIMES[key]: _seconds(key, given[key]) for key in _TIMES.keys() & given.keys()}
    waits = {name: times.pop(name) for name in _WAITS & times.keys()}
    settings = RendezvousSettings(
        run_id=run_id,
        min_members=min_nodes,
        max_members=max_nodes,
        keep_alive_attempts=_whole("keep_alive_max_attempt", given, default=3),
        **times,
    )
    host, port = _endpoint(endpoint, GRPC_PORT if transport == "grpc" else HTTP_PORT)
    party = texts.get("party_id", "0")
    return Options(
        host=host, port=port, settings=settings, local_address=local_addr or None,
        **{"party_id": party, "server_party": party, **texts, **waits},
    )  # fmt: skip


_TIMES: Final = {
    "join_timeout": "join_timeout_s",
    "last_call_timeout": "last_call_s",
    "close_timeout": "close_timeout_s",
    "heartbeat_timeout": "heartbeat_timeout_s",
    "keep_alive_interval": "keep_alive_interval_s",
    "connect_timeout": "connect_timeout_s",
    "reconnect_timeout": "reconnect_timeout_s",
}
_WAITS: Final = frozenset({"connect_timeout_s", "reconnect_timeout_s"})
_TEXTS: Final = frozenset(
    {"transport", "job_id", "app_key", "secret", "party_id", "server_party", "ca", "certificate"}
    | {"key"}
)
_OF_TORCH: Final = frozenset({"rank", "timeout", "read_timeout", "is_host", "store_type"})
"""What torchrun adds for its own back ends."""


def _seconds(key: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds < 1e7:
        raise ValueError(f"{key} is a number of seconds, not {value!r}")
    return seconds


def _whole(key: str, given: Mapping[str, Any], *, default: int) -> int:
    try:
        return int(given.get(key, default))
    except (TypeError, ValueError):
        raise ValueError(f"{key} is a whole number, not {given[key]!r}") from None


def _endpoint(text: str, default: int) -> tuple[str, int]:
    """Return host and port of `host`, `host:port` or `[host]:port`."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or "]" in port:
        host, port = text.strip(), str(default)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
        raise ValueError(f"--rdzv-endpoint is HOST:PORT of a fedflow server, not {text!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
