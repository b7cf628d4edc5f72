"""From a training job to online answers: deploy, load, bind, ask; the scores of a predict job."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from fedflow.base.errors.models import NotPublished
from fedflow.domain.site import Site
from tests.e2e.jobs import HORIZONTAL_NAMES, Json, upload_data
from tests.e2e.online import (
    TOKEN,
    OnlineParties,
    features_of,
    inference,
    online_parties,
    scores_of,
)
from tests.e2e.pipelines import Step, pipeline, reader, transform
from tests.e2e.servers import GUEST, GUEST_ID, HOST, HOST_ID, Pair, refusal_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KEY: Json = {"encrypt_param": {"key_length": 1024}}
ROWS = {"train_data": ["scale_0.data"]}
START: dict[str, Step] = {
    "reader_0": reader(),
    "data_transform_0": transform(),
    "intersection_0": Step(module="Intersection", data={"data": ["data_transform_0.data"]}),
    "scale_0": Step(module="FeatureScale", data={"data": ["intersection_0.data"]}),
}
LEARNERS = {
    "hetero_lr_0": Step(module="HeteroLR", data=ROWS, params={**KEY, "max_iter": 2}),
    "hetero_secureboost_0": Step(
        module="HeteroSecureBoost",
        data=ROWS,
        params={**KEY, "num_trees": 2, "tree_param": {"max_depth": 3}},
    ),
}
HORIZONTAL: dict[str, Step] = {
    "reader_0": reader(HORIZONTAL_NAMES),
    "data_transform_0": Step(
        module="DataTransform",
        data={"data": ["reader_0.data"]},
        params={"with_label": True, "label_name": "y", "label_type": "int"},
    ),
    "scale_0": Step(module="FeatureScale", data={"data": ["data_transform_0.data"]}),
    "homo_lr_0": Step(
        module="HomoLR",
        data=ROWS,
        params={"max_iter": 2, "init_param": {"init_method": "zeros"}},
    ),
}


@dataclass(frozen=True)
class Served(OnlineParties):
    """Two parties that serve, and a trained model."""

    model_id: str
    job_id: str

    def deployed(self, learner: str) -> str:
        kept = [*START, learner]
        made = self.pair.guest.client.models.deploy(self.model_id, self.job_id, components=kept)
        return made.model_version

    def offline(self, version: str, learner: str, folder: Path) -> dict[str, float]:
        """Return the scores of a predict job by sample id."""
        client = self.pair.guest.client
        tables = {role: ("experiment", f"breast_hetero_{role}") for role in ("guest", "host")}
        job_id = client.models.predict(self.model_id, version, tables).job_id
        assert client.wait(job_id, timeout_s=120).succeeded
        return scores_at(self.pair, GUEST, job_id, learner, folder)


def scores_at(pair: Pair, site: Site, job_id: str, learner: str, folder: Path) -> dict[str, float]:
    """Return the scores that a predict job left at one site by sample id."""
    folder.mkdir()
    files = pair.of(site).client.download_output(job_id, learner, folder, site=site)
    (path,) = [file for file in files if file.suffix == ".csv"]
    return scores_of(path)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("serving")
    with online_parties(folder) as parties:
        pair = parties.pair
        upload_data(pair)
        dsl, conf = pipeline({**START, **LEARNERS}, arbiter=True)
        sent = pair.guest.client.submit(dsl, conf)
        assert pair.guest.client.wait(sent.job_id, timeout_s=200).succeeded
        yield Served(pair, parties.guest, parties.host, sent.model_id, sent.job_id)


@pytest.mark.parametrize("learner", list(LEARNERS))
def test_online_scores_are_those_of_the_predict_job(
    served: Served, learner: str, tmp_path: Path
) -> None:
    version = served.deployed(learner)
    offline = served.offline(version, learner, tmp_path / "offline")
    models = served.pair.guest.client.models
    assert models.load(version)["host"] == {HOST_ID: 0}
    models.bind(version, learner)
    rows = features_of("breast_hetero_guest")
    for user, features in rows.items():
        answer = served.ask(learner, user, features)
        assert answer["retcode"] == 0, answer
        assert answer["data"]["modelVersion"] == version
        assert answer["data"]["score"] == pytest.approx(offline[user], rel=0, abs=1e-9)
    items = [
        {"index": number, "featureData": features, "sendToRemoteFeatureData": {"id": user}}
        for number, (user, features) in enumerate(rows.items())
    ]
    found = served.guest.batch(items, service=learner)["batchDataList"]
    scores = [one["data"]["score"] for one in sorted(found, key=lambda one: one["index"])]
    assert scores == pytest.approx([offline[user] for user in rows], rel=0, abs=1e-9)
    unknown = served.ask(learner, "nobody", next(iter(rows.values())))
    assert unknown["retcode"] == 2113, unknown


def test_each_party_scores_alone_with_a_horizontal_model(served: Served, tmp_path: Path) -> None:
    pair, client = served.pair, served.pair.guest.client
    upload_data(pair, HORIZONTAL_NAMES)
    sent = client.submit(*pipeline(HORIZONTAL, arbiter=True))
    assert client.wait(sent.job_id, timeout_s=200).succeeded
    version = client.models.deploy(sent.model_id, sent.job_id).model_version
    tables = {role: ("experiment", f"breast_homo_{role}") for role in ("guest", "host")}
    job_id = client.models.predict(sent.model_id, version, tables).job_id
    assert client.wait(job_id, timeout_s=120).succeeded
    loaded = client.models.load(version)
    assert (loaded["guest"], loaded["host"]) == ({GUEST_ID: 0}, {HOST_ID: 0})
    for site, place, other in (
        (GUEST, served.guest, served.host),
        (HOST, served.host, served.guest),
    ):
        pair.of(site).client.models.bind(version, "horizontal")
        offline = scores_at(pair, site, job_id, "homo_lr_0", tmp_path / site.key)
        rows = features_of(HORIZONTAL_NAMES[site.party_id])
        other.kill()
        try:
            for user, features in rows.items():
                request = {
                    "head": {"serviceId": "horizontal"},
                    "body": {"featureData": features},
                }
                answer = inference(place, request)
                assert answer["retcode"] == 0, answer
                assert answer["data"]["modelVersion"] == version
                assert answer["data"]["score"] == pytest.approx(offline[user], rel=0, abs=1e-9)
            items = [{"index": n, "featureData": one} for n, one in enumerate(rows.values())]
            found = place.batch(items, service="horizontal")["batchDataList"]
        finally:
            other.start()
        scores = [one["data"]["score"] for one in sorted(found, key=lambda one: one["index"])]
        assert scores == pytest.approx([offline[user] for user in rows], rel=0, abs=1e-9)


def test_drift_is_measured_against_the_training_at_each_party(served: Served) -> None:
    version = served.deployed("hetero_secureboost_0")
    served.pair.guest.client.models.load(version)
    scores = {"score"}
    for place, named in ((served.guest, scores), (served.host, set[str]())):
        _, answer = place.call(
            "admin", "GET", "/admin/v1/drift", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        (found,) = [one for one in answer["data"] if one["model_version"] == version]
        assert {one["column"] for one in found["columns"] if one["kind"] == "score"} == named
        assert len(found["columns"]) > 5
        for column in found["columns"]:
            assert column["reference"].startswith(f"job {served.job_id}"), column
            assert sum(column["expected"]) == pytest.approx(1, abs=1e-4), column


def test_a_version_is_tried_with_a_row_of_the_training(served: Served) -> None:
    served.pair.guest.client.models.load(served.deployed("hetero_lr_0"))
    for place in (served.guest, served.host):
        assert "tried with its sample row" in place.log()


def test_a_grey_release_goes_to_some_users_and_back_in_one_call(served: Served) -> None:
    models, whole = served.pair.guest.client.models, served.deployed("hetero_lr_0")
    grey = served.deployed("hetero_secureboost_0")
    for version in (whole, grey):
        models.load(version)
    models.bind(whole, "split")
    models.bind(grey, "split", weight=30, options={"on_fault": "default_score"})
    rows = features_of("breast_hetero_guest")

    def versions() -> dict[str, str]:
        return {
            user: served.ask("split", user, row)["data"]["modelVersion"]
            for user, row in rows.items()
        }

    first = versions()
    assert set(first.values()) == {whole, grey}
    assert versions() == first
    models.rebind("split")
    assert set(versions().values()) == {whole}
    models.unbind("split")


def test_what_is_loaded_and_bound_outlives_a_restart(served: Served) -> None:
    version = served.deployed("hetero_lr_0")
    models = served.pair.guest.client.models
    models.load(version)
    models.bind(version, "kept")
    user, features = next(iter(features_of("breast_hetero_guest").items()))
    before = served.ask("kept", user, features)
    for place in (served.guest, served.host):
        place.kill()
        place.start()
    assert served.ask("kept", user, features)["data"]["score"] == before["data"]["score"]
    models.unbind("kept")
    assert served.ask("kept", user, features)["retcode"] == 122
    models.unload(version)


def test_a_partner_that_is_down_makes_a_load_fail_everywhere(served: Served) -> None:
    version = served.deployed("hetero_lr_0")
    models = served.pair.guest.client.models
    served.host.kill()
    try:
        refused = refusal_of(lambda: models.load(version))
        assert isinstance(refused, NotPublished)
        assert "does not answer" in refused.message
    finally:
        served.host.start()
    _, answer = served.guest.call(
        "admin", "GET", "/admin/v1/models", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    assert version not in json.dumps(answer)
    assert models.load(version)["guest"] == {GUEST_ID: 0}


def test_the_board_loads_binds_and_tries_a_version(served: Served) -> None:
    version = served.deployed("hetero_lr_0")
    url = f"{served.pair.guest.url}/board/serving"
    browser = requests.Session()

    def page(text: str) -> str:
        return html.unescape(re.sub(r"<[^>]+>", " ", text))

    def send(action: str, **fields: str) -> str:
        text = browser.get(url, timeout=60).text
        token = text.split('name="csrf" value="')[1].split('"')[0]
        data = {"csrf": token, **fields}
        return page(browser.post(f"{url}/{action}", data=data, timeout=120).text)

    assert "No version is loaded" not in page(browser.get(url, timeout=60).text)
    loaded = send("load", model_id=served.model_id, model_version=version)
    assert "The version was loaded." in loaded
    named = json.dumps([served.model_id, version])
    assert "was bound" in send("bind", service_id="of-board", version=named)
    user, features = next(iter(features_of("breast_hetero_guest").items()))
    tried = send("try", service_id="of-board", json=json.dumps(features), id_name_0="id",
                 id_value_0=user)  # fmt: skip
    score = served.ask("of-board", user, features)["data"]["score"]
    assert f"{score:,.8g}" in tried
    refused = send("try", service_id="of-board", json=json.dumps(features), id_name_0="id",
                   id_value_0="nobody")  # fmt: skip
    assert "2113" in refused
    assert "was unbound" in send("unbind", service_id="of-board")
    assert "The version was unloaded." in send(
        "unload", model_id=served.model_id, model_version=version
    )
    of_host = requests.get(f"{served.pair.host.url}/board/serving", timeout=60)
    assert of_host.status_code == 200
    assert "guest, asks" in page(of_host.text)
