"""HomoLR whose parties die and return: threads over a federation, as launches of tasks would."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.components.horizontal.homo_lr import HomoLR
from fedflow.components.horizontal.rounds import HISTORY
from fedflow.sdk import Elastic, Inputs, Site, TooFewInRound
from fedflow.testing.checkpoints import MemoryCheckpoints
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.homo_lr_parties import (
    ARBITER,
    BASE,
    GUEST,
    arrays,
    auc,
    federated_averaging,
    hosts,
    made,
    scaled_breast,
    stored,
    weights_of,
)

FOUR = [GUEST, *hosts(3)]
ELASTIC = Elastic(min_parties=2, round_deadline_s=30.0, last_call_s=5.0)


class Dies(Exception):
    """A party's process ends here."""


def _nothing() -> None:
    """Do nothing."""


class HookedFederation(LocalFederation):
    """Calls a function before a party sends its public keys of a round, or the arbiter its start.

    The function gets how many such messages the party has sent before.
    """

    def __init__(self, sites: list[Site]) -> None:
        super().__init__(sites, receive_timeout_s=30)
        self.before: dict[Site, Callable[[int], None]] = {}
        self.after_ready: Callable[[], None] = _nothing

    def at(self, site: Site) -> Any:
        return _Handle(super().at(site), self, site)


class _Handle:
    def __init__(self, inner: Any, hooks: HookedFederation, site: Site) -> None:
        self._inner, self._hooks, self._site = inner, hooks, site
        self._rounds = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def send(self, name: str, value: Any, **given: Any) -> None:
        body = value.get("body") if isinstance(value, dict) else None
        begins = isinstance(value, dict) and value.get("kind") == "start"
        if begins or (
            isinstance(body, dict) and body.get("stage") == "keys" and self._site != ARBITER
        ):
            number, self._rounds = self._rounds, self._rounds + 1
            self._hooks.before.get(self._site, lambda _: None)(number)
        self._inner.send(name, value, **given)
        if isinstance(value, dict) and value.get("kind") == "ready":
            self._hooks.after_ready()


class Run:
    """A job of four parties and an arbiter."""

    def __init__(self, tmp_path: Path, data: dict[Site, pa.Table], **params: Any) -> None:
        self.sites = [*data, ARBITER]
        self.federation = HookedFederation(self.sites)
        self._tmp_path = tmp_path
        self._params = {key: {**BASE, **params} for key in self.sites}
        tables = {site: stored(rows) for site, rows in data.items()}
        self._tables = {site: made[0] for site, made in tables.items()}
        self._inputs = {
            site: Inputs(
                data={"train_data": [("reader_0", tables[site][1] if site in tables else None)]},
                model={},
            )
            for site in self.sites
        }

    def start(self, *, only: list[Site] | None = None, launch: int = 0) -> dict[Site, RunResult]:
        return run_component(
            HomoLR,
            sites=self.sites,
            params=self._params,
            inputs=self._inputs,
            tables=self._tables,
            work_dir=self._tmp_path / f"{launch}",
            federation=self.federation,
            only=only,
            launch=launch,
            elastic=ELASTIC,
            timeout_s=40,
        )


def counted(history: list[dict[str, Any]], site: Site) -> list[int]:
    """Return the rounds in which a party took part."""
    return [
        number
        for entry in history
        if site.key in entry["counted"]
        for number in range(entry["first"], entry["last"] + 1)
    ]


def run_with_absence(run: Run, lost: Site, *, dies: int, back: int) -> Any:
    """Run; `lost` dies in round `dies` and is launched again during round `back` - 1."""
    due, returned = threading.Event(), threading.Event()
    again: dict[Site, RunResult] = {}

    def die(number: int) -> None:
        if number == dies:
            raise Dies

    def wait(number: int) -> None:
        if number == back - 1:
            due.set()
            assert returned.wait(20)

    def return_() -> None:
        assert due.wait(20)
        run.federation.again(lost)
        run.federation.before.pop(lost)
        run.federation.after_ready = returned.set
        again.update(run.start(only=[lost], launch=1))

    run.federation.before = {lost: die, GUEST: wait}
    thread = threading.Thread(target=return_, name="return")
    thread.start()
    results = run.start()
    thread.join(30)
    assert isinstance(results.pop(lost).error, Dies)
    return outputs_of({**results, **again})


