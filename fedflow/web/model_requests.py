"""How requests name one site's share of a version, and how changes of models are answered."""

from __future__ import annotations

from typing import Any

from flask import Response

from fedflow.app.models.model_changes import Outcome
from fedflow.base.errors.models import ModelChangeRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.domain.models.model import ModelKey
from fedflow.web.requests import Body, Text, site_of
from fedflow.web.responses import answer, success
from fedflow.wire import envelope


class SiteModelBody(Body, frozen=True):
    """One site's share of one version."""

    model_id: Text
    model_version: Text
    role: Text
    party_id: Text

    @property
    def key(self) -> ModelKey:
        """Return what the members name. Raises: BadRequest: there is no such role."""
        return ModelKey(
            site=site_of(self.role, self.party_id),
            model_id=self.model_id,
            model_version=self.model_version,
        )


class PartyModelBody(Body, frozen=True):
    """One site's share of one version, by FATE's name."""

    party_model_id: Text  #: `<role>#<party id>#<model id>`
    model_version: Text

    @property
    def key(self) -> ModelKey:
        """Return what the members name. Raises: BadRequest."""
        return named_share(self.party_model_id, self.model_version)


def named_share(party_model_id: str, model_version: str) -> ModelKey:
    """Return the share that FATE's name means. Raises: BadRequest: it is no such name."""
    try:
        return ModelKey.from_party_model_id(party_model_id, model_version)
    except ValueError as exc:
        raise BadRequest(reason=f"{party_model_id[:200]!r} is no party_model_id") from exc


def changed(outcome: Outcome, data: Any, *, job_id: str | None = None) -> Response:
    """Return what came of a change at several sites; a refusal names the first site's reason."""
    if outcome.done:
        return success(data, job_id=job_id)
    site, reply = next((s, r) for s, r in outcome.replies.items() if r.retcode)
    exc = ModelChangeRefused(reason=reply.said_by(site))
    return answer({**envelope.failure(exc), "data": data})
