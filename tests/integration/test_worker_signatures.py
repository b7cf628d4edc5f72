"""Signatures of tasks: from the worker to the server, over a unix socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.executors import ServerRefused
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.rpc.certificate_signatures import CertificateSigner
from fedflow.rpc.credentials import Credentials
from fedflow.worker.identity import WorkerIdentity
from tests.support.certificates import make_ca, make_certificate
from tests.support.worker_links import linked

AUTHORITY = make_ca()


def signer_of(party_id: str) -> CertificateSigner:
    pair = make_certificate(party_id, authority=AUTHORITY)
    credentials = Credentials(
        party_id=PartyId(party_id),
        certificate=pair.certificate,
        key=pair.key,
        authorities=AUTHORITY.certificate,
        expires_ms=0,
    )
    return CertificateSigner(credentials, clock=SystemClock())


def own_site(home: Path) -> Site:
    """Return the site of the task that `linked` runs."""
    with linked(home) as link:
        return link._key.site


def test_a_task_signs_as_its_site_and_in_its_attempt_only(tmp_path: Path) -> None:
    site = own_site(tmp_path / "first")
    other = Site(Role.GUEST if site.role is not Role.GUEST else Role.HOST, site.party_id)
    with linked(tmp_path / "second", signer=signer_of(site.party_id)) as link:
        identity = WorkerIdentity(link)
        signature = identity.sign(b"keys")
        claims = [
            (site, b"keys", signature),
            (site, b"other keys", signature),
            (other, b"keys", signature),
            (site, b"keys", b"\xff"),
        ]
        assert identity.verify(claims) == [True, False, False, False]
        bare = signer_of(site.party_id).sign(b"keys").encode()
        assert identity.verify([(site, b"keys", bare)]) == [False]


def test_without_a_certificate_nothing_is_signed(tmp_path: Path) -> None:
    with linked(tmp_path) as link, pytest.raises(ServerRefused, match="no certificate"):
        WorkerIdentity(link).sign(b"keys")


def test_another_token_signs_nothing(tmp_path: Path) -> None:
    with linked(tmp_path, token="another", signer=signer_of("9999")) as link:
        with pytest.raises(ServerRefused, match="109"):
            WorkerIdentity(link).sign(b"keys")
        with pytest.raises(ServerRefused, match="109"):
            WorkerIdentity(link).verify([])


def test_too_much_is_refused(tmp_path: Path) -> None:
    with linked(tmp_path, signer=signer_of("9999")) as link:
        identity = WorkerIdentity(link)
        with pytest.raises(ServerRefused, match="65536 bytes"):
            identity.sign(bytes(65_537))
        with pytest.raises(ServerRefused, match="1000 are verified"):
            identity.verify([(Site(Role.HOST, PartyId("1")), b"", b"")] * 1001)
