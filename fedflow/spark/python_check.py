"""What Spark's workers are asked before the first work: are they able to run fedflow's blocks?"""

from __future__ import annotations

import importlib
from typing import Final

from fedflow import __version__

NEEDED: Final = ("numpy", "pyarrow", "gmpy2", "cryptography")


def about_worker(_: object) -> str:
    """Return the release of fedflow at a worker. Raises: ImportError: a library is missing."""
    for name in NEEDED:
        importlib.import_module(name)
    return __version__
