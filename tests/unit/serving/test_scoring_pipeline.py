"""What is refused when a model is built, and what is refused of other parties when scores merge."""

from __future__ import annotations

import copy
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fedflow.base.decoding import decode_as
from fedflow.base.errors.serving import BadPartial, UnservableModel
from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.boosting.hetero_secureboost import HeteroSecureBoost
from fedflow.components.features.imputation import FeatureImputation
from fedflow.components.features.one_hot import OneHotEncoder
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.components.selection.hetero_feature_selection import HeteroFeatureSelection
from fedflow.serving.scoring.host_answer import join_rows, read_answer, rows_of
from fedflow.serving.scoring.pipeline import OnlineModel, build
from fedflow.serving.scoring.registry import ALONE, CONSTANTS, INPUTS, MODELS, SCORES, STEPS, maker
from fedflow.wire.deployed_model import DeployedModel
from tests.unit.components.boosting_parties import BASE as TREES
from tests.unit.components.hetero_lr_parties import GUEST, HOST
from tests.unit.serving.scoring_parties import Node, Pipeline, labels_of, numbers_of
from tests.unit.serving.test_scoring_linear import TRAINED, read_node

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "serving-models.md"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Return two parties' models of a short pipeline."""
    nodes = [
        read_node(),
        Node(name="scale_0", cls=FeatureScale),
        Node(name="hetero_lr_0", cls=HeteroLR, params=TRAINED),
    ]
    pipeline = Pipeline(nodes, tmp_path_factory.mktemp("trained"))
    rows = numbers_of(40, seed=1)
    pipeline.train(rows, labels_of(rows))
    return pipeline


