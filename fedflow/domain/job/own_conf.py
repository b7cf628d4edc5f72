"""Which part of a job's conf a site may be shown: what counts for all, and what counts for itself.

A job's conf comes to every site as it was submitted, with the parameters of all parties. Pages and
endpoints show a site that did not submit it only its own part, as FATE-Board shows a host its
runtime conf. Stored confs have version 2. Source:
`docs/reference/board.md#details-of-a-job`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.domain.job.conf import ALL
from fedflow.domain.site import Site

_SECTIONS: Final = ("job_parameters", "component_parameters", "provider")


def own_conf(
    conf: Any, site: Site, roles: Mapping[str, Sequence[str]], *, is_initiator: bool
) -> Any:
    """Return what a site may see of a conf; the initiator's, whose conf it is, sees all of it."""
    if is_initiator or not isinstance(conf, dict):
        return conf
    parties = [str(party) for party in roles.get(site.role.value, ())]
    index = parties.index(site.party_id) if site.party_id in parties else -1
    return {
        name: _own_section(value, site, index) if name in _SECTIONS else value
        for name, value in conf.items()
    }


def without_others(conf: Any, site: Site) -> Any:
    """Return `own_conf`'s answer also without who else takes part, as FATE-Board shows a host."""
    if not isinstance(conf, dict):
        return conf
    shown = {name: value for name, value in conf.items() if name != "initiator"}
    role = shown.get("role")
    if isinstance(role, dict):
        shown["role"] = {name: ids for name, ids in role.items() if name == site.role.value}
    return shown


def _own_section(section: Any, site: Site, index: int) -> Any:
    """Return `common`, and of `role` what is for this site; the index keys stay as they are."""
    given = section.get("role") if isinstance(section, dict) else None
    if not isinstance(given, dict):
        return section
    of_role = given.get(site.role.value)
    own = {}
    if isinstance(of_role, dict):
        own = {key: value for key, value in of_role.items() if _is_for(key, index, value)}
    return {**section, "role": {site.role.value: own} if own else {}}


def _is_for(key: str, index: int, value: Any) -> bool:
    """Tell whether an index key (`all`, `0`, `0|2`) names a site; a component's name, which FATE's
    toy job writes in its place, counts for all parties of the role.
    """
    if key == ALL or not isinstance(value, dict):
        return True
    words = key.split("|")
    return str(index) in words or not all(word.isdigit() for word in words)
