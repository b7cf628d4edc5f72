"""Tables of more than one batch on Spark: parts that the server shows, packs and deletes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.jobs import Json
from tests.e2e.servers import GUEST_ID, QUICK, Pair, standalone

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = 150_000
SETTINGS = {**QUICK, "FEDFLOW__FATE_ON_SPARK__SPARK__MASTER": "local[2]"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("spark_tables")
    with standalone(folder, settings=SETTINGS) as pair:
        rows = folder / "rows.csv"
        with rows.open("w") as file:
            file.write("id,y,a,b\n")
            file.writelines(f"u{i},{i % 2},{i / 7},{i % 11}\n" for i in range(ROWS))
        assert pair.guest.upload(rows, "rows").succeeded
        yield pair
        pair.wait_idle()


def job(engine: str) -> tuple[Json, Json]:
    """Return a job of the guest alone."""
    dsl = {
        "components": {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
            "data_transform_0": {
                "module": "DataTransform",
                "input": {"data": {"data": ["reader_0.data"]}},
                "output": {"data": ["data"], "model": ["model"]},
            },
            "statistic_0": {
                "module": "DataStatistics",
                "input": {"data": {"data": ["data_transform_0.data"]}},
                "output": {"data": ["data"], "model": ["model"]},
            },
        }
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(GUEST_ID)},
        "role": {"guest": [int(GUEST_ID)]},
        "job_parameters": {"common": {"job_type": "train", "computing_engine": engine}},
        "component_parameters": {
            "common": {
                "reader_0": {"table": {"name": "rows", "namespace": "experiment"}},
                "data_transform_0": {"with_label": True, "label_name": "y", "label_type": "int"},
            }
        },
    }
    return dsl, conf


def run(pair: Pair, engine: str) -> str:
    job_id = pair.guest.client.submit(*job(engine)).job_id
    ends = pair.ends(job_id, within_s=400)
    assert set(ends.values()) == {"success"}, pair.views(job_id)
    return job_id


def results(pair: Pair, job_id: str, folder: Path) -> tuple[Json, list[str]]:
    """Return the statistics, and the lines of transformed rows as the server packs them."""
    client = pair.guest.client
    client.download_output(job_id, "data_transform_0", folder)
    (rows,) = folder.rglob("*.csv")
    return client.summary(job_id, "statistic_0"), rows.read_text().splitlines()


def parts(home: Path) -> list[Path]:
    return list((home / "tables" / "parts").glob("*/_rows.json"))


@pytest.mark.heavy
def test_a_job_on_spark_gives_the_rows_of_a_local_one_and_its_parts_go_with_it(
    pair: Pair, tmp_path: Path
) -> None:
    local = results(pair, run(pair, "STANDALONE"), tmp_path / "local")
    assert parts(pair.guest.home) == []
    job_id = run(pair, "SPARK")
    assert len(parts(pair.guest.home)) >= 1
    spark = results(pair, job_id, tmp_path / "spark")
    assert spark == local
    assert len(spark[1]) == ROWS + 1
    pair.guest.client.clean(job_id)
    assert parts(pair.guest.home) == []