@pytest.fixture(scope="module")
def with_all_steps(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """Return two parties' models of many steps and trees."""
    key = {"encrypt_param": {"key_length": 1024}}
    out = {"filter_methods": ["manually"], "manually_param": {"filter_out_names": ["x3"]}}
    nodes = [
        read_node(outlier_replace=True, outlier_impute=["7"], exclusive_data_type={"x2": "int"}),
        Node(name="imputation_0", cls=FeatureImputation, params={"missing_fill_method": "mean"}),
        Node(name="onehot_0", cls=OneHotEncoder, params={"transform_col_indexes": [2]}),
        Node(
            name="binning_0",
            cls=HeteroFeatureBinning,
            params={"bin_num": 3, "transform_param": {"transform_type": "bin_num"}, **key},
        ),
        Node(name="selection_0", cls=HeteroFeatureSelection, params=out),
        Node(name="scale_0", cls=FeatureScale),
        Node(
            name="trees_0",
            cls=HeteroSecureBoost,
            params={**TREES, "tree_param": {"max_depth": 2}, "boosting_strategy": "mix"},
        ),
    ]
    pipeline = Pipeline(nodes, tmp_path_factory.mktemp("all_steps"))
    rows = numbers_of(40, seed=1)
    for given in rows.values():
        for number, row in enumerate(given):
            row["x2"] = number % 3
    pipeline.train(rows, labels_of(rows))
    return pipeline


def changed(deployed: DeployedModel, change: Callable[[dict[str, Any]], object]) -> DeployedModel:
    """Return a party's model as it would arrive after a change of its JSON."""
    plain = copy.deepcopy(msgspec.to_builtins(deployed))
    change(plain)
    return decode_as(msgspec.json.encode(plain), DeployedModel)


# --- building -------------------------------------------------------------------------------------


def insert(name: str, module: str, *, data: str, before: str) -> Callable[[dict[str, Any]], None]:
    """Return what puts a component into a predict DSL, before another one."""

    def change(plain: dict[str, Any]) -> None:
        components = plain["dsl"]["components"]
        components[name] = {
            "module": module,
            "input": {"data": {"data": [data]}},
            "output": {"data": ["data"]},
        }
        if before:
            (port,) = components[before]["input"]["data"]
            components[before]["input"]["data"] = {port: [f"{name}.data"]}

    return change


def without(*path: str) -> Callable[[dict[str, Any]], object]:
    """Return what takes a member out."""

    def change(plain: dict[str, Any]) -> object:
        for name in path[:-1]:
            plain = plain[name]
        return plain.pop(path[-1])

    return change


def replaced(value: Any, *path: str) -> Callable[[dict[str, Any]], object]:
    """Return what replaces a member."""

    def change(plain: dict[str, Any]) -> None:
        for name in path[:-1]:
            plain = plain[name]
        plain[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (insert("union_0", "Union", data="scale_0.data", before="hetero_lr_0"),
         "union_0 cannot be served: Union has no part that scores online"),
        (insert("mine_0", "MyOwn", data="scale_0.data", before=""),
         "mine_0 cannot be served: MyOwn has no part that scores online"),
        (insert("more_0", "DataTransform", data="scale_0.data", before="hetero_lr_0"),
         "more_0 cannot be served: its rows were transformed before"),
        (insert("label_0", "LabelTransform", data="hetero_lr_0.data", before=""),
         "label_0 cannot be served: LabelTransform after the model is not served"),
        (insert("lr_1", "HeteroLR", data="scale_0.data", before=""),
         "it must have one model that predicts; it has hetero_lr_0, lr_1"),
        (without("components", "scale_0"), "scale_0 .* this party has stored no model of it"),
        (without("components", "hetero_lr_0"), "hetero_lr_0 .* has stored no model of it"),
        (replaced("FeatureScale", "components", "hetero_lr_0", "param_name"),
         "hetero_lr_0 .* the model is not one of HeteroLR but a FeatureScale"),
        (replaced({}, "dsl"), "the predict DSL cannot be served"),
        (replaced({"components": {"scale_0": 1}}, "dsl"), "the predict DSL cannot be served"),
        (replaced(["scale_0.data", "reader_0.data"], "dsl", "components", "hetero_lr_0", "input",
                  "data", "test_data"),
         "hetero_lr_0 .* its rows come from several components: scale_0, reader_0"),
        (replaced(["reader_0.data"], "dsl", "components", "scale_0", "input", "data", "data"),
         "scale_0 cannot be served: no DataTransform comes before it"),
        (replaced(["reader_0.data"], "dsl", "components", "hetero_lr_0", "input", "data",
                  "test_data"),
         "hetero_lr_0 cannot be served: no DataTransform comes before it, so nothing says"),
        (replaced({"threshold": "high"}, "parameters", "hetero_lr_0", "predict_param"),
         "hetero_lr_0 cannot be served: .*threshold"),
        (replaced(False, "parameters", "datatransform_0", "need_run"), "need_run is false"),
        (replaced("arbiter", "role"), "arbiter has no part of it"),
    ],
)  # fmt: skip
def test_what_cannot_be_served_is_refused_with_a_sentence(
    change: Callable[[dict[str, Any]], object], sentence: str, trained: Pipeline
) -> None:
    with pytest.raises(UnservableModel, match=sentence) as caught:
        build(changed(trained.deployed(GUEST), change))
    assert caught.value.retcode == 107


@pytest.mark.parametrize(
    "module",
    ["DataStatistics", "HeteroPearson", "PSI", "LabelTransform", "SampleWeight", "intersection"],
)
def test_what_only_looks_at_rows_passes_them_on(module: str, trained: Pipeline) -> None:
    rows = numbers_of(5, seed=2)[GUEST]
    change = insert("more_0", module, data="scale_0.data", before="hetero_lr_0")
    found = build(changed(trained.deployed(GUEST), change))
    expected = build(trained.deployed(GUEST))
    assert (
        found.local(found.read(rows)).values == expected.local(expected.read(rows)).values
    ).all()


@pytest.mark.parametrize("site", [GUEST, HOST])
@pytest.mark.parametrize("fixture", ["trained", "with_all_steps"])
def test_a_damaged_model_is_refused_or_still_gives_a_sentence_per_row(
    site: Any, fixture: str, request: pytest.FixtureRequest
) -> None:
    deployed = request.getfixturevalue(fixture).deployed(site)
    rows = [{**row, "x2": 1} for row in numbers_of(3, seed=2)[site]]
    refused = 0
    for change in damages(msgspec.to_builtins(deployed)["components"]):
        try:
            model = build(changed(deployed, change))
        except UnservableModel:
            refused += 1
            continue
        batch = model.read(rows)
        (model.local if site is GUEST else model.partial)(batch)
    assert refused > 20


