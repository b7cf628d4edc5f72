"""The example of docs/client.md runs as it stands, against a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fedflow.client import Client
from fedflow.client.events import EventKind
from tests.e2e.jobs import empty_job
from tests.e2e.servers import QUICK, ROOT, Party, standalone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def party(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Party]:
    with standalone(tmp_path_factory.mktemp("docs"), settings=QUICK) as pair:
        yield pair.guest


def test_the_example_of_the_documentation_runs(
    party: Party, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:9380" in code
    monkeypatch.chdir(ROOT)
    exec(compile(code.replace("http://127.0.0.1:9380", party.url), "docs/client.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "hetero_lr_0 at guest-9999 success" in printed
    auc = re.search(r"^hetero_lr_0 (0\.[89]\d+)$", printed, re.MULTILINE)
    assert auc, printed
    assert "<Preview " in printed


def test_the_page_names_every_method_and_no_other() -> None:
    listed = set(
        re.findall(r"`(\w+_?)`", PAGE.partition("| what | methods |")[2].partition("\n\n")[0])
    )
    with Client() as client:
        groups = {name: value for name, value in vars(client).items() if not name.startswith("_")}
        there = {name for name in dir(client) if not name.startswith("_") and name not in groups}
        for group in groups.values():
            there |= {name for name in dir(group) if not name.startswith("_")}
    plain = {"address", "connection", "close", "table_info", "table_preview", "table_delete"}
    assert listed == there - plain - {"own_sites"}


def test_events_go_on_when_the_server_was_killed_and_is_back(party: Party) -> None:
    with Client(party.url) as client:
        job = client.submit(*empty_job({"sleep_s": 3}))
        told = []
        for event in client.events(job.job_id, timeout_s=120):
            if event.kind is EventKind.TASK_STARTED and not told:
                party.restart(after_s=0.2)
            if event.kind in (EventKind.TASK_STARTED, EventKind.TASK_ENDED):
                told.append((event.kind, event.site))
        assert event.status == "success"
        assert len(told) == len(set(told)) == 4
