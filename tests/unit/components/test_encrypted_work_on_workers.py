"""Linear models, SSHE and Pearson give the same model however their work is cut and sent away."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pyarrow import fs
from pyspark.sql import SparkSession

from fedflow.components.linear.hetero_linr import HeteroLinR
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.linear.hetero_poisson import HeteroPoisson
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.sshe.component import HeteroSSHELR
from fedflow.components.waiting import PATIENCE_S
from fedflow.cores.workers import LocalWorkers
from fedflow.domain.site import Site
from fedflow.sdk import Inputs, Model, Workers
from fedflow.spark.scratch import Scratch
from fedflow.spark.workers import SparkWorkers
from fedflow.testing.federation import SiteFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components import hetero_lr_parties, sshe_parties
from tests.unit.components.hetero_lr_parties import (
    ARBITER,
    GUEST,
    HOST,
    HOST_2,
    Data,
    small,
    with_numbers,
)

pytestmark = pytest.mark.timeout(600)  #: each model is trained three times

Floats = NDArray[np.float64]
AllWorkers = Mapping[Site, Workers]

HIDDEN_FROM_HOST = {"reveal_strategy": "encrypted_reveal_in_host", **sshe_parties.HIDDEN}
LINEAR: dict[str, tuple[type[Any], Data, dict[str, Any]]] = {
    "asynchronous": (HeteroLR, small(), {}),
    "weighted with decoys": (
        HeteroLR,
        small(weighted=True),
        {"batch_size": 15, "masked_rate": 0.4, "batch_strategy": "full", "random_seed": 3},
    ),
    "two hosts": (
        HeteroLR,
        small(widths={GUEST: 2, HOST: 2, HOST_2: 1}),
        {"batch_size": 25, "early_stop": "weight_diff"},
    ),
    "quasi-newton": (
        HeteroLR,
        small(),
        {"optimizer": "sqn", "sqn_param": {"update_interval_L": 1, "sample_size": 20}},
    ),
    "linear": (HeteroLinR, with_numbers(small()), {}),
    "poisson": (HeteroPoisson, with_numbers(small(weighted=True), counts=True), {}),
}
SHARES: dict[str, tuple[Data, dict[str, Any]]] = {
    "hidden": (small(), {"batch_size": 16, **sshe_parties.HIDDEN}),
    "known": (small(), {"batch_size": 16, **sshe_parties.KNOWN}),
    "weighted": (small(weighted=True), sshe_parties.HIDDEN),
    "encrypted": (small(), HIDDEN_FROM_HOST),
}


@pytest.fixture
def forking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small work be done by several processes too."""
    monkeypatch.setattr("fedflow.cores.forked.FORK_FROM", 0)


def compared(find: Callable[[AllWorkers], Floats], *sites: Site, atol: float = 0.0) -> None:
    """Do the same with all kinds of workers; what is found must not differ."""
    one = find({site: LocalWorkers(1) for site in sites})
    two = find({site: LocalWorkers(2) for site in sites})
    far = {site: PicklingWorkers(block_rows=7) for site in sites}
    many = find(far)
    assert all(workers.calls for workers in far.values())
    assert one.size
    np.testing.assert_allclose(two, one, rtol=0, atol=atol)
    np.testing.assert_allclose(many, one, rtol=0, atol=atol)


def first_of(kinds: Iterable[str]) -> list[Any]:
    """Return the kinds as parameters of a test; all but the first one only with `--heavy`."""
    return [pytest.param(k, marks=[pytest.mark.heavy] if i else []) for i, k in enumerate(kinds)]


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("kind", first_of(LINEAR))
def test_a_linear_model_does_not_depend_on_who_computes(kind: str, tmp_path: Path) -> None:
    cls, data, params = LINEAR[kind]
    sites = tuple(data.tables)

    def find(workers: AllWorkers) -> Floats:
        found = hetero_lr_parties.run(
            data,
            tmp_path,
            cls=cls,
            workers={**workers, ARBITER: LocalWorkers(1)},
            **{"max_iter": 2, **params},
        )
        return hetero_lr_parties.weights_of(found, *sites)

    compared(find, *sites)


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("kind", first_of(SHARES))
def test_a_model_in_shares_does_not_depend_on_who_computes(kind: str, tmp_path: Path) -> None:
    data, params = SHARES[kind]

    def find(workers: AllWorkers) -> Floats:
        found = sshe_parties.run(
            data, tmp_path, kind=HeteroSSHELR, workers=workers, **{"max_iter": 2, **params}
        )
        return sshe_parties.scores_of(found)

    # Shares are rounded by chance, which the weights show in their last digits.
    compared(find, GUEST, HOST, atol=0.0 if kind == "known" else 1e-7)


