"""This party's key and certificate, and whom it trusts: loaded and checked before anything listens.

A party's certificate names it twice: the common name is the party id (what a server reads of a
client), and the DNS name `party-<id>` is among its alternative names (what a client checks of a
server).
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from fedflow.base.errors.start import BadCertificate
from fedflow.base.ids import PartyId
from fedflow.base.settings import Tls
from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Key, certificate and trusted authorities of this party, as PEM."""

    party_id: PartyId
    certificate: bytes
    key: bytes = field(repr=False)
    authorities: bytes
    expires_ms: int  #: when the certificate ends

    def for_server(self) -> grpc.ServerCredentials:
        """Return what a gRPC server needs; a client without a certificate is refused."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.authorities,
            require_client_auth=True,
        )

    def for_client(self) -> grpc.ChannelCredentials:
        """Return what a gRPC channel to another party needs."""
        return grpc.ssl_channel_credentials(
            root_certificates=self.authorities,
            private_key=self.key,
            certificate_chain=self.certificate,
        )


def credentials_in(files: Tls, *, party_id: str, now_ms: int) -> Credentials | None:
    """Return the credentials that a conf names, None without TLS. Raises: BadCertificate."""
    if files.ca is None or files.certificate is None or files.key is None:
        return None
    return load_credentials(
        Path(files.certificate),
        Path(files.key),
        authorities=Path(files.ca),
        party_id=party_id,
        now_ms=now_ms,
    )


def load_credentials(
    certificate: Path, key: Path, *, authorities: Path, party_id: str, now_ms: int
) -> Credentials:
    """Return the credentials in three PEM files.

    Raises: BadCertificate: a file cannot be read; the certificate is not of `party_id`, does not
        fit the key, is not signed by the authorities, is not yet or no longer valid.
    """
    cert_pem = _read(certificate, "tls.certificate")
    key_pem = _read(key, "tls.key")
    ca_pem = _read(authorities, "tls.ca")
    shown = _shown_to_client(certificate, key, authorities=authorities, party_id=party_id)
    expires_ms = _expires_ms(shown, party_id, now_ms) if shown is not None else None
    if expires_ms is None:
        from fedflow.rpc.certificate_check import check_certificate  # with `cryptography`

        expires_ms = check_certificate(
            cert_pem,
            key_pem,
            ca_pem=ca_pem,
            files=(certificate, key, authorities),
            name=server_name(party_id),
            party_id=party_id,
            now_ms=now_ms,
        )
    return Credentials(
        party_id=PartyId(party_id),
        certificate=cert_pem,
        key=key_pem,
        authorities=ca_pem,
        expires_ms=expires_ms,
    )


def server_name(party_id: str) -> str:
    """Return the DNS name that the certificate of a party's server must have."""
    return f"party-{party_id}"


_ASKED: Final[ContextVar[tuple[object, PartyId | None] | None]] = ContextVar("asked", default=None)
"""The call of the running task, and its party."""


def certificate_party(context: grpc.aio.ServicerContext[Any, Any]) -> PartyId | None:
    """Return the party that the caller's certificate names, or None if the connection has no TLS.

    A certificate without exactly one common name is that of the party "", which does not exist.
    gRPC makes the whole certificate chain anew for each question: it is asked once per call.
    """
    known = _ASKED.get()
    if known is None or known[0] is not context:
        known = context, _named_party(context)
        _ASKED.set(known)
    return known[1]


def _named_party(context: grpc.aio.ServicerContext[Any, Any]) -> PartyId | None:
    found = context.auth_context()
    if b"insecure" in list(found.get("transport_security_type", (b"insecure",))):
        return None
    names = list(found.get("x509_common_name", ()))
    return PartyId(names[0].decode(errors="replace") if len(names) == 1 else "")


# --- checks ---------------------------------------------------------------------------------------


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise BadCertificate(path=setting, reason=f"{path} cannot be read: {exc.strerror}") from exc


def _shown_to_client(
    certificate: Path, key: Path, *, authorities: Path, party_id: str
) -> Mapping[str, Any] | None:
    """Return a certificate as a client that trusts `authorities` sees it; None: it refuses it.

    Both ends of the handshake are here, in memory.
    """
    server, client = (
        ssl.SSLContext(kind) for kind in (ssl.PROTOCOL_TLS_SERVER, ssl.PROTOCOL_TLS_CLIENT)
    )
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        server.load_cert_chain(certificate, key, password="")  # an encrypted key does not ask
        client.load_verify_locations(authorities)
        sees = client.wrap_bio(down, up, server_hostname=server_name(party_id))
        shows = server.wrap_bio(up, down, server_side=True)
        for end in (sees, shows, sees):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        return sees.getpeercert()
    except (OSError, ValueError):
        return None


def _expires_ms(shown: Mapping[str, Any], party_id: str, now_ms: int) -> int | None:
    """Return when a certificate ends; None: it is not valid now, or not of this party."""
    common = [value for part in shown["subject"] for key, value in part if key == "commonName"]
    own = common == [party_id] and ("DNS", server_name(party_id)) in shown.get("subjectAltName", ())
    start_ms, end_ms = (
        ssl.cert_time_to_seconds(shown[name]) * 1000 for name in ("notBefore", "notAfter")
    )
    return end_ms if own and start_ms <= now_ms <= end_ms else None
