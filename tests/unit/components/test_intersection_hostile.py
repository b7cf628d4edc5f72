"""A party that lies: every value of it is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.data_plane import CodecError
from fedflow.components.intersection.blind_rsa import SigningKey
from fedflow.components.intersection.blind_rsa_sides import RsaFinder
from fedflow.components.intersection.ecdh import CurveCipher
from fedflow.components.intersection.prime_group import PrimeGroupCipher
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk import PeerFailed, Site
from fedflow.testing.federation import LocalFederation, SiteFederation
from tests.unit.components.intersection_parties import (
    GUEST,
    HOST,
    hello_of,
    intersect,
    one_side,
)

IDS = ["1", "2"]
POINTS = CurveCipher(LocalWorkers(1)).blind_ids(pa.array(IDS), b"d").tobytes()
ELEMENTS = PrimeGroupCipher(LocalWorkers(1)).blind_ids(pa.array(IDS), b"d").tobytes()
KEY = SigningKey.generate(1024)
DH: dict[str, Any] = {"intersect_method": "dh"}
RSA: dict[str, Any] = {"intersect_method": "rsa", "rsa_params": {"key_length": 1024}}
PRUNING: dict[str, Any] = {
    "run_preprocess": True,
    "intersect_preprocess_params": {"false_positive_rate": 0.5},
}
NINE = b"\x09" + b"\0" * 31


def told_lies(
    liar: Site, honest: Mapping[str, Any], lies: Mapping[str, Any], work_dir: Path, **params: Any
) -> Exception | None:
    """Return the error of the other side when `liar` says `honest`, but for its `lies`."""
    victim = HOST if liar is GUEST else GUEST
    federation = LocalFederation((GUEST, HOST))
    hello = hello_of(liar, IDS, work_dir / "hello", **params)
    for name, value in ({"psi_hello": hello} | dict(honest) | dict(lies)).items():
        federation.at(liar).send(name, value, to=victim)
    federation.finish(liar)
    return one_side(victim, federation, IDS, work_dir / "run", **params)


@pytest.mark.parametrize(
    "hello",
    [
        {"rows": 2},
        "hello",
        None,
        {"rows": -1},
        {"rows": "2"},
        {"settings": {"a": "b" * 200}},
        {"settings": {f"k{i}": 1 for i in range(60)}},
        {"settings": []},
        {"phase": "other"},
        {"match_ids": 5},
        {"domain": "x" * 65},
        {"protocol": "x"},
        {"more": 1},
    ],
)
@pytest.mark.parametrize("liar", [GUEST, HOST])
def test_what_is_no_hello_is_refused(liar: Site, hello: Any, tmp_path: Path) -> None:
    honest = hello_of(liar, IDS, tmp_path / "hello")
    whole = isinstance(hello, dict) and hello != {"rows": 2}
    said = {**honest, **hello} if whole else hello
    federation = LocalFederation((GUEST, HOST))
    victim = HOST if liar is GUEST else GUEST
    federation.at(liar).send("psi_hello", said, to=victim)
    assert isinstance(one_side(victim, federation, IDS, tmp_path), CodecError)


@pytest.mark.parametrize(
    "lies",
    [
        {"id_ciphertext_exchange_h2g": b"\0" * 64},
        {"id_ciphertext_exchange_h2g": NINE},
        {"id_ciphertext_exchange_h2g": NINE * 2},
        {"id_ciphertext_exchange_h2g": b"\xff" * 64},
        {"id_ciphertext_exchange_h2g": {"points": 1}},
        {"doubly_encrypted_id": b"short"},
        {"doubly_encrypted_id": NINE * 2},
    ],
)
def test_a_wicked_host_with_ecdh(lies: Mapping[str, Any], tmp_path: Path) -> None:
    honest = {"id_ciphertext_exchange_h2g": POINTS, "doubly_encrypted_id": POINTS}
    assert isinstance(told_lies(HOST, honest, lies, tmp_path), CodecError)


@pytest.mark.parametrize(
    "lies",
    [
        {"id_ciphertext_exchange_h2g": b"\0" * 512},
        {"id_ciphertext_exchange_h2g": ELEMENTS[:256] * 2},
        {"id_ciphertext_exchange_h2g": b"\xff" * 512},
        {"doubly_encrypted_id": ELEMENTS[:256] * 2},
        {"doubly_encrypted_id": ELEMENTS[:300]},
    ],
)
def test_a_wicked_host_with_dh(lies: Mapping[str, Any], tmp_path: Path) -> None:
    honest = {"id_ciphertext_exchange_h2g": ELEMENTS, "doubly_encrypted_id": ELEMENTS}
    assert isinstance(told_lies(HOST, honest, lies, tmp_path, **DH), CodecError)


@pytest.mark.parametrize(
    "lies",
    [
        {"host_pubkey": "11"},
        {"host_pubkey": None},
        {"host_pubkey": f"{KEY.n:x}"},
        {"host_pubkey": {"n": f"{KEY.n**2:x}", "roots": KEY.proof()}},
        {"host_pubkey": {"n": f"{KEY.n:x}"}},
        {"host_prvkey_ids": b"x" * 32},
        {"host_prvkey_ids": b"x" * 64},
        {"host_prvkey_ids": [1, 2]},
        {"host_sign_guest_ids": b"\0" * 256},
        {"host_sign_guest_ids": b"\x01" * 255},
        {"host_sign_guest_ids": b"\xff" * 256},
        {},  # an unsigned answer
    ],
)
def test_a_wicked_host_with_rsa(lies: Mapping[str, Any], tmp_path: Path) -> None:
    honest = {
        "host_pubkey": {"n": f"{KEY.n:x}", "roots": KEY.proof()},
        "host_prvkey_ids": bytes(range(64)),
        "host_sign_guest_ids": b"\x02" * 128 + b"\x03" * 128,
    }
    assert isinstance(told_lies(HOST, honest, lies, tmp_path, **RSA), CodecError)


def test_a_guest_asks_nothing_with_a_key_that_is_not_proven(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    hello = hello_of(HOST, IDS, tmp_path / "hello", **RSA)
    federation.at(HOST).send("psi_hello", hello, to=GUEST)
    key = {"n": f"{KEY.n:x}", "roots": SigningKey.generate(1024).proof()}
    federation.at(HOST).send("host_pubkey", key, to=GUEST)
    federation.finish(HOST)
    error = one_side(GUEST, federation, IDS, tmp_path / "run", **RSA)
    assert isinstance(error, CodecError)
    with pytest.raises(PeerFailed):
        federation.at(HOST).recv("guest_pubkey_ids", from_=GUEST)


@pytest.mark.parametrize(
    "asked",
    [b"", b"\0" * 256, b"\x02" * 256, b"\xff" * 256, b"\x02" * 255, "x" * 256, [2, 3]],
)
def test_a_wicked_guest_with_rsa(asked: Any, tmp_path: Path) -> None:
    error = told_lies(GUEST, {"guest_pubkey_ids": asked}, {}, tmp_path, **RSA)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize("asked", [b"", b"\0" * 64, NINE * 2, b"\xff" * 64, None])
def test_a_wicked_guest_with_ecdh(asked: Any, tmp_path: Path) -> None:
    error = told_lies(GUEST, {"id_ciphertext_exchange_g2h": asked}, {}, tmp_path)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize(
    "positions",
    [
        np.array([0, 0]),
        np.array([2]),
        np.array([-1]),
        np.array([0.0]),
        np.array([[0]]),
        np.array([0, 1, 2]),
        [0],
        b"",
    ],
)
def test_a_host_refuses_wicked_positions(positions: Any, tmp_path: Path) -> None:
    honest = {"id_ciphertext_exchange_g2h": POINTS, "intersect_ids": positions}
    assert isinstance(told_lies(GUEST, honest, {}, tmp_path), CodecError)


def test_a_guest_cannot_rename_a_hosts_rows_in_a_left_join(tmp_path: Path) -> None:
    lies = {
        "id_ciphertext_exchange_g2h": POINTS,
        "intersect_ids": np.array([0, -1]),
        "sample_ids": pa.table({"id": ["x", "y"]}),
    }
    error = told_lies(GUEST, lies, {}, tmp_path, join_method="left_join")
    assert isinstance(error, CodecError)
    assert "sample_ids" in str(error)


@pytest.mark.parametrize("value", [b"", b"\xff" * 3, None, "filter"])
def test_a_host_refuses_a_wicked_filter(value: Any, tmp_path: Path) -> None:
    error = told_lies(GUEST, {"bloom_filter": value}, {}, tmp_path, **PRUNING)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize("value", [-1, 3, 1.0, "1", None, True])
def test_a_guest_refuses_a_wicked_number_of_pruned_rows(value: Any, tmp_path: Path) -> None:
    error = told_lies(HOST, {"pruned_rows": value}, {}, tmp_path, **PRUNING)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize(
    "places",
    [
        np.array([[0, 0], [0, 1]]),
        np.array([[0], [9]]),
        np.array([[-1], [0]]),
        np.array([0]),
        np.array([[0]]),
        np.array([[0.0], [0.0]]),
        [[0], [0]],
    ],
)
def test_a_guest_refuses_wicked_places_of_the_other_half(places: Any, tmp_path: Path) -> None:
    ids = {GUEST: [str(i) for i in range(20)], HOST: [str(i) for i in range(20)]}
    params = {**RSA, "rsa_params": {"key_length": 1024, "split_calculation": True}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "fedflow.components.intersection.blind_rsa_sides.np.stack", lambda rows: places
        )
        results = intersect(ids, tmp_path, params=params)
    assert "half_intersect_ids" in str(results[GUEST].error)


@pytest.mark.parametrize("shown", [b"", None, b"\x02" * 128, "others"])
def test_a_guest_believes_no_host_that_did_not_ask_for_the_ids_it_names(
    shown: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {GUEST: [str(i) for i in range(20)], HOST: [str(i) for i in range(20)]}
    params = {**RSA, "rsa_params": {"key_length": 1024, "split_calculation": True}}
    original = RsaFinder.show

    def lying(self: RsaFinder, rows: Any) -> Any:
        return original(self, rows[::-1]) if shown == "others" else shown

    monkeypatch.setattr(RsaFinder, "show", lying)
    error = intersect(ids, tmp_path, params=params)[GUEST].error
    assert isinstance(error, CodecError)


@pytest.mark.parametrize("value", [-1, 3, True, "1", None])
def test_a_half_that_cannot_be_is_refused(value: Any, tmp_path: Path) -> None:
    params = {**RSA, "rsa_params": {"key_length": 1024, "split_calculation": True}}
    error = told_lies(HOST, {"psi_halves": value}, {}, tmp_path, **params)
    assert isinstance(error, CodecError)


@pytest.mark.parametrize(
    "value",
    [b"", b"short", NINE * 2, b"\0" * 64, b"\xff" * 64, None, POINTS + POINTS[:5]],
    ids=["nothing", "short", "twice", "zeros", "ones", "none", "cut"],
)
def test_a_wicked_set_in_the_ring_is_refused(value: Any, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    params = {"cardinality_only": True}
    hello = hello_of(HOST, IDS, tmp_path / "hello", **params)
    federation.at(HOST).send("psi_hello", hello, to=GUEST)
    federation.at(HOST).send("cardinality_ring", value, to=GUEST, tag=HOST.key)
    federation.at(HOST).send("cardinality_ring", POINTS, to=GUEST, tag=f"{GUEST.key}-complete")
    assert isinstance(one_side(GUEST, federation, IDS, tmp_path, **params), CodecError)


def test_a_set_that_shrinks_in_the_ring_is_refused(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    params = {"cardinality_only": True}
    hello = hello_of(HOST, IDS, tmp_path / "hello", **params)
    federation.at(HOST).send("psi_hello", hello, to=GUEST)
    federation.at(HOST).send("cardinality_ring", POINTS, to=GUEST, tag=HOST.key)
    federation.at(HOST).send("cardinality_ring", POINTS[:32], to=GUEST, tag=f"{GUEST.key}-complete")
    error = one_side(GUEST, federation, IDS, tmp_path, **params)
    assert isinstance(error, CodecError)
    assert "another size" in str(error)


def test_a_host_refuses_a_guest_whose_set_has_another_size_than_it_said(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    params = {"cardinality_only": True}
    hello = hello_of(GUEST, IDS, tmp_path / "hello", **params)
    federation.at(GUEST).send("psi_hello", hello, to=HOST)
    federation.at(GUEST).send("cardinality_ring", POINTS[:32], to=HOST, tag=GUEST.key)
    federation.finish(GUEST)
    error = one_side(HOST, federation, IDS, tmp_path, **params)
    assert isinstance(error, CodecError)
    assert "another size" in str(error)


def test_a_host_makes_no_more_rows_than_the_guest_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = SiteFederation.send

    def lying(self: SiteFederation, name: str, value: Any, **more: Any) -> None:
        many = name == "intersect_ids"
        original(self, name, np.concatenate([value, [-1] * 3]) if many else value, **more)

    monkeypatch.setattr(SiteFederation, "send", lying)
    params = {"join_method": "left_join", "new_sample_id": True}
    error = intersect({GUEST: ["1", "2"], HOST: ["2"]}, tmp_path, params=params)[HOST].error
    assert isinstance(error, CodecError)
    assert "5 rows of 2 ids" in str(error)
