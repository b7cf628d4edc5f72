"""Pipelines of real components at several parties, and the same models online.

All components run for real, in threads over an in-process federation, with 1024-bit keys: once to
train, once to predict. What a party stores becomes a `DeployedModel`, as its server sends it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fedflow.domain.job.predict_dsl import deduce_predict_dsl
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, TableKind, TableSchema, spec_of
from fedflow.serving.scoring.batch import Score
from fedflow.serving.scoring.pipeline import OnlineModel, build
from fedflow.testing.memory_tables import MemoryTable, MemoryTableStore
from fedflow.testing.run import outputs_of, run_component
from fedflow.wire.deployed_model import DeployedComponent, DeployedModel
from tests.support.shared_keys import shared_keys
from tests.unit.components.hetero_lr_parties import ARBITER, GUEST, HOST, HOST_2

PARTIES = (GUEST, HOST)
THREE = (GUEST, HOST, HOST_2)

Row = dict[str, Any]
Rows = dict[Site, list[Row]]


@dataclass(kw_only=True)
class Node:
    """One component of a pipeline."""

    name: str
    cls: Any
    params: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[Site, Mapping[str, Any]] = field(default_factory=dict)  #: further, per site
    isometric: Sequence[str] = ()  #: whose models training takes

    @property
    def trains(self) -> bool:
        return "train_data" in spec_of(self.cls).data_ports

    def params_of(self, site: Site) -> dict[str, Any]:
        return {**self.params, **self.at.get(site, {})}


class Pipeline:
    """Components in a row, trained and deployed; the first reads raw rows."""

    def __init__(
        self,
        nodes: Sequence[Node],
        folder: Path,
        *,
        sites: Sequence[Site] = PARTIES,
        nn_folder: Path | None = None,
    ) -> None:
        self.nodes = list(nodes)
        self.sites = tuple(sites)
        self.models: dict[str, dict[Site, Model]] = {}
        self._folder = folder
        self._nn_folder = nn_folder

    def train(self, rows: Rows, labels: Sequence[Any]) -> None:
        """Train on raw rows; the guest's column `y` has the labels."""
        labelled = [{"y": label, **row} for row, label in zip(rows[GUEST], labels, strict=True)]
        self._run({**rows, GUEST: labelled}, trains=True)

    def train_all(self, rows: Rows, labels: Mapping[Site, Sequence[Any]]) -> None:
        """Train on raw rows of parties that each have labels of their own, in the column `y`."""
        with_labels = {
            site: [{"y": label, **row} for row, label in zip(given, labels[site], strict=True)]
            for site, given in rows.items()
        }
        self._run(with_labels, trains=True)

    def predict(self, rows: Rows, *, site: Site = GUEST) -> dict[str, list[Any]]:
        """Return a party's last prediction table of rows, which have no labels."""
        found: dict[str, list[Any]] = self._run(rows, trains=False)[site].read().to_pydict()
        return found

    def _run(self, rows: Rows, *, trains: bool) -> dict[Site, Any]:
        tables: dict[Site, Any] = {site: raw(rows[site]) for site in self.sites}
        for node in self.nodes:
            port = ("train_data" if trains else "test_data") if node.trains else "data"
            uses = [*([] if trains else [node.name]), *(node.isometric if trains else ())]
            inputs = {
                site: Inputs(
                    data={port: [("upstream", tables.get(site))]},
                    model={
                        name: self.models[name][site]
                        for name in uses
                        if site in self.models.get(name, {})
                    },
                )
                for site in (*self.sites, ARBITER)
            }
            arbiter = (ARBITER,) if Role.ARBITER in spec_of(node.cls).roles else ()
            with shared_keys():
                outputs = outputs_of(
                    run_component(
                        node.cls,
                        sites=(*self.sites, *arbiter),
                        work_dir=self._folder / f"{node.name}{trains}",
                        params={s: node.params_of(s) for s in (*self.sites, *arbiter)},
                        inputs=inputs,
                        nn_folder=self._nn_folder,
                    )
                )
            if trains:
                stored = {site: made.model for site, made in outputs.items()}
                self.models[node.name] = {s: m for s, m in stored.items() if m is not None}
            for site in self.sites:
                tables[site] = next(iter(outputs[site].data), None)
        return tables

    def dsl(self) -> dict[str, Any]:
        """Return the predict DSL that a deploy makes, with components that pass rows on."""
        components: dict[str, Any] = {
            "reader_0": {"module": "Reader", "output": {"data": ["data"]}},
        }
        data = "reader_0.data"
        for place, node in enumerate(self.nodes):
            one = _component(spec_of(node.cls).module, data, trains=node.trains)
            if self.models.get(node.name):
                one["output"]["model"] = ["model"]
            components[node.name] = one
            data = f"{node.name}.data"
            if place == 0:
                components["intersection_0"] = _component("Intersection", data)
                data = "intersection_0.data"
        components["evaluation_0"] = _component("Evaluation", data)
        return deduce_predict_dsl({"components": components})

    def deployed(self, site: Site) -> DeployedModel:
        """Return what a party has stored, by way of JSON."""
        components = {}
        for node in self.nodes:
            model = self.models.get(node.name, {}).get(site)
            if model is not None:
                components[node.name] = DeployedComponent(
                    module=spec_of(node.cls).module,
                    param_name=model.param_name,
                    meta_name=model.meta_name,
                    param=json.loads(json.dumps(dict(model.param))),
                    meta=json.loads(json.dumps(dict(model.meta))),
                )
        return DeployedModel(
            role=site.role.value,
            party_id=site.party_id,
            model_id="guest-9999#host-10000#model",
            model_version="202611280000000000000",
            roles={
                "guest": [GUEST.party_id],
                "host": [s.party_id for s in self.sites if s.role is Role.HOST],
            },
            digest="d" * 64,
            dsl=self.dsl(),
            parameters={node.name: node.params_of(site) for node in self.nodes},
            components=components,
        )

    def online(self) -> Online:
        """Return the model at all parties."""
        return Online({site: build(self.deployed(site)) for site in self.sites})


