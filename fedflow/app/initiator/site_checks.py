"""Would the sites of a job accept it? Each is asked to check it as if it were created, and stores
nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from fedflow.app.initiator.preflight import side_by_side
from fedflow.app.models.model_loading import loaded_digests
from fedflow.app.protocol.kernel import UseCase
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.parties import PartyTooOld
from fedflow.base.errors.requests import RouteNotFound
from fedflow.base.ids import JobId, new_request_id
from fedflow.base.messages import Message, verbatim
from fedflow.base.values import dataclass
from fedflow.domain.job.spec import JobSpec
from fedflow.domain.records import JobKey
from fedflow.domain.site import Site
from fedflow.wire.commands import CreateJob, plain
from fedflow.wire.paths import job_path

_LONGEST: Final = 1_000  #: characters of an objection


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteCheck:
    """What a site said of a job that it was asked about."""

    site: Site
    objection: Message = Message("")  #: empty: it would accept the job, if it was asked
    was_asked: bool = True  #: its release can be asked


class SiteChecks(UseCase):
    """Asks all sites of a job at once, those of one party one after the other."""

    def ask(
        self, spec: JobSpec, *, model_digest: Any = None, without: Collection[Site] = ()
    ) -> list[SiteCheck]:
        """Return what each site says, in the order of the job; `without` are not asked.

        `model_digest` is that of the model that it predicts with.
        """
        with self._store.read() as tx:
            loaded = loaded_digests(tx, spec) or None
        body = CreateJob(
            dsl=spec.dsl,
            runtime_conf=spec.conf,
            initiator_role=spec.initiator.role.value,
            initiator_party_id=spec.initiator.party_id,
            model_digest=model_digest,
            loaded_models=loaded,
        )
        job_id = self._new_job_id(self._clock.now_ms())
        sites = [site for site in spec.sites if site not in without]
        found: dict[Site, SiteCheck] = {}

        def ask(party_id: str) -> None:
            for site in sites:
                if site.party_id == party_id:
                    found[site] = self._ask(job_id, spec.initiator, site, body)

        side_by_side(ask, list(dict.fromkeys(site.party_id for site in sites)))
        return [found[site] for site in sites if site in found]

    def _ask(self, job_id: JobId, source: Site, site: Site, body: CreateJob) -> SiteCheck:
        path = job_path("job_check", JobKey(job_id=job_id, site=site))
        try:
            reply = self._parties.call(
                source, site.party_id, path, plain(body),
                request_id=new_request_id(), job_id=job_id,
                deadline_s=self._timing.call_timeout_s,
            )  # fmt: skip
        except PartyTooOld:
            return SiteCheck(site=site, was_asked=False)
        except FedflowError as exc:
            return SiteCheck(site=site, objection=verbatim(exc.message, _LONGEST))
        if reply.error == RouteNotFound.__name__:
            return SiteCheck(site=site, was_asked=False)
        if reply.retcode != 0:
            return SiteCheck(site=site, objection=verbatim(reply.retmsg, _LONGEST))
        return SiteCheck(site=site)
