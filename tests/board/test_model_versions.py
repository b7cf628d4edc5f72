"""Pages of models: the list, one version, deploying, comparing, tags, archives."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect

from fedflow.domain.job.figures import Figure
from fedflow.domain.records import JobKey
from fedflow.domain.states import JobStatus
from tests.board import seeds
from tests.board.places import NARROW, Place, Visitor, check_fits
from tests.board.seeds import GUEST, HOST
from tests.board.version_seeds import (
    MODEL_ID,
    component,
    put_checkpoints,
    put_everywhere,
    put_version,
    version,
)

pytestmark = pytest.mark.timeout(600)
CALL_S = 60.0
PATH = "/board/models/guest-9999~host-10000~model"


def read(place: Place, path: str, *, status: int = 200) -> str:
    answer = requests.get(place.url + path, timeout=CALL_S)
    assert answer.status_code == status, answer.text[:2000]
    return answer.text


def shown_versions(text: str) -> list[str]:
    return re.findall(r'<th scope="row"><a class="name" href="[^"]+">([^<]+)</a>', text)


class Form:
    """A person without scripts: a session that sends the forms of a page."""

    def __init__(self, place: Place, path: str) -> None:
        self.place = place
        self.session = requests.Session()
        self.text = self.session.get(place.url + path, timeout=CALL_S).text

    def send(self, path: str, **fields: Any) -> requests.Response:
        token = re.search(r'name="csrf" value="([^"]+)"', self.text)
        assert token is not None
        return self.session.post(
            self.place.url + path, data={"csrf": token[1], **fields}, timeout=CALL_S
        )


# --- the list -------------------------------------------------------------------------------------


def test_a_version_is_shown_with_the_name_and_the_result_of_its_job(seeded: Place) -> None:
    trained = version(650)
    auc = Figure(component="e_0", name="auc", value=0.98661, model="lr_0", part="validate")
    job = seeds.job(650)
    key = replace(job.key, job_id=trained.key.model_version, site=trained.key.site)
    seeds.put(seeded.store, replace(job, key=key, name="HeteroLR · breast", figures=(auc,)))
    put_version(seeded, trained)
    put_version(seeded, replace(trained, key=version(651).key, size_bytes=0))
    text = read(seeded, f"/board/models?text={trained.key.model_version[:-1]}")
    assert shown_versions(text) == ["HeteroLR · breast"]
    assert '<td class="result">AUC 0.9866</td>' in text
    every = read(seeded, f"/board/models?text={trained.key.model_version[:-1]}&empty=1")
    assert len(shown_versions(every)) == 2
    page = read(seeded, f"{PATH}/{trained.key.model_version}")
    assert "<h1>HeteroLR · breast</h1>" in page
    assert "AUC · validate" in page


def test_the_list_filters_by_what_is_asked_and_counts_all_pages(seeded: Place) -> None:
    for number in range(100, 125):
        put_version(seeded, version(number))
    put_version(seeded, version(124, HOST))
    made = version(124).key.model_version
    text = read(seeded, "/board/models?text=00000000001&role=guest")
    assert "1 to 20 of 25" in text
    assert shown_versions(text)[0] == made
    second = read(seeded, "/board/models?text=00000000001&role=guest&page=2")
    assert len(shown_versions(second)) == 5
    assert "role=guest" in second
    assert shown_versions(read(seeded, f"/board/models?text={made}&role=host")) == [made]
    assert shown_versions(read(seeded, f"/board/models?text={made}&module=HeteroLR&party=10000"))
    assert "No version fits" in read(seeded, "/board/models?kind=imported")
    assert "No version fits" in read(seeded, "/board/models?tag=nothing")


def test_odd_filters_are_taken_as_none(seeded: Place) -> None:
    put_version(seeded, version(650))
    text = read(seeded, "/board/models?page=-3&size=7&role=king&kind=%00")
    assert version(650).key.model_version in text


# --- one version ----------------------------------------------------------------------------------


def test_a_version_says_where_it_comes_from_and_what_came_of_it(seeded: Place) -> None:
    trained = version(200)
    put_version(seeded, trained)
    parent = {"parent_model_id": MODEL_ID, "parent_model_version": trained.key.model_version}
    child = version(201, parent=False, parent_info=parent, inference_dsl=trained.train_dsl)
    put_version(seeded, child)
    predict = {
        "job_parameters": {
            "common": {"job_type": "predict", "model_version": child.key.model_version}
        }
    }
    job = seeds.job(9_000_000, conf=predict)
    seeds.put(seeded.store, job)
    text = read(seeded, f"{PATH}/{trained.key.model_version}")
    assert child.key.model_version in text
    assert job.key.job_id in text
    assert "job not at this server" in text
    below = read(seeded, f"{PATH}/{child.key.model_version}")
    assert trained.key.model_version in below
    assert "Deployed from" in below


def test_damaged_and_missing_contents_are_said(seeded: Place) -> None:
    made = version(210)
    put_version(seeded, made, weights={"damaged_0": 210.5})
    one = component(seeded, made.key, weights={"damaged_0": 210.5})
    path = f"{PATH}/{made.key.model_version}"
    assert "All contents fit their digests" in read(seeded, f"{path}?check=1")
    [blob] = [p for p in seeded.home.rglob(f"*{one.param.sha256[4:]}*") if p.is_file()] or [
        p for p in seeded.home.rglob("*") if p.is_file() and one.param.sha256 in p.as_posix()
    ]
    blob.chmod(0o600)
    blob.write_bytes(b'{"weight":{}}')
    assert "1 components are damaged" in read(seeded, f"{path}?check=1")
    blob.unlink()
    assert "not in the store of contents" in read(seeded, path)


def test_a_version_whose_job_goes_on_shows_its_checkpoints(seeded: Place) -> None:
    made = version(220)
    job = seeds.job(
        220, status=JobStatus.RUNNING, ended_ms=None, conf={"job_parameters": {}},
        key=JobKey(job_id=made.key.model_version, site=GUEST),
    )  # fmt: skip
    seeds.put(seeded.store, job)
    put_checkpoints(seeded, made.key, 3)
    text = read(seeded, f"{PATH}/{made.key.model_version}")
    assert "still runs" in text
    assert "round_2" in text
    assert "Deploy at all sites" not in text


def test_a_version_that_is_not_here_is_404(seeded: Place) -> None:
    assert "ModelNotFound" in read(seeded, f"{PATH}/none", status=404)
    put_version(seeded, version(230))
    path = f"{PATH}/{version(230).key.model_version}"
    for site in ("host-10000", "king-1", "x"):
        assert "ModelNotFound" in read(seeded, f"{path}?site={site}", status=404)
    assert "ModelComponentNotFound" in read(seeded, f"{path}/components/none", status=404)


def test_a_host_sees_no_parameters_of_the_guest(seeded: Place) -> None:
    put_everywhere(seeded, 240)
    path = f"{PATH}/{version(240).key.model_version}/definition"
    assert "guests_own_label" in read(seeded, f"{path}?site=guest-9999")
    host = read(seeded, f"{path}?site=host-10000")
    assert "guests_own_label" not in host
    assert "with_label" in host


def test_secrets_among_parameters_are_masked(seeded: Place) -> None:
    put_version(seeded, version(250))
    path = f"{PATH}/{version(250).key.model_version}/components/hetero_lr_0"
    text = read(seeded, path)
    assert "max_iter" in text
    assert "hunter2" not in text


def test_hostile_names_are_texts(seeded: Place) -> None:
    put_version(seeded, version(260), weights=dict.fromkeys(seeds.HOSTILE, 1.0))
    put_version(seeded, version(261), weights=dict.fromkeys(seeds.HOSTILE, 2.0))
    path = f"{PATH}/{version(260).key.model_version}"
    for page in (f"{path}/components/hetero_lr_0", f"{path}?with={version(261).key.model_version}"):
        text = read(seeded, page)
        assert "<script>document" not in text
        assert "<img" not in text
        assert "&lt;script&gt;document" in text


# --- what differs ---------------------------------------------------------------------------------


def test_two_versions_are_compared_weight_by_weight(seeded: Place) -> None:
    put_version(seeded, version(300), weights={"x0": 1.0, "gone": 2.0})
    changed = {**version(301).train_conf, "dsl_version": "2"}
    put_version(seeded, version(301, train_conf=changed), weights={"x0": 4.0, "new": 2.0})
    one, two = version(300).key.model_version, version(301).key.model_version
    text = read(seeded, f"{PATH}/{one}?with={two}")
    cells = r"\s*".join(f"<td[^>]*>{number}</td>" for number in (1, 4, 3))
    assert re.search(rf'<th scope="row">x0</th>\s*{cells}', text)
    assert "gone" in text
    assert "new" in text
    assert "dsl_version" in text
    assert "Training DSL: no difference" in text


def test_a_version_compared_with_one_that_is_not_here_is_404(seeded: Place) -> None:
    put_version(seeded, version(310))
    path = f"{PATH}/{version(310).key.model_version}?with=none"
    assert "ModelNotFound" in read(seeded, path, status=404)


# --- actions --------------------------------------------------------------------------------------


def test_tags_are_added_and_removed_by_plain_forms(seeded: Place) -> None:
    put_version(seeded, version(400))
    path = f"{PATH}/{version(400).key.model_version}"
    form = Form(seeded, path)
    assert "The tag was added" in form.send(f"{path}/tags", tag="<b>best</b>").text
    assert "&lt;b&gt;best" in read(seeded, path)
    assert version(400).key.model_version in read(seeded, "/board/models?tag=%3Cb%3Ebest%3C/b%3E")
    assert "The tag was removed" in form.send(f"{path}/tags/remove", tag="<b>best</b>").text
    assert "No tag" in read(seeded, path)
    assert "tag_name" in form.send(f"{path}/tags", tag="x" * 500).text


def test_an_action_without_a_token_changes_nothing(seeded: Place) -> None:
    put_version(seeded, version(410))
    path = f"{PATH}/{version(410).key.model_version}"
    for action in ("tags", "tags/remove", "deploy", "export"):
        answer = requests.post(f"{seeded.url}{path}/{action}", data={"tag": "a"}, timeout=CALL_S)
        assert answer.status_code == 403, action
    assert "No tag" in read(seeded, path)


def test_an_export_is_an_archive_of_this_sites_share(seeded: Place) -> None:
    put_everywhere(seeded, 420)
    path = f"{PATH}/{version(420).key.model_version}"
    answer = Form(seeded, path).send(f"{path}/export", site="host-10000")
    assert answer.headers["Content-Type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert "fedflow_model.json" in archive.namelist()
        assert b"host" in archive.read("fedflow_model.json")


def test_a_deploy_needs_a_component_and_says_what_is_wrong(seeded: Place) -> None:
    put_everywhere(seeded, 430)
    path = f"{PATH}/{version(430).key.model_version}"
    form = Form(seeded, path)
    assert "choose at least one component" in form.send(f"{path}/deploy").text
    sent = form.send(f"{path}/deploy", components="hetero_lr_0", **{"step hetero_lr_0": "x"})
    assert "is no step" in sent.text
    sent = form.send(f"{path}/deploy", components="nobody")
    assert 'role="alert"' in sent.text


def test_another_sites_version_offers_no_deploy(seeded: Place) -> None:
    put_version(seeded, replace(version(440), initiator=HOST))
    text = read(seeded, f"{PATH}/{version(440).key.model_version}")
    assert "Deploy at all sites" not in text
    assert "Only the server of host 10000" in text


# --- in a browser ---------------------------------------------------------------------------------


@pytest.mark.browser
def test_a_model_is_found_deployed_and_compared(
    visitor: Visitor, seeded: Place, axe: Callable[[Page], None], shot: Callable[[Page, str], None]
) -> None:
    put_everywhere(seeded, 500, weights={"x0": 1.0})
    put_everywhere(seeded, 501, weights={"x0": 2.0})
    put_checkpoints(seeded, version(500).key, 2)
    page = visitor.open("/board/models")
    axe(page)
    page.get_by_label("Model id or version").fill(version(500).key.model_version)
    page.get_by_role("button", name="Find").click()
    shot(page, "models")
    page.get_by_role("link", name=version(500).key.model_version).first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(version(500).key.model_version)
    axe(page)
    shot(page, "model")
    page.get_by_label("State of hetero_lr_0").select_option("1")
    page.get_by_text("Deploy...", exact=True).click()
    page.get_by_role("button", name="Deploy at all sites").click()
    refused = page.get_by_role("alert").filter(has_text="It was not deployed.")
    expect(refused).to_contain_text("host 10000: hetero_lr_0 has no checkpoint 1")
    page.get_by_role("checkbox", name="reader_0").uncheck()
    page.get_by_text("Deploy...", exact=True).click()
    page.get_by_role("button", name="Deploy at all sites").click()
    told = page.get_by_role("status").filter(has_text="It was deployed.")
    expect(told).to_contain_text("guest 9999: done; host 10000: done")
    expect(page.get_by_text("Deployed from", exact=True)).to_be_visible()
    shot(page, "model-deployed")
    page = visitor.open(f"{PATH}/{version(500).key.model_version}")
    page.get_by_label("With the version").select_option(version(501).key.model_version)
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row", name="x0 1 2 1")).to_be_visible()
    axe(page)
    shot(page, "model-diff")


@pytest.mark.browser
def test_pages_of_models_fit_a_phone(
    visitor: Visitor, seeded: Place, axe: Callable[[Page], None]
) -> None:
    put_everywhere(seeded, 510)
    put_everywhere(seeded, 511, weights={"x" * 200: 2.0})
    path = f"{PATH}/{version(510).key.model_version}"
    pages = ("/board/models", path, f"{path}/definition", f"{path}/components/hetero_lr_0",
             f"{path}?with={version(511).key.model_version}")  # fmt: skip
    for address in pages:
        page = visitor.open(address)
        page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        check_fits(page)
        axe(page)
        page.close()
