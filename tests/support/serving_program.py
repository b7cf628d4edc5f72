"""`python -m tests.support.serving_program HOME CONF`: a serving process with linear models."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from fedflow.server.configuration import read_values
from fedflow.serving.run import run
from fedflow.serving.settings import parse_serving_settings
from tests.support.linear_model import build_linear

if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    home, conf = map(Path, sys.argv[1:])
    values = read_values(conf, environment={}, overrides={}, prefix="FEDFLOW_SERVING__")
    run(parse_serving_settings(values), home, build=build_linear)
