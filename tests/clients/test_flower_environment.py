"""The tests of `fedflow.flower` run where flwr is: in the environment that bin/flower makes."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.clients.flower import PYTHON
from tests.e2e.servers import ROOT


@pytest.mark.timeout(300)
def test_the_tests_in_the_environment_of_flwr_pass() -> None:
    done = subprocess.run(
        [
            str(PYTHON), "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "--confcutdir", "tests/flower", "tests/flower",
        ],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )  # fmt: skip
    print(done.stdout)  # what was skipped, and why
    assert done.returncode == 0, done.stdout
