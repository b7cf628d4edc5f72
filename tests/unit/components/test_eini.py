"""Prediction with one round trip: the scores of the ordinary walk, and what is not believed."""

from __future__ import annotations

import ast
import functools
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.boosting import eini
from fedflow.components.boosting.params import HeteroSecureBoostParams
from fedflow.domain.site import Site
from fedflow.sdk import Model
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import RunResult
from fedflow.testing.workers import PicklingWorkers
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    data_of,
    models_of,
    predictions,
    run,
)
from tests.unit.components.hetero_lr_parties import Data

EINI = {"EINI_inference": True}
TWO = {GUEST: 2, HOST: 2, HOST_2: 2}


def trained(data: Data, work_dir: Path, **params: Any) -> dict[Site, Model]:
    return models_of(run(data, work_dir / "train", **params))


def predicted(
    data: Data, work_dir: Path, models: Mapping[Site, Model], **params: Any
) -> dict[Site, RunResult]:
    return run(data, work_dir / "predict", ports={"test_data": data}, models=models, **params)


def scores(results: Mapping[Site, RunResult]) -> list[float]:
    return [float(value) for value in predictions(results)["predict_score"].to_pylist()]


def details(results: Mapping[Site, RunResult]) -> Any:
    """Return the predicted numbers of each row, of all classes."""
    table = predictions(results)
    rows = [ast.literal_eval(text) for text in table["predict_detail"].to_pylist()]
    return np.array([[float(row[name]) for name in sorted(row)] for row in rows])


@pytest.mark.parametrize(
    ("widths", "params", "missing"),
    [
        ({GUEST: 2, HOST: 3}, {}, 0.0),
        (TWO, {}, 0.2),
        ({GUEST: 1, HOST: 2}, {"boosting_strategy": "layered", "host_depth": 2}, 0.0),
        ({GUEST: 1, HOST: 2}, {"complete_secure": 1, "num_trees": 3}, 0.0),
        ({GUEST: 2, HOST: 2}, {"encrypt_param": {"method": "ou"}}, 0.0),
    ],
    ids=["one host", "two hosts", "layered", "trees of the guest", "ou"],
)
def test_scores_are_those_of_the_walk(
    widths: Any, params: dict[str, Any], missing: float, tmp_path: Path
) -> None:
    data = data_of(rows=40, widths=widths, missing=missing)
    params = {**params, "use_missing": bool(missing)}
    models = trained(data, tmp_path, **params)
    walked = details(predicted(data, tmp_path / "1", models, **params))
    found = details(predicted(data, tmp_path / "2", models, **params, **EINI))
    assert len(np.unique(walked[:, 0])) > 3
    np.testing.assert_allclose(found, walked, rtol=0, atol=1e-9)


def test_classes_and_numbers_are_predicted_too(tmp_path: Path) -> None:
    data = data_of(rows=45, widths=TWO)
    several = Data(data.tables, data.features, data.labels)
    guest = several.tables[GUEST]
    place = guest.column_names.index("y")
    for name, labels, params in (
        ("classes", np.arange(45) % 3, {}),
        (
            "numbers",
            np.arange(45) * 1000 - 7,
            {"task_type": "regression", "objective_param": {"objective": "lse"}},
        ),
    ):
        tables = {**data.tables, GUEST: guest.set_column(place, "y", [labels])}
        own = Data(tables, data.features, labels.astype(float))
        models = trained(own, tmp_path / name, **params)
        walked = details(predicted(own, tmp_path / name / "1", models, **params))
        found = details(predicted(own, tmp_path / name / "2", models, **params, **EINI))
        np.testing.assert_allclose(found, walked, rtol=1e-12, atol=1e-9)


def test_it_does_not_matter_who_computes_and_in_how_many_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of(rows=30, widths=TWO)
    models = trained(data, tmp_path)
    walked = details(predicted(data, tmp_path / "1", models))
    monkeypatch.setattr(eini, "_CIPHERTEXTS_PER_BLOCK", 100)
    workers = {site: PicklingWorkers(block_rows=5) for site in data.tables}
    found = details(predicted(data, tmp_path / "2", models, workers=workers, **EINI))
    np.testing.assert_allclose(found, walked, rtol=0, atol=1e-9)


