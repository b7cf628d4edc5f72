"""Which departures of other sites a site's receives from whoever sends next have yet to return."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from fedflow.base.values import dataclass
from fedflow.domain.site import Site

MOST: Final = 1000  #: names and tags that are remembered; of one that was forgotten they come again


@dataclass(kw_only=True, slots=True, eq=False)
class _Asked:
    sources: set[Site] = field(default_factory=set)
    pending: dict[Site, str] = field(default_factory=dict)


class Departures:
    """Each departure is returned once per name and tags, whether or not the site has returned."""

    def __init__(self) -> None:
        self._asked: OrderedDict[tuple[str, str], _Asked] = OrderedDict()

    def add(self, site: Site, reason: str) -> None:
        """Note that a site has ended, or is gone."""
        for asked in self._asked.values():
            if site in asked.sources:
                asked.pending[site] = reason

    def pending(
        self, name: str, tags: str, sources: Sequence[Site], gone: Mapping[Site, str]
    ) -> dict[Site, str]:
        """Return the departures that receives of `name` and `tags` have yet to return.

        The caller removes what it returns. A receive that asks for a site the first time learns
        of its departure if it is among those that are `gone` now, with the reason.
        """
        asked = self._asked.setdefault((name, tags), _Asked())
        if len(self._asked) > MOST:
            self._asked.popitem(last=False)
        for site in sources:
            if site not in asked.sources:
                asked.sources.add(site)
                if site in gone:
                    asked.pending[site] = gone[site]
        return asked.pending
