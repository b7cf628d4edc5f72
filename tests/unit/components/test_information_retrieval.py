"""SecureInformationRetrieval: the right values, and nothing that shows which ids were asked for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError
from fedflow.base.errors.error import FedflowError
from fedflow.components.intersection.prime_group import prime_of
from fedflow.components.retrieval.cells import as_texts, pack, unpack
from fedflow.components.retrieval.decoys import random_places
from fedflow.components.retrieval.oblivious import KeyReceiver, KeySender
from fedflow.components.retrieval.params import SecureInformationRetrievalParams
from fedflow.components.retrieval.secure_information_retrieval import SecureInformationRetrieval
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Model, TableKind, check_params
from fedflow.testing.federation import LocalFederation, SiteFederation
from fedflow.testing.run import RunResult, outputs_of, run_component
from tests.unit.components.one_party import GUEST, HOST, Party, rows_of, schema_of

HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
PARAMS: dict[str, Any] = {"security_level": 0.1, "dh_params": {"key_length": 1024}}
HOST_ROWS: dict[str, Any] = {
    "id": ["a", "b", "c", "d", "e"],
    "y": [1, 0, 1, 1, 0],
    "x0": [1.0, 0.5, float("nan"), 1e-05, -2.25],
    "x1": ["red", "", None, "größer", "x" * 40],
    "x2": [7, 8, 9, 10, 11],
}


def run(
    folder: Path,
    guest: Mapping[str, Any],
    host: Mapping[str, Any] = HOST_ROWS,
    per_site: Mapping[Site, Mapping[str, Any]] | None = None,
    federation: LocalFederation | None = None,
    sites: tuple[Site, ...] = (GUEST, HOST),
    only: tuple[Site, ...] | None = None,
    **params: Any,
) -> dict[Site, RunResult]:
    inputs = {}
    for site in sites:
        rows = guest if site is GUEST else host
        table = Party(folder, site=site).table(rows)
        inputs[site] = Inputs(data={"data": [("data_transform_0", table)]}, model={})
    return run_component(
        SecureInformationRetrieval,
        sites=sites,
        only=only,
        work_dir=folder,
        params={s: {**PARAMS, **params, **(per_site or {}).get(s, {})} for s in sites},
        inputs=inputs,
        federation=federation,
    )


def error_of(results: Mapping[Site, RunResult]) -> FedflowError:
    with pytest.raises(FedflowError) as caught:
        outputs_of(results)
    return caught.value


@pytest.mark.parametrize("level", [0.1, 0.0])
def test_the_guest_gets_the_hosts_values_of_its_ids(tmp_path: Path, level: float) -> None:
    results = run(
        tmp_path,
        {"id": ["d", "z", "a", "c", "e"]},
        security_level=level,
        target_cols=["x1", "x0", "x2"],
    )
    outputs = outputs_of(results)
    assert rows_of(outputs[GUEST]) == {
        "id": ["d", "z", "a", "c", "e"],
        "x1": ["größer", "unretrieved", "red", "", "x" * 40],
        "x0": ["1e-05", "unretrieved", "1.0", "", "-2.25"],
        "x2": ["10", "unretrieved", "7", "9", "11"],
    }
    assert schema_of(outputs[GUEST]).kind is TableKind.RAW
    assert outputs[HOST].data == ()
    blocks = 4 if level else 0  # ceil(2 * 500^0.1)
    for site in (GUEST, HOST):
        assert outputs[site].summary == {"coverage": 0.8, "block_num": blocks}
        metric = results[site].metrics["train", "sir"]
        assert metric.metric_type == "INTERSECTION"
        assert metric.points == [("Coverage", 0.8), ("Block number", blocks or "N/A")]
        assert outputs[site].model == Model(
            meta_name="SecureInformationRetrievalMeta",
            param_name="SecureInformationRetrievalParam",
            meta={
                "security_level": level,
                "oblivious_transfer_protocol": "ot_hauck",
                "commutative_encryption": "commutativeencryptionpohlighellman",
                "non_committing_encryption": "aes",
                "key_size": 1024,
                "raw_retrieval": False,
            },
            param={"coverage": 0.8, "block_num": blocks},
        )


@pytest.mark.parametrize("raw", [False, True])
def test_without_columns_the_label_is_retrieved(tmp_path: Path, raw: bool) -> None:
    outputs = outputs_of(run(tmp_path, {"id": ["b", "q"]}, raw_retrieval=raw))
    rows = rows_of(outputs[GUEST])
    assert rows == {"id": ["b", "q"], "retrieved_value": ["0", "unretrieved"]}


@pytest.mark.parametrize("raw", [False, True])
def test_nothing_in_common_retrieves_nothing(tmp_path: Path, raw: bool) -> None:
    outputs = outputs_of(run(tmp_path, {"id": ["q"]}, raw_retrieval=raw, target_cols="x2"))
    assert rows_of(outputs[GUEST]) == {"id": ["q"], "x2": ["unretrieved"]}
    assert outputs[HOST].summary["coverage"] == 0.0


def test_match_ids_are_matched(tmp_path: Path) -> None:
    guest = {"sid": ["s1", "s2", "s3"], "match_id": ["b", "a", "b"]}
    host = {"sid": ["u", "v"], "match_id": ["a", "b"], "x": [1, 2]}
    outputs = outputs_of(run(tmp_path, guest, host, target_cols=["x"]))
    rows = rows_of(outputs[GUEST])
    assert rows == {"sid": ["s1", "s2", "s3"], "match_id": ["b", "a", "b"], "x": ["2", "1", "2"]}
    guest = {"sid": ["s1", "s2", "s3"], "match_id": ["b", "q", "b"]}
    found = outputs_of(run(tmp_path, guest, host, target_cols=["x"]))
    assert found[GUEST].summary["coverage"] == pytest.approx(2 / 3)
    assert found[HOST].summary["coverage"] == 0.5, "of distinct ids: not how often one occurs"
    repeated = {"sid": ["u", "v"], "match_id": ["a", "a"], "x": [1, 2]}
    error = error_of(run(tmp_path, guest, repeated, target_cols=["x"]))
    assert isinstance(error, BadData)
    assert "1 of 2 rows repeat a match id" in error.message


def test_the_host_sees_blocks_of_one_size_and_the_guest_opens_one(tmp_path: Path) -> None:
    """The real block is at another place each time, and every block could be it."""
    federation = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    seen = _watch(federation)
    host = {"id": [f"h{i}" for i in range(50)], "x": [f"value of {i}" for i in range(50)]}
    guest = {"id": ["h3", "h4", "h5", "z"]}
    outputs_of(run(tmp_path, guest, host, federation=federation, target_cols=["x"]))
    blocks = [value for name, value in seen if name == "natural_indexation"]
    assert len(blocks) == 4
    for block in blocks:
        assert len(block) == 3
        assert (np.diff(block) > 0).all()
    sealed = [value for name, value in seen if name == "id_blocks_ciphertext"]
    assert len({len(value) for value in sealed}) == 1
    names = {name for name, _ in seen}
    assert "raw_id_list" not in names
    assert not any(isinstance(value, bytes) and b"value of" in value for _, value in seen)


def test_the_real_block_is_opened_after_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the host could tell it by the pause, or damage a block and see what happens."""
    federation = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    first = SimpleNamespace(randbelow=lambda blocks: 0)
    monkeypatch.setattr("fedflow.components.retrieval.protocol.secrets", first)
    put = federation._put

    def damaged(key: Any, value: Any, size: int) -> None:
        put(key, bytes(len(value)) if key.name == "id_blocks_ciphertext" else value, size)

    federation._put = damaged  # type: ignore[method-assign]
    seen = _watch(federation)
    results = run(tmp_path, {"id": ["a"]}, federation=federation)
    error = results[GUEST].error
    assert isinstance(error, CodecError)
    assert "not encrypted with the key" in error.message
    assert [name for name, _ in seen].count("natural_indexation") == 4


