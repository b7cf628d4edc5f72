"""The environment with flwr, which bin/flower makes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tests.e2e.servers import ROOT

PYTHON: Final = Path(os.environ.get("FEDFLOW_FLOWER", ROOT / ".flower")) / "bin" / "python"
assert PYTHON.exists(), f"{PYTHON} is missing: run bin/flower"
