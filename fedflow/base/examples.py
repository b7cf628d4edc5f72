"""Where the examples lie that come with fedflow."""

from __future__ import annotations

import sys
from pathlib import Path

import fedflow


def examples_folder() -> Path | None:
    """Return the folder of the examples: of a checkout, or packed with the package; else None."""
    package = Path(fedflow.__file__).resolve().parent
    for folder in (package.parent / "examples", Path(sys.prefix) / "share/fedflow/examples"):
        if (folder / "hetero_lr" / "dsl.json").is_file():
            return folder
    return None
