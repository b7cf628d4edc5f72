"""What all pages of one job have: whose view it is, the tabs, the way to its other sites."""

from __future__ import annotations

from typing import Any

from fedflow.app.queries.site_jobs import SiteJobSummary
from fedflow.base.values import dataclass
from fedflow.board.language import t
from fedflow.board.urls import component_url, site_named, site_url
from fedflow.domain.records import JobRecord
from fedflow.domain.site import Site
from fedflow.web.context import services

PREFIX = "/jobs/<job_id>/<role>/<party_id>"


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFrame:
    """One site's view of a job."""

    job_id: str
    site: Site
    share: SiteJobSummary

    @property
    def job(self) -> JobRecord:
        return self.share.job

    @property
    def title(self) -> str:
        """Return what people call the job."""
        return self.job.name or t("Job {job_id}", job_id=self.job_id[:60])

    @property
    def is_initiator(self) -> bool:
        return self.job.initiator == self.site

    def url(self, tab: str = "", **query: object) -> str:
        """Return the address of one of this job's pages."""
        return site_url(self.job_id, self.site, tab, **query)

    def component_url(self, component: str, tab: str = "") -> str:
        """Return the address of a component's page."""
        return component_url(self.job_id, self.site, component, tab)

    def values(self, tab: str) -> dict[str, Any]:
        """Return what `board/job_frame.html` shows; `tab` is the one that is open."""
        return {
            "frame": self,
            "tabs": [(title, self.url(name), name == tab) for name, title in _tabs()],
            "sites": [
                (site, site_url(self.job_id, site, tab), site == self.site)
                for site in self.share.own_sites
            ],
        }


def _tabs() -> list[tuple[str, str]]:
    return [
        ("", t("Overview")),
        ("timeline", t("Time line")),
        ("events", t("Events")),
        ("logs", t("Logs")),
        ("trace", t("Ledger")),
        ("definition", t("Definition")),
    ]


def job_frame(job_id: str, role: str, party_id: str) -> JobFrame:
    """Return the view that an address names. Raises: JobNotFound: it is not here."""
    site = site_named(job_id, role, party_id)
    return JobFrame(job_id=job_id, site=site, share=services().site_jobs.share(job_id, site))
