"""Actions on jobs as forms, without scripts: with real jobs, and by people of every role."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests

from fedflow.domain.administration.accounts import AccountRole
from fedflow.domain.records import JobFilter, TaskFilter
from fedflow.domain.states import JobStatus
from tests.board import seeds
from tests.board.jobs_to_submit import empty_conf, empty_dsl
from tests.board.places import Place, serving
from tests.support.executors import wait_until

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
END_S = 60.0
PASSWORD = "correct horse"


@dataclass
class Person:
    """A browser without scripts."""

    url: str
    session: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str) -> requests.Response:
        return self.session.get(self.url + path, timeout=CALL_S)

    def post(self, path: str, *, page: str = "/board/jobs", **fields: Any) -> requests.Response:
        """Send a form with the token of a page; it leads back there."""
        return self.session.post(
            self.url + path, data={"csrf": self.token(page), **fields},
            headers={"Referer": self.url + page}, timeout=CALL_S,
        )  # fmt: skip

    def token(self, page: str) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(page).text)
        return found[1] if found else ""


def status(place: Place, job_id: str) -> JobStatus:
    return place.services.jobs.job(job_id).status


def attempts(place: Place, job_id: str) -> dict[str, int]:
    """Return the newest attempt of each component at the guest."""
    which = TaskFilter(job_id=job_id, party_id="9999")
    return {t.key.component: t.key.version for t in place.services.jobs.tasks(which)}


def ends_as(place: Place, job_id: str, wanted: JobStatus) -> None:
    wait_until(lambda: place.services.jobs.job(job_id).ended_ms is not None, END_S)
    assert status(place, job_id) is wanted


# --- with real jobs -------------------------------------------------------------------------------


def test_a_job_is_paused_continued_stopped_run_again_and_deleted(seeded: Place) -> None:
    person = Person(seeded.url)
    slow = {"second": {"sleep_s": 30.0}}
    job = seeded.services.submissions.submit(empty_dsl(), empty_conf(slow, task_parallelism=1))
    job_id, page = job.job_id, f"/board/jobs?text={job.job_id}"
    wait_until(lambda: status(seeded, job_id) is JobStatus.RUNNING, END_S)
    actions = f"/board/jobs/{job_id}"
    listed = person.get(page).text
    assert listed.count(f'<tr id="job-{job_id}-') == 2
    assert "Stop the job" in listed
    assert person.get(f"/board/jobs/rows?text={job_id}").status_code == 200

    answer = person.post(f"{actions}/pause", page=page)
    assert "The job is paused" in answer.text
    assert answer.url == seeded.url + page
    shown = '<span class="status wait"', "paused"
    for address in (page, f"/board/jobs/{job_id}", "/board/", "/board/parties/10000"):
        assert all(word in person.get(address).text for word in shown), address
    assert "The job continues." in person.post(f"{actions}/continue", page=page).text
    refused = person.post(f"{actions}/continue", page=page, steps="1")
    assert 'class="message bad"' in refused.text
    assert "stop it first" in person.get(f"{actions}/delete").text

    assert "The job is being stopped." in person.post(f"{actions}/stop", page=page).text
    ends_as(seeded, job_id, JobStatus.CANCELED)
    assert "had ended before" in person.post(f"{actions}/stop", page=page).text
    assert person.get(f"/board/jobs/rows?text={job_id}").status_code == 286

    seeded.services.parameter_updates.update(
        job_id,
        job_parameters={},
        component_parameters={"common": {"second": {"sleep_s": 0.0}}},
    )
    assert "The job runs again." in person.post(f"{actions}/rerun", page=page).text
    ends_as(seeded, job_id, JobStatus.SUCCESS)
    nothing = person.post(f"{actions}/rerun", page=page).text
    assert "with force it runs nevertheless" in nothing
    before = attempts(seeded, job_id)
    again = person.post(f"{actions}/rerun", page=page, force="1", component="second")
    assert "The job runs again." in again.text
    ends_as(seeded, job_id, JobStatus.SUCCESS)
    after = attempts(seeded, job_id)
    assert after == {"first": before["first"], "second": before["second"] + 1}

    assert (
        "The notes were saved."
        in person.post(
            f"{actions}/notes", page=page, notes="a\r\nb", role="host", party_id="10000"
        ).text
    )
    share = next(
        j for j in seeded.services.jobs.find(JobFilter(job_id=job_id)) if j.key.site == seeds.HOST
    )
    assert share.description == "a\nb"

    def idle() -> bool:
        return "Delete the job for good" in person.get(f"{actions}/delete").text

    wait_until(idle, END_S)
    gone = person.post(f"{actions}/delete", page=f"{actions}/delete")
    assert "was deleted" in gone.text
    assert gone.url == f"{seeded.url}/board/jobs"
    assert person.get(actions).status_code == 404
    home = seeded.home
    assert not (home / "logs" / job_id).exists()
    assert not (home / "jobs" / job_id).exists()
    with seeded.store.read() as tx:
        assert tx.schedules.get(job_id) is None
        assert tx.tasks.count(TaskFilter(job_id=job_id, all_versions=True)) == 0
        assert [t for t in tx.tables.find() if job_id in t.name] == []
    assert seeded.services.info.ready()[0]


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        ("stop", {}, "No job"),
        ("rerun", {"force": "1", "failed_only": "1"}, "give one"),
        ("continue", {"steps": "many"}, "the number of steps"),
        ("continue", {"steps": "1", "all": "1"}, "all were asked for"),
        ("tags", {"add": "x" * 51}, "1 to 50 characters"),
        ("tags", {}, "1 to 50 characters"),
        ("notes", {"notes": "x" * 100_001}, "at most 100000 characters"),
        ("delete", {}, "No job"),
    ],
)
def test_a_refusal_is_shown_on_the_page_that_the_form_was_on(
    seeded: Place, action: str, fields: dict[str, str], said: str
) -> None:
    record = seeds.job(60_001)
    seeds.put(seeded.store, record)
    name = "none" if said == "No job" else record.key.job_id
    answer = Person(seeded.url).post(f"/board/jobs/{name}/{action}", **fields)
    assert answer.url == f"{seeded.url}/board/jobs"
    assert 'class="message bad"' in answer.text
    assert said in answer.text


@pytest.mark.parametrize(
    "name", ["../../etc", "%00", "a/b", "x" * 3000, "<script>alert(1)</script>"]
)
def test_what_is_no_job_id_is_not_found(seeded: Place, name: str) -> None:
    person = Person(seeded.url)
    answer = person.get(f"/board/jobs/{requests.utils.quote(name, safe='')}/delete")
    assert answer.status_code in (404, 414)
    assert "<script>alert" not in answer.text


# --- by people of every role ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server at which people sign in."""
    with serving(tmp_path_factory.mktemp("roles"), {"board": {"sign_in": True}}) as place:
        for role in AccountRole:
            place.services.administration.accounts.add(role.value, role, PASSWORD, by="test")
        yield place


