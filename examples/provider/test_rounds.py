"""Tests of the horizontal component: all parties, a host that is lost, one that comes back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from rounds import SharedRegression

from fedflow.sdk import Elastic, GroupDiffers, Inputs, Site, Table, TooFewInRound
from fedflow.testing.federation import LocalFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import outputs_of, run_component

GUEST = Site.from_key("guest-9999")
HOSTS = (Site.from_key("host-10000"), Site.from_key("host-10001"))
SITES = (GUEST, *HOSTS)
ROUNDS = 30

RNG = np.random.default_rng(3)
X = {site: RNG.normal(size=(20, 2)) for site in SITES}
Y = {site: x @ [1.0, -2.0] + 0.5 for site, x in X.items()}


def table(site: Site, names: tuple[str, str] = ("a", "b")) -> Table:
    columns: dict[str, Any] = {"id": [f"{site.key}-{row}" for row in range(20)]}
    columns |= {names[0]: X[site][:, 0], names[1]: X[site][:, 1], "y": Y[site]}
    return MemoryTableStore().add(pa.table(columns))


def run(folder: Path, *, tables: dict[Site, Table] | None = None, **more: Any) -> Any:
    given = {site: table(site) for site in SITES} | (tables or {})
    inputs = {
        site: Inputs(data={"train_data": [("a", one)]}, model={}) for site, one in given.items()
    }
    return run_component(
        SharedRegression, sites=SITES, work_dir=folder, inputs=inputs,
        params={site: {"rounds": ROUNDS, "learning_rate": 0.5} for site in SITES}, **more,
    )  # fmt: skip


def in_the_clear(*sites: Site) -> list[float]:
    x = np.column_stack([np.vstack([X[site] for site in sites]), np.ones(20 * len(sites))])
    y, weights = np.concatenate([Y[site] for site in sites]), np.zeros(3)
    for _ in range(ROUNDS):
        weights = weights - 0.5 * x.T @ (x @ weights - y) / len(y)
    return weights.tolist()


def weights_of(outputs: Any, site: Site) -> Any:
    return pytest.approx(outputs[site].model.param["weights"], abs=1e-9)


def test_all_parties_have_the_model_of_all_rows(tmp_path: Path) -> None:
    outputs = outputs_of(run(tmp_path))
    for site in SITES:
        assert in_the_clear(*SITES) == weights_of(outputs, site)


def test_other_columns_are_named_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(GroupDiffers, match="columns"):
        outputs_of(run(tmp_path, tables={HOSTS[1]: table(HOSTS[1], ("a", "c"))}))


def test_rounds_go_on_without_a_host_that_is_lost(tmp_path: Path) -> None:
    federation = LocalFederation(SITES, receive_timeout_s=50)
    federation.fail(HOSTS[1], "its process died")
    elastic = Elastic(min_parties=2)
    results = run(tmp_path, federation=federation, elastic=elastic, only=SITES[:2])
    outputs = outputs_of(results)
    assert in_the_clear(*SITES[:2]) == weights_of(outputs, GUEST)
    _, last = results[GUEST].metrics["train", "participation"].points[-1]
    assert last == {
        "counted": {"guest-9999": 20, "host-10000": 20}, "left_out": {"host-10001": "it is absent"}
    }  # fmt: skip


def test_a_host_that_is_back_counts_again(tmp_path: Path) -> None:
    federation = LocalFederation(SITES, receive_timeout_s=50)
    federation.fail(HOSTS[1], "its process died")
    first, second = federation.at(HOSTS[0]), federation.at(HOSTS[1])
    elastic = Elastic(min_parties=2, round_deadline_s=50)
    with ThreadPoolExecutor() as pool:
        guest = pool.submit(run, tmp_path, federation=federation, elastic=elastic, only=[GUEST])

        def answer(host: Any, number: int) -> None:
            host.recv("weights", from_=GUEST, tag=str(number))
            host.send("update", update(number), to=GUEST, tag=f"0.{number}")

        answer(first, 0)
        first.recv("weights", from_=GUEST, tag="1")
        federation.again(HOSTS[1])
        second.send("update", update(-1), to=GUEST, tag="1.-1")
        second.recv("weights", from_=GUEST, tag="1.1.-1")
        second.send("update", update(1), to=GUEST, tag="1.1")
        first.send("update", update(1), to=GUEST, tag="0.1")
        for number in range(2, ROUNDS):
            answer(first, number)
            answer(second, number)
        points = guest.result()[GUEST].metrics["train", "participation"].points
    assert [list(who["left_out"]) for _, who in points] == [["host-10001"], *([[]] * (ROUNDS - 1))]


def update(number: int) -> dict[str, Any]:
    return {"round": number, "gradient": np.zeros(3), "rows": 20}


def test_too_few_parties_end_the_run(tmp_path: Path) -> None:
    federation = LocalFederation(SITES, receive_timeout_s=50)
    federation.fail(HOSTS[1], "its process died")
    with pytest.raises(TooFewInRound, match="missing: host 10001"):
        outputs_of(
            run(tmp_path, federation=federation, elastic=Elastic(min_parties=3), only=SITES[:2])
        )
