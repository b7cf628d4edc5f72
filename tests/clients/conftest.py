"""Real servers for FATE's clients, standalone and one per party, with a job that was trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedflow.client.client import Client
from tests.clients.environments import Environment, Json
from tests.e2e.jobs import example
from tests.e2e.servers import (
    DATA,
    GUEST_ID,
    HOST_ID,
    QUICK,
    Pair,
    standalone,
    two_parties,
    wait_for,
)

FINAL = {"success", "failed", "canceled", "timeout"}
SCORES = ["label", "predict_result", "predict_score", "predict_detail", "type"]
PATIENCE_S = 240.0  #: for a script with a job of thirty tasks
SETTINGS = {
    **QUICK,
    "FEDFLOW__UPLOAD__ALLOWED_FOLDERS": json.dumps([str(DATA)]),
    "FEDFLOW__STORAGE__MYSQL_HOSTS": json.dumps(["127.0.0.1:3306"]),
}


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Servers outlive a test here; `Party.close` sees that nothing is left."""
    return


@dataclass
class Deployment:
    """Servers, and FATE's client pointed at them."""

    mode: str
    pair: Pair
    client: Environment

    @property
    def guest(self) -> Environment:
        """Return the client, pointed at the guest's server."""
        return self.client.at(self.pair.guest.url)

    def upload_example(self) -> None:
        """Upload the tables of the shipped example."""
        self.upload(*(DATA / f"breast_hetero_{role}.csv" for role in ("guest", "host")))

    def upload_texts(self, name: str, texts: tuple[str, str]) -> None:
        """Upload CSV texts of guest and host as `<name>_guest` and `<name>_host`."""
        paths = [self.client.cwd / f"{name}_{role}.csv" for role in ("guest", "host")]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        self.upload(*paths)

    def upload(self, guest: Path, host: Path) -> None:
        """Upload each party's file through its own server, with `flow data upload`."""
        for party, path in ((self.pair.guest, guest), (self.pair.host, host)):
            client = self.client.at(party.url)
            conf = {
                "file": str(path), "head": 1, "partition": 4, "work_mode": 0,
                "namespace": "experiment", "table_name": path.stem,
            }  # fmt: skip
            words = ("data", "upload", "-c", client.file("upload.json", conf), "--drop")
            answer = client.flow(*words)
            assert answer["retcode"] == 0, answer
            assert self.wait(client, answer["jobId"], role="local")["f_status"] == "success"

    def losses(self, job_id: str, component: str, *, role: str) -> list[float]:
        """Return a training's losses, as `flow` shows them at the party that wrote them."""
        guest = role == "guest"
        party = self.pair.guest if guest else self.pair.host
        words = ("-j", job_id, "-r", role, "-p", GUEST_ID if guest else HOST_ID)
        found = self.client.at(party.url).ok("tracking", "metric-all", *words, "-cpn", component)
        return [loss for _, loss in found["train"]["loss"]["data"]]

    def submit(self, dsl: Json, conf: Json) -> str:
        """Submit a job with `flow job submit` and return its id."""
        client = self.guest
        words = ("-d", client.file("dsl.json", dsl), "-c", client.file("conf.json", conf))
        answer = client.flow("job", "submit", *words)
        assert answer["retcode"] == 0, answer
        return str(answer["jobId"])

    def wait(self, client: Environment, job_id: str, *, role: str = "guest") -> Json:
        """Return the job's row once it has ended, as `flow job query` shows it."""

        def look() -> Json | None:
            rows = client.ok("job", "query", "-j", job_id, "-r", role)
            return rows[0] if rows and rows[0]["f_status"] in FINAL else None

        # Each look of FATE's client takes a second of CPU, so fedflow's own waits.
        keys = client.keys
        signs = {"app_key": keys.app_key, "secret": keys.secret_key} if keys else {}
        with closing(Client(client.server, **signs)) as own:
            own.wait(job_id, timeout_s=120.0)
        return wait_for(look, f"the end of {job_id}", within_s=120.0)

    def trained(self, dsl: Json, conf: Json) -> str:
        """Submit a job, wait for its success, and return its id."""
        job_id = self.submit(dsl, conf)
        row = self.wait(self.guest, job_id)
        assert row["f_status"] == "success", self.pair.guest.client.job(job_id)
        return job_id


@pytest.fixture(
    scope="session", params=[pytest.param("standalone", marks=pytest.mark.heavy), "federated"]
)
def deployment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Give servers with the example's tables, in both ways to deploy."""
    folder = tmp_path_factory.mktemp(f"clients_{request.param}")
    with ExitStack() as stack:
        start = standalone if request.param == "standalone" else two_parties
        store = {
            "FEDFLOW__DOWNLOAD__ALLOWED_FOLDERS": json.dumps([str(folder)]),
            "FEDFLOW__MODEL_STORE_ADDRESS__STORAGE": "folder",
            "FEDFLOW__MODEL_STORE_ADDRESS__FOLDER": str(folder / "models"),
        }
        (folder / "models").mkdir()
        pair = stack.enter_context(start(folder, settings={**SETTINGS, **store}))
        work = folder / "work"
        work.mkdir()
        found = Deployment(request.param, pair, Environment("fate-client", work))
        found.upload_example()
        yield found


@pytest.fixture(scope="session")
def job_id(deployment: Deployment) -> str:
    """Return a job that was trained: the shipped example with few iterations."""
    return deployment.trained(*example(iterations=3))
