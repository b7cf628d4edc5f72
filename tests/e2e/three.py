"""A guest and two hosts, each with a server of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fedflow.domain.site import Site
from tests.e2e.servers import GUEST_ID, HOST_ID, Pair, Party, Place, free_ports

SECOND = Site.from_key("host-10001")
IDS = (GUEST_ID, HOST_ID, SECOND.party_id)


@dataclass(frozen=True)
class Three(Pair):
    """The first host's party may be arbiter too."""

    second: Party

    @property
    def all(self) -> tuple[Party, ...]:
        return self.guest, self.host, self.second

    def of(self, site: Site) -> Party:
        return self.second if site == SECOND else super().of(site)


def three_places(
    root: Path, *, settings: Mapping[str, str], tls: Path | None = None, hosts_meet: bool = True
) -> list[Place]:
    """Return where the three servers run, below `root`; without `hosts_meet` the hosts know no way
    to each other.
    """
    http, grpc = (dict(zip(IDS, free_ports(3), strict=True)) for _ in range(2))
    return [
        Place(
            home=root / party_id,
            party_id=party_id,
            http_port=http[party_id],
            grpc_port=grpc[party_id],
            routes={
                other: f"127.0.0.1:{grpc[other]}"
                for other in IDS
                if other != party_id and (hosts_meet or GUEST_ID in (other, party_id))
            },
            tls=tls,
            settings=settings,
        )
        for party_id in IDS
    ]