def damages(components: dict[str, Any]) -> Iterator[Callable[[dict[str, Any]], object]]:
    """Yield changes of single members of stored models."""
    generator = np.random.default_rng(7)
    for component, stored in components.items():
        for part in ("param", "meta"):
            for path in _paths(stored[part], (component, part)):
                if generator.random() < 0.5:
                    yield without("components", *path)
                for value in (None, "x", -1, 1e308, [], {}, [[]], {"x": None}):
                    if generator.random() < 0.2:
                        yield replaced(value, "components", *path)


def _paths(
    value: dict[str, Any], path: tuple[str, ...], depth: int = 3
) -> Iterator[tuple[str, ...]]:
    for name, member in list(value.items())[:12]:
        yield (*path, name)
        if isinstance(member, dict) and depth:
            yield from _paths(member, (*path, name), depth - 1)


def test_every_module_of_the_registry_exists_and_is_documented() -> None:
    page = DOCS.read_text(encoding="utf-8").lower()
    for table in (INPUTS, CONSTANTS, STEPS, MODELS, ALONE, SCORES):
        for module, place in table.items():
            assert callable(maker(place))
            assert module in page


def test_importing_scoring_imports_no_room_of_components() -> None:
    code = (
        "import sys\n"
        "import fedflow.serving.scoring.pipeline\n"
        "import fedflow.wire.deployed_model\n"
        "import fedflow.serving.scoring.host_answer\n"
        "names = [n for n in sys.modules if n.startswith(('fedflow.components', 'fedflow.app',"
        " 'fedflow.store', 'fedflow.web', 'fedflow.server', 'fedflow.rpc', 'fedflow.board'))]\n"
        "names += [n for n in ('gmpy2', 'grpc', 'flask', 'peewee') if n in sys.modules]\n"
        "print(names)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert found.stdout.strip() == "[]"


# --- merging --------------------------------------------------------------------------------------


@pytest.fixture
def parties(trained: Pipeline) -> tuple[OnlineModel, OnlineModel]:
    models = trained.online().models
    return models[GUEST], models[HOST]


def payload_of(host: OnlineModel, count: int = 5) -> bytes:
    return host.partial(host.read(numbers_of(count, seed=2)[HOST]))


def head(rows: int, scores: int, bits: int = 0, leaves: int = 0) -> bytes:
    return struct.pack("<4sIIII", b"FFS1", rows, scores, bits, leaves)


def scores_of(*values: float) -> bytes:
    return np.array(values, dtype="<f8").tobytes()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (None, "there is none"),
        ("text", "it is not bytes"),
        (b"", "it has 0 bytes"),
        (b"FFS1", "it has 4 bytes"),
        (b"FFS2" + b"\0" * 60, "it does not begin as an answer"),
        (head(5, 1) + b"\0" + scores_of(1, 2, 3, 4), "it has 53 bytes where 61 are said"),
        (head(5, 1) + b"\0" + scores_of(1, 2, 3, 4, 5, 6), "it has 69 bytes where 61 are said"),
        (head(2**32 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1), "it has 20 bytes where"),
        (head(5, 1) + b"\0" + scores_of(1, 2, float("nan"), 4, 5), "no finite numbers"),
        (head(5, 1) + b"\0" + scores_of(1, 2, float("-inf"), 4, 5), "no finite numbers"),
        (head(4, 1) + b"\0" + scores_of(1, 2, 3, 4), "it is of 4 rows, not of 5"),
        (head(6, 1) + b"\0" + scores_of(1, 2, 3, 4, 5, 6), "it is of 6 rows, not of 5"),
        (head(5, 2) + b"\0" + scores_of(*range(10)), "it is of another model"),
        (head(5, 0, 8) + b"\0" + b"\0" * 5, "it is of another model"),
        (head(5, 0, 0, 1) + b"\0" + b"\0" * 20, "it is of another model"),
        (head(0, 1), "it is of 0 rows, not of 5"),
    ],
)
def test_what_a_host_must_not_say(
    payload: Any, reason: str, parties: tuple[OnlineModel, OnlineModel]
) -> None:
    guest, _ = parties
    local = guest.local(guest.read(numbers_of(5, seed=2)[GUEST]))
    given = {} if payload is None else {HOST.party_id: payload}
    with pytest.raises(BadPartial, match=f"host 10000 cannot be used: .*{reason}"):
        guest.merge(local, given)


