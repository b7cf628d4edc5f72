"""What the server wrote in English comes in the viewer's language: reasons, errors, what helps."""

from __future__ import annotations

from html import escape
from typing import Final

import pytest
import requests

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.messages import Message
from fedflow.domain.reason import Reason
from fedflow.domain.site import Site
from fedflow.domain.states import JobStatus, TaskStatus
from tests.board.job_seeds import put_job
from tests.board.places import Place
from tests.board.seeds import CHAIN, GUEST

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
BAD: Final = "<b>no {such} label</b> & '7'"
FAILED: Final = ComponentFailed(component="dataio_0", reason=BAD)
REASON: Final = Reason(
    code=FAILED.name,
    message=Message(
        "{component} at {site}: {message}", component="dataio_0", site=GUEST, message=FAILED.message
    ),
    site=GUEST,
)
ENGLISH: Final = f"dataio_0 failed: {BAD}"
CHINESE: Final = f"dataio_0 失败：{BAD}"


def page_of(place: Place, path: str, language: str) -> str:
    return get(place, path, language).text


def get(place: Place, path: str, language: str, **headers: str) -> requests.Response:
    asked = {"Accept-Language": language, **headers}
    return requests.get(place.url + path, timeout=CALL_S, headers=asked)


def failed_job(place: Place, number: int) -> str:
    return put_job(
        place, number, CHAIN, status=JobStatus.FAILED, task_status=TaskStatus.FAILED, reason=REASON
    )


def address(job_id: str, site: Site = GUEST, tab: str = "") -> str:
    return f"/board/jobs/{job_id}/{site.role.value}/{site.party_id}{tab}"


@pytest.mark.parametrize("tab", ["", "/live"])
def test_a_failed_job_tells_its_reason_and_what_helps_in_both_languages(
    seeded: Place, tab: str
) -> None:
    path = address(failed_job(seeded, 1 if tab else 2), tab=tab)
    chinese, english = page_of(seeded, path, "zh-CN"), page_of(seeded, path, "en")
    assert str(escape(CHINESE)).replace("&#x27;", "&#39;") in chinese
    assert str(escape(ENGLISH)).replace("&#x27;", "&#39;") in english
    assert "dataio_0 failed:" not in chinese
    assert "失败：" not in english
    assert "<b>no" not in chinese + english
    assert "`fedflow job log` 有 traceback。" in chinese
    assert "重跑未成功的部分" in chinese
    assert "`fedflow job log` has the traceback." in english


@pytest.mark.parametrize(
    "path",
    [
        "/board/",
        "/board/jobs/{job}/guest/9999/components/dataio_0",
        "/board/jobs/{job}/guest/9999/logs",
    ],
)
def test_lists_and_components_tell_it_too(seeded: Place, path: str) -> None:
    job_id = failed_job(seeded, 3 if path == "/board/" else 6 if path.endswith("logs") else 4)
    path = path.format(job=job_id)
    assert "dataio_0 失败：" in page_of(seeded, path, "zh-CN")
    assert "dataio_0 failed:" in page_of(seeded, path, "en")


def test_an_error_of_a_page_is_told_to_people_and_to_scripts(seeded: Place) -> None:
    path = "/board/jobs/none{x}<b>"
    chinese, english = page_of(seeded, path, "zh-CN"), page_of(seeded, path, "en")
    assert "本服务器上没有作业 none{x}&lt;b&gt;。" in chinese
    assert "`fedflow job list` 显示本服务器的作业" in chinese
    assert "No job none{x}&lt;b&gt; at this server." in english
    told = get(seeded, path, "zh-CN", **{"X-Requested-With": "board"}).json()
    assert told["message"] == "本服务器上没有作业 none{x}<b>。"
    assert told["error"]["hint"].startswith("`fedflow job list` 显示")
    assert told["error"]["name"] == "JobNotFound"


def test_the_boards_own_reasons_are_told(seeded: Place) -> None:
    path = address(failed_job(seeded, 5), tab="/logs?component=none")
    assert "没有数据：作业在本站点没有组件 &#39;none&#39;。" in page_of(seeded, path, "zh-CN")
