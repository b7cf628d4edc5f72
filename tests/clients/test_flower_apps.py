"""Flower projects as jobs of real servers: ServerApp at the arbiter, ClientApps at the others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.flower import PYTHON
from tests.e2e.jobs import Json
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST_ID,
    HOST_ID,
    QUICK,
    ROOT,
    Pair,
    two_parties,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FEATURES = 10

RAISING = """
from flwr.serverapp import ServerApp
app = ServerApp()

@app.main()
def main(grid, context):
    raise RuntimeError("the ServerApp of this test fails")
"""


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    """Servers outlive a test here; `Party.close` sees that nothing is left."""
    return


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Give two servers with a provider of Flower apps and halves of one table."""
    place = tmp_path_factory.mktemp("p")
    provider = place / "flower"
    shutil.copytree(ROOT / "examples" / "flower", provider, ignore=shutil.ignore_patterns("test*"))
    manifest = (provider / "provider.toml").read_text().replace(".venv/bin/python", str(PYTHON))
    (provider / "provider.toml").write_text(manifest)
    raising = provider / "projects" / "raising_app"
    shutil.copytree(provider / "projects" / "numpy_app", raising)
    (raising / "numpy_app" / "server_app.py").write_text(RAISING)
    settings = {**QUICK, "FEDFLOW__PROVIDER__ALLOWED_FOLDERS": json.dumps([str(place)])}
    with two_parties(tmp_path_factory.mktemp("s"), settings=settings) as pair:
        head, *rows = (DATA / "breast_hetero_guest.csv").read_text().splitlines()
        for number, party in enumerate(pair.all):
            half = place / f"{number}.csv"
            half.write_text("\n".join([head, *rows[number::2]]) + "\n")
            assert party.upload(half, "breast").succeeded
            party.client.providers.register(str(provider))
        yield pair
        pair.wait_idle()


@pytest.fixture
def pair(servers: Pair) -> Pair:
    return servers


def flower_job(**parameters: Any) -> tuple[Json, Json]:
    """Return a job of a Flower project over the parties' tables."""
    steps: Json = {
        "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        "data_transform_0": {
            "module": "DataTransform",
            "input": {"data": {"data": ["reader_0.data"]}},
            "output": {"data": ["data"], "model": ["model"]},
        },
        "flower_0": {
            "module": "FlowerApp",
            "input": {"data": {"train_data": ["data_transform_0.data"]}},
            "output": {"model": ["model"]},
        },
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": GUEST_ID},
        "role": {"guest": [GUEST_ID], "host": [HOST_ID], "arbiter": [HOST_ID]},
        "component_parameters": {
            "common": {
                "reader_0": {"table": {"name": "breast", "namespace": "experiment"}},
                "data_transform_0": {"with_label": True, "label_name": "y"},
                "flower_0": {
                    "app": "numpy_app",
                    "run_config": {"features": FEATURES},
                    **parameters,
                },
            }
        },
    }
    return {"components": steps}, conf


def test_a_flower_project_is_a_job(pair: Pair) -> None:
    job_id = pair.guest.client.submit(*flower_job()).job_id
    assert set(pair.ends(job_id).values()) == {"success"}, pair.guest.client.job(job_id)
    server = pair.host.client
    summary = server.summary(job_id, "flower_0", site=ARBITER)
    assert (summary["rounds"], summary["replies"], summary["errors"]) == (3, 12, 0)
    assert summary["metrics"]["validate.eval_acc"] > 0.9
