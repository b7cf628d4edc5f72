"""How a serving process is: alive, ready, and which partners do not answer."""

from __future__ import annotations

from typing import Any

from fedflow.serving.models import ServedModels
from fedflow.serving.partners.partner_calls import PartnerCalls


class ServingHealth:
    """What `/healthz` and `/readyz` say."""

    def __init__(self, models: ServedModels, partners: PartnerCalls) -> None:
        self._models = models
        self._partners = partners
        self.draining = False

    def readiness(self) -> dict[str, Any]:
        """Return whether requests are answered, and what is not as it should be.

        One model that cannot be served, or one partner that does not answer, is named and does not
        make the process unready.
        """
        states = self._partners.states()
        wanted = {host for one in self._models.loaded() for host in one.model.hosts}
        return {
            "ready": not self.draining,
            "starting": False,
            "reasons": ["the process is stopping"] if self.draining else [],
            "models": len(self._models.loaded()),
            "refused": [
                {
                    "model_version": one.key.model_version,
                    "model_id": one.key.model_id,
                    "reason": one.reason,
                }
                for one in self._models.refused()
            ],
            "circuits": {p: one for p, one in self._partners.circuits().items() if one != "closed"},
            "partners": {
                party: states.get(party, "not asked yet") or "answers" for party in sorted(wanted)
            },
        }
