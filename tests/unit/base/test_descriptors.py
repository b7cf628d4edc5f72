"""The limit of descriptors, in processes of their own: it cannot be raised again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fedflow.base.descriptors import Descriptors, open_descriptors

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
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert [int(number) for number in done.stdout.split()] == numbers
    assert ("descriptors (ulimit -n)" in done.stderr) == warned


def test_it_is_said_when_descriptors_run_out_and_when_too_few_are_left() -> None:
    plenty, few, none = (Descriptors(used=used, limit=1000) for used in (799, 800, 969))
    assert (plenty.are_few, few.are_few, none.are_few) == (False, True, True)
    assert (plenty.fault, few.fault) == ("", "")
    assert none.fault == "969 of 1000 are used; raise LimitNOFILE (ulimit -n)"


def test_open_descriptors_are_counted() -> None:
    before = open_descriptors().used
    read, write = os.pipe()
    assert open_descriptors().used == before + 2
    os.close(read)
    os.close(write)