def _watch(federation: LocalFederation) -> list[tuple[str, Any]]:
    """Return a list that gets every value that is sent."""
    seen: list[tuple[str, Any]] = []
    put = federation._put

    def watched(key: Any, value: Any, size: int) -> None:
        seen.append((key.name, value))
        put(key, value, size)

    federation._put = watched  # type: ignore[method-assign]
    return seen


def test_the_hosts_columns_must_be_named_by_the_host_too(tmp_path: Path) -> None:
    results = run(
        tmp_path, {"id": ["a"]}, target_cols=["x0"], per_site={HOST: {"target_cols": ["x1"]}}
    )
    error = error_of(results)
    assert isinstance(error, BadParameter)
    assert ".target_cols" in error.message


@pytest.mark.parametrize(
    ("host", "params", "what"),
    [
        ({"id": ["a"], "x": [1.0]}, {}, "has no label to retrieve"),
        ({"id": ["a"], "x": [1.0]}, {"target_cols": ["z"]}, "1 of them are no features of host"),
        ({"id": ["a"], "x": ["w" * 5000]}, {"target_cols": ["x"]}, "1 cells are longer"),
    ],
)
def test_what_the_host_does_not_have_is_refused(
    tmp_path: Path, host: dict[str, Any], params: dict[str, Any], what: str
) -> None:
    results = run(tmp_path, {"id": ["a"]}, host, **params)
    assert what in error_of(results).message
    assert all(result.error is not None for result in results.values())