@dataclass
class Online:
    """One model at all its parties."""

    models: Mapping[Site, OnlineModel]

    def score(self, rows: Mapping[Site, Sequence[Any]]) -> list[Score]:
        """Return the scores of a batch."""
        guest = self.models[GUEST]
        partials = {
            site.party_id: model.partial(model.read(rows[site]))
            for site, model in self.models.items()
            if site is not GUEST
        }
        return guest.merge(guest.local(guest.read(rows[GUEST])), partials)

    def one_by_one(self, rows: Mapping[Site, Sequence[Any]]) -> list[Score]:
        """Return the scores, each row in a request of its own."""
        found = []
        for number in range(len(rows[GUEST])):
            found += self.score({site: given[number : number + 1] for site, given in rows.items()})
        return found


def _component(module: str, data: str, *, trains: bool = False) -> dict[str, Any]:
    """Return a component of a training DSL."""
    return {
        "module": module,
        "input": {"data": {"train_data" if trains else "data": [data]}},
        "output": {"data": ["data"]},
    }


def raw(rows: Sequence[Row]) -> MemoryTable:
    """Return rows as an upload stores them: text; what is not there is an empty cell."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, Any] = {"id": [f"id{number:05}" for number in range(len(rows))]}
    for name in names:
        columns[name] = pa.array([_cell(row.get(name)) for row in rows], pa.string())
    schema = TableSchema(kind=TableKind.RAW, id="id", columns=tuple(names))
    return MemoryTableStore().add(pa.table(columns), schema=schema)


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def check_parity(pipeline: Pipeline, fresh: Rows, *, singles: int = 50) -> list[Score]:
    """Compare a batch with a predict job, single rows with the batch, and rows beside wrong ones.

    Returns the scores of the batch.
    """
    online = pipeline.online()
    scores = online.score(fresh)
    assert_same(scores, pipeline.predict(fresh))
    assert_equal_scores(scores[:singles], online.one_by_one(table_of(fresh, range(singles))))
    spoilt, wrong = _spoilt(fresh)
    others = online.score(spoilt)
    assert {number for number, score in enumerate(others) if score.error is not None} == wrong
    good = [number for number in range(len(others)) if number not in wrong]
    assert_equal_scores([others[n] for n in good], [scores[n] for n in good])
    return scores


def _spoilt(rows: Rows) -> tuple[Rows, set[int]]:
    """Return the rows with wrong values in some, at one party or another, and which those are."""
    generator = np.random.default_rng(len(rows[GUEST]))
    found = {site: [{**row, "more": "left out"} for row in given] for site, given in rows.items()}
    wrong = set(generator.choice(len(rows[GUEST]), len(rows[GUEST]) // 10, replace=False).tolist())
    values = ["word", True, float("inf"), [0], {}, "1e999", "--1", 10**310, b"1"]
    for number in wrong:
        site = list(found)[int(generator.integers(len(found)))]
        found[site][number]["x0"] = values[int(generator.integers(len(values)))]
    return found, wrong


def assert_same(
    found: Sequence[Score], offline: Mapping[str, Sequence[Any]], *, within: float = 1e-9
) -> None:
    """Check the scores of rows against a prediction table of the same rows."""
    assert [score.error for score in found] == [None] * len(offline["predict_score"])
    best = [max(s.score) if isinstance(s.score, list) else s.score for s in found]
    np.testing.assert_allclose(
        np.array(best, dtype=float), offline["predict_score"], rtol=within, atol=within
    )
    if found[0].label is not None:
        assert [score.label for score in found] == list(offline["predict_result"])
    if "predict_detail" in offline and isinstance(found[0].score, list):
        for score, text in zip(found, offline["predict_detail"], strict=True):
            details = [float(part.split(": ")[1]) for part in text.strip("{}").split(", ")]
            np.testing.assert_allclose(score.score, details, rtol=within, atol=within)


def assert_equal_scores(found: Sequence[Score], others: Sequence[Score]) -> None:
    """Check that two ways give the same numbers."""
    assert [(s.label, s.error) for s in found] == [(s.label, s.error) for s in others]
    np.testing.assert_allclose(_numbers(found), _numbers(others), rtol=1e-12, atol=1e-12)


def _numbers(scores: Sequence[Score]) -> list[Any]:
    return [s.score for s in scores if s.error is None]


def table_of(rows: Rows, chosen: Sequence[int]) -> Rows:
    """Return some of the rows, at all parties."""
    return {site: [given[number] for number in chosen] for site, given in rows.items()}


def numbers_of(
    count: int, *, seed: int, sites: Sequence[Site] = PARTIES, width: int = 4, missing: float = 0.0
) -> Rows:
    """Return rows of numbers, x0 to x<width - 1> at each party, some of them missing."""
    generator = np.random.default_rng(seed)
    found: Rows = {}
    for site in sites:
        values = generator.normal(size=(count, width)) * 3.0 + 1.0
        gaps = generator.random(values.shape) < missing
        found[site] = [
            {
                f"x{column}": None if gaps[row, column] else float(values[row, column])
                for column in range(width)
            }
            for row in range(count)
        ]
    return found


def labels_of(rows: Rows, *, classes: int = 2) -> list[int]:
    """Return labels that the features tell, as classes from 0 on."""
    totals = np.array(
        [
            sum(value or 0.0 for site in rows for value in rows[site][number].values())
            for number in range(len(rows[GUEST]))
        ]
    )
    cuts = np.quantile(totals, np.arange(1, classes) / classes)
    return [int(number) for number in np.searchsorted(cuts, totals)]