def test_bytes_of_a_host_that_were_changed_never_end_in_anything_else(
    parties: tuple[OnlineModel, OnlineModel],
) -> None:
    guest, host = parties
    local = guest.local(guest.read(numbers_of(5, seed=2)[GUEST]))
    payload = payload_of(host)
    generator = np.random.default_rng(5)
    for _ in range(400):
        raw = bytearray(payload)
        for place in generator.integers(0, len(raw), 2):
            raw[place] = int(generator.integers(256))
        cut = int(generator.integers(len(raw) + 1)) if generator.random() < 0.2 else len(raw)
        try:
            scores = guest.merge(local, {HOST.party_id: bytes(raw[:cut])})
        except BadPartial:
            continue
        assert len(scores) == 5
        assert all(s.error or 0.0 <= s.score <= 1.0 for s in scores)  # type: ignore[operator]


def test_a_party_that_takes_no_part_is_refused(parties: tuple[OnlineModel, OnlineModel]) -> None:
    guest, host = parties
    local = guest.local(guest.read(numbers_of(5, seed=2)[GUEST]))
    given = {HOST.party_id: payload_of(host), "10009": payload_of(host)}
    with pytest.raises(BadPartial, match=r"host 10009 .* it takes no part in the model"):
        guest.merge(local, given)


def test_each_role_does_its_own_part(parties: tuple[OnlineModel, OnlineModel]) -> None:
    guest, host = parties
    rows = numbers_of(2, seed=2)
    with pytest.raises(ValueError, match="has none to give"):
        guest.partial(guest.read(rows[GUEST]))
    with pytest.raises(ValueError, match="only the guest"):
        host.local(host.read(rows[HOST]))
    assert (guest.role, guest.hosts, guest.inputs) == (
        "guest",
        ("10000",),
        ("x0", "x1", "x2", "x3"),
    )
    assert (host.role, host.digest) == ("host", guest.digest)


def test_a_local_part_can_be_merged_again(parties: tuple[OnlineModel, OnlineModel]) -> None:
    guest, host = parties
    rows = numbers_of(5, seed=2)
    local = guest.local(guest.read(rows[GUEST]))
    first = guest.merge(local, {HOST.party_id: payload_of(host)})
    zeros = head(5, 1) + bytes([0b01000000]) + scores_of(0, 0, 0, 0, 0)
    assert guest.merge(local, {HOST.party_id: zeros})[1].error is not None
    assert guest.merge(local, {HOST.party_id: payload_of(host)}) == first


def test_no_rows_have_no_scores(parties: tuple[OnlineModel, OnlineModel]) -> None:
    guest, host = parties
    local = guest.local(guest.read([]))
    assert guest.merge(local, {HOST.party_id: host.partial(host.read([]))}) == []


@pytest.mark.parametrize("fixture", ["trained", "with_all_steps"])
def test_answers_are_joined_and_split_by_rows(fixture: str, request: pytest.FixtureRequest) -> None:
    host = request.getfixturevalue(fixture).online().models[HOST]
    rows = [{**row, "x2": 1} for row in numbers_of(9, seed=3)[HOST]]
    rows[4]["x1"] = "word"
    whole = host.partial(host.read(rows))
    parts = [host.partial(host.read([row])) for row in rows]
    joined = read_answer(join_rows(parts))
    np.testing.assert_allclose(joined.scores, read_answer(whole).scores, rtol=1e-12)
    assert (joined.packed == read_answer(whole).packed).all()
    assert joined.failed.tolist() == [number == 4 for number in range(9)]
    assert rows_of(join_rows(parts)) == parts
    with pytest.raises(ValueError, match="not of one row"):
        join_rows([whole])
    with pytest.raises(ValueError, match="not of one model"):
        join_rows([parts[0], head(1, 7) + b"\0" + scores_of(*range(7))])
