"""A participant's answer to an initiator that looks for results which a new job may take over.

It tells of tables that the initiator may read no more than an identity that says nothing of their
contents, and of results of the initiator's own jobs whether they are there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from fedflow.app.inheritance import results_there
from fedflow.app.participant.admission import Admission
from fedflow.app.ports.store import Tx
from fedflow.app.protocol.after_commit import AfterCommit
from fedflow.app.protocol.commands import Incoming, TypedCommand
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.errors.requests import BadRequest
from fedflow.base.ids import PartyId
from fedflow.domain.data.table_parts import is_own
from fedflow.domain.job.dsl import MAX_COMPONENTS
from fedflow.domain.models.model import canonical_json
from fedflow.domain.records import JobKey, Reply, TableRecord
from fedflow.domain.site import Role, Site
from fedflow.wire.commands import ReuseAnswer, ReuseRequest, plain


class PartyReuse:
    """The handler of `job_reuse`."""

    def __init__(self, *, acceptance: Admission) -> None:
        self._acceptance = acceptance

    def answer(self, tx: Tx, incoming: TypedCommand[ReuseRequest], effects: AfterCommit) -> Reply:
        """Tell the identities of the `tables` that readers name, or, with an `earlier_job`, which
        of its `components` have their results here.

        Raises: WrongSite: it is not the initiator who asks. BadRequest.
        """
        initiator = _initiator(incoming)
        tables, earlier = incoming.body.tables, incoming.body.earlier_job
        if len(tables) > MAX_COMPONENTS:
            raise BadRequest(reason=f"`tables` may name {MAX_COMPONENTS} components")
        if earlier is None:
            site = incoming.job.site
            known = {
                name: self._table(tx, initiator, site, named) for name, named in tables.items()
            }
            return Reply(
                retcode=0,
                data=plain(
                    ReuseAnswer(
                        tables={n: identity(site, t) if t else None for n, t in known.items()}
                    )
                ),
            )
        names = incoming.body.components
        if names is None or len(names) > MAX_COMPONENTS:
            raise BadRequest(reason="`earlier_job` must be an id, `components` a list of names")
        there = {n: self._there(tx, incoming, earlier, n, initiator, tables) for n in names}
        return Reply(retcode=0, data=plain(ReuseAnswer(there=there)))

    def _there(
        self, tx: Tx, incoming: Incoming, earlier: str, name: str, initiator: Site,
        tables: Mapping[str, Any],
    ) -> bool:  # fmt: skip
        """Tell whether a component's results are here, and are what its table is now."""
        site = incoming.job.site
        old = tx.jobs.get(JobKey(job_id=earlier, site=site))
        if old is None or old.initiator.party_id != initiator.party_id:
            return False
        outputs = results_there(tx, old, name)
        if outputs is None:
            return False
        if name not in tables:
            return True
        named = self._table(tx, initiator, site, tables[name])
        return named is not None and [o.address for o in outputs] == [named.address]

    def _table(self, tx: Tx, initiator: Site, site: Site, named: Any) -> TableRecord | None:
        """Return a table whose rows stay as they are while it has its address, else None."""
        if not isinstance(named, dict):
            return None
        try:
            found = self._acceptance.table(tx, initiator, site, named, path="table")
        except FedflowError:
            return None  # the create command says why the job cannot read it
        return found if is_own(found.engine, found.storage) else None


def identity(site: Site, table: TableRecord) -> str:
    """Return what changes with every change of a table (sha256, hex).

    Its address is random and never used twice, so the digest tells nothing of the rows.
    """
    parts = [site.key, table.address, table.schema, table.extra, table.count]
    return hashlib.sha256(canonical_json(parts)).hexdigest()


def _initiator(incoming: TypedCommand[ReuseRequest]) -> Site:
    """Return who submits the job. Raises: BadRequest, WrongSite."""
    try:
        site = Site(
            Role(incoming.body.initiator_role),
            PartyId(str(incoming.body.initiator_party_id)),
        )
    except ValueError as exc:
        raise BadRequest(reason="initiator_role and initiator_party_id must name a site") from exc
    if incoming.source_party is not None and incoming.source_party != site.party_id:
        raise WrongSite(site=f"party {incoming.source_party}", job_id=incoming.job_id)
    return site
