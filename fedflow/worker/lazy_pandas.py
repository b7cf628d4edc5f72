"""Keeps pandas out of tasks that do not use it.

pyarrow imports pandas, where that is installed, as soon as it makes its first array: 28 MiB and
340 modules, whose page tables each fork would copy. `without_pandas` lets this first try fail.
pyarrow tries again when it needs pandas (`to_pandas`), but it would not recognise a Series that it
is given. So pyarrow is asked to try again right after anybody imports pandas.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pyarrow as pa

_PANDAS = "pandas"


def without_pandas() -> None:
    """Let pyarrow do without pandas until somebody imports it; call once, before other threads."""
    if _PANDAS in sys.modules:
        return
    finder = _Hidden()
    sys.meta_path.insert(0, finder)
    pa.array([])  # of nothing: the first memory that Arrow takes is 4 MiB of huge pages
    sys.meta_path.remove(finder)
    sys.meta_path.insert(0, _Announced())


class _Hidden(MetaPathFinder):
    """Lets the import of pandas fail."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == _PANDAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


class _Announced(MetaPathFinder):
    """Lets pyarrow look for pandas again once that has been imported."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _PANDAS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                pa.lib._pandas_api.version  # noqa: B018  the property imports

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
