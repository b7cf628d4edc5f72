"""What one executor may allocate, by the setting and by the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedflow.app.protocol.folders import Folders
from fedflow.base.settings import parse_settings
from fedflow.executor import limits
from fedflow.executor.limits import MIB, executor_memory, machine_memory
from fedflow.server.adapters import worker_settings


def given(home: Path, **executor: object) -> int | None:
    settings = parse_settings({"executor": executor})
    return worker_settings(settings, Folders(home), home).memory_bytes


def test_a_task_may_allocate_half_of_the_machines_memory_by_default(tmp_path: Path) -> None:
    memory = machine_memory()
    assert memory is not None
    assert memory > 256 * MIB
    assert given(tmp_path) == memory // 2
    assert given(tmp_path, memory_mib=None) == memory // 2


def test_a_number_counts_and_none_is_no_limit(tmp_path: Path) -> None:
    assert given(tmp_path, memory_mib=300) == 300 * MIB
    assert given(tmp_path, memory_mib="none") is None


def test_a_container_has_what_its_group_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, none, unknown = (tmp_path / name for name in ("own", "none", "unknown"))
    own.write_text(f"{200 * MIB}\n")
    none.write_text("max\n")
    monkeypatch.setattr(limits, "_GROUP_LIMITS", (str(none), str(unknown), str(own)))
    assert executor_memory(None) == 100 * MIB
