"""Memory that was freed goes back to the system, although glibc would keep it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedflow.federation import memory

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


FREED_LATER = """
from fedflow.federation.memory import FreedMemory, _resident, keep_freed_chunks
keep_freed_chunks()
freed = FreedMemory()
freed.look()
before = _resident()
many = [bytes(8000) for _ in range(40_000)]
last = bytes(8000)
freed.look()  # all of it is in use
del many
for _ in range(2):
    freed.look()
print((_resident() - before) // 2**20, len(last))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_much_freed_memory_is_given_back() -> None:
    said = subprocess.run([sys.executable, "-c", FRAGMENTS], capture_output=True, check=True)
    grown, left, _ = map(int, said.stdout.split())
    assert grown > 200
    assert left < 64


IN_A_CYCLE = """
import gc
from fedflow.federation.memory import FreedMemory, _resident, keep_freed_chunks
keep_freed_chunks()
gc.disable()
freed = FreedMemory()
freed.look()
before = _resident()
held = {"message": b"x" * 2**27}
held["itself"] = held
del held
freed.look()
print((_resident() - before) // 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_what_only_cycles_hold_is_given_back() -> None:
    said = subprocess.run([sys.executable, "-c", IN_A_CYCLE], capture_output=True, check=True)
    assert int(said.stdout) < 48


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's")
def test_what_was_in_use_at_one_look_is_given_back_at_a_later_one() -> None:
    said = subprocess.run([sys.executable, "-c", FREED_LATER], capture_output=True, check=True)
    left, _ = map(int, said.stdout.split())
    assert left < 48


def test_looks_that_free_nothing_get_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([0, *[100 * memory.MIB] * 1000])
    monkeypatch.setattr(memory, "_resident", lambda: next(sizes))
    freed, trims = memory.FreedMemory(), []
    monkeypatch.setattr(freed, "_trim", trims.append)
    for _ in range(121):  # ten minutes
        freed.look()
    assert 10 <= len(trims) <= 15