class Watched(LocalFederation):
    """Remembers every message, and changes the first one of a name."""

    def __init__(self, name: str = "", lie: Callable[[Any], Any] | None = None) -> None:
        super().__init__((GUEST, HOST, HOST_2), receive_timeout_s=20.0)
        self.sent: list[tuple[str, Site, Site]] = []
        self._name, self._lie = name, lie

    def _put(self, key: Any, value: Any, size: int) -> None:
        if key.name == self._name and self._lie is not None:
            value, self._lie = self._lie(value), None
        self.sent.append((key.name, key.source, key.destination))
        super()._put(key, value, size)

    def _take(self, key: Any, timeout_s: float | None) -> Any:
        return super()._take(key, 20.0)


DATA = data_of(rows=30, widths=TWO)


@functools.cache
def models() -> dict[Site, Model]:
    with tempfile.TemporaryDirectory() as folder:
        return trained(DATA, Path(folder))


def test_a_prediction_is_one_round_trip_and_says_nothing_else(tmp_path: Path) -> None:
    heard = Watched()
    predicted(DATA, tmp_path, models(), federation=heard, **EINI)
    assert sorted(heard.sent, key=str) == sorted(
        [
            ("sample_ids", GUEST, HOST),
            ("sample_ids", GUEST, HOST_2),
            ("sample_ids", HOST, GUEST),
            ("sample_ids", HOST_2, GUEST),
            ("prediction", GUEST, HOST),
            ("prediction", GUEST, HOST_2),
            ("public_key", GUEST, HOST),
            ("public_key", GUEST, HOST_2),
            ("leaf_sides", GUEST, HOST),
            ("leaf_sides", GUEST, HOST_2),
            ("leaf_values", GUEST, HOST),
            ("open_leaf_values", HOST, HOST_2),
            ("score_sums", HOST_2, GUEST),
        ],
        key=str,
    )


def test_no_ciphertext_goes_through_a_host_as_it_is(tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}

    class Recording(Watched):
        def _put(self, key: Any, value: Any, size: int) -> None:
            if isinstance(value, bytes):
                seen[key.name] = value
            super()._put(key, value, size)

    predicted(DATA, tmp_path, models(), federation=Recording(), **EINI)
    width = 256
    parts = {
        name: {body[24 + at : 24 + at + width] for at in range(0, len(body) - 24, width)}
        for name, body in seen.items()
    }
    assert len(parts["leaf_values"]) == len(parts["open_leaf_values"]) > len(DATA.labels)
    assert not parts["leaf_values"] & parts["open_leaf_values"]
    assert not parts["score_sums"] & (parts["leaf_values"] | parts["open_leaf_values"])


def test_masked_scores_keep_their_order_and_sign(tmp_path: Path) -> None:
    masked = {**EINI, "EINI_random_mask": True}
    real = scores(predicted(DATA, tmp_path / "1", models()))
    found = scores(predicted(DATA, tmp_path / "2", models(), **masked))
    assert found != pytest.approx(real)
    logits = [np.log(np.array(some) / (1 - np.array(some))) for some in (real, found)]
    counts = np.abs(logits[0]) > 1e-3
    assert counts.sum() > 10
    ratio = logits[1][counts] / logits[0][counts]
    assert 1 < ratio[0] < 2
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)


@pytest.mark.parametrize("name", ["EINI_inference", "EINI_random_mask"])
def test_parties_have_to_agree(name: str, tmp_path: Path) -> None:
    both = {**EINI, "EINI_random_mask": True}
    results = predicted(
        DATA, tmp_path, models(), federation=Watched(), per_site={HOST: {name: False}}, **both
    )
    error = results[HOST].error
    assert isinstance(error, BadParameter)
    assert name in str(error)


def test_a_host_with_few_ways_refuses_if_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = {**EINI, "EINI_complexity_check": True}
    results = predicted(DATA, tmp_path / "1", models(), federation=Watched(), **checked)
    error = results[HOST].error
    assert isinstance(error, BadParameter)
    assert "EINI_complexity_check" in str(error)
    assert "1e9" in str(error)
    monkeypatch.setattr(eini, "LEAST_COMPLEXITY", 2)
    assert scores(predicted(DATA, tmp_path / "2", models(), **checked))


