"""Giving a trained model to other parties: the same roles, other party ids.

What names a party in a stored model changes: roles, initiator and confs of the version, and inside
component models the anonymous names of features, the owners of trees' nodes, and the objects that
are kept by site. Other texts stay, also if they look alike: a column may be called `host_10000`.
Source: `docs/reference/models.md#migrate`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fedflow.base.ids import PartyId
from fedflow.base.values import dataclass
from fedflow.domain.models.model import ModelKey, ModelVersion
from fedflow.domain.site import Role, Site

_SITE: Final = re.compile(r"(guest|host|arbiter)([_\-.:#])([0-9]{1,18})(?=[_\-.:#]|\Z)")
_ANONYMOUS: Final = "anonymous"  #: part of the names of members that hold anonymous feature names
_OWNER: Final = "sitename"  #: the member of a tree's node that names whose split it is

Roles = Mapping[str, Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """Old and new party ids of every role, position by position."""

    old: Roles
    new: Roles
    initiator: Site  #: among the new ones
    model_id: str  #: the new one
    model_version: str  #: the new one

    def site(self, old: Site) -> Site:
        """Return the new site in place of an old one. Raises: ValueError: it is none of them."""
        position = list(self.old.get(old.role.value, ())).index(old.party_id)
        return Site(old.role, PartyId(self.new[old.role.value][position]))

    def version(self, old: ModelVersion, *, now_ms: int) -> ModelVersion:
        """Return a site's share of the new version; it cannot be used yet."""
        key = ModelKey(
            site=self.site(old.key.site),
            model_id=self.model_id,
            model_version=self.model_version,
        )
        return replace(
            old,
            key=key,
            job_id=self.model_version,
            roles={role: list(parties) for role, parties in self.new.items()},
            initiator=self.initiator,
            train_conf=self._conf(old.train_conf, key),
            conf_on_party=self._conf(old.conf_on_party, key),
            created_ms=now_ms,
            updated_ms=now_ms,
            loaded_times=0,
            imported=False,
            archive_sha256=None,
            archive_from_ip=None,
            ready=False,
        )

    def content(self, value: Any) -> Any:
        """Return one object of a component's model with the new party ids."""
        return self._content(value, anonymous=False)

    def _content(self, value: Any, *, anonymous: bool) -> Any:
        if isinstance(value, dict):
            return {
                self._key(key): self._content(
                    member,
                    anonymous=anonymous or _ANONYMOUS in key.lower() or key == _OWNER,
                )
                for key, member in value.items()
            }
        if isinstance(value, list):
            return [self._content(member, anonymous=anonymous) for member in value]
        if anonymous and isinstance(value, str):
            return _SITE.sub(self._named, value, count=1) if _SITE.match(value) else value
        return value

    def _key(self, key: str) -> str:
        return _SITE.sub(self._named, key) if _SITE.fullmatch(key) else key

    def _named(self, found: re.Match[str]) -> str:
        """Return the text of a site with its new party id; one of no party of the model stays."""
        role, separator, party = found.groups()
        try:
            new = self.site(Site(Role(role), PartyId(party)))
        except ValueError:
            return found[0]
        return f"{role}{separator}{new.party_id}"

    def _conf(self, conf: Any, key: ModelKey) -> Any:
        """Return a conf of the new parties; a flat one (on party) stays flat."""
        if not isinstance(conf, dict):
            return conf
        section = conf.get("job_parameters")
        section = section if isinstance(section, dict) else {}
        named = {"model_id": key.model_id, "model_version": key.model_version}
        common = section.get("common")
        if isinstance(common, dict) or not section:
            section = {**section, "common": {**(common or {}), **named}}
        else:
            section = {**section, **named}
        parties: dict[str, Any] = {
            "role": {role: [int(p) for p in ids] for role, ids in self.new.items()},
            "initiator": _site_json(self.initiator),
        }
        if "local" in conf:
            parties["local"] = _site_json(key.site)
        return {**conf, **parties, "job_parameters": section}


def structure_fault(old: Roles, new: Roles) -> str | None:
    """Return why `new` cannot take the place of `old`, None if it can."""
    if set(old) != set(new):
        return f"migrate_role has the roles {', '.join(sorted(new))}, not {', '.join(sorted(old))}"
    for role, parties in new.items():
        if len(parties) != len(old[role]):
            return f"migrate_role.{role} lists {len(parties)} parties, not {len(old[role])}"
        if len(set(parties)) != len(parties):
            return f"migrate_role.{role} lists a party twice"
    return None


def _site_json(site: Site) -> dict[str, Any]:
    return {"role": site.role.value, "party_id": int(site.party_id)}
