"""`fate_test flow-test process`: trains, deploys, predicts, loads, binds, and asks the serving."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environments import Environment
from tests.clients.test_fate_test import CONFIG, FLOW_TEST, predict_conf, predict_dsl, write
from tests.e2e.jobs import example, upload_data
from tests.e2e.online import OnlineParties, online_parties, scores_of
from tests.e2e.servers import DATA, GUEST, QUICK

Json = dict[str, Any]
pytestmark = pytest.mark.timeout(600)

PHONE = "18576635456"  #: whom fate_test asks for
USER = "7"  #: whose sample id is replaced by the number in the tables of features


@dataclass(frozen=True)
class Bench:
    """Two parties that serve, and a folder with a configuration of fate_test."""

    parties: OnlineParties
    client: Environment


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    tables = {role: phone_table(tmp_path, role) for role in ("guest", "host")}
    work = tmp_path / "work"
    work.mkdir()
    own = {"source": "table", "options": tables["guest"]}
    with online_parties(
        tmp_path, settings=QUICK, host_table=tables["host"], guest_features=own
    ) as parties:
        upload_data(parties.pair)
        services = "\n".join(
            f"      - {{address: 127.0.0.1:{party.place.http_port}, parties: [{ids}]}}"
            for party, ids in ((parties.pair.guest, 9999), (parties.pair.host, 10000))
        )
        port = parties.guest.settings["callers"]["port"]
        config = CONFIG.format(base=work, services=services, serving=f"127.0.0.1:{port}")
        (work / "config.yaml").write_text(config, encoding="utf-8")
        yield Bench(parties, Environment("fate-test", work))


def phone_table(folder: Path, role: str) -> Json:
    """Write features by phone numbers and return the options of their source."""
    path = folder / f"phones_{role}.csv"
    given = (DATA / f"breast_hetero_{role}.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in given]
    rows[0][0] = "phone_num"
    for row in rows[1:]:
        row[0] = PHONE if row[0] == USER else row[0]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return {"path": str(path), "ids": ["phone_num"]}


def test_the_process_runs_to_its_end_and_the_serving_answers_with_the_offline_score(
    bench: Bench, tmp_path: Path
) -> None:
    client = bench.parties.pair.guest.client
    dsl, conf = example(iterations=2)
    sent = client.submit(dsl, conf)
    assert client.wait(sent.job_id, timeout_s=120).succeeded
    measured = client.summary(sent.job_id, "evaluation_0", site=GUEST)["hetero_lr_0"]["train"]
    work = bench.client.cwd
    write(
        work / "flow_test",
        train_conf=conf,
        train_dsl=dsl,
        predict_conf=predict_conf(conf),
        predict_dsl=predict_dsl(dsl, "hetero_lr_0"),
        upload_conf={},
    )
    config = FLOW_TEST.replace("0.98", repr(measured["auc"]))
    config = config.replace(": /metric", f": {work}/metric").replace(": /model", f": {work}/model")
    (work / "flow_test_config.yaml").write_text(config, encoding="utf-8")
    words = ("-c", work / "config.yaml", "-y", "flow-test", "process", "-y")
    printed = bench.client.run("fate_test", *words, timeout_s=300)
    assert "elapse" in printed, printed
    assert "exception_id" not in printed, printed
    jobs = re.findall(r"submit job success: .*'jobId': '(\d+)'", printed)
    assert len(jobs) == 2, printed
    files = client.download_output(jobs[1], "hetero_lr_0", tmp_path / "offline")
    offline = scores_of(next(file for file in files if file.suffix == ".csv"))
    answer = answered(printed)
    assert (answer["retcode"], answer["flag"]) == (0, 0), answer
    assert answer["data"]["score"] == pytest.approx(offline[USER], rel=0, abs=1e-9)


def answered(printed: str) -> Mapping[str, Any]:
    """Return what the serving process answered, as fate_test printed it."""
    text = printed.partition("Online predict successfully, response: ")[2]
    answer: Json = json.JSONDecoder().raw_decode(text)[0]
    return answer
