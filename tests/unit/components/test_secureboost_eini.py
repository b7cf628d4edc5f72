"""HeteroSecureBoost predicts by EINI: the ordinary scores, in one round trip."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data_plane import CodecError, PeerFailed, ValueTooLate
from fedflow.components.boosting import eini, eini_host
from fedflow.domain.site import Role, Site
from fedflow.sdk import Model
from fedflow.sdk.crypto.paillier import PublicKey
from tests.unit.components.boosting_parties import (
    GUEST,
    HOST,
    HOST_2,
    data_of,
    models_of,
    predictions,
    run,
)
from tests.unit.components.hetero_lr_parties import Data, with_labels, with_numbers
from tests.unit.components.test_secureboost_hostile import (
    ANYTHING,
    OTHER_KEY,
    Listening,
    Lying,
    always,
    arrays,
    member,
    plain,
)

pytestmark = pytest.mark.timeout(120)

HOST_3 = Site(Role.HOST, "10003")  # type: ignore[arg-type]
ALL = {GUEST: 2, HOST: 2, HOST_2: 2, HOST_3: 2}
EINI: dict[str, Any] = {"EINI_inference": True}


def predict(data: Data, models: Mapping[Site, Model], path: Path, **more: Any) -> Any:
    """Return the scores of all rows, of all classes if there are several."""
    table = predictions(run(data, path, ports={"test_data": data}, models=models, **more))
    details = table["predict_detail"].to_pylist()
    return details, np.array(table["predict_score"].to_pylist(), dtype=float)


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> tuple[Data, Mapping[Site, Model]]:
    data = data_of(rows=40, missing=0.1, widths={GUEST: 2, HOST: 2, HOST_2: 2})
    return data, models_of(run(data, tmp_path_factory.mktemp("binary"), use_missing=True))


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        *product(["binary", "classes", "regression"], [1, 2, 3]),
        ("layered", 1),  # it is of one host
    ],
)
def test_scores_are_those_of_the_ordinary_walk(
    kind: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eini, "_CELLS_PER_BLOCK", 60)  # several blocks
    widths = dict(list(ALL.items())[: count + 1])
    data = data_of(rows=40, missing=0.1 * (kind != "regression"), widths=widths)
    params: dict[str, Any] = {"use_missing": True}
    if kind == "classes":
        data = with_labels(data, [0, 1, 2, 1] * 10)
    if kind == "regression":
        data = with_numbers(data)
        params |= {"task_type": "regression", "objective_param": {"objective": "lse"}}
    if kind == "layered":
        params |= {"boosting_strategy": "layered", "host_depth": 1, "guest_depth": 2}
    models = models_of(run(data, tmp_path / "1", **params))
    heard = Listening(tuple(widths))
    ordinary, by_walk = predict(data, models, tmp_path / "2", **params)
    details, scores = predict(data, models, tmp_path / "3", federation=heard, **EINI, **params)
    assert np.ptp(scores) > 0
    assert np.allclose(scores, by_walk, rtol=1e-12, atol=1e-9)
    for one, other in zip(details, ordinary, strict=True):
        found, wanted = ast.literal_eval(one), ast.literal_eval(other)
        assert list(found) == list(wanted)
        assert np.allclose(list(found.values()), list(wanted.values()), rtol=1e-12, atol=1e-9)
    blocks = len(heard.of("guest_position_vec"))
    assert len(heard.of("host_merge_result")) == blocks > 1
    assert len(heard.of("inter_host_data")) == blocks * (count - 1)
    assert len(heard.of("guest_predict_data")) == count


def test_one_round_trip_whatever_the_depth_and_every_ciphertext_is_fresh(
    binary: Any, tmp_path: Path
) -> None:
    data, models = binary
    heard = Listening(tuple(data.tables))
    predict(data, models, tmp_path, federation=heard, **EINI)
    names = [key.name for key, _ in heard.values]
    assert {name: names.count(name) for name in set(names)} == {
        "sample_ids": 4,
        "public_key": 2,
        "guest_predict_data": 2,
        "guest_position_vec": 1,
        "inter_host_data": 1,
        "host_merge_result": 1,
    }
    cells = [
        value[24 + start : 280 + start]
        for _, value in heard.values
        if isinstance(value, bytes)
        for start in range(0, len(value) - 24, 256)
    ]
    assert len(set(cells)) == len(cells) > 80


def test_a_random_mask_keeps_order_and_sign(binary: Any, tmp_path: Path) -> None:
    data, models = binary
    _, real = predict(data, models, tmp_path / "1")
    _, masked = predict(data, models, tmp_path / "2", EINI_random_mask=True, **EINI)
    logits, hidden = (np.log(p / (1 - p)) for p in (real, masked))
    factors = hidden / logits
    assert 1 < factors[0] < 2
    assert np.allclose(factors, factors[0], rtol=1e-6)


def test_a_mask_that_only_one_party_asks_for_is_an_error(binary: Any, tmp_path: Path) -> None:
    data, models = binary
    mine = {GUEST: {"EINI_random_mask": True}}
    results = run(data, tmp_path, ports={"test_data": data}, models=models, per_site=mine, **EINI)
    assert isinstance(results[HOST].error, BadParameter)
    assert "EINI_random_mask" in str(results[HOST].error)
    assert results[GUEST].error is not None


@pytest.mark.parametrize("asks", [GUEST, HOST])
def test_eini_that_only_one_party_asks_for_is_an_error(
    asks: Site, binary: Any, tmp_path: Path
) -> None:
    data, models = binary
    results = run(data, tmp_path, ports={"test_data": data}, models=models, per_site={asks: EINI})
    assert isinstance(results[HOST].error, CodecError)
    assert "guest_predict_data" in str(results[HOST].error)


def test_a_host_with_few_splits_refuses_if_asked_to_look(binary: Any, tmp_path: Path) -> None:
    data, models = binary
    checked = {**EINI, "EINI_complexity_check": True}
    results = run(data, tmp_path / "1", ports={"test_data": data}, models=models, **checked)
    assert isinstance(results[HOST].error, BadParameter)
    assert "EINI_complexity_check" in str(results[HOST].error)
    assert "EINI_complexity_check" in str(results[GUEST].error)


def test_a_host_with_many_splits_answers(
    binary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, models = binary
    splits = [len(tree["tree_"]) for tree in models[HOST].param["trees_"]]
    others = [len(tree["tree_"]) for tree in models[HOST_2].param["trees_"]]
    least = min(np.prod([n + 1 for n in own]) for own in (splits, others))
    checked = {**EINI, "EINI_complexity_check": True}
    monkeypatch.setattr(eini_host, "LEAST_WAYS", int(least))
    predict(data, models, tmp_path / "1", **checked)
    monkeypatch.setattr(eini_host, "LEAST_WAYS", int(least) + 1)
    results = run(data, tmp_path / "2", ports={"test_data": data}, models=models, **checked)
    assert any(isinstance(r.error, BadParameter) for s, r in results.items() if s is not GUEST)


def test_training_and_mix_ask_in_the_ordinary_way(tmp_path: Path) -> None:
    data = data_of(rows=30)
    mixed = {"boosting_strategy": "mix", **EINI}
    heard = Listening(tuple(data.tables))
    models = models_of(run(data, tmp_path / "1", federation=heard, **mixed))
    later = Listening(tuple(data.tables))
    predict(data, models, tmp_path / "2", federation=later, **mixed)
    assert not heard.of("guest_position_vec") + later.of("guest_position_vec")
    results = run(data, tmp_path / "3", ports={"test_data": data}, models=models, **EINI)
    for result in results.values():
        assert "EINI_inference" in str(result.error)


def test_another_scheme_and_several_processes_give_the_same_scores(
    binary: Any, tmp_path: Path
) -> None:
    data, models = binary
    _, scores = predict(data, models, tmp_path / "1")
    under_ou: dict[str, Any] = {"encrypt_param": {"method": "ou", "key_length": 2048}, "cores": 2}
    _, found = predict(data, models, tmp_path / "2", **EINI, **under_ou)
    assert np.allclose(found, scores, rtol=0, atol=1e-12)


def test_trees_of_the_guest_alone_need_no_ciphertext(tmp_path: Path) -> None:
    data = data_of(rows=30)
    models = models_of(run(data, tmp_path / "1", complete_secure=2))
    heard = Listening(tuple(data.tables))
    _, scores = predict(data, models, tmp_path / "2", federation=heard, **EINI)
    assert np.allclose(scores, predict(data, models, tmp_path / "3")[1], atol=1e-12)
    assert not heard.of("guest_position_vec")


# --- lies -----------------------------------------------------------------------------------------


def first_node(**values: Any) -> Callable[[Any], Any]:
    """Return what changes the first node of a plan."""

    def lie(plan: Any) -> Any:
        nodes = [list(own) for own in plan["nodes"]]
        tree = next(number for number, own in enumerate(nodes) if own)
        nodes[tree][0] = nodes[tree][0] | values
        return plan | {"nodes": nodes}

    return lie


DATA = data_of(rows=40)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Site, Model]:
    return models_of(run(DATA, tmp_path_factory.mktemp("pair")))


def refusal(federation: Lying, liar: Site, models: Any, path: Path, **params: Any) -> str:
    victim = HOST if liar is GUEST else GUEST
    ports = {"test_data": DATA}
    results = run(DATA, path, ports=ports, models=models, federation=federation, **EINI, **params)
    assert federation.lied
    assert isinstance(results[victim].error, CodecError), results[victim].error
    return str(results[victim].error)


CIPHERTEXT_LIES: list[Callable[[Any], Any]] = [
    *[always(value) for value in ANYTHING],
    lambda b: b[:-256],
    lambda b: b + b[-256:],
    lambda b: b[:-256] + b"\0" * 256,
    lambda b: b[:-256] + b"\xff" * 256,
    lambda b: OTHER_KEY.public.to_bytes(OTHER_KEY.public.encrypt([1] * ((len(b) - 24) // 256))),
]


@pytest.mark.parametrize("lie", CIPHERTEXT_LIES)
@pytest.mark.parametrize(
    ("liar", "name"), [(GUEST, "guest_position_vec"), (HOST, "host_merge_result")]
)
def test_what_are_no_ciphertexts_is_refused(
    liar: Site, name: str, lie: Any, pair: Any, tmp_path: Path
) -> None:
    refusal(Lying(liar, name, lie), liar, pair, tmp_path)


@pytest.mark.parametrize(
    "lie",
    [
        *[always(value) for value in [*ANYTHING, []]],
        *[member(regions=value) for value in (None, [], [-1, 2], ["2", 2], [99, 99], [2**40, 2])],
        *[member(nodes=value) for value in (None, [], [[], []], [[{}], []])],
        *[member(masked=value) for value in (None, 1, "x")],
        *[first_node(node=value) for value in (-1, 99, 2**70, "0", None)],
        *[first_node(first=value) for value in (-1, 99, 2**70, "0", None)],
        *[first_node(middle=value) for value in (-1, 0, 99)],
        *[first_node(end=value) for value in (0, 99)],
    ],
)
def test_a_plan_that_is_not_of_this_hosts_trees_is_refused(
    lie: Any, pair: Any, tmp_path: Path
) -> None:
    assert "guest_predict_data" in refusal(
        Lying(GUEST, "guest_predict_data", lie), GUEST, pair, tmp_path
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("added", [1 << 50, -(1 << 50), 1 << 62, 1 << 1000])
def test_a_sum_that_no_leaves_have_gives_no_score(
    added: int, masked: bool, pair: Any, tmp_path: Path
) -> None:
    def lie(payload: Any) -> bytes:
        key = federation.key
        assert isinstance(key, PublicKey)
        first, *rest = key.from_bytes(payload, count=key.count(payload))
        wrong = added << 32 * masked
        return key.to_bytes([key.add(first, next(key.encrypt([wrong]))), *rest])

    federation = Lying(HOST, "host_merge_result", lie)
    said = refusal(federation, HOST, pair, tmp_path, EINI_random_mask=masked)
    assert "sums that no leaves have" in said or "slot" in said or "bits" in said


EINI_NAMES = [
    (GUEST, "guest_predict_data"),
    (GUEST, "guest_position_vec"),
    (HOST, "host_merge_result"),
]


@settings(max_examples=12, deadline=None)
@given(who=st.sampled_from(EINI_NAMES), lie=st.one_of(plain, arrays, st.binary(max_size=40)))
def test_no_value_at_all_breaks_a_party(who: tuple[Site, str], lie: Any, pair: Any) -> None:
    liar, name = who
    federation = Lying(liar, name, always(lie), patience_s=0.5)
    with TemporaryDirectory() as path:
        ports = {"test_data": DATA}
        results = run(DATA, Path(path), ports=ports, models=pair, federation=federation, **EINI)
    error = results[HOST if liar is GUEST else GUEST].error
    assert isinstance(error, CodecError | PeerFailed | ValueTooLate), (name, lie, error)
