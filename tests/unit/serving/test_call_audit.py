"""Whom guests asked about: what a file has, what it has not, and how it is found again."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.serving_process import ServingStateNotUsable
from fedflow.serving.partners.audit import CallAudit, calls_about
from fedflow.serving.partners.messages import PartnerRequest
from tests.sim.clock import FakeClock

DAY_MS = 86_400_000


def call(*ids: dict[str, Any], request_id: str = "r1") -> PartnerRequest:
    return PartnerRequest(
        guest="9999", host="10000", model_id="m", model_version="v1", digest="d",
        request_ids=[request_id], ids=list(ids),
    )  # fmt: skip


def test_calls_about_somebody_are_found_and_the_files_name_nobody(tmp_path: Path) -> None:
    with closing(CallAudit(tmp_path, days=9, clock=FakeClock())) as audit:
        audit.note(call({"device_id": "secret-user", "day": 1}, {"device_id": "other"}))
        audit.note(call({"device_id": "other"}, request_id="r2"))
    (found,) = calls_about(tmp_path, {"day": 1, "device_id": "secret-user"})
    assert (found["guest"], found["model_version"], found["requests"]) == ("9999", "v1", ["r1"])
    assert "ids" not in found
    assert len(list(calls_about(tmp_path, {"device_id": "other"}))) == 2
    assert list(calls_about(tmp_path, {"device_id": "nobody"})) == []
    (path,) = (tmp_path / "audit").iterdir()
    text = path.read_text()
    assert "secret-user" not in text
    assert "other" not in text
    assert [oct(one.stat().st_mode & 0o777) for one in (path, tmp_path / "audit.key")] == [
        "0o600", "0o600",
    ]  # fmt: skip


def test_a_number_is_the_text_of_it(tmp_path: Path) -> None:
    with closing(CallAudit(tmp_path, days=9, clock=FakeClock())) as audit:
        audit.note(call({"device_id": 8}))
    assert list(calls_about(tmp_path, {"device_id": "8"}))


def test_a_file_per_day_and_old_ones_go(tmp_path: Path) -> None:
    clock = FakeClock()
    with closing(CallAudit(tmp_path, days=2, clock=clock)) as audit:
        for _ in range(5):
            audit.note(call({"device_id": "u"}))
            clock.time.ms += DAY_MS
    assert len(list((tmp_path / "audit").iterdir())) == 3
    assert len(list(calls_about(tmp_path, {"device_id": "u"}))) == 3


def test_another_key_finds_nobody_and_a_bad_one_is_named(tmp_path: Path) -> None:
    with closing(CallAudit(tmp_path, days=2, clock=FakeClock())) as audit:
        audit.note(call({"device_id": "u"}))
    key = tmp_path / "audit.key"
    key.write_text("x" * 64)
    assert list(calls_about(tmp_path, {"device_id": "u"})) == []
    with pytest.raises(ServingStateNotUsable, match="no audit"):
        list(calls_about(tmp_path / "other", {"device_id": "u"}))
    key.write_text("short")
    with pytest.raises(ServingStateNotUsable, match=r"audit\.key"):
        CallAudit(tmp_path, days=2, clock=FakeClock())


def test_each_line_is_json(tmp_path: Path) -> None:
    with closing(CallAudit(tmp_path, days=2, clock=FakeClock())) as audit:
        audit.note(call(*({"device_id": n} for n in range(300))))
    (path,) = (tmp_path / "audit").iterdir()
    (line,) = path.read_text().splitlines()
    assert len(json.loads(line)["ids"]) == 300
