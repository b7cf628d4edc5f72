"""The client's calls about what a job produced: metrics, tables, models, summaries.

Where a site is asked for, None means the initiator's if it is at this server, else an own one.
"""

from __future__ import annotations

import tempfile
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.errors.jobs import JobNotFound
from fedflow.base.ids import PartyId
from fedflow.client.archive import unpack
from fedflow.client.connection import Connection
from fedflow.domain.site import Role, Site
from fedflow.wire.api.job_lists import JobQueryRow
from fedflow.wire.api.tables import Preview
from fedflow.wire.api.tracking import Components, Metric, PartyModel, PartyModelMeta


class TrackingCalls:
    """What can be asked about the results of a component."""

    _connection: Connection

    def metrics(self, job_id: str, component: str, *, site: Site | None = None) -> list[Metric]:
        """Return all metrics of a component with their points."""
        tree: dict[str, dict[str, Metric]] = self._connection.look_up(
            "tracking/component/metric/all",
            self._place(job_id, component, site),
            dict[str, dict[str, Metric]],
        )
        return [
            msgspec.structs.replace(metric, namespace=namespace, name=name)
            for namespace, metrics in tree.items()
            for name, metric in metrics.items()
        ]

    def output_data(
        self, job_id: str, component: str, *, site: Site | None = None
    ) -> list[Preview]:
        """Return up to 100 rows of each output table; an empty list if there is none."""
        command = "tracking/component/output/data"
        envelope = self._connection.envelope(
            f"/v1/{command}", self._place(job_id, component, site), command=command, safe=True
        )
        meta = envelope.get("meta") or {}
        parts = zip_longest(
            envelope.get("data") or (),
            meta.get("header") or (),
            meta.get("total") or (),
            meta.get("names") or (),
        )
        rows = [
            {"data": rows or (), "header": header or (), "total": total, "name": name or ""}
            for rows, header, total, name in parts
        ]
        found: list[Preview] = self._connection.typed(rows, list[Preview], command=command)
        return found

    def download_output(
        self, job_id: str, component: str, target: Path, *, site: Site | None = None,
        limit: int = -1, head: bool = True,
    ) -> list[Path]:  # fmt: skip
        """Unpack the output tables into `target`, a CSV and a meta file each; return the files.

        `limit` < 0 means all rows. Raises: NoData: there is no output at this site.
        """
        body = {**self._place(job_id, component, site), "limit": limit, "head": head}
        command = "tracking/component/output/data/download"
        with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
            archive = Path(folder) / "output.tar.gz"
            with archive.open("wb") as file:
                self._connection.fetch(f"/v1/{command}", body, file, command=command, method="GET")
            return unpack(archive, target)

    def model(self, job_id: str, component: str, *, site: Site | None = None) -> PartyModel | None:
        """Return the site's share of a component's model, None if it has none."""
        command = "tracking/component/output/model"
        envelope = self._connection.envelope(
            f"/v1/{command}", self._place(job_id, component, site), command=command, safe=True
        )
        if not envelope.get("data"):
            return None
        meta: PartyModelMeta = self._connection.typed(
            envelope.get("meta") or {}, PartyModelMeta, command=command
        )
        return PartyModel(param=envelope["data"], meta=meta.meta_data, module=meta.module_name)

    def summary(self, job_id: str, component: str, *, site: Site | None = None) -> Any:
        """Return a component's summary, a JSON value. Raises: NoData: it has none."""
        command = "tracking/component/summary/download"
        return self._connection.read(
            f"/v1/{command}", self._place(job_id, component, site), command=command
        )

    def parameters(
        self, job_id: str, component: str, *, site: Site | None = None
    ) -> dict[str, Any]:
        """Return the parameters that a component ran with at a site."""
        found: dict[str, Any] = self._connection.look_up(
            "tracking/component/parameters",
            self._place(job_id, component, site),
            dict[str, Any],
        )
        return found

    def components_of(self, job_id: str) -> list[str]:
        """Return the names of a job's components. Raises: JobNotFound."""
        found: Components = self._connection.look_up(
            "tracking/component/list", {"job_id": job_id}, Components
        )
        return list(found.components)

    def delete_metrics(self, job_id: str) -> None:
        """Delete all metrics of an ended job at this server. Raises: JobNotFound."""
        self._connection.do("tracking/component/metric/delete", {"job_id": job_id})

    def own_sites(self, job_id: str) -> list[Site]:
        """Return the sites of a job at this server, the initiator first. Raises: JobNotFound."""
        rows: list[JobQueryRow] = self._connection.look_up(
            "job/query", {"job_id": job_id}, list[JobQueryRow]
        )
        if not rows:
            raise JobNotFound(job_id=job_id)
        rows.sort(key=lambda row: not row.is_initiator)
        return [Site(Role(row.role), PartyId(str(row.party_id))) for row in rows]

    def _place(self, job_id: str, component: str, site: Site | None) -> dict[str, str]:
        if site is None:
            site = self.own_sites(job_id)[0]
        return {
            "job_id": job_id,
            "component_name": component,
            "role": site.role.value,
            "party_id": site.party_id,
        }
