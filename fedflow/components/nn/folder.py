"""A party's own models, losses, data sets and trainers: modules in the folder `executor.nn_folder`.

The folder, a setting of the server, has the folders `models`, `losses`, `datasets` and `trainers`.
A conf names a module in one of them, and a class; it cannot name a path.

| folder | a class has |
|---|---|
| models, losses | `torch.nn.Module` |
| datasets | `load(table)`; then `len()` rows in the table's order, each (features, label) |
| trainers | `train(model, optimizer, loss, batches)`: one epoch; returns the mean loss |

A loss is called with outputs and labels, a batch is (features, labels).
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any, Final

from fedflow.components.nn.definition import Custom
from fedflow.sdk import BadParameter

FOLDERS: Final = ("models", "losses", "datasets", "trainers")


def own_class(folder: Path | None, kind: str, custom: Custom, *, path: str) -> type[Any]:
    """Return a class of the party's own.

    Args:
        folder: what the server's conf names; None: nothing.
        kind: one of `FOLDERS`.
        path: of the parameter that names it, for errors.

    Raises: BadParameter: there is no folder, module or class, or the module lies elsewhere. What
        the module raises when it is imported.
    """
    file = own_file(folder, kind, custom.module, path=path)
    name = f"fedflow_own_{kind}_{custom.module}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadParameter(path=path, reason=f"{custom.module}.py is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found = getattr(module, custom.name, None)
    if not isinstance(found, type):
        raise BadParameter(path=path, reason=f"{custom.module}.py has no class {custom.name}")
    return found


def own_file(folder: Path | None, kind: str, module: str, *, path: str) -> Path:
    """Return the file of a module. Raises: BadParameter: it is not there, or lies elsewhere."""
    if folder is None:
        reason = f"{module} is not built in, and this party's executor.nn_folder names no folder"
        raise BadParameter(path=path, reason=reason)
    root = (folder / kind).resolve()
    file = (root / f"{module}.py").resolve()
    if not module.isidentifier() or file.parent != root or not file.is_file():
        raise BadParameter(path=path, reason=f"this party has no {kind} module {module}")
    return file


def made(kind: type[Any], arguments: Any, *, path: str) -> Any:
    """Return an object of a class. Raises: BadParameter: it takes other arguments."""
    try:
        return kind(**arguments)
    except (TypeError, ValueError, AssertionError) as exc:
        raise BadParameter(path=path, reason=f"{kind.__name__}: {exc}") from exc
