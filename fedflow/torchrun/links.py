"""The way from an agent to the run at a fedflow server."""

from __future__ import annotations

from pathlib import Path

from fedflow.elastic.run_backend import RunAccess
from fedflow.torchrun.options import Options

_CALL_S = 10.0  #: of one call


def open_link(options: Options) -> RunAccess:
    """Return the way to a run; nothing is sent yet. Raises: OSError: a certificate is not there."""
    if options.transport == "grpc":
        return _grpc(options)
    from fedflow.client.client import Client

    shown = f"[{options.host}]" if ":" in options.host else options.host
    client = Client(
        f"http://{shown}:{options.port}",
        app_key=options.app_key,
        secret=options.secret,
        timeout_s=_CALL_S,
        repeats=False,
    )
    return client.rendezvous.run(options.settings.run_id, job_id=options.job_id)


def _grpc(options: Options) -> RunAccess:
    import grpc

    from fedflow.rpc.client.rendezvous import GrpcRun
    from fedflow.rpc.client.routes import Route

    credentials = None
    if options.ca and options.certificate and options.key:
        credentials = grpc.ssl_channel_credentials(
            root_certificates=Path(options.ca).read_bytes(),
            private_key=Path(options.key).read_bytes(),
            certificate_chain=Path(options.certificate).read_bytes(),
        )
    return GrpcRun(
        Route(host=options.host, port=options.port, tls=credentials is not None),
        party_id=options.party_id, run_id=options.settings.run_id,
        server_party=options.server_party, job_id=options.job_id, credentials=credentials,
        timeout_s=_CALL_S,
    )  # fmt: skip