@pytest.fixture
def come(asking: Place) -> Callable[[str], Person]:
    def signed_in(name: str) -> Person:
        person = Person(asking.url)
        person.post("/board/sign-in", page="/board/sign-in", name=name, password=PASSWORD)
        return person

    return signed_in


ACTIONS = ("stop", "rerun", "pause", "continue", "notes", "tags", "delete")


def test_a_viewer_sees_no_actions_and_may_take_none(
    asking: Place, come: Callable[[str], Person]
) -> None:
    record = seeds.job(1, description="notes")
    seeds.put(asking.store, record)
    viewer = come("viewer")
    page = viewer.get("/board/jobs").text
    assert record.key.job_id in page
    for word in ("Run again", "Stop", "Delete", "Add notes", "Add a tag", "<textarea"):
        assert word not in page
    for action in ACTIONS:
        answer = viewer.post(f"/board/jobs/{record.key.job_id}/{action}", notes="x", add="x")
        assert answer.status_code == 403, action
    assert viewer.get(f"/board/jobs/{record.key.job_id}/delete").status_code == 403
    assert asking.services.jobs.job(record.key.job_id).description == "notes"
    assert asking.services.job_tags.of(record.key.job_id) == ()


def test_an_operator_may_do_all_but_delete(asking: Place, come: Callable[[str], Person]) -> None:
    record = seeds.job(2)
    seeds.put(asking.store, record)
    operator = come("operator")
    page = operator.get(f"/board/jobs?text={record.key.job_id}").text
    assert "Run again" in page
    assert "/delete" not in page
    assert operator.post(f"/board/jobs/{record.key.job_id}/tags", add="x").status_code == 200
    assert asking.services.job_tags.of(record.key.job_id) == ("x",)
    assert operator.get(f"/board/jobs/{record.key.job_id}/delete").status_code == 403
    assert operator.post(f"/board/jobs/{record.key.job_id}/delete").status_code == 403
    assert come("admin").get(f"/board/jobs/{record.key.job_id}/delete").status_code == 200


def test_nobody_who_is_not_signed_in_sees_a_job(asking: Place) -> None:
    seeds.put(asking.store, seeds.job(3, description="a secret note"))
    nobody = Person(asking.url)
    for path in ("/board/", "/board/live", "/board/jobs", "/board/jobs/rows"):
        answer = nobody.get(path)
        assert seeds.job_id(3) not in answer.text
        assert "a secret note" not in answer.text
    assert "An old link" in nobody.get("/index.html").text


def test_a_form_without_its_token_changes_nothing(
    asking: Place, come: Callable[[str], Person]
) -> None:
    seeds.put(asking.store, seeds.job(4))
    admin = come("admin")
    for action in ACTIONS:
        url = f"{asking.url}/board/jobs/{seeds.job_id(4)}/{action}"
        assert admin.session.post(url, data={"csrf": "x.y"}, timeout=CALL_S).status_code == 403
    assert status(asking, seeds.job_id(4)) is JobStatus.SUCCESS
