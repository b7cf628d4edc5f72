"""Which party job a page shows, and the addresses of its pages."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.records import JobFilter, JobRecord
from fedflow.domain.site import Role, Site
from fedflow.web.context import services


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyJobAddress:
    """One party job, as an address names it."""

    job_id: str
    site: Site
    record: JobRecord

    @property
    def own_sites(self) -> list[Site]:
        """Return all sites of this job that are here, this one among them."""
        found = services().jobs.find(JobFilter(job_id=self.job_id))
        return sorted((j.key.site for j in found), key=lambda s: s.order)


def job_place(job_id: str, role: str, party_id: str) -> PartyJobAddress:
    """Return the party job that an address names. Raises: JobNotFound: it is not here."""
    site = site_named(job_id, role, party_id)
    return PartyJobAddress(job_id=job_id, site=site, record=share_at(job_id, site))


def site_named(job_id: str, role: str, party_id: str) -> Site:
    """Return the site that an address names. Raises: JobNotFound: it is none."""
    try:
        return Site(Role(role), PartyId(party_id))
    except ValueError as exc:
        raise JobNotFound(job_id=job_id[:100]) from exc


def share_at(job_id: str, site: Site) -> JobRecord:
    """Return a site's party job. Raises: JobNotFound: it is not here."""
    which = JobFilter(job_id=job_id, roles=(site.role,), party_id=site.party_id, limit=1)
    found = services().jobs.find(which)
    if not found:
        raise JobNotFound(job_id=job_id[:100])
    return found[0]


def site_url(job_id: str, site: Site, tab: str = "", /, **query: object) -> str:
    """Return the address of a page of a job as `site` has it; `tab` such as `events`."""
    path = f"/board/jobs/{quote(job_id, safe='')}/{site.role.value}/{quote(site.party_id, safe='')}"
    asked = urlencode({k: v for k, v in query.items() if v is not None})
    return path + (f"/{tab}" if tab else "") + (f"?{asked}" if asked else "")


def job_url(place: PartyJobAddress, tab: str = "", **query: object) -> str:
    """Return the address of a page of this party job."""
    return site_url(place.job_id, place.site, tab, **query)


def component_url(job_id: str, site: Site, component: str, tab: str = "", **query: object) -> str:
    """Return the address of a page of one component."""
    name = f"components/{quote(component, safe='')}" + (f"/{tab}" if tab else "")
    return site_url(job_id, site, name, **query)
