"""The limit of descriptors, in processes of their own: it cannot be raised again."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import logging, resource, sys
from fedflow.base import descriptors
logging.basicConfig(format="%(message)s")
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
descriptors.raise_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0],
      descriptors.connections_of_parties(), descriptors.connections_of_clients())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "numbers", "warned"),
    [
        (256, 8192, [8192, 2048, 1000], False),
        (1024, 1024, [1024, 512, 256], True),
        (100, 200, [200, 100, 50], True),
    ],
)
def test_a_server_takes_what_it_may_and_leaves_some_for_its_work(
    soft: int, hard: int, numbers: list[int], warned: bool
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert [int(number) for number in done.stdout.split()] == numbers
    assert ("descriptors (ulimit -n)" in done.stderr) == warned