@pytest.mark.usefixtures("forking")
@pytest.mark.parametrize("widths", [(2, 5), (5, 2)])
def test_correlations_do_not_depend_on_who_computes(
    widths: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedflow.components.pearson.products.ROWS_PER_BLOCK", 11)
    data = small(rows=50, widths=dict(zip((GUEST, HOST), widths, strict=True)))

    def find(workers: AllWorkers) -> Floats:
        inputs = {}
        for site, rows in data.tables.items():
            schema = hetero_lr_parties.schema_of(rows)
            table = MemoryTableStore().add(rows, schema=schema)
            inputs[site] = Inputs(data={"data": [("i_0", table)]}, model={})
        params = {"column_indexes": -1, "fixpoint_bit_length": 1024}
        found = run_component(
            HeteroPearson,
            sites=(GUEST, HOST),
            work_dir=tmp_path,
            params=dict.fromkeys(inputs, params),
            inputs=inputs,
            workers=workers,
        )
        return np.array(outputs_of(found)[HOST].summary["corr"])

    compared(find, GUEST, HOST, atol=2e-9)


def test_chosen_rows_are_sent_and_slices_stay_where_they_are(tmp_path: Path) -> None:
    workers = {site: PicklingWorkers() for site in (GUEST, HOST)}
    hetero_lr_parties.run(
        small(), tmp_path, workers={**workers, ARBITER: LocalWorkers(1)}, batch_size=16, max_iter=1
    )
    for site in workers.values():
        assert {call.rows for call in site.calls} >= {16, 8}
        assert max(call.pickled_bytes for call in site.calls) < 2048


def test_a_continued_model_in_shares_is_sent_too(tmp_path: Path) -> None:
    workers: dict[Site, Workers] = {GUEST: PicklingWorkers(), HOST: PicklingWorkers()}
    first = sshe_parties.run(small(), tmp_path, workers=workers, max_iter=1, **HIDDEN_FROM_HOST)
    models: Mapping[Site, Model] = sshe_parties.models_of(first)
    again = sshe_parties.run(
        small(), tmp_path, workers=workers, models=models, max_iter=2, **HIDDEN_FROM_HOST
    )
    assert len(sshe_parties.losses(again)) == 1


def waits(monkeypatch: pytest.MonkeyPatch) -> dict[str, float | None]:
    """Return, as they happen, how long each message is waited for."""
    found: dict[str, float | None] = {}
    one, several = SiteFederation.recv, SiteFederation.recv_all

    def recv(self: SiteFederation, name: str, **more: Any) -> Any:
        found[name] = more.get("timeout_s")
        return one(self, name, **more)

    def recv_all(self: SiteFederation, name: str, **more: Any) -> Any:
        found[name] = more.get("timeout_s")
        return several(self, name, **more)

    monkeypatch.setattr(SiteFederation, "recv", recv)
    monkeypatch.setattr(SiteFederation, "recv_all", recv_all)
    return found


def test_a_training_waits_as_long_as_its_peers_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = waits(monkeypatch)
    hetero_lr_parties.run(small(), tmp_path, max_iter=1)
    sshe_parties.run(small(), tmp_path, max_iter=1, **sshe_parties.HIDDEN)
    assert {"host_forward_dict", "guest_gradient", "host_prob", "score_product"} <= found.keys()
    assert set(found.values()) == {PATIENCE_S}


class Folder:
    """A scratch folder of this machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.files, self.path = fs.LocalFileSystem(), str(folder)

    def keep(self) -> None:
        pass

    def discard(self) -> None:
        shutil.rmtree(self.path)


@pytest.mark.spark
@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["linear", "shares"])
def test_spark_gives_the_same_model(kind: str, local_spark: SparkSession, tmp_path: Path) -> None:
    """The guest computes on Spark, the host here."""
    scratch = Scratch(lambda: Folder(tmp_path / "scratch"))
    spark = SparkWorkers(local_spark.sparkContext, cores=2, scratch=scratch, little_s=0.0)
    others = {HOST: LocalWorkers(1), ARBITER: LocalWorkers(1)}

    def find(guest: Workers) -> Floats:
        workers: dict[Site, Workers] = {GUEST: guest, **others}
        if kind == "shares":
            found = sshe_parties.run(
                small(), tmp_path, workers=workers, max_iter=1, **sshe_parties.HIDDEN
            )
            return sshe_parties.weights_of(found)
        found = hetero_lr_parties.run(
            small(weighted=True), tmp_path, workers=workers, max_iter=1, batch_size=25
        )
        return hetero_lr_parties.weights_of(found, GUEST, HOST)

    with closing(spark):
        np.testing.assert_allclose(find(spark), find(LocalWorkers(1)), rtol=0, atol=1e-8)
