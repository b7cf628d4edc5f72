"""A clock that was wrong by more than a year, is put right, and a server that starts again then."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.jobs import empty_job
from tests.e2e.servers import GUEST, QUICK, ROOT, standalone, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

DAY_S = 86_400
WRONG_CLOCK = """
import time

_now_ns = time.time_ns

def _wrong_ns():
    with open({offset!r}) as file:
        return _now_ns() + int(file.read())

time.time_ns = _wrong_ns
"""


def test_a_job_outlives_the_correction_of_a_clock_and_a_kill(tmp_path: Path) -> None:
    offset = tmp_path / "offset"
    offset.write_text(str(-400 * DAY_S * 10**9))
    (tmp_path / "sitecustomize.py").write_text(WRONG_CLOCK.format(offset=str(offset)))
    settings = {**QUICK, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    with standalone(tmp_path, settings=settings) as pair:
        party = pair.guest
        job_id = party.client.submit(*empty_job({"sleep_s": 12.0})).job_id
        party.wait_executor(job_id, component="empty_0", site=GUEST)
        offset.write_text("0")
        kept = party.home / "run" / "lived-time"
        wait_for(kept.exists, "the server to note that its clock was put right")
        party.restart(after_s=1.0)
        view = party.client.wait(job_id, timeout_s=120)
        assert view.status == "success", view.reason
        again = party.client.submit(*empty_job({})).job_id
        assert party.client.wait(again, timeout_s=120).succeeded
        created_ms = party.post("/v1/job/query", {"job_id": again})["data"][0]["f_create_time"]
        assert abs(created_ms / 1000 - (time.time() - 400 * DAY_S)) < DAY_S