def test_exactly_one_host_is_needed(tmp_path: Path) -> None:
    results = run(tmp_path, {"id": ["a"]}, sites=(GUEST, HOST, HOST_2))
    assert "exactly one host" in error_of(results).message


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"security_level": 1.1}, "security_level"),
        ({"oblivious_transfer_protocol": "OT_None"}, "oblivious_transfer_protocol"),
        ({"commutative_encryption": "rot13"}, "commutative_encryption"),
        ({"non_committing_encryption": "des"}, "non_committing_encryption"),
        ({"target_cols": ["x", "x"]}, "target_cols"),
        ({"key_size": 512}, "key_size"),
    ],
)
def test_wrong_parameters_are_named(params: dict[str, Any], what: str) -> None:
    with pytest.raises(BadParameter, match=what):
        check_params(SecureInformationRetrievalParams, params, path="sir_0")


@pytest.mark.parametrize(("level", "blocks"), [(0.5, 45), (1.0, 1000), (0.001, 3), (0.0, 0)])
def test_the_level_gives_the_number_of_blocks(level: float, blocks: int) -> None:
    params = check_params(SecureInformationRetrievalParams, {"security_level": level}, path="$")
    assert params.blocks == blocks


def test_the_older_name_of_the_key_length_counts() -> None:
    params = check_params(SecureInformationRetrievalParams, {"key_size": 3072}, path="$")
    assert params.settled().dh_params.key_length == 3072


def guest_of(federation: LocalFederation) -> SiteFederation:
    """Return a guest that has greeted the host of `run` and sent one blinded id."""
    guest = federation.at(GUEST)
    hello = {
        "protocol": "fedflow-sir-v1",
        "rows": 1,
        "settings": {
            "security_level": 0.1,
            "raw_retrieval": False,
            "target_cols": [],
            "dh_params.key_length": 1024,
            "dh_params.hash_method": "sha256",
        },
    }
    guest.send("sir_hello", hello, to=HOST)
    guest.send("id_ciphertext_exchange_g2h", (4).to_bytes(256, "big"), to=HOST)
    return guest


GOOD_ANSWER = (16).to_bytes(256, "big")
A_BLOCK = np.array([0], np.int64)


