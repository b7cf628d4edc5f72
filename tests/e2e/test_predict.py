"""Train, deploy, predict between real servers: the scores are those of the training job."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from tests.e2e.jobs import Json, example, upload_data
from tests.e2e.servers import (
    ARBITER,
    GUEST,
    HOST,
    Pair,
    mysql_database,
    standalone,
    two_parties,
    wait_for,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

DEPLOYED = ["reader_0", "data_transform_0", "intersection_0", "hetero_lr_0"]
ROWS = 569


@dataclass(frozen=True)
class Trained:
    """A training job that succeeded, and the servers that ran it."""

    pair: Pair
    job_id: str
    model_id: str

    def deploy(self, version: str | None = None, **more: Any) -> Json:
        """Return the whole answer to a deploy at the guest."""
        body = {"model_id": self.model_id, "model_version": version or self.job_id, **more}
        return self.pair.guest.post("/v1/model/deploy", body)

    def deployed(self, **more: Any) -> str:
        """Return the version that a deploy makes."""
        answer = self.deploy(**{"cpn_list": DEPLOYED, **more})
        assert (answer["retcode"], answer["retmsg"]) == (0, "success"), answer
        return str(answer["data"]["model_version"])

    def submit(self, conf: Json, dsl: Any = None) -> Json:
        return self.pair.guest.post(
            "/v1/job/submit", {"job_dsl": dsl or {}, "job_runtime_conf": conf}
        )

    def predict(self, conf: Json) -> str:
        """Return the id of a predict job that succeeded everywhere."""
        answer = self.submit(conf)
        assert answer["retcode"] == 0, answer
        statuses = self.pair.ends(answer["jobId"])
        assert set(statuses.values()) == {"success"}, statuses
        return str(answer["jobId"])

    def template(self, version: str) -> Json:
        """Return the conf that the server proposes, with the training tables filled in."""
        body = {"model_id": self.model_id, "model_version": version}
        answer = self.pair.guest.post("/v1/model/get/predict/conf", body)
        conf: Json = answer["data"]
        for role, table in (("guest", "breast_hetero_guest"), ("host", "breast_hetero_host")):
            reader = conf["component_parameters"]["role"][role]["0"]["reader_0"]
            assert reader["table"]["name"].startswith("name_to_be_filled_")
            reader["table"] = {"name": table, "namespace": "experiment"}
        return conf

    def scores(self, job_id: str, folder: Path, *, site: Site = GUEST) -> dict[str, list[str]]:
        """Return the predictions of a job by sample id, without label and type."""
        folder.mkdir()
        files = self.pair.guest.client.download_output(job_id, "hetero_lr_0", folder, site=site)
        (path,) = [file for file in files if file.suffix == ".csv"]
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        identifier = next(iter(rows[0]))
        return {r[identifier]: [r["predict_result"], r["predict_score"]] for r in rows}

    def models(self, site: Site) -> list[Json]:
        body = {"model_id": self.model_id, "role": site.role.value, "party_id": site.party_id}
        rows: list[Json] = self.pair.of(site).post("/v1/model/query", body).get("data") or []
        return rows


@pytest.fixture(
    scope="module",
    params=["standalone", pytest.param("federated, mysql at the host", marks=pytest.mark.mysql)],
)
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("predict")
    with ExitStack() as stack:
        if request.param == "standalone":
            pair = stack.enter_context(standalone(folder))
        else:
            host = stack.enter_context(mysql_database())
            pair = stack.enter_context(two_parties(folder, host_settings=host))
        upload_data(pair)
        done = pair.guest.client.submit(*example(iterations=2))
        assert set(pair.ends(done.job_id).values()) == {"success"}
        yield Trained(pair, done.job_id, done.model_id)
        pair.wait_idle()


def test_predicting_the_training_rows_gives_the_scores_of_the_training(
    trained: Trained, tmp_path: Path
) -> None:
    version = trained.deployed()
    job_id = trained.predict(trained.template(version))
    predicted = trained.scores(job_id, tmp_path / "predicted")
    assert len(predicted) == ROWS
    assert predicted == trained.scores(trained.job_id, tmp_path / "trained")


def test_an_arbiter_need_not_take_part_in_predicting(trained: Trained, tmp_path: Path) -> None:
    conf = trained.template(trained.deployed())
    del conf["role"]["arbiter"]
    job_id = trained.predict(conf)
    assert len(trained.scores(job_id, tmp_path / "predicted")) == ROWS


def test_every_site_has_its_share_of_the_deployed_version(trained: Trained) -> None:
    answer = trained.deploy(cpn_list=DEPLOYED)
    data = answer["data"]
    assert data["guest"] == {"9999": 0}
    assert data["host"] == data["arbiter"] == {"10000": 0}
    assert data["detail"]["host"]["10000"] == {"retcode": 0, "retmsg": "success"}
    for site in (GUEST, HOST, ARBITER):
        rows = {row["f_model_version"]: row for row in trained.models(site)}
        assert rows[trained.job_id]["f_parent"] is True
        child = rows[data["model_version"]]
        assert child["f_parent"] is False
        assert child["f_parent_info"]["parent_model_version"] == trained.job_id
        assert list(child["f_inference_dsl"]["components"]) == DEPLOYED


def test_the_predict_dsl_can_be_had_as_data_and_as_a_file(trained: Trained) -> None:
    body = {"model_id": trained.model_id, "model_version": trained.deployed()}
    answer = trained.pair.guest.post("/v1/model/get/predict/dsl", body)
    dsl = answer["data"]
    assert list(dsl["components"]) == DEPLOYED
    assert dsl["components"]["hetero_lr_0"]["input"] == {
        "model": ["pipeline.hetero_lr_0.model"],
        "data": {"test_data": ["intersection_0.data"]},
    }
    file = trained.pair.guest.post(
        "/v1/model/get/predict/dsl", {**body, "filename": "predict_dsl.json"}
    )
    assert file == dsl


def test_a_predict_dsl_of_ones_own_deploys_as_text_and_predicts(
    trained: Trained, tmp_path: Path
) -> None:
    body = {"model_id": trained.model_id, "model_version": trained.deployed()}
    dsl = trained.pair.guest.post("/v1/model/get/predict/dsl", body)["data"]
    dsl["components"]["evaluation_1"] = {
        "module": "Evaluation",
        "input": {"data": {"data": ["hetero_lr_0.data"]}},
        "output": {"data": ["data"]},
    }
    version = trained.deployed(cpn_list=None, dsl=json.dumps(dsl))
    job_id = trained.predict(trained.template(version))
    answer = trained.pair.guest.post(
        "/v1/tracking/component/metric/all",
        {"job_id": job_id, "role": "guest", "party_id": 9999, "component_name": "evaluation_1"},
    )
    assert answer["data"], answer


def test_a_predict_job_shows_the_conf_that_its_model_was_trained_with(trained: Trained) -> None:
    version = trained.deployed()
    job_id = trained.predict(trained.template(version))
    where = {"job_id": job_id, "role": "guest", "party_id": 9999}
    answer = trained.pair.guest.post("/v1/job/config", where)["data"]
    assert answer["model_info"] == {"model_id": trained.model_id, "model_version": version}
    learner = answer["train_runtime_conf"]["component_parameters"]["common"]["hetero_lr_0"]
    assert learner["max_iter"] == 2
    (row,) = trained.pair.guest.post("/v1/job/query", where)["data"]
    assert row["f_train_runtime_conf"] == answer["train_runtime_conf"]
    assert trained.job_id not in {
        r["f_model_version"] for r in trained.models(GUEST) if r["f_job_id"] == job_id
    }


def migrated(trained: Trained) -> Json:
    """Return the answer to giving the model to the parties 1 to 3."""
    body = {
        "model_id": trained.model_id,
        "model_version": trained.job_id,
        "role": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "migrate_role": {"guest": [1], "host": [2], "arbiter": [3]},
        "migrate_initiator": {"role": "guest", "party_id": 1},
        "execute_party": {"guest": [9999], "host": [10000], "arbiter": [10000]},
        "job_parameters": {"federated_mode": "MULTIPLE"},
    }
    return trained.pair.guest.post("/v1/model/migrate", body)


def test_a_migrated_model_can_be_exported_under_its_new_ids(trained: Trained) -> None:
    answer = migrated(trained)
    assert (answer["retcode"], answer["retmsg"]) == (0, "success"), answer
    version = answer["data"]["model_version"]
    assert answer["jobId"] == version
    for site, role, party_id in ((GUEST, "guest", "1"), (HOST, "host", "2")):
        body = {
            "model_id": answer["data"]["model_id"],
            "model_version": version,
            "role": role,
            "party_id": party_id,
        }
        url = f"{trained.pair.of(site).url}/v1/model/export"
        archive = requests.post(url, json=body, timeout=60)
        assert archive.status_code == 200
        with zipfile.ZipFile(io.BytesIO(archive.content)) as packed:
            texts = [packed.read(name).decode() for name in packed.namelist()]
        # The old party may be named only by what the users themselves called so: their tables.
        assert not [text for text in texts if f"{site.role.value}_{site.party_id}" in text]
        assert any(f"{role}_{party_id}_x0" in text for text in texts)


def test_a_migrated_model_is_deployed_and_predicts_where_the_new_parties_have_servers(
    trained: Trained, tmp_path: Path
) -> None:
    moved = migrated(trained)["data"]
    new = Trained(trained.pair, moved["model_version"], moved["model_id"])
    if trained.pair.guest is not trained.pair.host:  # servers of 9999 and 10000 only
        answer = new.deploy(cpn_list=DEPLOYED)
        assert answer["retcode"] == 101
        assert answer["data"]["host"]["2"] != 0
        assert "No route to party" in answer["data"]["detail"]["host"]["2"]["retmsg"]
        assert [row["f_model_version"] for row in new.models(GUEST)] == []
        return
    job_id = new.predict(new.template(new.deployed()))
    site = Site(Role.GUEST, PartyId("1"))
    scores = new.scores(job_id, tmp_path / "moved", site=site)
    assert scores == trained.scores(trained.job_id, tmp_path / "trained")


def test_a_deployed_model_predicts_at_another_server_that_imported_its_shares(
    trained: Trained, tmp_path: Path
) -> None:
    version = trained.deployed()
    with standalone(tmp_path / "fresh") as fresh:
        upload_data(fresh)
        for site in (GUEST, HOST, ARBITER):
            named = {
                "model_id": trained.model_id,
                "model_version": version,
                "role": site.role.value,
                "party_id": site.party_id,
            }
            url = trained.pair.of(site).url
            archive = requests.post(f"{url}/v1/model/export", json=named, timeout=60)
            assert archive.status_code == 200, archive.text
            answer = requests.post(
                f"{fresh.guest.url}/v1/model/import",
                data=named,
                files={"file": ("model.zip", archive.content)},
                timeout=60,
            ).json()
            assert answer["retcode"] == 0, answer
        moved = Trained(fresh, trained.job_id, trained.model_id)
        predicted = moved.predict(moved.template(version))
        scores = moved.scores(predicted, tmp_path / "moved")
        fresh.wait_idle()
    assert scores == trained.scores(trained.job_id, tmp_path / "trained")


def test_what_cannot_predict_says_so(trained: Trained) -> None:
    conf = trained.template(trained.deployed())
    common = conf["job_parameters"]["common"]
    for version, name in ((trained.job_id, "ModelNotDeployed"), ("1", "ModelNotFound")):
        common["model_version"] = version
        answer = trained.submit(conf)
        assert (answer["retcode"], answer["error"]["name"]) == (103, name)


def test_what_cannot_be_deployed_says_so(trained: Trained) -> None:
    child = trained.deployed()
    answer = trained.deploy(child)
    assert (answer["retcode"], answer["error"]["name"]) == (101, "ModelIsDeployed")
    assert "data" in answer
    answer = trained.deploy(cpn_list=["nobody_0"])
    assert (answer["retcode"], answer["error"]["name"]) == (101, "InvalidJobSpec")
    answer = trained.deploy("1")
    assert (answer["retcode"], answer["error"]["name"]) == (404, "ModelNotFound")


def test_a_damaged_share_is_refused_by_its_own_site_before_anything_starts(
    trained: Trained,
) -> None:
    conf = trained.template(trained.deployed())
    home = trained.pair.host.home
    blobs = (home / "models" / "blobs").glob("??/*")
    largest = max(blobs, key=lambda path: path.stat().st_size)
    content = largest.read_bytes()
    largest.chmod(0o600)
    largest.write_bytes(content[:-1] + b" ")
    try:
        answer = trained.submit(conf)
        assert answer["retcode"] == 103
        assert "damaged" in answer["retmsg"]
        refused = trained.deploy(cpn_list=DEPLOYED)
        assert refused["retcode"] == 101
        assert "damaged" in refused["retmsg"]
    finally:
        largest.write_bytes(content)
    assert trained.deployed()


def test_a_host_that_dies_between_deploy_and_predict_still_has_its_share(
    trained: Trained, tmp_path: Path
) -> None:
    conf = trained.template(trained.deployed())
    trained.pair.host.restart(after_s=0.2)
    job_id = wait_for(lambda: _accepted(trained, conf), "the job to be accepted")
    assert set(trained.pair.ends(job_id).values()) == {"success"}
    assert len(trained.scores(job_id, tmp_path / "predicted")) == ROWS


def _accepted(trained: Trained, conf: Json) -> str | None:
    answer = trained.submit(conf)
    return str(answer["jobId"]) if answer["retcode"] == 0 else None


def test_a_job_of_version_1_predicts_without_a_deploy(trained: Trained, tmp_path: Path) -> None:
    dsl, conf = example(iterations=2)
    components = dsl["components"]
    components["dataio_0"] = components.pop("data_transform_0")
    components["dataio_0"]["input"]["data"]["data"] = ["args.train_data"]
    components["intersection_0"]["input"]["data"]["data"] = ["dataio_0.data"]
    del components["reader_0"]
    components["evaluation_0"]["need_deploy"] = False
    common = conf.pop("component_parameters")["common"]
    table = {"name": "breast_hetero_guest", "namespace": "experiment"}
    host_table = {**table, "name": "breast_hetero_host"}

    def version_1(job_parameters: Json, key: str) -> Json:
        return {
            "initiator": conf["initiator"],
            "role": conf["role"],
            "job_parameters": job_parameters,
            "algorithm_parameters": {n: p for n, p in common.items() if n in components},
            "role_parameters": {
                "guest": {
                    "args": {"data": {key: [table]}},
                    "dataio_0": {"with_label": [True], "label_name": ["y"]},
                },
                "host": {
                    "args": {"data": {key: [host_table]}},
                    "dataio_0": {"with_label": [False]},
                },
            },
        }

    answer = trained.submit(version_1({"work_mode": 1, "backend": 0}, "train_data"), dsl)
    assert answer["retcode"] == 0, answer
    job_id = answer["jobId"]
    assert set(trained.pair.ends(job_id).values()) == {"success"}
    model = {"job_type": "predict", "model_id": trained.model_id, "model_version": job_id}
    predicted = trained.predict(version_1(model, "eval_data"))
    scores = trained.scores(predicted, tmp_path / "predicted")
    assert scores == trained.scores(job_id, tmp_path / "trained")
    assert scores == trained.scores(trained.job_id, tmp_path / "version 2")