def test_trees_of_mix_are_predicted_without_it(tmp_path: Path) -> None:
    mixed = {"boosting_strategy": "mix", "num_trees": 3}
    own = trained(DATA, tmp_path, **mixed)
    walked = scores(predicted(DATA, tmp_path / "1", own, **mixed))
    assert scores(predicted(DATA, tmp_path / "2", own, **mixed, **EINI)) == walked
    results = predicted(DATA, tmp_path / "3", own, federation=Watched(), **EINI)
    assert isinstance(results[GUEST].error, BadParameter)


@pytest.mark.parametrize(
    ("params", "codes"),
    [
        ({}, []),
        ({"EINI_random_mask": True}, ["Unusual"]),
        ({"work_mode": "mix"}, ["NoEffect"]),
        ({"EINI_inference": False, "EINI_random_mask": True}, ["NoEffect"]),
        ({"EINI_inference": False, "EINI_complexity_check": True}, ["NoEffect"]),
    ],
)
def test_what_is_doubtful_is_warned_of(params: dict[str, Any], codes: list[str]) -> None:
    given = HeteroSecureBoostParams(**{**EINI, **params})
    given.check()
    found = [doubt.code for doubt in given.doubts() if doubt.field.startswith("EINI")]
    assert found == codes


# --- lies -----------------------------------------------------------------------------------------


def changed(**values: Any) -> Callable[[Any], Any]:
    return lambda value: value | values


def changed_node(**values: Any) -> Callable[[Any], Any]:
    def lie(value: Any) -> Any:
        return value | {"nodes": [{**value["nodes"][0], **values}, *value["nodes"][1:]]}

    return lie


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        ("prediction", lambda _: None),
        ("leaf_sides", lambda _: []),
        ("leaf_sides", changed(leaves=[4])),
        ("leaf_sides", changed(leaves=[0, 4])),
        ("leaf_sides", changed(leaves=[1 << 30, 4])),
        ("leaf_sides", changed(bits=0)),
        ("leaf_sides", changed(bits=4_000)),
        ("leaf_sides", changed(nodes=[])),
        ("leaf_sides", changed_node(node=99)),
        ("leaf_sides", changed_node(tree=7)),
        ("leaf_sides", changed_node(left=[])),
        ("leaf_sides", changed_node(left=[1_000])),
        ("leaf_sides", changed_node(left=[-1])),
        ("leaf_sides", changed_node(left=[0], right=[0])),
        ("leaf_values", lambda body: body[:-1]),
        ("leaf_values", lambda body: body[:-256]),
        ("leaf_values", lambda body: body[:24] + bytes(256) + body[280:]),
        ("leaf_values", lambda _: None),
    ],
)
def test_a_host_refuses_what_a_guest_must_not_say(
    name: str, lie: Callable[[Any], Any], tmp_path: Path
) -> None:
    results = predicted(DATA, tmp_path, models(), federation=Watched(name, lie), **EINI)
    assert isinstance(results[HOST].error, CodecError), results[HOST].error


@pytest.mark.parametrize(
    ("name", "lie", "victim"),
    [
        ("open_leaf_values", lambda body: body[:-256], HOST_2),
        ("open_leaf_values", lambda body: body[:24] + bytes(256) + body[280:], HOST_2),
        ("score_sums", lambda body: body[:-256], GUEST),
        ("score_sums", lambda body: body[:24] + bytes(256) + body[280:], GUEST),
        ("score_sums", lambda body: body[:24] + body[280:] + body[24:280], GUEST),
    ],
)
def test_what_hosts_say_is_checked(
    name: str, lie: Callable[[Any], Any], victim: Site, tmp_path: Path
) -> None:
    results = predicted(DATA, tmp_path, models(), federation=Watched(name, lie), **EINI)
    assert isinstance(results[victim].error, CodecError), results[victim].error


def test_a_score_that_no_leaves_give_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eini._Slot, "new_factor", lambda _: 5)
    results = predicted(DATA, tmp_path, models(), federation=Watched(), **EINI)
    error = results[GUEST].error
    assert isinstance(error, CodecError)
    assert "no leaves give" in str(error)
