"""The packages that only components and tables need; an installation that computes nothing may
lack them (docs/decisions/0037-one-installation-and-a-slim-one.md).
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from fedflow.base.errors.executors import LibrariesMissing

LIBRARIES: Final = {
    "numpy": "numpy",
    "pyarrow": "pyarrow",
    "gmpy2": "gmpy2",
    "sklearn": "scikit-learn",
    "cloudpickle": "cloudpickle",
}
"""Importable name -> name in a package index."""


def missing_libraries() -> str:
    """Return the packages that this installation lacks, `numpy, pyarrow`; empty: it has all."""
    return ", ".join(name for module, name in LIBRARIES.items() if find_spec(module) is None)


def as_missing(exc: BaseException) -> LibrariesMissing | None:
    """Return the error that tells a failed import of such a package; None for any other error."""
    if isinstance(exc, ModuleNotFoundError) and (exc.name or "").partition(".")[0] in LIBRARIES:
        packages = missing_libraries()
        return LibrariesMissing(packages=packages) if packages else None
    return None
