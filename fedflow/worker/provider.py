"""Answers questions about a provider's components, in the provider's own interpreter.

Run as `python -P -m fedflow.worker.provider FD`: a JSON request comes from standard input, the
answer goes to the inherited pipe FD. What the components print goes elsewhere.

| request | members | answer |
|---|---|---|
| describe | components (`module:attribute`) | fedflow (its version), described, problems |
| check | components, module, parameters, path, run | error (name, fields, mistakes), warnings |
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import msgspec

from fedflow import __version__
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.error import FedflowError
from fedflow.components.registry import describe, load_provider
from fedflow.domain.job.planned_run import planned_run_from_json
from fedflow.executor.descendants import adopt_orphans, end_strangers
from fedflow.executor.provider_process import TIMEOUT_S
from fedflow.sdk.params import check_params, warnings_of


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a request. Raises: whatever importing the components raises."""
    registry = load_provider(request["components"])
    if request["op"] == "describe":
        return {
            "fedflow": __version__,
            "described": [describe(spec) for spec in registry.specs],
            "problems": list(registry.problems),
        }
    path, planned = str(request["path"]), request.get("run")
    run = planned_run_from_json(planned) if planned is not None else None
    try:
        spec = registry.find(str(request["module"]))
        params = check_params(spec.params, request["parameters"], path=path, run=run)
        warnings = [msgspec.to_builtins(one) for one in warnings_of(params, path=path)]
    except BadParameter as exc:
        return {"error": {"name": exc.name, "fields": {}, "mistakes": exc.mistakes}}
    except FedflowError as exc:
        fields = {key: str(value) for key, value in exc.fields.items()}
        return {"error": {"name": exc.name, "fields": fields}}
    except (Exception, SystemExit) as exc:  # noqa: BLE001  the component's own check; told to the one who asked
        mistakes = [(path, f"{type(exc).__name__}: {exc}")]
        return {"error": {"name": "BadParameter", "fields": {}, "mistakes": mistakes}}
    return {"error": None, "warnings": warnings}


def main(arguments: list[str]) -> int:
    """Answer one request; 1 if the components cannot be imported, with the reason in the answer."""
    adopt_orphans()
    signal.alarm(2 * int(TIMEOUT_S))  # for a server that died and cannot end this process
    with os.fdopen(int(arguments[0]), "w", encoding="utf-8") as pipe:
        request = json.load(sys.stdin)
        try:
            told, code = answer(request), 0
        except (Exception, SystemExit) as exc:  # noqa: BLE001  somebody else's code
            told, code = {"failed": f"{type(exc).__name__}: {exc}"}, 1
        json.dump(told, pipe)
        end_strangers(())  # what the import started; the server ends this process at once
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
