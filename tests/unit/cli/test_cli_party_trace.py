"""`fedflow party trace`: what is sent and shown."""

from __future__ import annotations

import json

FOUND = {
    "sessions": [
        {
            "component": "lr_0", "version": 0, "site": "guest-9999", "is_on": True,
            "peers": [
                {"site": "host-10000", "sent": 3, "sent_bytes": 4096, "arrived": 2,
                 "arrived_bytes": 77, "receives": 2, "receive_s": 1.25, "send_s": 0.5},
            ],
            "values": [
                {"time_ms": 1_000, "kind": "received", "site": "host-10000",
                 "name": "gradient\x1b[31m", "tag": "3", "size": 77, "waited_s": 1.25},
            ],
        },
    ],
}  # fmt: skip


def test_counts_and_recorded_values_are_shown(shell):
    shell.answer("/v1/job/trace/query", data=FOUND)
    found = shell("party", "trace", "7", "--component", "lr_0")
    assert found.exit_code == 0
    for text in ("lr_0 0", "host-10000", "4096", "1.250", "0.500", "received", "gradient"):
        assert text in found.stdout
    assert "\x1b" not in found.stdout
    (one,) = shell.server.received
    assert json.loads(one.body) == {"job_id": "7", "component_name": "lr_0"}
    assert shell.json("party", "trace", "7")["sessions"][0]["peers"][0]["sent"] == 3


def test_a_trace_is_switched_on_and_off(shell):
    shell.answer("/v1/job/trace/record", data={"sessions": []})
    shell.answer("/v1/job/trace/query", data={"sessions": [], "is_on": True})
    found = shell("party", "trace", "7", "--on")
    assert "No task of the job" in found.stdout + found.stderr
    assert "is being recorded" in found.stdout + found.stderr
    shell("party", "trace", "7", "--off")
    bodies = [json.loads(one.body) for one in shell.server.received if "record" in one.path]
    assert bodies == [{"job_id": "7", "is_on": True}, {"job_id": "7", "is_on": False}]
