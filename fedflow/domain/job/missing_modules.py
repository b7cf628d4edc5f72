"""Modules of FATE 1.11 that fedflow does not have, and what is said of a module that is not there.

README.md and docs/features.md list them: `bin/print-missing` writes both. Only a refusal imports
this module.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from fedflow.base.errors.components import ModuleNotYet, UnknownComponent
from fedflow.base.errors.error import FedflowError
from fedflow.base.messages import Message
from fedflow.base.values import dataclass
from fedflow.domain.job.document import cut, shown

_NEAR: Final = 0.8  #: how alike two names are at least, of 1
_MOST: Final = 3  #: names that are suggested


@dataclass(frozen=True, kw_only=True, slots=True)
class MissingModule:
    """A module of FATE that fedflow does not have."""

    module: str
    planned: bool
    instead: str = ""  #: what does a similar thing here
    aliases: tuple[str, ...] = ()  #: other names for it in FATE

    @property
    def state(self) -> Message:
        """Return how things are with it, as the end of a sentence."""
        return Message("yet (planned)") if self.planned else Message("(not planned)")


_OWN: Final = "a component of one's own"

MISSING: Final = (
    MissingModule(module="HomoSecureBoost", planned=True),
    MissingModule(module="HeteroNN", planned=True),
    MissingModule(module="FTL", planned=False, instead=_OWN, aliases=("HeteroFTL",)),
    MissingModule(module="CustNN", planned=False),
    MissingModule(module="SPDZTest", planned=False, instead="SecureAddExample"),
)

_BY_NAME: Final = {
    name.lower(): missing for missing in MISSING for name in (missing.module, *missing.aliases)
}


def refusal(module: str, names: Mapping[str, str]) -> tuple[str, str]:
    """Return (rule, sentence) for a module that is not there, as a list of mistakes has them.

    `names` has the names of the modules that are there by lower-case name or alias.
    """
    missing = _BY_NAME.get(module.lower())
    if missing is not None:
        meanwhile = f"; meanwhile: {missing.instead}" if missing.instead else ""
        return "ModuleNotYet", f"{missing.module} is not in fedflow {missing.state}{meanwhile}"
    near = _near(module, names)
    more = f"did you mean {near}?" if near else "`fedflow component list` shows the modules"
    return "ModuleNotFound", f"there is no module {shown(module)}; {more}"


def unknown_component(module: str, names: Mapping[str, str]) -> FedflowError:
    """Return the error for a module that is not there, ModuleNotYet or UnknownComponent.

    `names` as in `refusal`.
    """
    missing = _BY_NAME.get(module.lower())
    if missing is not None:
        return ModuleNotYet(module=missing.module, state=missing.state)
    near = _near(module, names)
    meant = Message(" Did you mean {names}?", near) if near else ""
    return UnknownComponent(module=cut(module), meant=meant)


def _near(module: str, names: Mapping[str, str]) -> str:
    """Return the modules whose names are like this one, `HeteroLR, HeteroLinR`, best first.

    Those that are missing only if no other is.
    """
    lacking = {name: missing.module for name, missing in _BY_NAME.items()}
    for known in (names, lacking):
        found = difflib.get_close_matches(cut(module).lower(), known, n=2 * _MOST, cutoff=_NEAR)
        if found:
            return ", ".join(list(dict.fromkeys(known[name] for name in found))[:_MOST])
    return ""
