"""A real server with a trained and deployed model, and both commands run against it in process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner, Result

from fedflow.cli.flow.main import cli as flow
from fedflow.cli.main import cli as fedflow
from tests.e2e.jobs import example, upload_data
from tests.e2e.servers import DATA, QUICK, Party, standalone
from tests.support.serving_admin import ServingAdmin, serving_admin

Json = dict[str, Any]
MODEL_ID = "arbiter-10000#guest-9999#host-10000#model"
COMPONENTS = ("reader_0", "data_transform_0", "intersection_0", "hetero_lr_0")


@dataclass
class Place:
    """One server, what was made at it, and a folder for files."""

    party: Party
    folder: Path
    job_id: str
    version: str  #: deployed from the job
    serving: ServingAdmin  #: what `model load` publishes to

    def run(self, program: click.Command, *words: object, **env: str) -> Result:
        settings = {
            "FEDFLOW_SERVER": self.party.url,
            "FEDFLOW_APP_KEY": "",
            "FEDFLOW_SECRET_KEY": "",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }
        runner = CliRunner(env={**settings, **env})
        return runner.invoke(program, [str(word) for word in words])

    def flow(self, *words: object) -> Json:
        """Return what `flow` printed."""
        result = self.run(flow, *words)
        answer: Json = json.loads(result.stdout)
        assert (result.exit_code == 0) == (answer["retcode"] == 0), result.output
        return answer

    def ok(self, *words: object) -> Any:
        """Return the data that `flow` printed for a success; the whole answer if there is none."""
        answer = self.flow(*words)
        assert answer["retcode"] == 0, answer
        return answer.get("data", answer)

    def fedflow(self, *words: object, code: int = 0) -> str:
        """Return what `fedflow` printed for people."""
        result = self.run(fedflow, *words)
        assert result.exit_code == code, result.output
        return result.output

    def json(self, *words: object) -> Any:
        """Return what `fedflow --json` printed."""
        return json.loads(self.fedflow(*words, "--json"))

    def file(self, name: str, value: Any) -> Path:
        """Write a JSON file and return its path."""
        path = self.folder / name
        path.write_text(json.dumps(value), encoding="utf-8")
        return path

    def wait(self, job_id: str) -> str:
        """Return the status with which a job ended."""
        return self.party.client.wait(job_id, timeout_s=120).status


@contextmanager
def trained_place(folder: Path) -> Iterator[Place]:
    """Give a server that trained the example with one iteration, and deployed its model."""
    settings = {
        **QUICK,
        "FEDFLOW__UPLOAD__ALLOWED_FOLDERS": json.dumps([str(DATA)]),
        "FEDFLOW__PERMISSION__SWITCH": "true",
        "FEDFLOW__MODEL_STORE_ADDRESS__FOLDER": str(folder / "store"),
        "FEDFLOW__STORAGE__MYSQL_HOSTS": json.dumps(["127.0.0.1:3306"]),
        "FEDFLOW__MODEL_STORE_ADDRESS__STORAGE": "folder",
    }
    with (
        serving_admin() as serving,
        standalone(
            folder,
            settings={**settings, "FEDFLOW__SERVINGS__HOSTS": json.dumps([serving.address])},
        ) as pair,
    ):
        upload_data(pair)
        client = pair.guest.client
        job_id = client.submit(*example(iterations=1)).job_id
        assert client.wait(job_id, timeout_s=120).succeeded
        made = client.models.deploy(MODEL_ID, job_id, components=COMPONENTS)
        yield Place(pair.guest, folder, job_id, made.model_version, serving)
