"""Memory that was freed goes back to the system, although glibc would keep it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAGMENTS = """
import sys
from fedflow.federation.memory import FreedMemory, _resident, keep_freed_chunks
keep_freed_chunks()
freed = FreedMemory()
freed.look()
before = _resident()
many = [bytes(8000) for _ in range(40_000)]
last = bytes(8000)  # above them, so that nothing can be cut off at the end
del many
grown = _resident() - before
freed.look()
print(grown // 2**20, (_resident() - before) // 2**20, len(last))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_much_freed_memory_is_given_back() -> None:
    said = subprocess.run([sys.executable, "-c", FRAGMENTS], capture_output=True, check=True)
    grown, left, _ = map(int, said.stdout.split())
    assert grown > 200
    assert left < 64
