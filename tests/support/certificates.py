"""Certificates for tests; the code is that of `fedflow tls create`."""

from __future__ import annotations

from fedflow.rpc.certificates import Authority, PartyCertificate, make_ca, make_certificate

__all__ = ["Authority", "PartyCertificate", "make_ca", "make_certificate"]
