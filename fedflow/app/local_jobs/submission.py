"""Jobs of one component that the server starts for itself: role `local`, as in FATE.

Source: `docs/reference/rest.md#data`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.app.initiator.submissions import Submissions, Submitted
from fedflow.base.errors.requests import NotSupportedYet
from fedflow.domain.job.warning import JobWarning

OWN_PARTY: Final = "0"  #: where FATE's clients look for these jobs
_OWN_ENGINES: Final = frozenset({"", "STANDALONE", "EGGROLL", "LOCALFS"})


def submit_local(
    submissions: Submissions,
    module: str,
    parameters: Mapping[str, Any],
    *,
    outputs: Sequence[str] = (),
    party_id: str = OWN_PARTY,
    task_cores: int = 1,
    warnings: Sequence[JobWarning] = (),
) -> Submitted:
    """Start a job whose only component, `<module>_0`, runs at this server.

    `warnings` are of the request that asks for it. Raises: InvalidJobSpec.
    """
    name = component_of(module)
    component: dict[str, Any] = {"module": module}
    if outputs:
        component["output"] = {"data": list(outputs)}
    party = int(party_id) if party_id.isdecimal() else party_id
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "local", "party_id": party},
        "role": {"local": [party]},
        "job_parameters": {"common": {"task_cores": task_cores, "federated_mode": "SINGLE"}},
        "component_parameters": {"role": {"local": {"0": {name: dict(parameters)}}}},
    }
    dsl = {"components": {name: component}}
    return submissions.submit(dsl, conf, internal=True, warnings=warnings)


def component_of(module: str) -> str:
    """Return the name of the only component."""
    return f"{module.lower()}_0"


def refuse_other_storage(engine: Any, *, what: str) -> None:
    """Raises: NotSupportedYet: `engine` is not a word of FATE's clients for the server's own."""
    word = str(engine or "").upper()
    if word not in _OWN_ENGINES:
        raise NotSupportedYet(what=f"{what} the storage engine {word[:50]}")