@pytest.mark.parametrize(
    ("plan", "answer", "block"),
    [
        ({"blocks": 3, "rows": 1}, GOOD_ANSWER, A_BLOCK),
        ({"blocks": 4, "rows": 2}, GOOD_ANSWER, A_BLOCK),
        ({"blocks": 4, "rows": -1}, GOOD_ANSWER, A_BLOCK),
        ([4, 1], GOOD_ANSWER, A_BLOCK),
        ({"blocks": 4, "rows": 1}, (1).to_bytes(256, "big"), A_BLOCK),
        ({"blocks": 4, "rows": 1}, b"16", A_BLOCK),
        ({"blocks": 4, "rows": 1}, "16", A_BLOCK),
        ({"blocks": 4, "rows": 1}, GOOD_ANSWER, np.array([5], np.int64)),
        ({"blocks": 4, "rows": 1}, GOOD_ANSWER, np.array([0, 1], np.int64)),
        ({"blocks": 4, "rows": 1}, GOOD_ANSWER, [0]),
    ],
)
def test_a_host_refuses_what_no_guest_of_ours_sends(
    tmp_path: Path, plan: Any, answer: Any, block: Any
) -> None:
    federation = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    guest = guest_of(federation)
    guest.send("block_num", plan, to=HOST)
    guest.send("ot_choice", answer, to=HOST)
    guest.send("natural_indexation", block, to=HOST, tag="0")
    results = run(tmp_path, {"id": ["a"]}, federation=federation, only=(HOST,))
    assert isinstance(results[HOST].error, CodecError)


def test_only_the_chosen_key_is_known() -> None:
    sender = KeySender(key_length=1024, domain=b"d")
    for choice in (0, 3, 6):
        receiver = KeyReceiver(sender.public, choice=choice, key_length=1024, domain=b"d")
        keys = list(sender.keys(receiver.answer, 7))
        assert len(set(keys)) == 7
        assert [key == receiver.key for key in keys] == [i == choice for i in range(7)]
    other = KeyReceiver(sender.public, choice=0, key_length=1024, domain=b"e")
    assert other.key not in list(sender.keys(other.answer, 7))


@pytest.mark.parametrize("element", [0, 1, -1, -4])
def test_elements_outside_the_group_are_refused(element: int) -> None:
    """1 and its negative have small order; negatives of squares are no squares."""
    prime = int(prime_of(2048))
    value = (element % prime).to_bytes(256, "big")
    with pytest.raises(CodecError, match="not in the group"):
        KeyReceiver(value, choice=0, key_length=2048, domain=b"")
    with pytest.raises(CodecError, match="not in the group"):
        next(KeySender(key_length=2048, domain=b"").keys(value, 2))


def test_rows_travel_as_bytes_of_one_length() -> None:
    columns = [pa.array(["a", None, "größe", ""]), pa.array(["1", "22", "333", None])]
    matrix, widths = pack(columns, names=("u", "v"))
    assert widths == [7, 3]
    assert matrix.shape == (4, 18)
    back = unpack(matrix[[2, 1, 0, 3]].tobytes(), widths, rows=4)
    assert back[0].to_pylist() == ["größe", None, "a", ""]
    assert back[1].to_pylist() == ["333", "22", "1", None]


@pytest.mark.parametrize(
    "data",
    [b"", b"\x01\x00\x00\x00", b"\x02\x00\x00\x00a", b"\xfe\xff\xff\xffa", b"\x01\0\0\0\xff"],
)
def test_damaged_rows_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        unpack(data, [1], rows=1)


def test_numbers_become_texts_as_python_writes_them() -> None:
    floats = pa.chunked_array([[1.0, 1e-7], [None, 123456789.125]])
    assert as_texts(floats).to_pylist() == ["1.0", "1e-07", None, "123456789.125"]
    assert as_texts(pa.chunked_array([[1, None]])).to_pylist() == ["1", None]


@pytest.mark.parametrize(("count", "among"), [(0, 5), (5, 5), (3, 10), (10, 1000)])
def test_decoys_are_different_places(count: int, among: int) -> None:
    for _ in range(20):
        places = random_places(count, among=among)
        assert len(places) == count
        assert places.tolist() == sorted(set(places.tolist()))
        assert all(0 <= place < among for place in places)


@pytest.mark.parametrize(("count", "among"), [(3, 6), (2, 20)])
def test_decoys_reach_every_place_equally(count: int, among: int) -> None:
    draws = 4000
    times = np.bincount(
        np.concatenate([random_places(count, among=among) for _ in range(draws)]), minlength=among
    )
    expected = draws * count / among
    assert (np.abs(times - expected) < 8 * np.sqrt(expected)).all()
