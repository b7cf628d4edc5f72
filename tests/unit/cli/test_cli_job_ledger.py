"""`fedflow job ledger`: what is sent, shown and written."""

from __future__ import annotations

import json

FOUND = {
    "job_id": "7",
    "tasks": [
        {
            "component": "lr_0", "version": 0, "site": "guest-9999", "status": "success",
            "seconds": 58.0, "computing_s": 16.8,
            "peers": [
                {"site": "host-10000", "sent": 3, "sent_bytes": 4096, "receive_s": 41.2,
                 "messages": [
                     {"name": "gradient\x1b[31m", "is_sent": True, "calls": 3, "size_bytes": 4096,
                      "first_ms": 1000, "last_ms": 2000},
                 ]},
            ],
        },
    ],
}  # fmt: skip


def test_messages_and_who_was_waited_for_are_shown(shell):
    shell.answer("/v1/job/ledger/query", data=FOUND)
    found = shell("job", "ledger", "-j", "7", "--component", "lr_0")
    assert found.exit_code == 0
    assert "lr_0: 71 % of 58.0 s waiting for host 10000" in found.stdout + found.stderr
    for text in ("lr_0 0", "host-10000", "4096", "gradient", "sent"):
        assert text in found.stdout
    assert "\x1b" not in found.stdout
    (one,) = shell.server.received
    assert json.loads(one.body) == {"job_id": "7", "component_name": "lr_0"}


def test_an_export_is_a_file_and_its_signature(shell, tmp_path):
    shell.answer(
        "/v1/job/ledger/export", data={"csv": "a,b\r\n", "signature": "c2ln", "public_key": "PEM"}
    )
    target = tmp_path / "seven.csv"
    assert shell("job", "ledger", "-j", "7", "--export", str(target)).exit_code == 0
    assert target.read_bytes() == b"a,b\r\n"
    assert (tmp_path / "seven.csv.sig").read_text() == "c2ln\n"


def test_a_job_without_exchange_says_so(shell):
    shell.answer("/v1/job/ledger/query", data={"job_id": "7"})
    found = shell("job", "ledger", "-j", "7")
    assert "Nothing is known to have been exchanged" in found.stdout + found.stderr