def test_a_party_that_misses_three_of_ten_rounds_costs_less_than_a_hundredth_of_auc(
    tmp_path: Path,
) -> None:
    guest, host = scaled_breast("guest"), scaled_breast("host")
    parties = [guest.slice(0, 113), guest.slice(113), host.slice(0, 114), host.slice(114)]
    run = Run(tmp_path, dict(zip(FOUR, parties, strict=True)), max_iter=10)
    lost = FOUR[-1]
    found = run_with_absence(run, lost, dies=3, back=6)
    history = found[ARBITER].summary[HISTORY]
    assert counted(history, lost) == [0, 1, 2, 6, 7, 8, 9]
    assert counted(history, GUEST) == list(range(10))
    weights = weights_of(found[GUEST].model)
    assert np.array_equal(weights, weights_of(found[lost].model))
    expected, _ = federated_averaging(parties, rounds=10, absent={3: {3, 4, 5}})
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    whole, _ = federated_averaging(parties, rounds=10)
    features, labels = arrays(pa.concat_tables(parties))
    scores = [auc(labels, features @ one[:-1]) for one in (weights, whole)]
    assert abs(scores[0] - scores[1]) < 0.01
    assert found[lost].model.meta["rounds"] == history


def test_training_ends_with_those_that_are_left(tmp_path: Path) -> None:
    run = Run(tmp_path, {site: made(40, seed=i) for i, site in enumerate(FOUR)}, max_iter=6)

    def die(number: int) -> None:
        if number == 2:
            raise Dies

    run.federation.before = {FOUR[2]: die}
    results = run.start()
    assert isinstance(results.pop(FOUR[2]).error, Dies)
    found = outputs_of(results)
    assert counted(found[ARBITER].summary[HISTORY], FOUR[2]) == [0, 1]
    left_out = found[GUEST].summary[HISTORY][-1]["left_out"]
    assert "Dies" in left_out[FOUR[2].key]


def test_too_few_parties_end_the_training_with_who_is_missing(tmp_path: Path) -> None:
    run = Run(tmp_path, {site: made(40, seed=i) for i, site in enumerate(FOUR)}, max_iter=6)

    def die(number: int) -> None:
        if number == 1:
            raise Dies

    run.federation.before = dict.fromkeys(FOUR[1:], die)
    results = run.start()
    error = results[ARBITER].error
    assert isinstance(error, TooFewInRound)
    assert all(str(site) in str(error) for site in FOUR[1:])


def test_an_arbiter_that_dies_goes_on_with_the_last_whole_round(tmp_path: Path) -> None:
    data = {site: made(40, seed=i) for i, site in enumerate(FOUR)}
    run = Run(tmp_path, data, max_iter=6)
    runs: list[dict[Site, RunResult]] = []

    def die(number: int) -> None:
        if number == 3:
            raise Dies

    def arbiter() -> None:
        run.federation.before = {ARBITER: die}
        (first,) = run.start(only=[ARBITER]).values()
        assert isinstance(first.error, Dies)
        run.federation.again(ARBITER)
        run.federation.before = {}
        runs.append(run.start(only=[ARBITER], launch=1))

    thread = threading.Thread(target=arbiter, name="arbiter")
    thread.start()
    results = run.start(only=FOUR)
    thread.join(30)
    found = outputs_of({**results, **runs[0]})
    history = found[GUEST].summary[HISTORY]
    assert counted(history, GUEST) == list(range(6))
    expected, _ = federated_averaging(list(data.values()), rounds=6)
    for site in FOUR:
        np.testing.assert_allclose(weights_of(found[site].model), expected, atol=1e-6)


def test_a_repeated_attempt_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    data = {site: made(40, seed=i) for i, site in enumerate(FOUR[:2])}
    sites = [*data, ARBITER]
    tables = {site: stored(rows) for site, rows in data.items()}
    checkpoints = {site: MemoryCheckpoints() for site in sites}
    asked = {**BASE, "optimizer": "rmsprop", "max_iter": 6}
    asked["callback_param"] = {"callbacks": ["ModelCheckpoint"], "save_freq": 1}

    def start(attempt: int, hook: Callable[[int], None]) -> dict[Site, RunResult]:
        federation = HookedFederation(sites)
        federation.before = {GUEST: hook}
        return run_component(
            HomoLR,
            sites=sites,
            params=dict.fromkeys(sites, asked),
            inputs={
                site: Inputs(
                    data={"train_data": [("r", tables[site][1] if site in tables else None)]},
                    model={},
                )
                for site in sites
            },
            tables={site: made[0] for site, made in tables.items()},
            checkpoints=checkpoints,
            work_dir=tmp_path / str(attempt),
            federation=federation,
            task_version=attempt,
            timeout_s=30,
        )

    def die(number: int) -> None:
        if number == 3:
            raise Dies

    assert isinstance(start(0, die)[GUEST].error, Dies)
    rounds: list[int] = []
    repeated = outputs_of(start(1, rounds.append))
    assert len(rounds) == 3
    for site in checkpoints:
        checkpoints[site] = MemoryCheckpoints()
    whole = outputs_of(start(0, lambda _: None))
    assert np.array_equal(weights_of(repeated[GUEST].model), weights_of(whole[GUEST].model))
