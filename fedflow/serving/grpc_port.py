"""A gRPC port of a serving process: its limits, how it listens and how it ends."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import grpc

from fedflow.base.errors.start import PortInUse
from fedflow.base.thread_starts import Pool

logger = logging.getLogger(__name__)

Methods = Mapping[str, grpc.RpcMethodHandler]


class GrpcPort:
    """Serves methods of some services at one address."""

    def __init__(self, *, name: str, threads: int, waiting: int, message_mib: int) -> None:
        """`threads` calls are answered at once, `waiting` are under way or wait at most."""
        self._name = name
        self._threads = threads
        self._waiting = waiting
        self._message_bytes = message_mib << 20
        self._server: grpc.Server | None = None
        self._pool: ThreadPoolExecutor | None = None

    def listen(
        self,
        host: str,
        port: int,
        services: Mapping[str, Methods],
        credentials: grpc.ServerCredentials | None,
    ) -> int:
        """Bind the port, 0 for any, and serve; return which it is. Raises: PortInUse."""
        self._pool = Pool(self._threads, thread_name_prefix=f"fedflow-{self._name}")
        server = self._server = grpc.server(
            self._pool,
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", self._message_bytes),
                ("grpc.max_send_message_length", self._message_bytes),
                ("grpc.max_metadata_size", 16 * 1024),
                ("grpc.per_message_decompression", 0),
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            ],
            maximum_concurrent_rpcs=self._waiting,
        )
        server.add_generic_rpc_handlers(
            tuple(
                grpc.method_handlers_generic_handler(service, dict(methods))
                for service, methods in services.items()
            )
        )
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                bound: int = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, credentials)
        except RuntimeError as exc:
            raise PortInUse(address=address, reason="gRPC cannot bind it") from exc
        server.start()
        logger.info("%s port listens on %s:%d", self._name, host, bound, extra={"action": "listen"})
        return bound

    def stop(self, grace_s: float) -> None:
        """Refuse new calls, let running ones end within `grace_s`."""
        if self._server is not None:
            self._server.stop(grace_s).wait(grace_s + 5)
        if self._pool is not None:
            self._pool.shutdown()
